"""Events as they are sent: what a version changed, with the messages that it is about as they are now."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from sash.api.events.event_steps import NAMED, Event, EventForm, EventStep, EventText, ReaderPlace
from sash.api.events.event_texts import ConversationEvent, Role, SeenMessages, text_of, with_state
from sash.api.schemas import StoredMessage
from sash.api.shown_messages import stored_message
from sash.core.counts.families import ROLES
from sash.core.law.records import Record
from sash.problems import edited_too_fast
from sash.store.data.changes import ChangeKind, VersionChange, changes_since
from sash.store.data.following import Following
from sash.store.data.layout import Target, unpack_many
from sash.store.data.read_scripts import ChangesReply
from sash.store.data.reading import Reader
from sash.store.data.replies import Page
from sash.store.data.script_calls import HistoryEdited
from sash.windows.seen_pages import callers_of, is_no_more_seen, page_seen_by

_AT_ONCE: Final = 200  # versions, and messages of one page
_ATTEMPTS: Final = 8


class Events:
    """Makes conversations' events."""

    def __init__(self, following: Following, reader: Reader) -> None:
        self._following = following
        self._reader = reader

    async def head(self, target: Target) -> ReaderPlace | None:
        """How far a conversation is; None where there is none."""
        reply = await self._following.changes(target, first_seq=1, limit=0)
        return _place(reply) if reply is not None else None

    async def after(self, target: Target, place: ReaderPlace, forms: AbstractSet[EventForm]) -> EventStep:
        """The events after a place, in these forms and ``NAMED``.

        Raises NotFound, StoreUnavailable and what reading messages raises.
        """
        for _ in range(_ATTEMPTS):
            first, limit = ((place.length or 0) + 1, _AT_ONCE) if place.length is not None else (1, 0)
            reply = await self._following.changes(target, first_seq=first, limit=limit)
            if reply is None or (place.life and reply.life != place.life.encode()):
                return EventStep([_erased(target)], None)
            found = _changes(place, reply)
            if found is None:
                return await self.reset(target, forms)
            shown, changes = dict(_shown(found, reply.length)), found[:_AT_ONCE]
            wanted = {seq for change in changes for seq in shown[change.version]}
            texts_of = {each.seq for each in changes if each.kinds & ChangeKind.REPLACED} & wanted
            seen = await self._seen(target, reply, dict(_named(first, reply)), wanted, texts_of, forms)
            if seen is None:
                continue
            life = reply.life.decode()
            is_set = any(each.kinds & ChangeKind.SETTINGS for each in changes)
            state = await self._reader.get(target) if is_set else None
            events = []
            for change in changes:
                its_state = state if change.kinds & ChangeKind.SETTINGS else None
                texts = {
                    form: text_of(target, change, shown[change.version], seen[form.view], form, its_state)
                    for form in {NAMED, *forms}
                }
                events.append(Event(texts[NAMED].type, change.version, life, texts[NAMED].data, texts))
            is_all = len(changes) == len(found)
            if is_all and events:
                events[-1] = msgspec.structs.replace(events[-1], change=reply.change.decode())
            reached = _place(reply) if is_all else ReaderPlace(changes[-1].version, life)
            return EventStep(events, reached, more=not is_all, updated_ms=int(reply.updated or 0))
        raise edited_too_fast()

    async def reset(self, target: Target, forms: AbstractSet[EventForm]) -> EventStep:
        """The event ``reset``: the present state, for a reader who must read everything again. Raises NotFound."""
        state = await self._reader.get(target)
        told = msgspec.json.encode(ConversationEvent(type="reset", conversation_id=target.id, version=state.version))
        texts = {form: EventText("reset", with_state(told, target, state, form)) for form in {NAMED, *forms}}
        change = state.etag.rpartition(f"{state.life}-")[2]
        place = ReaderPlace(state.version, state.life, state.length, change)
        event = Event("reset", state.version, state.life, texts[NAMED].data, texts, change)
        return EventStep([event], place)

    async def _seen(
        self,
        target: Target,
        reply: ChangesReply,
        named: Mapping[int, tuple[str, Role]],
        wanted: AbstractSet[int],
        whole: AbstractSet[int],
        forms: AbstractSet[EventForm],
    ) -> dict[str | None, SeenMessages] | None:
        """What each view has of the messages ``wanted``, and all have; None where they are others by now.

        The ``whole`` ones are given whole in each form; ``named`` are messages of the reply.
        """
        views = {form.view for form in forms if form.view is not None}
        if views or any(form.whole for form in forms):
            whole = wanted  # what a view has is told by whole messages alone
        pages = await self._pages(target, sorted(whole | (wanted - named.keys())))
        if any(_is_edited(page, reply) for page in pages):
            return None
        every = _messages(target, pages)
        every = SeenMessages({**named, **every.named}, every.entries)
        if not wanted <= every.named.keys() or not whole <= every.entries.keys():
            return None
        found: dict[str | None, SeenMessages] = {None: every}
        try:
            callers = [await callers_of(self._reader, target, page) for page in pages] if views else []
        except HistoryEdited:
            return None
        for view in views:
            found[view] = _seen_by(target, view, zip(pages, callers, strict=True))
            await asyncio.sleep(0)
        return found

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


def _messages(target: Target, pages: Iterable[Page]) -> SeenMessages:
    """All messages of these pages."""
    entries = {each.seq: stored_message(each, page, target) for page in pages for each in page.messages}
    return SeenMessages({seq: (entry.id, _role(entry)) for seq, entry in entries.items()}, entries)


def _seen_by(target: Target, view: str, pages: Iterable[tuple[Page, Mapping[int, Record]]]) -> SeenMessages:
    """What a view has of pages, each of which comes with the calls of its results."""
    kept, left_out = [], set()
    for page, callers in pages:
        kept.append(page_seen_by(view, page, callers))
        seqs = {message.seq for message in kept[-1].messages}
        left_out |= {each.seq for each in page.messages if each.seq not in seqs and is_no_more_seen(each, view)}
    return msgspec.structs.replace(_messages(target, kept), left_out=frozenset(left_out))


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
            yield first + index, (records.details[index].identity.id, ROLES[records.roles[index]])  # type: ignore[misc] # a Literal


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


def _erased(target: Target) -> Event:
    told = ConversationEvent(type="erased", conversation_id=target.id, version=0)
    return Event("erased", 0, "", msgspec.json.encode(told))
