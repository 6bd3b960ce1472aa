"""What all forms share of a message: pieces, parts of texts, members, thoughts, mends, hosted tools."""
