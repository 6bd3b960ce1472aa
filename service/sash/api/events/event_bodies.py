"""Events as they are sent: what a version changed, with the messages that it is about as they are now."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from sash.api.conversation_handlers import conversation_body
from sash.api.events.event_steps import Event, EventStep, EventType, ReaderPlace
from sash.api.schemas import Conversation, StoredMessage
from sash.api.shown_messages import stored_message
from sash.core.counts.families import ROLES
from sash.problems import edited_too_fast
from sash.store.data.changes import ChangeKind, VersionChange, changes_since
from sash.store.data.following import Following
from sash.store.data.layout import Target, unpack_many
from sash.store.data.reading import Reader
from sash.store.data.replies import Page, State
from sash.store.data.scripts import ChangesReply

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
_TYPES: Final[tuple[tuple[ChangeKind, EventType], ...]] = (
    (ChangeKind.REWOUND, "rewound"),
    (ChangeKind.REPLACED, "replaced"),
    (ChangeKind.APPENDED, "appended"),
    (ChangeKind.REDACTED, "redacted"),
    (ChangeKind.AMENDED, "amended"),
    (ChangeKind.SETTINGS, "settings"),
    (ChangeKind.SUMMARY, "summary"),
)
_AT_ONCE: Final = 200  # versions, and messages of one page
_ATTEMPTS: Final = 8


class EventMessage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message that an event is about, as it is when the event is sent."""

    seq: int
    id: str
    role: Role
    entry: Annotated[
        StoredMessage | None,
        Meta(description="The whole entry: with `body=true`, and of a reply whose text was replaced."),
    ] = None


class ConversationEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a version changed: drop the messages after ``to_seq``, if it is given; then put each of ``messages`` at
    its seq."""

    type: Annotated[
        EventType,
        Meta(
            description="The first of these that the version did: `rewound`, `replaced` (a longer text of a reply in "
            "progress, or its end), `appended`, `redacted`, `amended` (metadata or pin), `settings`, `summary`. `reset`: "
            "read all anew, as `conversation` is its state; `erased`: it is gone. Of an owner's also `listed`: these "
            "are all; `left`: it has another owner now."
        ),
    ]
    conversation_id: str
    version: Annotated[int, Meta(description="The conversation's version after it; 0 of one that is erased.")]
    to_seq: Annotated[int | None, Meta(description="The messages after this one were forgotten first.")] = None
    messages: Annotated[
        list[EventMessage] | None,
        Meta(description="Messages that are new or changed; without those that a later version forgot."),
    ] = None
    conversation: Annotated[Conversation | None, Meta(description="The state, of `reset` and `settings`.")] = None


class Events:
    """Makes conversations' events."""

    def __init__(self, following: Following, reader: Reader) -> None:
        self._following = following
        self._reader = reader

    async def head(self, target: Target) -> ReaderPlace | None:
        """How far a conversation is; None where there is none."""
        reply = await self._following.changes(target, first_seq=1, limit=0)
        return _place(reply) if reply is not None else None

    async def after(self, target: Target, place: ReaderPlace, *, whole: bool) -> EventStep:
        """The events after a place. ``whole``: they are needed with whole messages too.

        Raises NotFound, StoreUnavailable and what reading messages raises.
        """
        for _ in range(_ATTEMPTS):
            first, limit = ((place.length or 0) + 1, _AT_ONCE) if place.length is not None else (1, 0)
            reply = await self._following.changes(target, first_seq=first, limit=limit)
            if reply is None or (place.life and reply.life != place.life.encode()):
                return EventStep([_erased(target)], None)
            found = _changes(place, reply)
            if found is None:
                return await self.reset(target)
            shown, changes = dict(_shown(found, reply.length)), found[:_AT_ONCE]
            wanted = {seq for change in changes for seq in shown[change.version]}
            entire = wanted if whole else {each.seq for each in changes if each.kinds & ChangeKind.REPLACED} & wanted
            named = dict(_named(first, reply))
            pages = await self._pages(target, sorted(entire | (wanted - named.keys())))
            if any(_is_edited(page, reply) for page in pages):
                continue  # a message may be another one by now
            entries = {each.seq: stored_message(each, page, target) for page in pages for each in page.messages}
            named |= {seq: (entry.id, _role(entry)) for seq, entry in entries.items()}
            if not wanted <= named.keys() or not entire <= entries.keys():
                continue
            life = reply.life.decode()
            is_set = any(each.kinds & ChangeKind.SETTINGS for each in changes)
            state = await self._reader.get(target) if is_set else None
            texts = [
                _event(
                    target,
                    change,
                    life,
                    [(seq, *named[seq]) for seq in shown[change.version]],
                    entries,
                    state=state if change.kinds & ChangeKind.SETTINGS else None,
                    whole=whole,
                )
                for change in changes
            ]
            is_all = len(changes) == len(found)
            if is_all and texts:
                texts[-1] = msgspec.structs.replace(texts[-1], change=reply.change.decode())
            reached = _place(reply) if is_all else ReaderPlace(changes[-1].version, life)
            return EventStep(texts, reached, more=not is_all, updated_ms=int(reply.updated or 0))
        raise edited_too_fast()

    async def reset(self, target: Target) -> EventStep:
        """The event ``reset``: the present state, for a reader who must read everything again. Raises NotFound."""
        state = await self._reader.get(target)
        told = msgspec.json.encode(ConversationEvent(type="reset", conversation_id=target.id, version=state.version))
        data = _with_state(told, target, state)
        change = state.etag.rpartition(f"{state.life}-")[2]
        place = ReaderPlace(state.version, state.life, state.length, change)
        return EventStep([Event("reset", state.version, state.life, data, data, change)], place)

    async def _pages(self, target: Target, seqs: Sequence[int]) -> list[Page]:
        """Pages that have these messages."""
        pages: list[Page] = []
        for first, last in _stretches(seqs):
            start = first
            while start <= last:
                page = await self._reader.page(target, start, last)
                pages.append(page)
                if not page.messages:
                    break
                start = page.messages[-1].seq + 1
                await asyncio.sleep(0)
        return pages


def _event(
    target: Target,
    change: VersionChange,
    life: str,
    named: Sequence[tuple[int, str, Role]],
    entries: dict[int, StoredMessage],
    *,
    state: State | None,
    whole: bool,
) -> Event:
    kind = next(kind for flag, kind in _TYPES if change.kinds & flag)
    about = change.kinds & ~(ChangeKind.SETTINGS | ChangeKind.SUMMARY)

    def text(seqs: Iterable[int]) -> bytes:
        entire = frozenset(seqs)
        messages = [
            EventMessage(seq=seq, id=identity, role=role, entry=entries[seq] if seq in entire else None)
            for seq, identity, role in named
        ]
        event = ConversationEvent(
            type=kind,
            conversation_id=target.id,
            version=change.version,
            to_seq=change.to_seq,
            messages=messages if about else None,
        )
        told = msgspec.json.encode(event)
        return told if state is None else _with_state(told, target, state)

    short = text([change.seq] if change.kinds & ChangeKind.REPLACED else [])
    return Event(kind, change.version, life, short, text(seq for seq, _, _ in named) if whole else short)


def _changes(place: ReaderPlace, reply: ChangesReply) -> list[VersionChange] | None:
    """The changes after a place; None where the store does not know all of them, or went back."""
    version = int(reply.version)
    if place.version > version or (place.version == version and place.change not in ("", reply.change.decode())):
        return None
    return changes_since(place.version, version, reply.length, reply.changes or b"")


def _shown(changes: Sequence[VersionChange], length: int) -> Iterator[tuple[int, list[int]]]:
    """Yield each version with the seqs of its messages that no later version forgot."""
    for change in reversed(changes):
        seqs = [*([change.seq] if change.seq else []), *range(change.first_seq, change.last_seq + 1)]
        yield change.version, [seq for seq in seqs if seq <= length]
        length = min(length, change.to_seq if change.to_seq is not None else length)


def _named(first: int, reply: ChangesReply) -> Iterator[tuple[int, tuple[str, Role]]]:
    """Yield the seq, id and role of each message of a reply."""
    if reply.details:
        records = unpack_many(reply.records, reply.details)
        for index in range(len(records)):
            yield first + index, (records.identity(index).id, ROLES[records.roles[index]])  # type: ignore[misc] # a Literal


def _role(entry: StoredMessage) -> Role:
    role: Role = msgspec.json.decode(entry.message, type=_Said).role
    return role


class _Said(msgspec.Struct):
    role: Role


def _is_edited(page: Page, reply: ChangesReply) -> bool:
    """Whether the history of a page is not the reply's, apart from messages that were added."""
    standing = (reply.edited or b"").partition(b"~")[0]
    return (page.made[0], page.made[1].partition(b"~")[0]) != (reply.life, standing)


def _stretches(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each row of seqs without a gap, of at most a page."""
    first = last = 0
    for seq in seqs:
        if first and (seq != last + 1 or seq - first >= _AT_ONCE):
            yield first, last
            first = 0
        first, last = first or seq, seq
    if first:
        yield first, last


def _place(reply: ChangesReply) -> ReaderPlace:
    return ReaderPlace(int(reply.version), reply.life.decode(), reply.length, reply.change.decode())


def _with_state(told: bytes, target: Target, state: State) -> bytes:
    """The event with the conversation's state."""
    return told[:-1] + b',"conversation":' + conversation_body(target.id, state) + b"}"


def _erased(target: Target) -> Event:
    told = ConversationEvent(type="erased", conversation_id=target.id, version=0)
    data = msgspec.json.encode(told)
    return Event("erased", 0, "", data, data)
