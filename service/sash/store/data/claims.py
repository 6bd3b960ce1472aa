"""Idempotency keys: a request under a key takes effect once, for a day.

::

    sash:{tenant/request/<hash of the key>}:claim   hash   fingerprint, run, until, began, life; when done: status, read

A claim holds no text: the answer to a repeat is made from what is there then. If a process dies while it runs a request, the
key is free within ten seconds. The next run learns when the first run began, so it gives entries the same ids.
"""

import secrets
from hashlib import blake2b
from typing import Literal

import msgspec

from sash.store.data import scripts
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import PREFIX
from sash.store.data.scripts import Begun, Done
from sash.store.data.sealing import Purpose
from sash.store.redis.client import Client

KEEP_MS = 24 * 3600 * 1000
HOLD_MS = 10_000
_LONG_AGO_MS = 1  # the end of a hold whose run may have changed something


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
            call = scripts.claim(
                name, fingerprint=said, run=run, now_ms=now_ms, hold_ms=HOLD_MS, keep_ms=KEEP_MS, erases=erases
            )
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
        return await self._client.run(scripts.aim(claim.key, life=life))

    async def hold(self, claim: Claim, now_ms: int) -> None:
        """Hold the key for another ``HOLD_MS``."""
        await self._client.run(scripts.settle(claim.key, run=claim.run, until_ms=now_ms + HOLD_MS))

    async def release(self, claim: Claim, *, done: Literal[False] | None) -> None:
        """Release the key. ``done`` is False when nothing was done, None when that is unknown; the next run learns it."""
        until_ms = 0 if done is False else _LONG_AGO_MS
        await self._client.run(scripts.settle(claim.key, run=claim.run, until_ms=until_ms))

    async def finish(self, claim: Claim, *, status: int, life: str, read: bytes) -> None:
        """Note that the request is done; the arguments are as in ``Done``."""
        await self._client.run(scripts.finish(claim.key, run=claim.run, status=status, life=life, read=read))
