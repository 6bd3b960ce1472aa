"""API keys that are made and revoked while the service runs: ``sash keys``.

A key is ``sash_`` id ``_`` secret: the id finds it, the secret is 256 bits of chance and is kept as its SHA-256 alone, so
that nobody who reads the store can use what is there. All keys are one hash, ``sash:{keys}:api``, id -> record.

A process believes an answer for five seconds, so that a key costs no round trip and a revoked one is dead within five.
"""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest

import msgspec

from service.store.client import Client

KEY_PREFIX = "sash_"
_HASH = "sash:{keys}:api"
_KNOWN_SECONDS = 5.0
_UNKNOWN_SECONDS = 1.0
_REMEMBERED = 4096  # answers; strangers who guess must not fill the memory


class StoredKey(msgspec.Struct, frozen=True):
    """A key without its secret: the SHA-256 of that in hex, whose it is, when it was made (milliseconds since 1970)."""

    id: str
    tenant: str
    digest: str
    created_ms: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredKey).decode


class ApiKeys:
    """The keys of a deployment."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[str, tuple[str | None, float]] = {}

    async def create(self, tenant: str, now_ms: int) -> tuple[str, StoredKey]:
        """A new key, which is shown this once, and what is kept of it."""
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        kept = StoredKey(identity, tenant, sha256(secret.encode()).hexdigest(), now_ms)
        await self._client.commands([("HSET", _HASH, identity, _encode(kept))])
        return f"{KEY_PREFIX}{identity}_{secret}", kept

    async def all(self) -> list[StoredKey]:
        """Every key, oldest first."""
        (flat,) = await self._client.commands([("HGETALL", _HASH)])
        return sorted((_decode(value) for value in flat[1::2]), key=lambda each: (each.created_ms, each.id))

    async def revoke(self, identity: str) -> bool:
        """Whether there was such a key; it opens nothing any more."""
        (removed,) = await self._client.commands([("HDEL", _HASH, identity)])
        return bool(removed)

    async def tenant(self, key: str) -> str | None:
        """Whose key it is; None when it is nobody's. Raises StoreUnavailable."""
        name, now = sha256(key.encode()).hexdigest(), self._clock()
        answer = self._answers.get(name)
        if answer is not None and now < answer[1]:
            return answer[0]
        tenant = await self._ask(key)
        while len(self._answers) >= _REMEMBERED:
            del self._answers[next(iter(self._answers))]
        self._answers.pop(name, None)
        self._answers[name] = tenant, now + (_UNKNOWN_SECONDS if tenant is None else _KNOWN_SECONDS)
        return tenant

    async def _ask(self, key: str) -> str | None:
        identity, _, secret = key.removeprefix(KEY_PREFIX).partition("_")
        (value,) = await self._client.commands([("HGET", _HASH, identity)])
        kept = _decode(value) if value else None
        digest = sha256(secret.encode()).hexdigest()
        same = compare_digest(digest, kept.digest if kept is not None else "0" * 64)
        return kept.tenant if kept is not None and same else None
