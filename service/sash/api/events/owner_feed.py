"""The events of an owner's conversations: those of each, in one stream, for a sidebar.

A stream begins with the list: the newest conversations and their versions. From then on it has each one's events, and the
state of one that is new. Its ids name all versions that the reader has, as one hash. A reader that comes back with the hash
of the present list has missed nothing; another gets the list again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sash.api.conversation_handlers import timestamp
from sash.api.events.event_bodies import ConversationEvent
from sash.api.events.event_steps import End, Event, EventType, ReaderPlace, event_text
from sash.api.events.event_stream import EventStream
from sash.api.events.feed import Feed
from sash.api.events.followers import Followers
from sash.api.schemas import MessageRange, Timestamp
from sash.core.law.conversation_settings import owner_of, read_settings
from sash.operations.logging import describe, get_logger
from sash.problems import NotFound, Problem
from sash.store.data.layout import Target, owner_key, target_at
from sash.store.data.owners import ListedConversation, Owners
from sash.store.data.replies import State
from sash.tasks import beside_requests

FOLLOWED: Final = 100
"""The most conversations of an owner that one stream follows: those with the newest activity."""
_LOOK_SECONDS: Final = 15.0
_SOON_SECONDS: Final = (0.02, 0.1, 0.3, 1.0, 3.0)
"""When to look for a conversation that was just put on the list, and is made after that."""
_log = get_logger()


class OwnerConversation(msgspec.Struct, frozen=True):
    """A conversation on a sidebar."""

    id: str
    version: int
    updated_at: Timestamp
    messages: MessageRange
    metadata: dict[str, Any] | None


class OwnerEvent(ConversationEvent, frozen=True, omit_defaults=True, kw_only=True):
    """An event of one of an owner's conversations; or `listed`, the list of all, newest activity first."""

    conversation_id: Annotated[str, Meta(description="The conversation; not there in `listed`.")] = ""
    version: Annotated[int, Meta(description="Its version after it; not there in `listed`.")] = 0
    conversations: Annotated[list[OwnerConversation] | None, Meta(description="The list, of `listed`.")] = None


class Listed(msgspec.Struct, frozen=True):
    """The list as it is sent."""

    type: EventType
    conversations: list[OwnerConversation]


class OwnerReader:
    """A reader of an owner's events, and the versions that it has."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self._versions: dict[str, tuple[int, str]] = {}
        self._hash = 0
        self._held: list[tuple[str, Event, bool]] | None = []

    def begin(self, listed: list[ListedConversation], known: str) -> bool:
        """Send the list, unless the reader has it, and what came meanwhile. Returns whether it was sent."""
        for standing in listed:
            self._note(standing.id, standing.state.version, standing.state.life)
        is_sent = known != self._name
        if is_sent:
            data = msgspec.json.encode(Listed("listed", [_shown(each) for each in listed]))
            self.stream.events += 1
            self.stream.put(event_text("listed", self._name, data))
        held, self._held = self._held or [], None
        for each in held:
            self.take(*each)
        return is_sent

    def take(self, conversation: str, event: Event, is_new: bool) -> bool:  # noqa: FBT001 - as it is held
        """Send an event, unless the reader has it; returns whether it was sent.

        ``is_new``: it is the state of a conversation that is new on the list.
        """
        if self._held is not None:
            self._held.append((conversation, event, is_new))
            return False
        version, life = self._versions.get(conversation, (-1, ""))
        if event.type in ("erased", "left"):
            if version < 0:
                return False
            self._note(conversation, None, "")
        elif event.version <= version and event.life == life and (is_new or event.type != "reset"):
            return False
        else:
            self._note(conversation, event.version, event.life)
        self.stream.events += 1
        self.stream.put(event_text(event.type, self._name, event.named))
        return True

    @property
    def _name(self) -> str:
        return f"{self._hash:016x}"

    def _note(self, conversation: str, version: int | None, life: str) -> None:
        had = self._versions.pop(conversation, None)
        if had is not None:
            self._hash ^= _hash_of(conversation, *had)
        if version is not None:
            self._versions[conversation] = version, life
            self._hash ^= _hash_of(conversation, version, life)


def _hash_of(conversation: str, version: int, life: str) -> int:
    return int.from_bytes(blake2b(f"{conversation} {version} {life}".encode(), digest_size=8).digest())


def _shown(each: ListedConversation) -> OwnerConversation:
    last = each.state.length or None
    messages = MessageRange(each.state.length, 1 if last else None, last)
    metadata = read_settings(each.state.settings).metadata
    return OwnerConversation(each.id, each.state.version, timestamp(each.state.updated_ms), messages, metadata)


class Member:
    """One conversation in an owner's feed."""

    whole = False

    def __init__(self, owner_feed: "OwnerFeed", target: Target, state: State) -> None:
        self.target = target
        self.feed: Feed | None = None
        self._owner_feed = owner_feed
        self._version = state.version

    def take(self, event: Event) -> bool:
        """Pass an event on."""
        if event.type not in ("reset", "erased") and event.version <= self._version:
            return False
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
        state_of: Callable[[Target], Awaitable[State]],
        sent: Callable[[Event, int, int], None],
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
        self._members: dict[str, Member] = {}
        self._looking = asyncio.Lock()
        self._wake = asyncio.Event()
        self._task = beside_requests(self._run())

    def told(self, what: bytes) -> None:  # noqa: ARG002 - as a conversation's feed
        """Take a wake-up: a conversation was put on the list."""
        self._wake.set()

    async def join(self, reader: OwnerReader, known: str) -> bool:
        """Send the list to a reader, unless it has it, then each event. Raises StoreUnavailable."""
        self.readers.add(reader)
        return reader.begin(await self._look(), known)

    async def _look(self) -> list[ListedConversation]:
        """Read the list, and follow the conversations that are new on it."""
        async with self._looking:
            listed, _ = await self._owners.read(self._tenant, self._owner, limit=FOLLOWED)
            for each in listed:
                if each.id not in self._members:
                    await self._add(each)
            return listed

    async def _add(self, each: ListedConversation) -> None:
        target = target_at(self._tenant, each.id)
        member = Member(self, target, each.state)
        with suppress(NotFound):
            member.feed = await self._followers.feed(target)
            self._members[each.id] = member
            self.take(member, (await self._followers.events.reset(target)).events[0], is_new=True)
            await member.feed.join(member, ReaderPlace(each.state.version, each.state.life))

    def take(self, member: Member, event: Event, *, is_new: bool = False) -> bool:
        """Give an event to all readers. Other settings may be another owner."""
        if event.type in ("settings", "reset") and not is_new:
            self._changed.add(member.target.id)
            self._wake.set()
        number = sum(reader.take(member.target.id, event, is_new) for reader in list(self.readers))
        if number:
            self._sent(event, number, 0)
        return True

    def lose(self, member: Member, why: End) -> None:
        """Follow a conversation no more."""
        if self._members.get(member.target.id) is member:
            del self._members[member.target.id]
            if member.feed is not None:
                self._followers.release(member.feed, member)
            if why == "failed":
                self._wake.set()

    async def _run(self) -> None:
        """Look at the list when a conversation was put on it, and every 15 seconds."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._wake.wait()
            is_told = self._wake.is_set()
            self._wake.clear()
            try:
                for seconds in _SOON_SECONDS if is_told else (0.0,):
                    await asyncio.sleep(seconds)
                    await self._look()
                    await self._dismiss()
                    if self._wake.is_set():
                        break
            except Problem:
                self._wake.set()
                await asyncio.sleep(_SOON_SECONDS[-2])
            except Exception as error:  # noqa: BLE001 - the look goes on
                _log.error("events failed", **describe(error))

    async def _dismiss(self) -> None:
        """Let conversations go that have another owner now."""
        changed, self._changed = self._changed, set()
        for member in [self._members[each] for each in changed if each in self._members]:
            with suppress(NotFound):
                state = await self._state_of(member.target)
                if owner_of(state.settings) != self._owner:
                    told = ConversationEvent(type="left", conversation_id=member.target.id, version=state.version)
                    data = msgspec.json.encode(told)
                    self.take(member, Event("left", state.version, state.life, data, data))
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
