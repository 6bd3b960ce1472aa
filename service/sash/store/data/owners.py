"""Owners' lists of conversations: an index in other slots than the conversations, checked at each use and repaired.

::

    sash:{tenant/owner/<owner>}:conversations   sorted set   conversation id -> last activity, microseconds since 1970

These rules hold whatever crashes between any two commands:

- A conversation is put on its owner's list *before* it is made or changes hands. So no list lacks a conversation.
- A list is not trusted: the owner of each conversation is read before it is shown or erased. So no conversation is shown
  to, or erased for, the wrong owner.
- A wrong line is removed by a reader, but only after ten minutes (a running request may make it right), and only if it was
  not changed since. The erasure of a conversation also removes its line.

The activity of appends is written to the lists later, as hints in batches; a reader first writes the hints that its own
process holds. A hint may come late, from another replica, after its conversation was erased. So a hint only moves an
existing line. A missing line is made again if the conversation exists (a failover may have lost the line). The score of a
hint is odd, and the score of a new conversation is even, so that an erasure removes its line even if a hint has moved it.

A list expires after its conversations: twice their time to live and ten minutes after the latest activity on it. Once their
time to live would do, if no hint could be lost. A list that had a conversation without a time to live never expires.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence

import msgspec

from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, few_settings
from sash.problems import CannotOpen, ConversationDamaged, NotFound, PreconditionFailed, StoreFull, StoreUnavailable
from sash.store.data.conversations import Conversations
from sash.store.data.layout import Target, owner_key, target_at
from sash.store.data.replies import Shut, WholeState
from sash.store.data.script_calls import script
from sash.store.data.stored_messages import STEP_BYTES
from sash.store.redis.client import Client
from sash.tasks import beside_requests, end_tasks

_GRACE_MICROSECONDS = 600 * 1_000_000
_BATCH = 16  # conversations that are read together: each may have megabytes of settings
_PASSES = 16
_PAUSE_SECONDS = 0.05
_SWEPT = 4
_FOREVER = float("inf")


Lines = list[tuple[str, bytes]]
"""Ids and scores, as the store returns them."""


def _pairs(flat: Sequence[bytes]) -> Lines:
    return [(flat[i].decode(), flat[i + 1]) for i in range(0, len(flat), 2)]


class _Enlist(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation for an owner's list, kept ``keep_ms`` at least, or for ever; the call gives the ``oldest`` lines."""

    score: int
    conversation: str
    keep_ms: int | None
    oldest: int


_enlist = script("enlist", _Enlist, _pairs)


class _Unlist(msgspec.Struct, frozen=True, kw_only=True):
    """Id and score of each conversation to remove from an owner's list; the call gives how many were removed."""

    lines: Sequence[str | bytes]


_unlist = script("unlist", _Unlist, int)


class _Move(msgspec.Struct, frozen=True, kw_only=True):
    """Activity of a conversation; the call gives whether it has a line on the owner's list."""

    score: int
    conversation: str
    keep_ms: int | None


_move = script("move", _Move, bool)


class ListedConversation(msgspec.Struct, frozen=True):
    """A conversation on a list."""

    id: str
    state: WholeState
    score: int
    """Its last activity on the list: on an owner's in microseconds since 1970, on a tenant's in milliseconds."""


class OwnerLine(msgspec.Struct, frozen=True):
    """A conversation's line on a list, as it was read."""

    tenant: str
    owner: str
    conversation: str
    score: bytes


class Owners:
    """Lists of conversations by owner."""

    def __init__(self, client: Client, conversations: Conversations) -> None:
        self._client = client
        self._conversations = conversations
        self._active: dict[tuple[str, str, str], tuple[int, int | None]] = {}  # score, and how long to keep the list
        self._task: asyncio.Task[None] | None = None
        self._telling = asyncio.Lock()
        self._sweeps: set[asyncio.Task[None]] = set()

    # ---- writing

    async def put(self, target: Target, settings: ConversationSettings) -> None:
        """Put a conversation on its owner's list; must be done before the conversation has these settings.

        The oldest lines are checked too, so that a list without readers does not keep expired conversations for ever.
        """
        owner = settings.owner
        if owner is None:
            return
        lines = await self._client.run(
            _enlist(
                (owner_key(target.tenant, owner),),
                conversation=target.id,
                score=_now() & ~1,
                keep_ms=self._keep_ms(settings.ttl_seconds),
                oldest=_SWEPT,
            )
        )
        old = [line for line in lines if float(line[1]) < _now() - _GRACE_MICROSECONDS]
        if old:
            task = asyncio.create_task(self._sweep(target.tenant, owner, old))
            self._sweeps.add(task)
            task.add_done_callback(self._sweeps.discard)

    def _keep_ms(self, ttl_seconds: int | None) -> int | None:
        """Return how long a list is kept after activity of a conversation with this time to live; None for ever."""
        ttl_ms = self._conversations.ttl_ms(ttl_seconds)
        return None if ttl_ms is None else 2 * ttl_ms + _GRACE_MICROSECONDS // 1000

    async def _sweep(self, tenant: str, owner: str, lines: Lines) -> None:
        with contextlib.suppress(StoreUnavailable, StoreFull):
            await self._checked(tenant, owner, lines)

    def touch(self, target: Target, settings: bytes) -> None:
        """Note activity, to be written to the list soon; never waits and never fails."""
        few = few_settings(settings)
        if few.owner is None:
            return
        self._active[target.tenant, few.owner, target.id] = _now() | 1, self._keep_ms(few.ttl_seconds)
        if self._task is None or self._task.done():
            self._task = beside_requests(self._tell())

    async def _tell(self) -> None:
        while self._active:
            await self._flush()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _flush(self) -> None:
        async with self._telling:
            active, self._active = self._active, {}
            try:
                results = await asyncio.gather(
                    *(self._hint(*line, *told) for line, told in active.items()), return_exceptions=True
                )
            except asyncio.CancelledError:  # it is written when the lists are closed
                self._active = {**active, **self._active}
                raise
        for result in results:
            # A lost hint does no harm: the next append gives another.
            if isinstance(result, BaseException) and not isinstance(result, StoreUnavailable | StoreFull):
                raise result

    async def _hint(self, tenant: str, owner: str, conversation: str, score: int, keep_ms: int | None) -> None:
        key = owner_key(tenant, owner)
        if await self._client.run(_move((key,), score=score, conversation=conversation, keep_ms=keep_ms)):
            return
        state = await self._state(target_at(tenant, conversation))
        if not _is_owner(owner, state):
            return
        expires = isinstance(state, WholeState) and state.expires_ms  # else it began when nothing expired
        listing = _enlist(
            (key,), conversation=conversation, score=score, keep_ms=keep_ms if expires else None, oldest=1
        )
        await self._client.run(listing)
        if not _is_owner(owner, await self._state(target_at(tenant, conversation))):  # erased meanwhile
            await self._client.run(_unlist((key,), lines=(conversation, str(score))))

    async def close(self) -> None:
        """Write the noted activity, and stop."""
        await end_tasks(*self._sweeps, *([self._task] if self._task else []))
        await self._flush()

    async def line(self, target: Target, owner: str | None) -> OwnerLine | None:
        """Return a conversation's line, before its erasure for ``unlist``, or before a change of owner for ``leave``."""
        if owner is None:
            return None
        await self._flush()  # a hint written later would change the score
        (score,) = await self._client.commands([("ZSCORE", owner_key(target.tenant, owner), target.id)])
        return None if score is None else OwnerLine(target.tenant, owner, target.id, score)

    async def erase_listed(self, target: Target, owner: str | None, *, life: str, if_match: str = "") -> None:
        """Erase one life of a conversation, and its line on its owner's list. A life that has ended is no error.

        Raises PreconditionFailed.
        """
        line = await self.line(target, owner)
        with contextlib.suppress(NotFound):
            await self._conversations.erase(target, life=life, if_match=if_match)
        await self.unlist(line)

    async def unlist(self, line: OwnerLine | None) -> None:
        """Remove an erased conversation from its owner's list, unless it was put there again since.

        Never fails, because the erasure is done: a reader removes a line that stays.
        """
        if line is not None:
            self._active.pop((line.tenant, line.owner, line.conversation), None)
            await self._remove(line, line.score + b"~")

    async def leave(self, line: OwnerLine | None) -> None:
        """Remove a conversation that now has another owner from its earlier owner's list, unless its line changed since.

        Never fails, because the change is done: a reader removes a line that stays.
        """
        if line is not None:
            await self._remove(line, line.score)

    async def _remove(self, line: OwnerLine, score: bytes) -> None:
        with contextlib.suppress(StoreUnavailable, StoreFull):
            await self._client.run(_unlist((owner_key(line.tenant, line.owner),), lines=(line.conversation, score)))

    # ---- reading

    async def read(
        self, tenant: str, owner: str, *, before: tuple[float, str] = (_FOREVER, ""), limit: int
    ) -> tuple[list[ListedConversation], bool]:
        """Return the owner's conversations after ``before`` (score, id), newest activity first; and whether there are more.

        They are at most ``limit``, or fewer where their settings are large.
        """
        await self._flush()
        found: list[ListedConversation] = []
        size_bytes = 0
        while lines := await self._lines(tenant, owner, before, min(_BATCH, limit - len(found) + 1)):
            for each in await self._checked(tenant, owner, lines):
                size_bytes += each.state.size_bytes
                if found and (len(found) == limit or size_bytes > STEP_BYTES):
                    return found, True
                found.append(each)
            before = float(lines[-1][1]), lines[-1][0]
        return found, False

    async def _lines(self, tenant: str, owner: str, before: tuple[float, str], count: int) -> Lines:
        """Return the lines after ``before`` in the list's order: by score and id, both descending."""
        score, after = before
        key = owner_key(tenant, owner)
        highest = "+inf" if score == _FOREVER else f"{score:.0f}"
        skipped = 0
        while True:
            words = ("ZRANGE", key, highest, "-inf", "BYSCORE", "REV", "LIMIT", skipped, count, "WITHSCORES")
            (flat,) = await self._client.commands([words])
            lines = _pairs(flat)
            left = [line for line in lines if (float(line[1]), line[0]) < (score, after)] if after else lines
            if left or not lines:
                return left
            skipped += len(lines)

    async def _checked(self, tenant: str, owner: str, lines: Lines) -> list[ListedConversation]:
        """Return the conversations that are the owner's and can be read; wrong old lines are removed."""
        states = await asyncio.gather(*(self._state(target_at(tenant, identity)) for identity, _ in lines))
        found: list[ListedConversation] = []
        wrong: list[str | bytes] = []
        for (identity, score), state in zip(lines, states, strict=True):
            if _is_owner(owner, state):
                if isinstance(state, WholeState):
                    found.append(ListedConversation(identity, state, int(float(score))))
            elif float(score) < _now() - _GRACE_MICROSECONDS:
                wrong += (identity, score)
        if wrong:
            await self._client.run(_unlist((owner_key(tenant, owner),), lines=wrong))
        return found

    async def _state(self, target: Target) -> WholeState | Shut | None:
        with contextlib.suppress(NotFound):
            try:
                return await self._conversations.reader.get(target)
            except (CannotOpen, ConversationDamaged):
                return await self._conversations.reader.shut(target)
        return None

    # ---- erasing

    async def count(self, tenant: str, owner: str, *, over: int) -> int | None:
        """Return the number of lines on an owner's list, wrong ones included; None where there are at most ``over``.

        Found by halving, because a command that counts is one more that a store's user must be allowed.
        """
        if not await self._has(tenant, owner, over):
            return None
        low, high = over + 1, 2 * over + 2  # there are at least ``low``, and fewer than ``high``
        while await self._has(tenant, owner, high - 1):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if await self._has(tenant, owner, middle - 1) else (low, middle)
        return low

    async def _has(self, tenant: str, owner: str, place: int) -> bool:
        """Return whether an owner's list has a line at this place, from 0."""
        (found,) = await self._client.commands([("ZRANGE", owner_key(tenant, owner), place, place)])
        return bool(found)

    async def erase(self, tenant: str, owner: str, *, until_ms: int | None = None) -> AsyncIterator[int]:
        """Erase every conversation of the owner, or those that began by ``until_ms``; yields the number erased in a batch.

        A pass goes down the list. A write moves its conversation up, behind the pass. So passes are repeated until one finds
        nothing.
        """
        for _ in range(_PASSES):
            erased, before = 0, (_FOREVER, "")
            await self._flush()
            while lines := await self._lines(tenant, owner, before, _BATCH):
                done = await asyncio.gather(
                    *(self._erase_one(target_at(tenant, identity), owner, until_ms) for identity, _ in lines)
                )
                old = _now() - _GRACE_MICROSECONDS
                gone: list[str | bytes] = []
                for (identity, score), was in zip(lines, done, strict=True):
                    if was or (was is False and float(score) < old):
                        gone += (identity, score + b"~" if was else score)
                if gone:
                    await self._client.run(_unlist((owner_key(tenant, owner),), lines=gone))
                before = float(lines[-1][1]), lines[-1][0]
                erased += done.count(True)
                yield done.count(True)
            if not erased:
                return

    async def _erase_one(self, target: Target, owner: str, until_ms: int | None) -> bool | None:
        """Erase a conversation if it is the owner's; the entity tag in the condition makes sure that it still is.

        Returns None for one that began after ``until_ms``, and stays.
        """
        while True:
            state = await self._state(target)
            if state is None or not _is_owner(owner, state):
                return False
            if until_ms is not None and isinstance(state, WholeState) and state.created_ms > until_ms:
                return None
            try:
                await self._conversations.erase(target, life=state.life, if_match=state.etag)
            except PreconditionFailed:
                continue
            except NotFound:
                return True
            self._active.pop((target.tenant, owner, target.id), None)
            return True


def _is_owner(owner: str, state: WholeState | Shut | None) -> bool:
    if isinstance(state, WholeState):
        return few_settings(state.settings).owner == owner
    return state is not None and (state.owner == owner or state.version == 0)


def _now() -> int:
    return time.time_ns() // 1000
