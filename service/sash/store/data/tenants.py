"""A tenant's conversations by last activity, in an index that exists only while somebody lists them.

::

    sash:{tenant/list/all}:conversations   sorted set   id -> last activity, milliseconds since 1970; and marks (``:whole``)
    sash:{lists}:tenants                   sorted set   tenant with an index -> when the index expires, milliseconds

An index that is always there would be a write for each append, and 100 bytes for each conversation, for a rare listing. So
the first listing goes through the keys of the store, and what it finds becomes the index, for an hour; further pages cost
what they have. Each step is one SCAN and the times of the conversations that it found, so other clients wait for neither.

While a tenant has an index, each process writes to it what changed, four times a second and before it reads a page. Nothing
is missed: the tenant is noted before the scan begins, and each process looks at the notes after the changes that it writes.
A process that is killed can lose a quarter of a second of them, so the one that takes its place has the next listing scan
again. The index is not trusted: each conversation is read before it is shown, and its line goes when there is none.
"""

import asyncio
import contextlib
import heapq
import math
from collections.abc import Callable
from typing import Any, Final, Literal

from sash.core.chat.bounds import IDS
from sash.problems import CannotOpen, ConversationDamaged, NotFound, Problem, StoreFull, StoreUnavailable
from sash.store.data.entries import wall_ms
from sash.store.data.layout import PREFIX, Target, list_key, target_at
from sash.store.data.owners import ListedConversation
from sash.store.data.reading import Reader
from sash.store.data.replies import WholeState
from sash.store.data.stored_messages import STEP_BYTES
from sash.store.redis.client import Client

Place = tuple[float, str]
"""The last activity in milliseconds since 1970, and the id: a listing's order, both descending."""
_LISTED: Final = f"{PREFIX}{{lists}}:tenants"
_BEGUN, _WHOLE, _AGAIN = ":begun", ":whole", ":again"
"""Marks in an index: it was begun; all that the scan found is in it; a process was replaced, so it must be scanned again."""
_KEPT_MS: Final = 3600 * 1000
_GRACE_MS: Final = 600 * 1000  # an index outlives its note, so that no late change begins one that never expires
_PAUSE_SECONDS: Final = 0.25
_BATCH = 16  # conversations that are read together: each may have megabytes of settings
_TIMES = 200  # of one batch of commands: a millisecond of the store and of the event loop


class Tenants:
    """Lists of all conversations of a tenant."""

    def __init__(self, client: Client, reader: Reader) -> None:
        self._client = client
        self._reader = reader
        self.changed: dict[tuple[str, str], int] = {}
        """When conversations changed that are to be written to an index soon, by tenant and id. Who changes one notes it."""
        self._telling = asyncio.Lock()

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
        newest = None
        with contextlib.suppress(StoreFull):  # else the index lacks what changed
            await self._flush()
            newest = await self._indexed(tenant, before, limit + 1)
        if newest is None:
            newest = await self._newest(tenant, before, limit + 1, progress)
        found: list[ListedConversation] = []
        gone: list[str] = []
        wanted, last, size_bytes = newest[:limit], before, 0
        for start in range(0, len(wanted), _BATCH):
            batch = wanted[start : start + _BATCH]
            states = await asyncio.gather(*(self._state(target_at(tenant, identity)) for _, identity in batch))
            progress()
            for place, state in zip(batch, states, strict=True):
                if isinstance(state, WholeState):
                    size_bytes += state.size_bytes
                    if found and size_bytes > STEP_BYTES:
                        return found, last
                    found.append(ListedConversation(place[1], state, int(place[0])))
                elif state == "gone":
                    gone.append(place[1])
                last = place
        if gone:
            await self._client.commands([("ZREM", list_key(tenant), *gone)])
        return found, last if len(newest) > limit else None

    # ---- the index

    async def _flush(self) -> None:
        """Write the noted changes to the indexes that exist."""
        async with self._telling:
            changed, self.changed = self.changed, {}
            by_tenant: dict[str, list[Any]] = {}
            for (tenant, identity), updated_ms in changed.items():
                by_tenant.setdefault(tenant, []).extend((updated_ms, identity))
            if not by_tenant:
                return
            try:
                until = await self._client.commands([("ZSCORE", _LISTED, tenant) for tenant in by_tenant])
                for (tenant, lines), until_ms in zip(by_tenant.items(), until, strict=True):
                    if until_ms is not None and float(until_ms) > wall_ms():
                        await self._write(tenant, lines)
            except Problem:
                self.changed = {**changed, **self.changed}
                raise

    async def _write(self, tenant: str, lines: list[Any]) -> None:
        for start in range(0, len(lines), 2 * _TIMES):
            await self._client.commands([("ZADD", list_key(tenant), "GT", *lines[start : start + 2 * _TIMES])])

    async def run(self) -> None:
        """Write the noted changes to the indexes, four times a second; but first have the next listings scan again."""
        has_begun = False
        while True:
            with contextlib.suppress(Problem):
                if not has_begun:
                    await self._begin_anew()
                    has_begun = True
                await self._flush()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _begin_anew(self) -> None:
        """Have the next listings scan again, as the process whose place this one takes may have been killed."""
        (tenants,) = await self._client.commands([("ZRANGE", _LISTED, 0, -1)])
        if tenants:
            keys = [list_key(each.decode()) for each in tenants]
            again = [word for key in keys for word in (("ZADD", key, 0, _AGAIN), ("ZREM", key, _WHOLE))]
            await self._client.commands(again)

    async def close(self) -> None:
        """Write the noted changes."""
        with contextlib.suppress(StoreUnavailable, StoreFull):
            await self._flush()

    async def _indexed(self, tenant: str, before: Place, count: int) -> list[Place] | None:
        """Return the first ``count`` places after ``before``; None where there is no whole index."""
        key = list_key(tenant)
        (whole,) = await self._client.commands([("ZSCORE", key, _WHOLE)])
        if whole is None:
            return None
        time_ms, _ = before
        highest = "+inf" if math.isinf(time_ms) else f"{time_ms:.0f}"
        found: list[Place] = []
        skipped = 0
        while len(found) < count:
            words = ("ZRANGE", key, highest, "-inf", "BYSCORE", "REV", "LIMIT", skipped, count, "WITHSCORES")
            (flat,) = await self._client.commands([words])
            places = [(float(flat[i + 1]), flat[i].decode()) for i in range(0, len(flat), 2)]
            found += [place for place in places if place < before and place[1][0] != ":"]
            if len(places) < count:
                break
            skipped += count
        return found[:count]

    async def _begin_index(self, tenant: str) -> None:
        """Have each process write to a tenant's index from now on."""
        key = list_key(tenant)
        begun = [("ZADD", key, 0, _BEGUN), ("ZREM", key, _AGAIN), ("PEXPIRE", key, _KEPT_MS + _GRACE_MS)]
        await self._client.commands(begun)
        noted = [("ZADD", _LISTED, wall_ms() + _KEPT_MS, tenant), ("PEXPIRE", _LISTED, _KEPT_MS + _GRACE_MS)]
        await self._client.commands(noted)

    async def _end_index(self, tenant: str) -> None:
        """Say that the index is whole, unless a process was replaced during the scan."""
        key = list_key(tenant)
        begun, again = await self._client.commands([("ZSCORE", key, _BEGUN), ("ZSCORE", key, _AGAIN)])
        if begun is not None and again is None:
            await self._client.commands([("ZADD", key, 0, _WHOLE)])

    async def _newest(self, tenant: str, before: Place, count: int, progress: Callable[[], None]) -> list[Place]:
        """Return the first ``count`` places after ``before``, from a scan, and make an index of what it finds.

        A scan may name a conversation twice. Where the store takes no writes there is no index.
        """
        kept: dict[str, Place] = {}
        with contextlib.suppress(StoreUnavailable, StoreFull):
            await self._begin_index(tenant)
        # Neither a tenant nor an id has a character that a pattern interprets.
        async for names in self._client.scan_steps(target_at(tenant, "*").keys.conversation):
            ids = [name for name in names if IDS.fullmatch(name)]
            for start in range(0, len(ids), _TIMES):
                times = await self._times(tenant, ids[start : start + _TIMES])
                kept |= {place[1]: place for place in times if place < before}
                with contextlib.suppress(StoreUnavailable, StoreFull):
                    await self._write(
                        tenant, [word for time_ms, identity in times for word in (int(time_ms), identity)]
                    )
                if len(kept) > count:
                    kept = {place[1]: place for place in heapq.nlargest(count, kept.values())}
            progress()
        with contextlib.suppress(StoreUnavailable, StoreFull):
            await self._end_index(tenant)
        return sorted(kept.values(), reverse=True)

    async def _times(self, tenant: str, ids: list[str]) -> list[Place]:
        """Return the place of each conversation that still exists."""
        wanted = [("HGET", target_at(tenant, each).keys.conversation, "updated") for each in ids]
        found = await self._client.commands(wanted)
        return [(int(time), each) for each, time in zip(ids, found, strict=True) if time is not None]

    async def _state(self, target: Target) -> WholeState | Literal["gone", "unreadable"]:
        try:
            return await self._reader.get(target)
        except NotFound:
            return "gone"
        except (CannotOpen, ConversationDamaged):
            return "unreadable"
