"""A conversation's pseudonym in log lines: a keyed hash, by which its lines are found without logging its name.

The key is made once and kept in the store, so that all workers and ``sash logs-hash`` share it. Until a worker has read
the key, its lines have no pseudonym.
"""

import secrets
from hashlib import blake2b

from sash.store.redis.client import Client

KEY = "sash:{logs}:key"
_KEY_BYTES = 32
_HASH_BYTES = 8


class Pseudonyms:
    """Hashes of conversations under the deployment's key."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key

    async def read(self, store: Client) -> None:
        """Read the key once from the store, which creates it if missing. Raises StoreUnavailable, StoreFull."""
        if self._key is not None:
            return
        (found,) = await store.commands([("GET", KEY)])
        if found is None:
            await store.commands([("SET", KEY, secrets.token_bytes(_KEY_BYTES), "NX")])
            (found,) = await store.commands([("GET", KEY)])
        self._key = found

    def of(self, tenant: str, conversation: str) -> str | None:
        """The pseudonym, 16 hexadecimal digits; None until the key has been read."""
        if self._key is None:
            return None
        return blake2b(f"{tenant}/{conversation}".encode(), key=self._key, digest_size=_HASH_BYTES).hexdigest()
