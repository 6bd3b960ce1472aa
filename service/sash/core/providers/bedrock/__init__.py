"""Bedrock's form: Converse."""
