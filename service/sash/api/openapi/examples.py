"""The document's examples: the requests and answers of one conversation.

Each line of examples.ndjson is an operation's request and the service's recorded answer. A test sends the requests in
order and compares the answers; ``RECORD=1 python -m pytest tests/api/test_openapi.py -k examples_are_true`` records them
again. A line without a ``request`` is invented.
"""

from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

FILE: Final = files("sash.api.openapi").joinpath("examples.ndjson")


class Example(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line: ``request`` is method, path and query; ``body`` and ``answer`` are the bodies of request and answer."""

    operation: str
    request: str = ""
    body: Any = None
    status: int
    answer: Any = None


@lru_cache(maxsize=1)
def told() -> tuple[Example, ...]:
    """Every example, in the file's order."""
    return tuple(msgspec.json.decode(line, type=Example) for line in FILE.read_bytes().splitlines())


def example_in(form: str, operation: str) -> Example:
    """The first example of an operation in this form. Raises StopIteration if there is none."""
    return next(each for each in told() if each.operation == operation and f"format={form}" in each.request)


def example_of(operation: str, status: int | None = None) -> Example:
    """The first example of an operation, with ``status`` if given. Raises StopIteration if there is none."""
    return next(each for each in told() if each.operation == operation and status in (None, each.status))
