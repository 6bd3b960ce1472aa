"""Events as they are sent: what a version changed, with the messages that it is about as they are now."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, takewhile
from typing import Final, NamedTuple

import msgspec

from sash.api.events.event_steps import NAMED, Event, EventForm, EventStep, EventText, ReaderPlace
from sash.api.events.event_texts import ConversationEvent, Role, SeenMessages, text_of, with_state
from sash.api.schemas import StoredMessage
from sash.api.shown_messages import stored_message
from sash.core.counts.models.families import ROLES
from sash.core.stored.record import Record
from sash.problems import edited_too_fast
from sash.store.data.changes import ChangeKind, Changes, VersionChange, changes_since
from sash.store.data.following import Following
from sash.store.data.layout import Target, unpack_many
from sash.store.data.read_scripts import ChangesReply
from sash.store.data.reading import Reader
from sash.store.data.replies import Message, Page
from sash.store.data.script_calls import HistoryEdited
from sash.windows.seen_pages import callers_of, is_no_more_seen, page_seen_by

_AT_ONCE: Final = 200
"""Versions of one step, and messages of one page."""
_PAGE_BYTES: Final = 32 * 1024
"""Bytes of the messages that one step reads whole, or one version's messages: what a reader far behind is given at once."""
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
        """The events after a place, in these forms and ``NAMED``: those of at most 200 versions, and of few messages if they
        are read whole.

        Raises NotFound, StoreUnavailable and what reading messages raises.
        """
        for _ in range(_ATTEMPTS):
            first, limit = ((place.length or 0) + 1, _AT_ONCE) if place.length is not None else (1, 0)
            reply = await self._following.changes(target, first_seq=first, limit=limit)
            if reply is None or (place.life and reply.life != place.life.encode()):
                return EventStep([_erased(target)], None)
            known = _changes(place, reply)
            if known is None:
                return await self.reset(target, forms)
            told = dict(_told(known))
            seen = await self._seen(target, reply, dict(_named(first, reply)), told, known.found, forms)
            if seen is None:
                continue
            changes = known.found[: seen.known]
            life = reply.life.decode()
            is_set = any(each.kinds & ChangeKind.SETTINGS for each in changes)
            state = await self._reader.get(target) if is_set else None
            events = []
            for change in changes:
                its_state = state if change.kinds & ChangeKind.SETTINGS else None
                texts = {
                    form: text_of(target, change, told[change.version], seen.views[form.view], form, its_state)
                    for form in {NAMED, *forms}
                }
                events.append(Event(texts[NAMED].type, change.version, life, texts[NAMED].data, texts))
            is_all = known.is_all and len(changes) == len(known.found)
            if is_all and events:
                events[-1] = msgspec.structs.replace(events[-1], change=reply.change.decode())
            reached = _place(reply) if is_all else ReaderPlace(changes[-1].version, life, changes[-1].last_seq)
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
        told: Mapping[int, Sequence[int]],
        changes: Sequence[VersionChange],
        forms: AbstractSet[EventForm],
    ) -> "_Seen | None":
        """What each view has of the messages of the first changes; None where they are others by now.

        Of ``told`` each version's messages. ``named`` are messages of the reply.
        """
        views = {form.view for form in forms if form.view is not None}
        is_whole = bool(views) or any(form.whole for form in forms)  # what a view has is told by whole messages alone
        needed = [
            [
                seq
                for seq in told[change.version]
                if is_whole or seq not in named or (change.kinds & ChangeKind.REPLACED and seq == change.seq)
            ]
            for change in changes
        ]
        pages = await self._pages(target, needed)
        if any(_is_edited(page, reply) for page in pages):
            return None
        every = _messages(target, pages)
        whole = list(takewhile(every.entries.keys().__ge__, map(set, needed)))
        if changes and not whole:
            return None
        found: dict[str | None, SeenMessages] = {None: SeenMessages({**named, **every.named}, every.entries)}
        try:
            callers = [await callers_of(self._reader, target, page) for page in pages] if views else []
        except HistoryEdited:
            return None
        for view in views:
            found[view] = _seen_by(target, view, zip(pages, callers, strict=True))
            await asyncio.sleep(0)
        return _Seen(found, len(whole))

    async def _pages(self, target: Target, needed: Sequence[Sequence[int]]) -> list[Page]:
        """Pages that have these messages of changes: of the first change all, and more up to ``_PAGE_BYTES``."""
        seqs = list(dict.fromkeys(chain.from_iterable(needed)))
        least = next((len(each) for each in needed if each), 0)
        pages: list[Page] = []
        count = size_bytes = 0
        for first, last in _stretches(seqs):
            start = first
            while start <= last:
                page = await self._reader.page(target, start, last, limit_bytes=_PAGE_BYTES)
                pages.append(page)
                if not page.messages:
                    break
                start = page.messages[-1].seq + 1
                count += len(page.messages)
                size_bytes += sum(_size(each, page) for each in page.messages)
                if count >= least and size_bytes >= _PAGE_BYTES:
                    return pages
                await asyncio.sleep(0)
        return pages


class _Seen(NamedTuple):
    """Messages by view, and the number of changes of which all messages are there."""

    views: Mapping[str | None, SeenMessages]
    known: int


def _size(message: Message, page: Page) -> int:
    """The bytes of a message with its documents."""
    documents = page.grounding.get(message.seq)
    return len(message.body) + sum(len(text) for _, text in (documents.documents if documents else ()))


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


def _changes(place: ReaderPlace, reply: ChangesReply) -> Changes | None:
    """The changes after a place; None where the store does not know all of them, or went back."""
    version = int(reply.version)
    if place.version > version or (place.version == version and place.change not in ("", reply.change.decode())):
        return None
    return changes_since(place.version, version, reply.length, reply.changes or b"", _AT_ONCE)


def _told(changes: Changes) -> Iterator[tuple[int, list[int]]]:
    """Yield each version with the seqs of its messages that no later version forgot."""
    length = changes.length
    for change in reversed(changes.found):
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
