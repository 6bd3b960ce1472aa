"""The tokens of messages and requests for a model, from their measures."""
