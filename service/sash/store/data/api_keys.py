"""API keys that are made and revoked while the service runs: ``sash keys``.

A key is ``sash_`` id ``_`` secret. The id finds it. The secret has 256 random bits, and only its SHA-256 is kept, so that
a reader of the store cannot use a key. All keys are one hash, ``sash:{keys}:api``, id -> record.

A process remembers a key for five seconds. So a known key costs no round trip, and a revoked key is refused within five
seconds.
"""

import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest

import msgspec

from sash.store.redis.client import Client

KEY_PREFIX = "sash_"
_HASH = "sash:{keys}:api"
_KNOWN_SECONDS = 5.0
_UNKNOWN_SECONDS = 1.0
_REMEMBERED = 4096  # answers; guessed keys must not fill the memory


class StoredKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key without its secret: the SHA-256 of the secret in hex, the tenant, the time in milliseconds since 1970."""

    id: str
    tenant: str
    digest: str
    created_ms: int
    rate: float | None = None
    """Requests a second, in place of the deployment's rate."""
    max_body_bytes: int | None = None
    """The largest body, where it is less than the deployment's limit."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredKey).decode


class ApiKeys:
    """The keys of a deployment."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._answers: dict[str, tuple[StoredKey | None, float]] = {}

    async def create(
        self, tenant: str, now_ms: int, *, rate: float | None = None, max_body_bytes: int | None = None
    ) -> tuple[str, StoredKey]:
        """Make a key; gives the key, which is shown only now, and its stored record."""
        identity, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        kept = StoredKey(identity, tenant, sha256(secret.encode()).hexdigest(), now_ms, rate, max_body_bytes)
        await self._client.commands([("HSET", _HASH, identity, _encode(kept))])
        return f"{KEY_PREFIX}{identity}_{secret}", kept

    async def all(self) -> list[StoredKey]:
        """Return every key, oldest first."""
        (flat,) = await self._client.commands([("HGETALL", _HASH)])
        return sorted((_decode(value) for value in flat[1::2]), key=lambda each: (each.created_ms, each.id))

    async def revoke(self, identity: str) -> bool:
        """Revoke a key; gives whether there was one."""
        (removed,) = await self._client.commands([("HDEL", _HASH, identity)])
        return bool(removed)

    async def find(self, key: str) -> StoredKey | None:
        """Return the stored record of a key; None when there is no such key. Raises StoreUnavailable."""
        name, now = sha256(key.encode()).hexdigest(), self._clock()
        answer = self._answers.get(name)
        if answer is not None and now < answer[1]:
            return answer[0]
        found = await self._ask(key)
        while len(self._answers) >= _REMEMBERED:
            del self._answers[next(iter(self._answers))]
        self._answers.pop(name, None)
        self._answers[name] = found, now + (_UNKNOWN_SECONDS if found is None else _KNOWN_SECONDS)
        return found

    async def _ask(self, key: str) -> StoredKey | None:
        identity, _, secret = key.removeprefix(KEY_PREFIX).partition("_")
        (value,) = await self._client.commands([("HGET", _HASH, identity)])
        kept = _decode(value) if value else None
        digest = sha256(secret.encode()).hexdigest()
        same = compare_digest(digest, kept.digest if kept is not None else "0" * 64)
        return kept if same else None
