"""Figures of models, by digest, for windows that are made again after a release or a models file has others.

::

    sash:{models}:kept   hash   digest of a model's figures -> the figures

All tenants share them: they are what releases and models files list, without names, so they are few, and have no end.
"""

from typing import Final

from sash.store.data.layout import PREFIX
from sash.store.redis.client import Client

KEPT_MODELS: Final = f"{PREFIX}{{models}}:kept"


class KeptModels:
    """Figures of models, by digest, as receipts need them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def keep(self, digest: bytes, figures: bytes) -> None:
        """Keep a model's figures under their digest. Raises StoreUnavailable, StoreFull."""
        await self._client.commands([("HSETNX", KEPT_MODELS, digest, figures)])

    async def read(self, digest: bytes) -> bytes | None:
        """The figures with this digest; None if they are not kept. Raises StoreUnavailable."""
        (found,) = await self._client.commands([("HGET", KEPT_MODELS, digest)])
        return found  # type: ignore[no-any-return] # of the store
