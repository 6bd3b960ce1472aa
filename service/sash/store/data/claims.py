"""Idempotency keys: a request under a key takes effect once, for a day.

::

    sash:{tenant/request/<hash of the key>}:claim   hash   fingerprint, run, until, began, life; when done: status, read

A claim holds no text: the answer to a repeat is made from what is there then. If a process dies while it runs a request, the
key is free within ten seconds. The next run learns when the first run began, so it gives entries the same ids.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import PREFIX
from sash.store.data.script_calls import script
from sash.store.data.sealing import Purpose
from sash.store.redis.client import Client

KEEP_MS = 24 * 3600 * 1000
HOLD_MS = 10_000
_LONG_AGO_MS = 1  # the end of a hold whose run may have changed something


class Begun(msgspec.Struct, frozen=True):
    """The caller may run the request. ``again`` is true when an earlier run may have changed something."""

    began_ms: int
    again: bool


class Done(msgspec.Struct, frozen=True):
    """A request took effect before: its status, and the life of the conversation that it left.

    ``life`` is empty where the answer named no state. ``read`` is a streamed body's SHA-256, or a digest of the message that
    the answer showed; else it is empty.
    """

    began_ms: int
    status: int
    life: str
    read: bytes


class _Take(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the request with this ``fingerprint``, which holds the key for ``hold_ms``; it is known for ``keep_ms``."""

    fingerprint: bytes
    run: str
    now_ms: int
    hold_ms: int
    keep_ms: int


def _read_claim(reply: list[Any]) -> Begun | Done | bytes:
    """Return what a claim found; ``busy`` or ``other`` where the key was not taken."""
    match reply:
        case [b"run", began, again]:
            return Begun(int(began), again == 1)
        case [b"done", began, status, life, read]:
            return Done(int(began), int(status), life.decode(), read)
        case _:
            return bytes(reply[0])


_take = script("claim", _Take, _read_claim)
_take_to_erase = script("claim_erasure", _Take, _read_claim)
"""A full store takes the key of a request that erases."""


class _Aim(msgspec.Struct, frozen=True, kw_only=True):
    """The life that this run found."""

    life: str


_aim = script("aim", _Aim, lambda reply: str(reply.decode()))


class _Settle(msgspec.Struct, frozen=True, kw_only=True):
    """How long the run holds the key, 0 to release it; and what to note about a request that is done."""

    run: str
    until_ms: int
    fields: Sequence[Any] = ()


_settle = script("settle", _Settle, int)


class Claim(msgspec.Struct, frozen=True):
    """A key that was taken, or whose request is ``done``.

    ``token`` and ``began_ms`` are the same in every run. ``again`` is true when an earlier run may have changed something.
    """

    key: str
    run: str
    token: str
    began_ms: int
    again: bool = True
    done: Done | None = None


class Claims:
    """Idempotency keys of all tenants."""

    def __init__(self, client: Client, data_keys: DataKeys | None = None) -> None:
        self._client = client
        self._data_keys = data_keys or DataKeys(client)

    async def take(
        self, tenant: str, key: str, fingerprint: bytes, now_ms: int, *, erases: bool = False
    ) -> Claim | Literal["busy", "other"]:
        """Return the claim for a run, or why there is none.

        Raises StoreUnavailable, and StoreFull unless the request ``erases``.
        """
        token = blake2b(f"{tenant}\0{key}".encode(), digest_size=16).hexdigest()
        name, run = f"{PREFIX}{{{tenant}/request/{token}}}:claim", secrets.token_hex(8)
        sealer = await self._data_keys.sealer(tenant, "")
        keyed = sealer.digest(Purpose.REQUEST, fingerprint)

        async def claimed(said: bytes) -> Begun | Done | bytes:
            take = _take_to_erase if erases else _take
            call = take((name,), fingerprint=said, run=run, now_ms=now_ms, hold_ms=HOLD_MS, keep_ms=KEEP_MS)
            return await self._client.run(call)

        found = await claimed(keyed)
        if sealer.active and found == b"other":  # it may have been taken before a key was set
            found = await claimed(fingerprint)
        match found:
            case Begun():
                return Claim(name, run, token, found.began_ms, found.again)
            case Done():
                return Claim(name, run, token, found.began_ms, done=found)
            case b"other":
                return "other"
            case _:
                return "busy"

    async def aim(self, claim: Claim, life: str) -> str:
        """Bind the request to a conversation's life; gives the life that the first run was bound to."""
        if claim.done is not None:
            return claim.done.life
        return await self._client.run(_aim((claim.key,), life=life))

    async def hold(self, claim: Claim, now_ms: int) -> None:
        """Hold the key for another ``HOLD_MS``."""
        await self._client.run(_settle((claim.key,), run=claim.run, until_ms=now_ms + HOLD_MS))

    async def release(self, claim: Claim, *, done: Literal[False] | None) -> None:
        """Release the key. ``done`` is False when nothing was done, None when that is unknown; the next run learns it."""
        until_ms = 0 if done is False else _LONG_AGO_MS
        await self._client.run(_settle((claim.key,), run=claim.run, until_ms=until_ms))

    async def finish(self, claim: Claim, *, status: int, life: str, read: bytes) -> None:
        """Note that the request is done; the arguments are as in ``Done``."""
        fields = ("status", status, "life", life, "read", read)
        await self._client.run(_settle((claim.key,), run=claim.run, until_ms=0, fields=fields))
