"""Change what stands beside a message: its metadata, its pin, and whether windows have it. The message itself stays.

The entry's digest stays too: it tells a retry of the append, which is still a duplicate afterwards.
"""

from collections.abc import AsyncIterator, Callable
from collections.abc import Set as AbstractSet
from typing import Any, Unpack

import msgspec

from sash.core.chat.tool_groups import links_in
from sash.core.counts.models.families import USER
from sash.core.law.records.records import Records
from sash.core.law.records.units import LONGEST_GROUP
from sash.core.stored.record import RECORD_BYTES, Flags, Record
from sash.problems import PreconditionFailed, Unprocessable
from sash.store.data import script_calls, write_scripts
from sash.store.data.beside_entries import packed_beside, read_beside
from sash.store.data.changing import ATTEMPTS, Change, Changing, no_entry, require_version
from sash.store.data.histories import newest_question
from sash.store.data.layout import Target
from sash.store.data.pins import group_at, is_late, pinned_in
from sash.store.data.reading import maker_before
from sash.store.data.replies import Page, State
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.sealing import Kind
from sash.store.data.stored_messages import associated_data
from sash.store.data.write_scripts import Written


class EntryNotes(msgspec.Struct, frozen=True):
    """A message's metadata and pin, as a client sees them, and whether windows may have it."""

    metadata: dict[str, Any] | None
    pinned: bool
    sent: bool


class Amendments(Changing):
    """Changes of metadata and pins, and of which messages windows may have."""

    async def amend(
        self, target: Target, name: int | str, patched: Callable[[EntryNotes], EntryNotes], **change: Unpack[Change]
    ) -> Written:
        """Replace an entry's metadata, pin and ``sent`` by what ``patched`` returns. It is named as in ``Reader.entry``.

        Raises NotFound, PreconditionFailed, Unprocessable, TooManyPinned, and what ``patched`` raises.
        """
        for attempt in range(ATTEMPTS):
            page = await self._reader.entry(target, name)
            if await self._reader.was_done(target, change["token"]):
                return Written(page.version, page.etag)
            if not page.messages or page.life != change["life"]:
                raise no_entry()
            require_version(page, change["if_match"])
            try:
                return await self._amend(target, page, patched, change)
            except (PreconditionFailed, HistoryEdited):
                if change["if_match"] or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _amend(
        self, target: Target, page: Page, patched: Callable[[EntryNotes], EntryNotes], change: Change
    ) -> Written:
        """Amend the page's one entry. Raises PreconditionFailed, HistoryEdited where another write came first."""
        (message,) = page.messages
        if message.record.flags & Flags.IN_PROGRESS:
            raise Unprocessable("A reply in progress is replaced by its next part: send metadata and pinned with that.")
        stored, receipt = read_beside(page.metadata.get(message.seq))
        metadata = msgspec.json.decode(stored) if stored else None
        wanted = patched(EntryNotes(metadata, message.record.pinned, not message.record.is_left_out))
        if message.record.flags & Flags.COMPACTION and not wanted.sent:
            raise Unprocessable.at(
                "#/sent", "A provider's compaction stands for the messages before it: erase it instead"
            )
        beside = packed_beside(wanted.metadata, receipt)
        record = _marked(message.record, wanted, is_noted=bool(beside))
        turned = _Turned()
        if record.pinned != message.record.pinned or wanted.sent == message.record.is_left_out:
            state = await self._reader.get(target)
            if state.etag != page.etag:
                raise script_calls.moved(state.version, state.etag)
            is_turned = wanted.sent == message.record.is_left_out
            sent = wanted.sent if is_turned else None
            turned = await self._turned(target, state, message.seq, record, sent=sent)
        sealer = await self._data_keys.sealer(target.tenant, target.name)
        flags = record.flags & _CHANGED | message.standing[0] & ~_CHANGED
        owner = associated_data(message.standing[:RECORD_BYTES])
        return await self._client.run(
            write_scripts.amend(
                target.keys,
                life=change["life"],
                if_match=page.etag,
                token=change["token"],
                now_ms=change["now_ms"],
                seq=message.seq,
                record=bytes([flags]) + message.standing[1:RECORD_BYTES],
                metadata=sealer.seal(Kind.METADATA, beside, owner),
                most_pinned=write_scripts.MOST_PINNED,
                count=len(turned.pin),
                unpins=len(turned.unpin),
                question=turned.question,
                is_out=0 if wanted.sent else 1,
                pin=sorted(turned.pin),
                unpin=sorted(turned.unpin),
                turned=sorted(turned.turned),
            )
        )

    async def _turned(self, target: Target, state: State, seq: int, record: Record, *, sent: bool | None) -> "_Turned":
        """Return what changes in the tool group of the message at ``seq``, which gets this record, and its late results.

        ``sent``: whether windows have the group from now on; None if that stays. Raises HistoryEdited.
        """
        middle = await self._maker(target, seq, record) if sent is not None and is_late(record) else seq
        first, last = max(1, middle - 2 * LONGEST_GROUP), min(state.length, middle + 2 * LONGEST_GROUP)
        records = await self._reader.stretch(target, first, last, state=state)
        if seq <= last:
            records = _with(records, seq - first, record)
        group = group_at(records, middle - first)
        head, late = records[group.start], {}
        if head.calls and not is_late(head) and not head.flags & Flags.IN_PROGRESS:
            late = {each: found async for each, found in self._late(target, state, first + group.start, head)}
        late |= {seq: record} if seq in late else {}
        turned: set[int] = set()
        if sent is not None:
            links = links_in(head.links)
            own = [place for place in group if not is_late(records[place]) or records[place].links in links]
            turned = {seq, *(first + place for place in own), *late}
            places = [each - first for each in turned if each <= last]
            records = records.changed_at(places, Flags.LEFT_OUT, is_set=not sent)
        always = {first + place for place in pinned_in(records, group, await self._kept(target, records, first, group))}
        others = {first + place for place in group} - always
        for each, found in late.items():
            is_out = found.is_left_out if sent is None else not sent
            is_in = not is_out and (found.pinned or first + group.start in always)
            (always if is_in else others).add(each)
        return _Turned(always, others - always, turned, await self._question(target, state, seq, record, sent=sent))

    async def _maker(self, target: Target, seq: int, record: Record) -> int:
        """The seq of the message that made the call of a late result; the result's own if it is not known."""
        (makers,) = await self._client.commands([("HGET", target.keys.ids, f"\0{record.links}")])
        return maker_before(seq, makers) or seq

    async def _question(
        self, target: Target, state: State, seq: int, record: Record, *, sent: bool | None
    ) -> int | None:
        """The newest question once the message at ``seq`` is ``sent`` or not; None where it stays. Raises HistoryEdited."""
        if sent is None or record.measure.role != USER:
            return None
        if sent:
            return seq if seq > state.question else None
        return await newest_question(self._reader, target, seq - 1, state) if seq == state.question else None

    async def _kept(self, target: Target, records: Records, first: int, group: range) -> set[int]:
        """Return the places of late results in a group whose own call, elsewhere, is in every window."""
        late = [place for place in group if is_late(records[place])]
        found: set[int] = set()
        for place in late:
            (makers, pinned) = await self._client.commands(
                [
                    ("HGET", target.keys.ids, f"\0{records[place].links}"),
                    ("HKEYS", target.keys.pinned),
                ]
            )
            maker = maker_before(first + place, makers)
            if maker and maker - first not in group and str(maker).encode() in pinned:
                found.add(place)
        return found

    async def _late(self, target: Target, state: State, seq: int, head: Record) -> AsyncIterator[tuple[int, Record]]:
        """Yield the late results of the calls that the message at ``seq`` makes: seqs and records.

        The log has no index from calls to results, so the records behind the call are read.
        """
        links = set(links_in(head.links))
        async for start, records in self._reader.steps(target, seq + 1, state.length, state=state):
            for place, record in enumerate(records):
                if record.calls:
                    links -= set(links_in(record.links))  # a later call with this id has the results from here on
                elif is_late(record) and record.links in links:
                    yield start + place, record
            if not links:
                return


class _Turned(msgspec.Struct, frozen=True):
    """What a change of one message changes in others, by seq."""

    pin: AbstractSet[int] = frozenset()
    """Messages that every window has from now on."""
    unpin: AbstractSet[int] = frozenset()
    """Messages that windows may leave out again."""
    turned: AbstractSet[int] = frozenset()
    """Messages whose ``sent`` changes."""
    question: int | None = None
    """The newest question, if it is another one now."""


_CHANGED = Flags.PINNED | Flags.NOTED


def _marked(record: Record, wanted: EntryNotes, *, is_noted: bool) -> Record:
    """Return the record with the flags of a pin and of metadata. A compaction is never pinned, as when it is appended."""
    flags = (Flags.PINNED if wanted.pinned and not record.flags & Flags.COMPACTION else 0) | (
        Flags.NOTED if is_noted else 0
    )
    return msgspec.structs.replace(record, flags=record.flags & ~_CHANGED | flags)


def _with(records: Records, place: int, record: Record) -> Records:
    """Return the records with another one at ``place``; only the flags of a pin and of metadata differ."""
    for flag in (Flags.PINNED, Flags.NOTED):
        records = records.changed_at([place], flag, is_set=bool(record.flags & flag))
    return records
