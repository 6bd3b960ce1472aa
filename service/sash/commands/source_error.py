"""What is wrong with a command's input."""


class SourceError(Exception):
    """A source that cannot be read; its text names the file, the place and what was expected."""
