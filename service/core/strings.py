"""Tokens of all strings of a JSON value: an upper bound for members that are in no recorded bill."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.core.text import count_text

Pair = tuple[int, int]  # tokens in o200k_base and in cl100k_base


def text_tokens(value: Any) -> Pair:
    """Return the tokens of all strings in a JSON value, including names of members and numbers."""
    o200k = cl100k = 0
    for text in strings(value, names=True):
        o200k += count_text(text, "o200k_base")
        cl100k += count_text(text, "cl100k_base")
    return o200k, cl100k


def strings(value: Any, *, names: bool = False) -> Iterator[str]:
    """Yield every string in a JSON value, in order; with ``names`` also the names of members, and numbers as text."""
    match value:
        case str():
            yield value
        case Mapping():
            for name, each in value.items():
                if names:
                    yield name
                yield from strings(each, names=names)
        case list():
            for each in value:
                yield from strings(each, names=names)
        case bool() | None:
            pass
        case _ if names:
            yield str(value)
