"""Older messages that bear on a question: words, ranking, excerpts, and what is chosen."""
