"""One reader of an owner's events: it pulls the list of conversations, and then takes each new event.

The ids of a stream name all versions that the reader has, as one hash. A reader that comes back with the hash of the present
list has missed nothing; another gets the list again. So does one that is slower than the events.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sash.api.conversation_handlers import timestamp
from sash.api.events.event_steps import Event, EventType, event_text
from sash.api.events.event_stream import EventStream
from sash.api.events.event_texts import ConversationEvent
from sash.api.schemas import MessageRange, Timestamp
from sash.core.law.fixed_parts.conversation_settings import read_settings
from sash.store.data.owners import ListedConversation

_HELD_BYTES: Final = 256 * 1024
"""Bytes of events that are held while the list is read."""


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
    conversations: Annotated[
        list[OwnerConversation] | None, Meta(description="The list, of `listed`: the newest 100.")
    ] = None
    more: Annotated[
        bool,
        Meta(
            description="Of `listed`: whether the owner has older ones, which `GET /conversations?owner=` lists. A change "
            "of one of these is told too, first with its state."
        ),
    ] = False


class Listed(msgspec.Struct, frozen=True):
    """The list as it is sent."""

    type: EventType
    conversations: list[OwnerConversation]
    more: bool


class OwnerReader:
    """A reader with the versions that it has. ``known`` is the id that it came with.

    ``look`` reads the list, and whether there is more; ``sent`` is called with the number of events by their type.
    """

    def __init__(
        self,
        stream: EventStream,
        known: str,
        *,
        look: Callable[[], Awaitable[tuple[list[ListedConversation], bool]]],
        sent: Callable[[Mapping[EventType, int]], None],
    ) -> None:
        self.stream = stream
        self._known = known
        self._look = look
        self._sent = sent
        self._versions: dict[str, tuple[int, str]] = {}
        self._hash = 0
        self._held: list[tuple[str, Event, bool]] | None = None
        self._held_bytes = 0

    async def pull(self) -> None:
        """Put the list, unless the reader has it, and what came meanwhile; then take the live events.

        If too much came meanwhile, the reader stays behind. Raises StoreUnavailable.
        """
        self._held, self._held_bytes = [], 0
        try:
            listed, more = await self._look()
            held, is_whole = self._held, self._held_bytes < _HELD_BYTES
        finally:
            self._held = None
        sent: Counter[EventType] = Counter({"listed": self._list(listed, more=more)})
        if is_whole:
            self.stream.is_behind = False
            for conversation, event, is_new in held:
                sent[event.type] += self.take(conversation, event, is_new)
        self._sent(+sent)

    def _list(self, listed: list[ListedConversation], *, more: bool) -> bool:
        """Put the list, unless the reader has it; returns whether it was put."""
        self._versions, self._hash = {}, 0
        for standing in listed:
            self._note(standing.id, standing.state.version, standing.state.life)
        if self._known == self._name:
            return False
        data = msgspec.json.encode(Listed("listed", [_shown(each) for each in listed], more))
        self._known = self._name
        self.stream.events += 1
        self.stream.put(event_text("listed", self._name, data))
        return True

    def take(self, conversation: str, event: Event, is_new: bool) -> bool:  # noqa: FBT001 - as it is held
        """Send an event, unless the reader has it; returns whether it was sent. A reader that is behind gets the list.

        ``is_new``: it is the state, or the end, of a conversation whose events were not read along.
        """
        if self._held is not None:
            if self._held_bytes < _HELD_BYTES:
                self._held.append((conversation, event, is_new))
                self._held_bytes += len(event.named)
            return False
        if not self.stream.has_room:
            self.stream.is_behind = True
        if self.stream.is_behind:
            return False
        version, life = self._versions.get(conversation, (-1, ""))
        if event.type in ("erased", "left"):
            if version < 0 and not is_new:
                return False
            self._note(conversation, None, "")
        elif event.version <= version and event.life == life and (is_new or event.type != "reset"):
            return False
        else:
            self._note(conversation, event.version, event.life)
        self._known = self._name
        self.stream.events += 1
        self.stream.push(event_text(event.type, self._name, event.named))
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
