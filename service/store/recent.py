"""What recent windows were made of, so that the next one asks the store for what came since alone.

A turn changes the end of a conversation, and a window of a long one is large: without this all of it would come out of the
store again for every turn. The store is asked each time all the same, in the round trip that a window begins with, and says
whether what is held here still stands: it does unless the history was changed other than by an append, or the store lost
what it had. So every replica gives the same window, whoever appended.

Values are held as they are stored, so what is sealed is sealed here, and opened each time. An erased conversation is
forgotten by the worker that erased it, and by the others ``_KEPT_SECONDS`` after the last window that they made of it, at
the latest.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

import msgspec

from service.store.replies import Reply, State, Tail

_KEPT_SECONDS = 300.0
_SHARE = 8
"""A single reply takes no more than this part of the room."""
_OBJECT_BYTES = 64
"""What a value takes beside its bytes."""
_BUILT_BYTES = 8192
"""What is read out of a reply, and the last window that was made of it, take beside the window's text."""


class Held(NamedTuple):
    """A reply, what it was the answer to, and what was read out of it where nothing of it is sealed."""

    asked: Hashable
    reply: Reply
    tail: Tail | None
    size_bytes: int
    until: float


class Recent:
    """The latest reply of each conversation, by its name: ``most_bytes`` of those that were used last."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None
        self.size_bytes = 0

    def find(self, name: str, asked: Hashable) -> Held | None:
        """What is held of a conversation, if it was ``asked`` for in the same way."""
        held = self._held.get(name)
        return held if held is not None and held.asked == asked else None

    def keep(self, name: str, asked: Hashable, reply: Reply, tail: Tail | None = None) -> None:
        """Hold a reply, in the place of what was held before; the longest unused make room."""
        self.forget(name)
        size_bytes = _size_bytes(reply)
        if tail is not None:
            size_bytes += size_bytes + _BUILT_BYTES
        if size_bytes * _SHARE > self._most_bytes:
            return
        self._held[name] = Held(asked, reply, tail, size_bytes, time.monotonic() + _KEPT_SECONDS)
        self.size_bytes += size_bytes
        while self.size_bytes > self._most_bytes:
            self.forget(next(iter(self._held)))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget_old)

    def extend(self, name: str, state: State, first_seq: int, bodies: list[bytes]) -> None:
        """Hold bodies of the tail, from ``first_seq`` on, where those that are held come next and ``state`` stands."""
        held = self._held.get(name)
        if held is None or (held.reply.version, held.reply.mark) != (state.version, state.mark):
            return
        reply, tail = held.reply, held.tail
        if first_seq < reply.first or first_seq + len(bodies) != reply.bodies_seq:
            return
        reply = reply._replace(bodies=[*bodies, *reply.bodies])
        if tail is not None:
            tail = msgspec.structs.replace(tail, bodies=reply.bodies, bodies_seq=first_seq)
        self.keep(name, held.asked, reply, tail)

    def use(self, name: str, held: Held) -> None:
        """Keep what is held, if it still is, for longer."""
        if self._held.get(name) is held:
            self._held[name] = held._replace(until=time.monotonic() + _KEPT_SECONDS)
            self._held.move_to_end(name)

    def forget(self, name: str) -> None:
        """Hold nothing of a conversation any more."""
        held = self._held.pop(name, None)
        if held is not None:
            self.size_bytes -= held.size_bytes

    def _forget_old(self) -> None:
        self._sweep, now = None, time.monotonic()
        while self._held:
            name, held = next(iter(self._held.items()))
            if held.until > now:
                self._sweep = asyncio.get_running_loop().call_later(held.until - now, self._forget_old)
                break
            self.forget(name)


def _size_bytes(reply: Reply) -> int:
    lists = (reply.fields, reply.bodies, reply.before, reply.question)
    values = sum(sum(map(len, each)) + _OBJECT_BYTES * len(each) for each in lists)
    return values + len(reply.records) + len(reply.details) + len(reply.documents) + 3 * _OBJECT_BYTES
