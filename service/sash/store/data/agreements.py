"""The chat of a log, as an agreement compares it with the sender's, and the displaced messages that are appended again."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from sash.core.agree.chat_lines import ChatLine, ChatLines
from sash.core.agree.ways import Way, Ways
from sash.core.chat.messages import Entry
from sash.core.counts.models.families import ROLES, TOOL
from sash.core.law.documents.grounding import parse_template
from sash.core.law.records.records import Records
from sash.core.providers.messages.members import NO_NAMES, Names
from sash.core.stored.details import Details
from sash.core.stored.record import Flags
from sash.core.stored.runs import runs
from sash.core.stored.stored_grounding import encode_grounding
from sash.problems import NotFound
from sash.store.data.beside_entries import read_beside
from sash.store.data.branches import BranchesRead, ended
from sash.store.data.conversations import Conversations
from sash.store.data.entries import NewEntry, prepare, stored_entry
from sash.store.data.layout import Target, check_identity, etag_of, unpack_many
from sash.store.data.replies import Message, Page
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.sealing import PLAIN, AnySealer, Kind
from sash.store.data.stored_messages import open_bodies

_NO_TEMPLATE = parse_template()
_NOTHING = ChatLines(list, [], frozenset(), [].__getitem__)
_NOTHING_LONGER: Mapping[int, str] = MappingProxyType({})


class Chat(msgspec.Struct, frozen=True):
    """A part of one state of a log, as it is compared: ``messages`` from ``first_seq`` on, of ``length``.

    Where the conversation does not exist, its version is 0 and its life is empty.
    """

    version: int = 0
    etag: str = "0"
    life: str = ""
    length: int = 0
    first_seq: int = 1
    messages: ChatLines = _NOTHING

    @property
    def is_all(self) -> bool:
        """Whether it has all messages from ``first_seq`` on."""
        return self.first_seq + len(self.messages) > self.length


class Agreements:
    """Reads what agreements compare and append again."""

    def __init__(self, conversations: Conversations) -> None:
        self._reader = conversations.reader
        self._branches = conversations.branches
        self._data_keys = conversations.data_keys
        self._media = conversations.media

    async def chat(self, target: Target, first_seq: int, last_seq: int, view: str | None) -> Chat:
        """Return the messages ``first_seq`` to ``last_seq`` that exist, as an author with this view sees them.

        Negative numbers count from the end. Raises HistoryEdited, ConversationDamaged.
        """
        try:
            reply, bodies = await self._reader.stored_page(target, first_seq, last_seq)
        except NotFound:
            return Chat()
        check_identity(reply.name, target.name)
        tag, pages = etag_of(reply.version, reply.life, reply.change), []
        first = last = reply.first_seq
        wanted = reply.length if last_seq < 0 else min(last_seq, reply.length)
        while True:
            records = unpack_many(reply.records, reply.details)
            opened = await self._opened(target, records, bodies) if len(records) else []
            pages.append(_Read(records, list(records.details or ()), opened))
            last += len(records)
            if last > wanted or not len(records):
                break
            reply, bodies = await self._reader.stored_page(target, last, wanted)
            if etag_of(reply.version, reply.life, reply.change) != tag:
                raise HistoryEdited
        messages = _stored(pages, view)
        return Chat(int(reply.version), tag, (reply.life or b"").decode(), reply.length, first, messages)

    async def _opened(self, target: Target, records: Records, bodies: list[bytes]) -> list[bytes]:
        """The bodies as plain text."""
        if self._data_keys.plain:
            return PLAIN.open_each(Kind.BODY, bodies, ())

        def opened(sealer: AnySealer) -> list[bytes]:
            return open_bodies(sealer, records, bodies)

        return await self._data_keys.reading(target.tenant, target.name, opened)

    async def ways(self, target: Target, chat: Chat, view: str | None) -> tuple[Ways, BranchesRead | None]:
        """Return the branches of a chat, as an author with this view sees them. Raises HistoryEdited, CannotOpen."""
        if not chat.version:
            return Ways(1, ()), None
        read = await self._branches.all(target)
        if read.etag != chat.etag:
            raise HistoryEdited
        pages = await self._branches.pages(target, read, read.branches)
        found = []
        for number, (head, stored) in read.branches.items():
            records = unpack_many(b"".join(each.record for each in stored), [each.details for each in stored])
            bodies = [message.body for message in pages[number].messages]
            lines = _stored([_Read(records, list(records.details or ()), bodies)], view)
            found.append(Way(number, head.parent, head.after_seq, lines))
        return Ways(chat.first_seq, found), read

    async def of_branches(
        self,
        target: Target,
        read: BranchesRead,
        wanted: Mapping[int, int],
        longer: Mapping[int, str] = _NOTHING_LONGER,
        now_ms: int = 0,
        send: Names = NO_NAMES,
    ) -> dict[int, NewEntry]:
        """Return messages of branches as entries to append, by seq. ``wanted`` has the number of each message's branch; the
        other parameters are those of ``again``. Raises HistoryEdited, CannotOpen."""
        entries: dict[int, NewEntry] = {}
        for number, page in (await self._branches.pages(target, read, {*wanted.values()})).items():
            messages = [each for each in page.messages if wanted.get(each.seq) == number]
            its = msgspec.structs.replace(page, messages=messages)
            entries |= await self._entries(target, its, longer, now_ms, send)
        return entries

    async def again(
        self, target: Target, chat: Chat, longer: Mapping[int, str], seqs: Sequence[int], now_ms: int, send: Names
    ) -> dict[int, NewEntry]:
        """Return the messages ``seqs``, which are ascending, as entries to append; those in ``longer`` with that text.

        ``send`` is as in ``prepare``. Raises HistoryEdited.
        """
        entries: dict[int, NewEntry] = {}
        for first, last in runs(seqs):
            start = first
            while start <= last:
                page = await self._reader.page(target, start, last)
                if page.etag != chat.etag or not page.messages:
                    raise HistoryEdited
                entries |= await self._entries(target, page, longer, now_ms, send)
                start = page.messages[-1].seq + 1
        return entries

    async def _entries(
        self, target: Target, page: Page, longer: Mapping[int, str], now_ms: int, send: Names
    ) -> dict[int, NewEntry]:
        entries: dict[int, NewEntry] = {}
        contents = await self._media.read(
            target, (each for message in page.messages for each in message.record.media), made=page.made
        )
        for message in page.messages:
            if message.seq in longer:
                (entry,) = prepare([_longer(message, page, longer[message.seq])], _NO_TEMPLATE, now_ms, send)
                identity = msgspec.structs.replace(entry.identity, stamp=message.identity.stamp)
                entries[message.seq] = msgspec.structs.replace(entry, identity=identity)
                continue
            kept = ended(message)
            documents = page.grounding.get(message.seq)
            entries[message.seq] = stored_entry(
                kept.identity,
                kept.record,
                message.body,
                encode_grounding(documents) if documents is not None else b"",
                page.metadata.get(message.seq, b""),
                contents,
            )
        return entries


class _Read(NamedTuple):
    """A page of a chat."""

    records: Records
    details: list[Details]
    bodies: list[bytes]


def _stored(pages: Sequence[_Read], view: str | None) -> ChatLines:
    """The messages of these pages, as an author with this view sees them."""
    details = [each for page in pages for each in page.details]
    roles, flags = (
        b"".join(parts) for parts in zip(*((each.records.roles, each.records.flags) for each in pages), strict=True)
    )
    bodies = [each for page in pages for each in page.bodies]
    hidden = frozenset(place for place, each in enumerate(details) if view is not None and not each.party.is_seen(view))

    def make(place: int) -> ChatLine:
        return ChatLine(
            body=bodies[place],
            role=ROLES[roles[place]],
            status=details[place].status,
            is_hidden=place in hidden,
            is_redacted=bool(flags[place] & Flags.REDACTED),
            details=details[place],
        )

    odd = {place for place, each in enumerate(details) if each.status is not None}
    odd |= {place for place, each in enumerate(flags) if each & Flags.REDACTED}
    if hidden:
        calls = {call[0] for place in hidden for call in make(place).made_calls}
        results = (place for place, role in enumerate(roles) if role == TOOL)
        hidden |= {place for place in results if make(place).answers in calls}
    return ChatLines(lambda: bodies, [ROLES[each] for each in roles], hidden.union(odd), make)


def _longer(message: Message, page: Page, text: str) -> Entry:
    """The entry of an interrupted reply with its longer text."""
    metadata, receipt = read_beside(page.metadata.get(message.seq))
    stored = {name: value for name, value in msgspec.json.decode(message.body).items() if name != "native"}
    return Entry(
        message={**stored, "content": text},
        id=message.identity.id,
        pinned=message.record.pinned,
        metadata=msgspec.json.decode(metadata) if metadata else None,
        status="interrupted",
        author=message.record.party.author,
        audience=list(message.record.party.audience) or None,
        receipt=receipt,
    )
