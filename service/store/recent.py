"""What recent windows were made of, so that the next one asks the store for what came since alone.

A turn changes the end of a conversation, and a window of a long one is large: without this all of it would come out of the
store again for every turn. The store is asked each time all the same, in the one round trip that a window costs, and says
whether what is held here still stands: it does unless the history was changed other than by an append. So every replica
gives the same window, whoever appended.

Values are held as they are stored, so what is sealed is sealed here, and opened each time. An erased conversation is
forgotten by the worker that erased it, and by the others ``_KEPT_SECONDS`` after the last window that they made of it, at
the latest.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from service.core.records import RECORD_BYTES
from service.problems import NotFound

_KEPT_SECONDS = 300.0
_SHARE = 8
"""A single reply takes no more than this part of the room."""
_OBJECT_BYTES = 64
"""What a value takes beside its bytes."""


class Reply(NamedTuple):
    """What ``read_window`` answers: values as they are stored, messages from ``first`` on; ``mark`` tells histories apart
    that do not just go on. Where ``since`` is not 0, records, details and bodies are of the messages after it alone."""

    version: int
    mark: bytes
    fields: list[bytes]
    length: int
    first: int
    records: bytes
    details: bytes
    bodies: list[bytes]
    documents: bytes
    before: list[bytes]
    question: list[bytes]
    since: int

    @property
    def size_bytes(self) -> int:
        values = (self.records, self.details, self.documents, *self.fields, *self.bodies, *self.before, *self.question)
        return sum(map(len, values)) + _OBJECT_BYTES * len(values)


class _Held(NamedTuple):
    asked: Hashable
    reply: Reply
    size_bytes: int
    until: float


class Recent:
    """The latest reply of each conversation, by its name: ``most_bytes`` of those that were used last."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None
        self.size_bytes = 0

    def find(self, name: str, asked: Hashable) -> Reply | None:
        """What is held of a conversation, if it was ``asked`` for in the same way."""
        held = self._held.get(name)
        return held.reply if held is not None and held.asked == asked else None

    def keep(self, name: str, asked: Hashable, reply: Reply) -> None:
        """Hold a reply, in the place of what was held before; the longest unused make room."""
        self.forget(name)
        held = _Held(asked, reply, reply.size_bytes, time.monotonic() + _KEPT_SECONDS)
        if held.size_bytes * _SHARE > self._most_bytes:
            return
        self._held[name] = held
        self.size_bytes += held.size_bytes
        while self.size_bytes > self._most_bytes:
            self.forget(next(iter(self._held)))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget_old)

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


def joined(had: Reply | None, found: list[Any]) -> Reply | None:
    """What the store answered, with what the caller ``had`` before it; None where the caller's version stands and it had
    nothing. Raises NotFound."""
    if not found:
        raise NotFound("There is no such conversation.")
    if len(found) == 1:
        return had
    new = Reply(*found)
    if had is None or not new.since:
        return new
    complete = len(new.bodies) * RECORD_BYTES == len(new.records)  # else so much is new that older bodies stand alone
    return new._replace(
        records=had.records + new.records,
        details=had.details + new.details,
        bodies=[*had.bodies, *new.bodies] if complete else new.bodies,
        since=0,
    )
