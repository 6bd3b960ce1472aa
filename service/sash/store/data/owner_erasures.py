"""Erasures of owners with many conversations: they outlive the request and the process, until nothing is left.

::

    sash:{erasures}:open        sorted set   id of an erasure that is not done -> when a worker may take it, milliseconds
    sash:{erasures}:id/<id>     hash         tenant, began, done, left, total (done and left at first); owner until it is
                                             done, finished from then on

A worker takes an erasure for ten seconds at a time. If it dies, another takes it then. What it had erased and not yet
counted is counted at the end, when nothing is left: all that the list had is gone. An erasure that is done is known for a
day, without its owner.
"""

from typing import Final

import msgspec

from sash.store.data.layout import PREFIX
from sash.store.data.script_calls import script
from sash.store.redis.client import Client

_OPEN: Final = f"{PREFIX}{{erasures}}:open"
_KNOWN_MS: Final = 24 * 3600 * 1000
_HELD_MS: Final = 10_000


class OwnerErasure(msgspec.Struct, frozen=True):
    """An erasure of an owner's conversations that began by ``began_ms``. ``left`` is what its list had, less ``done``."""

    id: str
    tenant: str
    owner: str
    """Empty when it is done."""
    began_ms: int
    done: int
    left: int
    finished_ms: int | None = None


class _TakeDue(msgspec.Struct, frozen=True, kw_only=True):
    """The time, and until when the work is taken."""

    now_ms: int
    until_ms: int


_take_due = script("take_due", _TakeDue, lambda reply: reply[0].decode() if reply else None)


class OwnerErasures:
    """The erasures of a deployment. All methods raise StoreUnavailable."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def begin(self, identity: str, tenant: str, owner: str, *, left: int, now_ms: int) -> OwnerErasure:
        """Note an erasure, which a worker then takes; the same ``identity`` again is the same erasure."""
        fields = (("tenant", tenant), ("owner", owner), ("began", now_ms), ("done", 0), ("left", left), ("total", left))
        new = [("HSETNX", _key(identity), *field) for field in fields]
        await self._client.commands([*new, ("ZADD", _OPEN, "NX", 0, identity)], erases=True)
        return OwnerErasure(identity, tenant, owner, now_ms, 0, left)

    async def find(self, identity: str) -> OwnerErasure | None:
        """Return an erasure; None where there is none, or it has been done for a day."""
        names = ("tenant", "owner", "began", "done", "left", "finished")
        (found,) = await self._client.commands([("HMGET", _key(identity), *names)])
        if found[0] is None:
            return None
        tenant, owner, began, done, left, finished = found
        finished_ms = int(finished) if finished else None
        return OwnerErasure(
            identity, tenant.decode(), (owner or b"").decode(), int(began), int(done), int(left), finished_ms
        )

    async def open_of(self, tenant: str, owner: str) -> OwnerErasure | None:
        """Return an owner's erasure that is not done."""
        (names,) = await self._client.commands([("ZRANGE", _OPEN, 0, -1)])
        for name in names:
            found = await self.find(name.decode())
            if found is not None and (found.tenant, found.owner) == (tenant, owner):
                return found
        return None

    async def take(self, now_ms: int) -> OwnerErasure | None:
        """Take an erasure that no living worker has; None where there is none, or the store is down."""
        if self._client.is_down:
            return None
        identity = await self._client.run(_take_due((_OPEN,), now_ms=now_ms, until_ms=now_ms + _HELD_MS))
        return await self.find(identity) if identity is not None else None

    async def went_on(self, erasure: OwnerErasure, erased: int, left: int, now_ms: int) -> None:
        """Note that conversations were erased, and hold the erasure on."""
        key = _key(erasure.id)
        held = ("ZADD", _OPEN, "XX", now_ms + _HELD_MS, erasure.id)
        told = [("HINCRBY", key, "done", erased), ("HSET", key, "left", left)] if erased else []
        await self._client.commands([*told, held], erases=True)

    async def give_back(self, erasure: OwnerErasure) -> None:
        """Let another worker take the erasure at once."""
        await self._client.commands([("ZADD", _OPEN, "XX", 0, erasure.id)], erases=True)

    async def finish(self, erasure: OwnerErasure, now_ms: int) -> None:
        """Note that nothing is left, and forget the owner."""
        key = _key(erasure.id)
        (total,) = await self._client.commands([("HGET", key, "total")])
        done = erasure.done + erasure.left if total is None else int(total)  # None: begun by an earlier version
        ended = [
            ("HSET", key, "done", done, "left", 0, "finished", now_ms),
            ("HDEL", key, "owner"),
            ("PEXPIRE", key, _KNOWN_MS),
        ]
        await self._client.commands([*ended, ("ZREM", _OPEN, erasure.id)], erases=True)


def _key(identity: str) -> str:
    return f"{PREFIX}{{erasures}}:id/{identity}"
