"""What is stored of a message beside its text: its identity, its details, and its media."""
