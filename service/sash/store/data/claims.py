"""Idempotency keys: a request under a key takes effect once, and is answered the same for a day.

::

    sash:{tenant/request/<hash of the key>}:claim   hash   fingerprint, run, until, began, life, answer
    sash:{tenant/conversation}:answers              hash   token -> time of the answer, and the answer

A claim holds the answer itself where the answer says nothing about a conversation. Other answers are kept beside their
conversation, and are erased when it is erased, redacted or rewound. The claim then holds the place of the answer. If a
process dies while it runs a request, the key is free within ten seconds. The next run learns when the first run began, so it
gives entries the same ids.
"""

import contextlib
import secrets
import zlib
from hashlib import blake2b, shake_256
from typing import Literal

import msgspec

from sash.core.chat.bounds import LONGEST_ID
from sash.problems import StoreFull
from sash.store.data import scripts
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import PREFIX, conversation_name, keys_of, life_of
from sash.store.data.scripts import Begun, Done
from sash.store.data.sealing import Kind, Purpose
from sash.store.redis.client import Client

KEEP_MS = 24 * 3600 * 1000
HOLD_MS = 10_000
_LONG_BYTES = 1024
_LONG_AGO_MS = 1  # the end of a hold whose run may have changed something


class KeptAnswer(msgspec.Struct, array_like=True, frozen=True):
    """The answer to a request; ``read`` is the SHA-256 of the request's body where that was streamed."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    read: bytes = b""


class _Kept(msgspec.Struct, array_like=True, frozen=True):
    """The place of an answer: here, or beside a conversation."""

    answer: KeptAnswer | None
    conversation: bytes = b""
    """The conversation's id, masked with the request's key, because an erasure does not reach this record."""


class Claim(msgspec.Struct, frozen=True):
    """A key that was taken. ``again`` is true when an earlier run may have changed something.

    ``token`` is the same in every run. ``veil`` masks ids. It is computed from the key, which is not stored.
    """

    key: str
    run: str
    token: str
    began_ms: int
    again: bool
    veil: bytes


class Forgotten(msgspec.Struct, frozen=True):
    """The request was done; its answer was erased with its conversation."""


_encode = msgspec.msgpack.Encoder().encode
_decode_kept = msgspec.msgpack.Decoder(_Kept).decode
_decode_answer = msgspec.msgpack.Decoder(KeptAnswer).decode


class Claims:
    """Idempotency keys of all tenants."""

    def __init__(self, client: Client, data_keys: DataKeys | None = None) -> None:
        self._client = client
        self._data_keys = data_keys or DataKeys(client)

    async def take(
        self, tenant: str, key: str, fingerprint: bytes, now_ms: int, *, erases: bool = False
    ) -> Claim | KeptAnswer | Forgotten | Literal["busy", "other"]:
        """Return the claim for a run, the answer of a run that is done, or why there is neither.

        Raises StoreUnavailable, and StoreFull unless the request ``erases``.
        """
        token = blake2b(f"{tenant}\0{key}".encode(), digest_size=16).hexdigest()
        veil = shake_256(f"conversation\0{tenant}\0{key}".encode()).digest(LONGEST_ID)
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
            case Begun(began_ms=began_ms, again=again):
                return Claim(name, run, token, began_ms, again, veil)
            case Done(answer=kept):
                return await self._answer(tenant, token, _decode_kept(kept), veil, now_ms)
            case b"other":
                return "other"
            case _:
                return "busy"

    async def aim(self, claim: Claim, life: str) -> str:
        """Bind the request to a conversation's life; gives the life that the first run was bound to."""
        return await self._client.run(scripts.aim(claim.key, life=life))

    async def _answer(self, tenant: str, token: str, kept: _Kept, veil: bytes, now_ms: int) -> KeptAnswer | Forgotten:
        if kept.answer is not None:
            return kept.answer
        name = conversation_name(tenant, _veiled(kept.conversation, veil).decode())
        keys = keys_of(name)
        (found,) = await self._client.commands([("HGET", keys.answers, token)])
        if found is None or len(found) == 13 or int(found[:13]) < now_ms - KEEP_MS:
            return Forgotten()
        blob = await self._data_keys.reading(
            tenant, name, lambda sealer: sealer.open(Kind.ANSWER, found[13:], token.encode())
        )
        return _decode_answer(zlib.decompress(blob[1:]) if blob[:1] == b"z" else blob[1:])

    async def hold(self, claim: Claim, now_ms: int) -> None:
        """Hold the key for another ``HOLD_MS``."""
        await self._client.run(scripts.settle(claim.key, run=claim.run, until_ms=now_ms + HOLD_MS))

    async def release(self, claim: Claim, *, done: Literal[False] | None) -> None:
        """Release the key. ``done`` is False when nothing was done, None when that is unknown; the next run learns it."""
        until_ms = 0 if done is False else _LONG_AGO_MS
        await self._client.run(scripts.settle(claim.key, run=claim.run, until_ms=until_ms))

    async def settle(
        self, tenant: str, claim: Claim, answer: KeptAnswer, conversation: str, etag: str, now_ms: int
    ) -> None:
        """Keep the answer: beside the conversation whose state ``etag`` it shows, or in the claim if it shows none.

        If something that the answer may show was taken away meanwhile, or the store is full, only the fact that the request
        was done is kept.
        """
        if conversation and life_of(etag) and answer.body:
            name = conversation_name(tenant, conversation)
            keys = keys_of(name)
            blob = _encode(answer)
            blob = b"z" + zlib.compress(blob, 1) if len(blob) > _LONG_BYTES else b"p" + blob
            sealer = await self._data_keys.sealer(tenant, name)
            blob = sealer.seal(Kind.ANSWER, blob, claim.token.encode())
            kept = _Kept(None, _veiled(conversation.encode(), claim.veil))
            call = scripts.keep_answer(keys, etag=etag, token=claim.token, now_ms=now_ms, answer=blob, keep_ms=KEEP_MS)
            with contextlib.suppress(StoreFull):
                await self._client.run(call)
        else:
            kept = _Kept(answer)
        await self._client.run(scripts.settle(claim.key, run=claim.run, until_ms=0, answer=_encode(kept)))


def _veiled(text: bytes, veil: bytes) -> bytes:
    """Mask a text with the veil, or unmask it."""
    return bytes(a ^ b for a, b in zip(text, veil, strict=False))
