"""Search: the words of a text, the relevance of messages to a question, and excerpts of what was found."""
