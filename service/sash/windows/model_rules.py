"""What windows depend on of a model: its figures by digest, which a receipt names, and which are kept in the store."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b

from sash.core.counts.models.models import Model
from sash.core.counts.models.packed_models import decode_model, encode_model
from sash.core.counts.text.vocabularies import INSTALLED
from sash.problems import Problem
from sash.store.data.kept_models import KeptModels
from sash.store.data.usage import model_or_unknown
from sash.tasks import beside_requests
from sash.windows.receipts import RULES_BYTES


class ModelRules:
    """Digests of models' figures. ``models`` are the deployment's own, by name."""

    def __init__(self, kept: KeptModels, models: Mapping[str, Model]) -> None:
        self._kept = kept
        self._models = models
        self._known: set[bytes] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.digest = lru_cache(maxsize=1024)(self._digest)
        """The digest of a model's figures, by its name. At the first call of a process they are kept, beside the request."""

    def _digest(self, name: str) -> bytes:
        figures = encode_model(model_or_unknown(name, self._models))
        digest = blake2b(figures, digest_size=RULES_BYTES).digest()
        if digest not in self._known:
            self._known.add(digest)
            task = beside_requests(self._keep(digest, figures))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return digest

    async def _keep(self, digest: bytes, figures: bytes) -> None:
        try:
            await self._kept.keep(digest, figures)
        except Problem:  # the store is away, or full: the next window tries again
            self._known.discard(digest)
            self.digest.cache_clear()

    async def model(self, name: str, digest: bytes) -> Model | None:
        """The model with the figures of this digest; None if they are not kept. Raises StoreUnavailable."""
        if self.digest(name) == digest:
            return model_or_unknown(name, self._models)
        figures = await self._kept.read(digest)
        own = (each.vocabulary for each in self._models.values())
        vocabularies = {**INSTALLED, **{each.name: each for each in own if each is not None}}
        now = model_or_unknown(name, self._models).vocabulary
        if now is not None:
            vocabularies[now.name] = now
        return None if figures is None else decode_model(figures, name, vocabularies)

    async def close(self) -> None:
        """Wait until the figures are kept."""
        with suppress(Problem):
            await asyncio.gather(*self._tasks)
