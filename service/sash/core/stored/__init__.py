"""What is stored of a message beside its text: its record, identity, details, documents and media; and redaction."""
