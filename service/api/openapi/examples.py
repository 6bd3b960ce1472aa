"""One conversation, told in requests and answers, which the document has for examples.

Each line of examples.ndjson is an operation's request and its answer, as the service gave it: a test sends the requests in
their order and compares, and ``RECORD=1 python -m pytest tests/api/test_openapi.py -k examples_are_true`` writes anew what
changed. A line without a ``request`` is an example that was made up.
"""

from collections.abc import Iterator
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


def body_of(operation: str) -> Any:
    """The example of an operation's body. Raises StopIteration where there is none."""
    return next(_of(operation)).body


def answer_of(operation: str, status: int) -> Any:
    """The example of an answer. Raises StopIteration where there is none."""
    return next(example.answer for example in _of(operation) if example.status == status)


def _of(operation: str) -> Iterator[Example]:
    return (example for example in told() if example.operation == operation)
