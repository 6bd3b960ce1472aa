"""A tenant's conversations by last activity, without an index.

An index of all of a tenant's conversations would be one more write for each append, always to the same key of the same
server. This listing is rare, so it goes through the keys of the store instead: its time grows with the store, its memory
with the page. Each step is one SCAN and the times of the conversations that it found, so other clients wait for neither.
"""

import asyncio
import contextlib
import heapq
from collections.abc import Callable

from sash.core.chat.bounds import IDS
from sash.problems import CannotOpen, ConversationDamaged, NotFound
from sash.store.data.layout import Target, target_at
from sash.store.data.owners import ListedConversation
from sash.store.data.reading import Reader
from sash.store.data.replies import State
from sash.store.data.stored_messages import STEP_BYTES
from sash.store.redis.client import Client

Place = tuple[float, str]
"""The last activity in milliseconds since 1970, and the id: a listing's order, both descending."""
_BATCH = 16  # conversations that are read together: each may have megabytes of settings
_TIMES = 200  # of one batch of commands: a millisecond of the store and of the event loop


class Tenants:
    """Lists of all conversations of a tenant."""

    def __init__(self, client: Client, reader: Reader) -> None:
        self._client = client
        self._reader = reader

    async def read(
        self, tenant: str, *, before: Place, limit: int, progress: Callable[[], None]
    ) -> tuple[list[ListedConversation], Place | None]:
        """Return conversations after ``before``, newest activity first, and the place to continue from, None at the end.

        They are at most ``limit``, or fewer where their settings are large, where one has ended meanwhile, or where one
        cannot be read: its data key is missing, or it is damaged. ``progress`` is called after each step.

        Raises:
            StorePermissionDenied: the store's user may not run SCAN.
            StoreUnavailable.
        """
        newest = await self._newest(tenant, before, limit + 1, progress)
        found: list[ListedConversation] = []
        wanted, last, size_bytes = newest[:limit], before, 0
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            states = await asyncio.gather(*(self._state(target_at(tenant, identity)) for _, identity in batch))
            progress()
            for place, state in zip(batch, states, strict=True):
                if state is not None:
                    size_bytes += state.size_bytes
                    if found and size_bytes > STEP_BYTES:
                        return found, last
                    found.append(ListedConversation(place[1], state, int(place[0])))
                last = place
        return found, last if len(newest) > limit else None

    async def _newest(self, tenant: str, before: Place, count: int, progress: Callable[[], None]) -> list[Place]:
        """Return the first ``count`` places after ``before``. A scan may name a conversation twice."""
        kept: dict[str, Place] = {}
        # Neither a tenant nor an id has a character that a pattern interprets.
        async for names in self._client.scan_steps(target_at(tenant, "*").keys.conversation):
            ids = [name for name in names if IDS.fullmatch(name)]
            for start in range(0, len(ids), _TIMES):
                times = await self._times(tenant, ids[start : start + _TIMES])
                kept |= {place[1]: place for place in times if place < before}
                if len(kept) > count:
                    kept = {place[1]: place for place in heapq.nlargest(count, kept.values())}
            progress()
        return sorted(kept.values(), reverse=True)

    async def _times(self, tenant: str, ids: list[str]) -> list[Place]:
        """Return the place of each conversation that still exists."""
        wanted = [("HGET", target_at(tenant, each).keys.conversation, "updated") for each in ids]
        found = await self._client.commands(wanted)
        return [(int(time), each) for each, time in zip(ids, found, strict=True) if time is not None]

    async def _state(self, target: Target) -> State | None:
        with contextlib.suppress(NotFound, CannotOpen, ConversationDamaged):
            return await self._reader.get(target)
        return None
