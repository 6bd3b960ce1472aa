"""How far the store is: a number that only grows, so that a store which went back is noticed.

::

    sash:{mark}:time     hash    time: milliseconds since 1970, or one more than before; at, from, to: when the store was
                                 last seen to have gone back, from which time to which

A store goes back when an older copy takes its place: a backup was restored, or a fail-over lost the newest writes. Each
process remembers the largest number that it has seen. In a cluster the mark is on one primary, and tells of that one.
"""

from typing import Any, Final

import msgspec

from sash.store.data.entries import wall_ms
from sash.store.data.layout import PREFIX
from sash.store.data.script_calls import script
from sash.store.redis.client import Client

_KEY: Final = f"{PREFIX}{{mark}}:time"


class WentBack(msgspec.Struct, frozen=True):
    """The store was replaced by an older one: when this was seen, and how far both were, in milliseconds since 1970."""

    at_ms: int
    from_ms: int
    to_ms: int
    """0 if the store that took its place was empty."""


class _Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The time, and the largest number that is known of the store."""

    now_ms: int
    known_ms: int


class MarkSeen(msgspec.Struct, frozen=True):
    """How far the store is, and when it last went back."""

    time_ms: int
    went_back: WentBack | None


def _seen(reply: list[Any]) -> MarkSeen:
    time, at, since, to = (int(each or 0) for each in reply)
    return MarkSeen(time, WentBack(at, since, to) if at else None)


_mark = script("mark", _Mark, _seen)


class Marks:
    """The mark of the store, as this process knows it. Methods raise StoreUnavailable, StoreFull."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.known_ms = 0
        """The largest number that was seen."""

    async def look(self) -> MarkSeen:
        """Read how far the store is; where it went back, note that in it."""
        (reply,) = await self._client.commands([("HMGET", _KEY, "time", "at", "from", "to")])
        seen = _seen(reply)
        return self._take(seen) if seen.time_ms >= self.known_ms else await self.move(wall_ms())

    async def move(self, now_ms: int) -> MarkSeen:
        """Say that the store is further than it was."""
        return self._take(await self._client.run(_mark((_KEY,), now_ms=now_ms, known_ms=self.known_ms)))

    def _take(self, seen: MarkSeen) -> MarkSeen:
        self.known_ms = seen.time_ms
        return seen
