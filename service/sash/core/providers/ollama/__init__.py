"""Ollama's form."""
