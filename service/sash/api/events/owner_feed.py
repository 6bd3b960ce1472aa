"""The events of an owner's conversations: those of each, in one stream, for a sidebar.

A stream begins with the list: the newest conversations and their versions, and whether there are more. From then on it has
each one's events. Every write of the owner's conversations, of any age, is published on the owner's channel by the
conversation's id: one that is new, or older than the list, comes with its state, and from then on has its events too.

owner_reader.py is one reader.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple

import msgspec

from sash.api.events.event_steps import NAMED, End, Event, EventType, ReaderPlace
from sash.api.events.event_texts import ConversationEvent
from sash.api.events.feed import Feed
from sash.api.events.followers import Followers
from sash.api.events.owner_reader import OwnerReader
from sash.core.law.fixed_parts.conversation_settings import few_settings
from sash.operations.logging import describe, get_logger
from sash.problems import NotFound, Problem
from sash.store.data.layout import Target, owner_key, target_at
from sash.store.data.owners import ListedConversation, Owners
from sash.store.data.replies import WholeState
from sash.tasks import beside_requests

FOLLOWED: Final = 100
"""Conversations of the list: those with the newest activity."""
_READ_ALONG: Final = 2 * FOLLOWED
"""Conversations whose own events are read; of one that is idle for longest the owner's channel tells the next change."""
_LOOK_SECONDS: Final = 15.0
_SOON_SECONDS: Final = (0.02, 0.1, 0.3, 1.0, 3.0)
"""When to look for a conversation that was just put on the list, and is made after that."""
_GONE: Final = 1000
_log = get_logger()


class _Named(NamedTuple):
    """A conversation to look for: how often, and whether it was put on the list, and is made after that."""

    tries: int
    is_listed: bool


_ONCE: Final = _Named(1, is_listed=False)


class Member:
    """One conversation in an owner's feed."""

    form = NAMED

    def __init__(self, owner_feed: "OwnerFeed", target: Target, state: WholeState) -> None:
        self.target = target
        self.feed: Feed | None = None
        self._owner_feed = owner_feed
        self._version = state.version

    def take(self, event: Event) -> int:
        """Pass an event on; returns the number of streams that it was sent to."""
        if event.type not in ("reset", "erased") and event.version <= self._version:
            return 0
        self._version = event.version
        return self._owner_feed.take(self, event)

    def end(self, why: End) -> None:
        """The conversation is gone, or cannot be read."""
        self._owner_feed.lose(self, why)


class OwnerFeed:
    """An owner's conversations with the readers of all of them."""

    def __init__(
        self,
        tenant: str,
        owner: str,
        followers: Followers,
        owners: Owners,
        *,
        state_of: Callable[[Target], Awaitable[WholeState]],
        sent: Callable[[Mapping[EventType, int]], None],
    ) -> None:
        self.channel = owner_key(tenant, owner)
        self.users = 0
        self.readers: set[OwnerReader] = set()
        self._tenant = tenant
        self._owner = owner
        self._followers = followers
        self._owners = owners
        self._state_of = state_of
        self._sent = sent
        self._changed: set[str] = set()
        self._members: dict[str, Member] = {}  # the one that was idle for longest comes first
        self._named: dict[str, _Named] = {}  # others that changed
        self._gone: dict[str, None] = {}  # those whose end was told
        self._looked: float | None = time.monotonic()  # when the list was read
        self._looking = asyncio.Lock()
        self._wake = asyncio.Event()
        self._task = beside_requests(self._run())

    def told(self, what: bytes) -> None:
        """Take a wake-up: the id of a conversation that changed, or that is put on the list, with a ``+``.

        An empty one, of an older version or after lost messages, says that any may have changed.
        """
        name = what.removeprefix(b"+").decode()
        if name in self._members:
            return
        if name:
            known = self._named.get(name, _ONCE)
            is_listed = what.startswith(b"+")
            self._named[name] = _Named(len(_SOON_SECONDS) if is_listed else known.tries, is_listed)
        else:
            self._looked = None
        self._wake.set()

    async def look(self) -> tuple[list[ListedConversation], bool]:
        """Read the list, and follow the conversations that are new on it. Returns whether there are more.

        Raises StoreUnavailable.
        """
        async with self._looking:
            listed, more = await self._owners.read(self._tenant, self._owner, limit=FOLLOWED)
            for each in reversed(listed):
                if each.id not in self._members:
                    await self._add(each)
            self._looked = time.monotonic()
            return listed, more

    async def _find(self, name: str, named: "_Named") -> bool:
        """Tell the state of a conversation that is not read along; returns whether it is known what became of it."""
        async with self._looking:
            if name in self._members:
                return True
            target, is_last = target_at(self._tenant, name), named.tries == 1
            kind: Literal["erased", "left"] = "erased"
            version, life = 0, ""
            with suppress(NotFound):
                state = await self._state_of(target)
                if few_settings(state.settings).owner == self._owner:
                    await self._add(ListedConversation(name, state, 0))
                    return True
                kind, version, life = "left", state.version, state.life
            if is_last and not named.is_listed:
                self._end_of(name, kind, version, life)
            return is_last

    def _end_of(self, name: str, kind: Literal["erased", "left"], version: int, life: str) -> None:
        """Tell once that a conversation is the owner's no more."""
        if name in self._gone:
            return
        data = msgspec.json.encode(ConversationEvent(type=kind, conversation_id=name, version=version))
        self._sent({kind: self._give(name, Event(kind, version, life, data), is_new=True)})

    def _give(self, name: str, event: Event, *, is_new: bool) -> int:
        """Give an event to all readers; returns the number of those that it was sent to."""
        if event.type in ("erased", "left"):
            self._gone[name] = None
            if len(self._gone) > _GONE:
                del self._gone[next(iter(self._gone))]
        return sum(reader.take(name, event, is_new) for reader in list(self.readers))

    async def _add(self, each: ListedConversation) -> None:
        target = target_at(self._tenant, each.id)
        member = Member(self, target, each.state)
        with suppress(NotFound):
            member.feed = await self._followers.feed(target)
            self._members[each.id] = member
            self._gone.pop(each.id, None)
            begun = (await self._followers.events.reset(target, {NAMED})).events[0]
            self._sent({begun.type: self.take(member, begun, is_new=True)})
            await member.feed.join(member, ReaderPlace(each.state.version, each.state.life))
            while len(self._members) > _READ_ALONG:
                self.lose(next(iter(self._members.values())), "gone")

    def take(self, member: Member, event: Event, *, is_new: bool = False) -> int:
        """Give an event to all readers; returns the number of those that got it. Other settings may be another owner."""
        if self._members.pop(member.target.id, None) is not None:
            self._members[member.target.id] = member
        if event.type in ("settings", "reset") and not is_new:
            self._changed.add(member.target.id)
            self._wake.set()
        return self._give(member.target.id, event, is_new=is_new)

    def lose(self, member: Member, why: End) -> None:
        """Follow a conversation no more."""
        if self._members.get(member.target.id) is member:
            del self._members[member.target.id]
            if member.feed is not None:
                self._followers.release(member.feed, member)
            if why == "failed":
                self._wake.set()

    async def _run(self) -> None:
        """Look for each conversation that changed, and at the list every 15 seconds."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            self._wake.clear()
            try:
                if self._looked is None or time.monotonic() >= self._looked + _LOOK_SECONDS:
                    await self.look()
                await self._find_named()
                await self._dismiss()
            except Problem:
                self._wake.set()
                await asyncio.sleep(_SOON_SECONDS[-2])
            except Exception as error:  # noqa: BLE001 - the look goes on
                _log.error("events failed", **describe(error))

    async def _find_named(self) -> None:
        for name, named in list(self._named.items()):
            del self._named[name]
            is_known = False
            try:
                is_known = await self._find(name, named)
            finally:
                if not is_known:
                    self._named.setdefault(name, named._replace(tries=max(1, named.tries - 1)))

    def _pause(self) -> float:
        """Seconds until the next read, if no change is announced before."""
        left = 0.0 if self._looked is None else self._looked + _LOOK_SECONDS - time.monotonic()
        return min([left, *(_SOON_SECONDS[-named.tries] for named in self._named.values())])

    async def _dismiss(self) -> None:
        """Let conversations go that have another owner now."""
        changed, self._changed = self._changed, set()
        for member in [self._members[each] for each in changed if each in self._members]:
            with suppress(NotFound):
                state = await self._state_of(member.target)
                if few_settings(state.settings).owner != self._owner:
                    self._end_of(member.target.id, "left", state.version, state.life)
                    self.lose(member, "gone")

    def end(self, why: End) -> None:
        """End all readers."""
        for reader in list(self.readers):
            reader.stream.end(why)

    def close(self) -> None:
        """Stop."""
        self._task.cancel()
        for member in list(self._members.values()):
            self.lose(member, "gone")
