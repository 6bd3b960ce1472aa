"""A conversation's newest messages, and the reading of older ones as a window needs them."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from sash.core.counts.models.families import TOOL
from sash.core.counts.models.models import Model
from sash.core.law.history.compaction import newest_summary
from sash.core.law.history.view import History
from sash.core.law.limits.lost_media import fillers_of, instead_of
from sash.core.law.records.records import Records
from sash.core.law.render import Bodies
from sash.core.stored.record import Flags, Record
from sash.core.stored.runs import runs
from sash.core.stored.split_media import Pieces, StoredMedium, Text, pieces_of
from sash.core.stored.stored_grounding import StoredGrounding
from sash.processor import PROCESSOR
from sash.store.data.layout import Target
from sash.store.data.media_contents import MediaContents
from sash.store.data.reading import Reader, work_of
from sash.store.data.replies import Tail
from sash.store.data.stored_messages import STEP_BYTES

_SHORT = 2000
"""Plain messages from which a window is built in a few milliseconds; with more, it is built in a thread."""
_RARE = 100
"""What a message whose details are decoded adds to the work, in plain messages: its pictures may be sent as lines."""
LARGE_BYTES = 65_536
"""The largest tool result, or pictures together, that take a few milliseconds; with a larger one, the window is built in a
thread."""
_MANY_BYTES = 2 * 1024 * 1024
"""Bytes of plain messages that are decoded in a few milliseconds."""


NO_LINES: Final[Mapping[int, Sequence[int]]] = MappingProxyType({})
NO_RECORDS: Final[Mapping[int, Record]] = MappingProxyType({})
Room = Callable[[int], Awaitable[None]]
"""Waits until there is memory for so many bytes of an answer."""


async def no_limit(size_bytes: int) -> None:
    """Room for any answer."""


class GrowingTail:
    """The messages that were read of one state of a conversation. A read raises HistoryEdited if the state has changed."""

    def __init__(self, reader: Reader, media: MediaContents, target: Target, tail: Tail, room: Room) -> None:
        self._reader = reader
        self._media = media
        self._room = room
        self.target = target
        self.state = tail.state
        self.first_seq = tail.first_seq
        self.records = tail.records
        self.outside = {message.seq: message for message in tail.outside} if tail.outside else {}
        self._front = tail.front
        self._documents = tail.documents
        self._compaction = tail.compaction
        self.indexed = tail.indexed
        apart = {seq: message.body for seq, message in self.outside.items() if message.body} if tail.outside else {}
        self.bodies = Bodies(tail.bodies_seq, tail.bodies, apart)
        """The bodies that were read so far."""
        self.own_tokens: Sequence[int] = ()
        """The records' tokens in the model's own vocabulary, as ``Records.own_tokens`` has them."""
        self._filled: set[int] = set()
        self._bare: dict[int, bytes] = {}
        """Bodies as they were read, of which only some pictures and files were put into their places."""
        self._lost: set[bytes] = set()
        self.lost: dict[int, Sequence[int]] = {}
        """The numbers of media that turned out to be lost, by the seq of their message."""
        self.filled_bytes = 0
        """Bytes of the bodies that have their pictures and files in their places."""

    @property
    def work(self) -> int:
        """The work of its window, in messages of a plain chat that a window is chosen from."""
        detailed = self.records.having(Flags.RICH | Flags.MIXED).count(1) if self.records.details else 0
        rare = len(self.records.rare) if detailed else 0
        return work_of(len(self.records.flags), detailed) + _RARE * rare

    @property
    def is_short(self) -> bool:
        """Whether its window takes a few milliseconds at most, and so is built without a thread."""
        records = self.records
        if not records.details and TOOL not in records.roles:
            return len(records.flags) <= _SHORT
        if self.work > _SHORT:
            return False
        return TOOL not in records.roles or max(self.filled_bytes, records.sizes().max()) <= LARGE_BYTES

    @property
    def is_large(self) -> bool:
        """Whether it takes more than a few milliseconds to decode all its messages."""
        return self.filled_bytes > LARGE_BYTES or int(self.records.sizes().sum()) > _MANY_BYTES

    async def read_older(self, first_seq: int) -> None:
        """Read records from ``first_seq`` on, and put them before the tail."""
        older = await self._reader.records(self.target, first_seq, self.first_seq - 1, state=self.state)
        self.records = older.before(self.records)
        self.first_seq = first_seq
        self.outside = {seq: message for seq, message in self.outside.items() if seq < first_seq}
        self._front = self._front[: len(self.outside)]

    def uncounted(self) -> dict[int, Record]:
        """Records of the messages before the tail that have no count in the model's own vocabulary yet."""
        return {seq: each.record for seq, each in self.outside.items() if each.record.own_tokens is None}

    def count(self, records: Mapping[int, Record]) -> None:
        """Replace records of messages before the tail by these, which have counts in the model's vocabulary."""
        replaced = {seq: msgspec.structs.replace(self.outside[seq], record=record) for seq, record in records.items()}
        self.outside |= replaced

    async def read_bodies(self, seqs: Sequence[int], history: History) -> None:
        """Read the bodies of messages in ``history``, except those that were read before. ``seqs`` are ascending."""
        bodies = self.bodies
        index = bisect_left(seqs, self.first_seq)
        oldest = seqs[index] if index < len(seqs) else self.state.length + 1
        if oldest < bodies.first_seq:
            records = self.records[oldest - self.first_seq : bodies.first_seq - self.first_seq]
            if records.sizes().sum() <= STEP_BYTES:
                bodies = Bodies(oldest, [*await self._read([(oldest, records)]), *bodies.tail], bodies.outside)
        missing = [seq for seq in seqs[: bisect_left(seqs, bodies.first_seq)] if seq not in bodies.outside]
        if missing:
            # Read these bodies only: the messages between them may be more than fits in memory.
            found = await self._read([*_stretches(missing, history)])
            apart = {**bodies.outside, **dict(zip(missing, found, strict=True))}
            bodies = Bodies(bodies.first_seq, bodies.tail, apart)
        self.bodies = bodies

    @property
    def has_media(self) -> bool:
        """Whether a message that was read has pictures or files that are stored beside it."""
        return 1 in self.records.having(Flags.MEDIA) or any(each.record.media for each in self.outside.values())

    def media(
        self, seqs: Iterable[int], recalled: Mapping[int, Record] = NO_RECORDS
    ) -> dict[int, tuple[StoredMedium, ...]]:
        """The pictures and files of messages that were read, by seq, where these stand beside the messages."""
        first = self.first_seq
        found = {first + index: self.records.details[index].media for index in self.records.where(Flags.MEDIA)}
        found |= {seq: message.record.media for seq, message in self.outside.items() if message.record.media}
        found |= {seq: record.media for seq, record in recalled.items() if record.media}
        return {seq: found[seq] for seq in seqs if seq in found and seq not in self._filled}

    async def fill(
        self,
        seqs: Iterable[int],
        lined: Mapping[int, Sequence[int]] = NO_LINES,
        recalled: Mapping[int, Record] = NO_RECORDS,
    ) -> None:
        """Put the pictures and files of messages into their bodies, which were read. All are read in one round trip.

        ``recalled`` are messages before the tail that only this window has. In place of those that are ``lined``, by their
        numbers, there is something else, which the lines replace, and so in place of those that are lost.
        """
        media = self.media(seqs, recalled)
        if not media:
            return
        bodies = {seq: self._bare.get(seq) or self.bodies.body(seq) for seq in media}
        instead: dict[int, Mapping[bytes, Text]] = {
            seq: instead_of(bodies[seq], media[seq], lined[seq]) for seq in media.keys() & lined.keys()
        }
        known = {seq: self._lost | instead.get(seq, {}).keys() for seq in media}
        wanted = {each.name: each for seq, found in media.items() for each in found if each.name not in known[seq]}
        size = sum(each.length for each in wanted.values())
        await self._room(size)
        contents = await self._media.read(self.target, wanted.values(), made=self.state.made)
        self._lost |= wanted.keys() - contents.keys()
        whole: dict[int, Pieces] = {}
        for seq, found in media.items():
            if lost := self._lost.intersection(each.name for each in found):
                fillers, self.lost[seq] = fillers_of(bodies[seq], found, lost)
                instead[seq] = {**fillers, **instead.get(seq, {})}
            whole[seq] = pieces_of(bodies[seq], found, {**contents, **instead.get(seq, {})})
        self._bare |= {seq: bodies[seq] for seq in instead}
        tail, outside = [*self.bodies.tail], {**self.bodies.outside}
        for seq, body in whole.items():
            if seq >= self.bodies.first_seq:
                tail[seq - self.bodies.first_seq] = body
            else:
                outside[seq] = body
        self.bodies = Bodies(self.bodies.first_seq, tail, outside)
        self._filled |= whole.keys() - instead.keys()
        self.filled_bytes += size

    async def apart(self, records: Mapping[int, Record]) -> dict[int, bytes]:
        """Read the bodies of single messages, by seq, beside those of the window."""
        found = await self._read([(seq, Records.bare([record])) for seq, record in records.items()])
        return dict(zip(records, found, strict=True))

    async def _read(self, stretches: Sequence[tuple[int, Records]]) -> list[bytes]:
        return await self._reader.bodies(self.target, stretches, state=self.state)

    async def grounding(self, mode: str, view: str | None = None) -> dict[int, StoredGrounding]:
        """Documents that the window may send, by seq: the newest question's, or those of all messages that were read.

        With a ``view`` whose newest question is another one, they are read for it.
        """
        if mode == "none" or not self.state.grounding_messages:
            return {}
        if mode == "latest" and (view is None or self._is_question_of(view)):
            return {self.state.question: self._documents} if self._documents else {}
        grounded = self._grounded() if self.is_short else await PROCESSOR.run(self._grounded)
        return await self._reader.grounding(self.target, grounded, state=self.state)

    def _is_question_of(self, view: str) -> bool:
        """Whether the agent may see the newest user message."""
        seq, before = self.state.question, self.outside.get(self.state.question)
        if seq < self.first_seq:
            return before is None or before.record.party.is_seen(view)
        record: Record = self.records[seq - self.first_seq]
        return record.party.is_seen(view)

    def _grounded(self) -> dict[int, Record]:
        """Records of the messages that have documents."""
        records = {self.first_seq + i: self.records[i] for i in self.records.where(Flags.RICH)}
        records |= {seq: message.record for seq, message in self.outside.items()}
        return {seq: record for seq, record in records.items() if record.grounding is not None}

    def history(self, model: Model, view: str | None) -> History:
        """The tail in the form of the core, for a window of a model in its form, and a view."""
        state, last, summary, column = self.state, self._compaction, self.state.summary, model.column
        if last is not None or view is not None or summary is not None:
            appended = (last.seq, last.record, last.body) if last is not None else None
            summary = newest_summary(summary, appended, model.format, view, model)
        seqs: Sequence[int] = range(self.first_seq, state.length + 1)
        records = (
            Records(self.records.packed, self.records.details, self.own_tokens) if self.own_tokens else self.records
        )
        if self.outside:
            before = [each.record for each in self.outside.values()]
            front = self._front.counted([each.own_tokens for each in before])
            records, seqs = front.before(records, front=len(front)), [*self.outside, *seqs]
            records.front_records = () if front.details else before
        return History(
            first_seq=self.first_seq,
            records=records,
            length=state.length,
            column=column,
            tokens=state.tokens[column],
            grounding_messages=state.grounding_messages,
            grounding_tokens=state.grounding_tokens[column],
            seqs=seqs,
            asked=seqs.index(state.question) if state.question else -1,
            summary=summary,
            lost={**self.lost},
            now=self.records.details[-1].identity.created_ms // 1000
            if self.records.details and len(self.records)
            else 0,
        )


def _stretches(seqs: Sequence[int], history: History) -> Iterator[tuple[int, Records]]:
    """Runs of consecutive ``seqs``: the first seq and the records of each run."""
    for first, last in runs(seqs):
        row = history.seqs.index(first)
        yield first, history.records[row : row + last - first + 1]
