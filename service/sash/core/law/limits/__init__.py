"""A provider's limits beside tokens: bytes, messages, pictures and files of a request."""
