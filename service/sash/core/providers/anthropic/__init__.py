"""Anthropic's form: Claude's messages."""
