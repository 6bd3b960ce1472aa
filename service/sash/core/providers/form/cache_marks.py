"""A model's prompt cache, and the places of a request where its entries may end.

Every provider compares a request's beginning: tool definitions, system text, then messages. Each provider's rules stand in
its own file, with their source.
"""

from typing import Any, Final, Literal, NamedTuple

import msgspec

from sash.core.providers.messages.pieces import Object

BREAKPOINTS: Final = 4
"""The largest number of marks. Claude answers 400 to more."""
LOOKBACK_BLOCKS: Final = 20

CacheKind = Literal["implicit", "breakpoints", "cache_control"]


class CachePrices(NamedTuple):
    """A model's prices of cached tokens, relative to an uncached input token; ``long_write`` is None if it is unknown."""

    read: float
    write: float
    long_write: float | None = None


class Lifetime(msgspec.Struct, frozen=True):
    """A time for which a provider keeps an entry after its last use, and the relative price of writing it."""

    seconds: int
    write_price: float


class Caching(msgspec.Struct, frozen=True, kw_only=True):
    """One model's prompt cache. Prices are relative to an uncached input token."""

    kind: CacheKind
    minimum_tokens: int
    step_tokens: int = 1
    lifetime_seconds: int
    read_price: float
    write_price: float = 1.0
    longer: Lifetime | None = None
    """The longer lifetime that a client may ask for, in place of ``lifetime_seconds``."""


class Places(msgspec.Struct, frozen=True):
    """Whether each of the two places among the messages is stable."""

    before_question: bool
    newest: bool
    recalled: bool = False
    """Whether a block of recalled messages is before the newest question. The next window does not have this block."""


def uncached(name: str, prices: CachePrices) -> Caching | None:
    """None, where a provider bills no cached tokens."""
    del name, prices
    return None


def unmarked(request: Object, cache: CacheKind | None, places: Places, key: str) -> Object:
    """The request as it is: its form has no hints for a cache."""
    del cache, places, key
    return request


def content_parts(content: Any, kind: str = "text") -> list[Object]:
    """The parts of a content, or the blocks in a tool result, which may have marks too. A text is one part of ``kind``."""
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
