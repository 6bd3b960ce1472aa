"""What forms share when they write a request: turns, native messages, tools, schemas, media."""
