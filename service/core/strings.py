"""Tokens of all strings of a JSON value: an upper bound for members that are in no recorded bill."""

from collections.abc import Iterator, Mapping
from typing import Any

from service.core.text import count_text

Pair = tuple[int, int]  # tokens in o200k_base and in cl100k_base


def text_tokens(value: Any) -> Pair:
    """Return the tokens of all strings in a JSON value, including names of members and numbers."""
    o200k = cl100k = 0
    for text in _strings(value):
        o200k += count_text(text, "o200k_base")
        cl100k += count_text(text, "cl100k_base")
    return o200k, cl100k


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for name, each in value.items():
                yield name
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)
        case bool() | None:
            pass
        case _:
            yield str(value)
