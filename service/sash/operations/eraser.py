"""Erases owners with many conversations, in the background: any worker goes on where another one ended."""

import asyncio
import contextlib
from typing import Final

from sash.operations.logging import get_logger
from sash.problems import Problem, StoreUnavailable
from sash.store.data.entries import wall_ms
from sash.store.data.owner_erasures import OwnerErasure, OwnerErasures
from sash.store.data.owners import Owners

_PAUSE_SECONDS: Final = 0.5
_log = get_logger()


class Eraser:
    """One worker's part of the erasures: one at a time. Log lines name an erasure by its id, never its owner."""

    def __init__(self, erasures: OwnerErasures, owners: Owners) -> None:
        self._erasures = erasures
        self._owners = owners

    async def run(self) -> None:
        """Take erasures, and go on with each to its end, until cancelled."""
        while True:
            taken = None
            with contextlib.suppress(Problem):  # the store is away: the erasure is due again when it is back
                taken = await self._erasures.take(wall_ms())
                if taken is not None:
                    await self._go_on(taken)
            if taken is None:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _go_on(self, taken: OwnerErasure) -> None:
        about = {"erasure": taken.id, "tenant": taken.tenant}
        _log.info("erasure goes on" if taken.done else "erasure began", **about, done=taken.done, left=taken.left)
        done, left = taken.done, taken.left
        try:
            async for erased in self._owners.erase(taken.tenant, taken.owner, until_ms=taken.began_ms):
                done, left = done + erased, max(0, left - erased)
                await self._erasures.went_on(taken, erased, left, wall_ms())
            await self._erasures.finish(taken, wall_ms())
        except asyncio.CancelledError:
            _log.warning("erasure interrupted", **about, done=done, look="another worker, or the next start, goes on")
            with contextlib.suppress(StoreUnavailable):
                await self._erasures.give_back(taken)
            raise
        except Problem as problem:
            _log.warning("erasure interrupted", **about, done=done, look=problem.detail)
            raise
        _log.info("erasure done", **about, done=done, seconds=round((wall_ms() - taken.began_ms) / 1000, 1))
