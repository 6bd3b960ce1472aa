"""What all forms share of a message: pieces, parts of texts, members, reasoning, mends, hosted tools."""
