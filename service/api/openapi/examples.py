"""One conversation, told in requests and answers, which the document has for examples.

Each line of examples.ndjson is an operation's request and its answer, as the service gave it: a test sends the requests in
their order and compares, and ``RECORD=1 python -m pytest tests/api/test_openapi.py -k examples_are_true`` writes anew what
changed. A line without a ``request`` is an example that was made up.
"""

from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

FILE: Final = files("service.api.openapi").joinpath("examples.ndjson")


class Example(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A line: ``request`` is a method and a path with its query, ``body`` what was sent, ``answer`` what came."""

    operation: str
    request: str = ""
    body: Any = None
    status: int
    answer: Any = None


@lru_cache(maxsize=1)
def told() -> tuple[Example, ...]:
    """Every example in its order."""
    return tuple(msgspec.json.decode(line, type=Example) for line in FILE.read_bytes().splitlines())


def example_of(operation: str, status: int | None = None) -> Example:
    """The first example of an operation, or of its answer of a status. Raises StopIteration where there is none."""
    return next(each for each in told() if each.operation == operation and status in (None, each.status))
