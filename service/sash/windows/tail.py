"""A conversation's newest messages, and the reading of older ones as a window needs them."""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from sash.core.counts.models.families import TOOL
from sash.core.law.history.view import History
from sash.core.law.records.records import Records
from sash.core.law.render import Bodies
from sash.core.stored.record import Flags, Record
from sash.core.stored.runs import runs
from sash.core.stored.split_media import Pieces, StoredMedium, Text
from sash.core.stored.stored_grounding import StoredGrounding
from sash.processor import PROCESSOR
from sash.store.data.layout import Target
from sash.store.data.media_contents import MediaContents
from sash.store.data.reading import Reader
from sash.store.data.replies import Tail
from sash.store.data.stored_messages import STEP_BYTES
from sash.store.data.tails import work_of
from sash.windows.lost_media import filled_with, instead_of

SHORT = 2000
"""Plain messages from which a window is built in a few milliseconds; with more, it is built in a thread."""
_RARE = 100
"""What a message whose details are decoded adds to the work, in plain messages: its pictures may be sent as lines."""
LARGE_BYTES = 65_536
"""The largest tool result, or pictures together, that take a few milliseconds; with a larger one, the window is built in a
thread."""
_MANY_BYTES = 2 * 1024 * 1024
"""Bytes of plain messages that are decoded in a few milliseconds."""


NO_LINES: Final[Mapping[int, Sequence[int]]] = MappingProxyType({})
NO_BODIES: Final[Mapping[int, bytes]] = MappingProxyType({})
NO_RECORDS: Final[Mapping[int, Record]] = MappingProxyType({})
Room = Callable[[int], Awaitable[None]]
"""Waits until there is memory for so many bytes of an answer."""


async def no_limit(size_bytes: int) -> None:
    """Room for any answer."""


class GrowingTail(msgspec.Struct, eq=False):
    """The messages that were read of one state of a conversation. A read raises HistoryEdited if the state has changed."""

    _reader: Reader
    _media: MediaContents
    target: Target
    _room: Room
    tail: Tail
    """Records of what was read so far."""
    bodies: Bodies
    """The bodies that were read so far."""
    own_tokens: Sequence[int] = ()
    """The records' tokens in the model's own vocabulary, as ``Records.own_tokens`` has them."""
    _filled: frozenset[int] = frozenset()
    _bare: Mapping[int, bytes] = NO_BODIES
    """Bodies as they were read, of which only some pictures and files were put into their places."""
    _lost: frozenset[bytes] = frozenset()
    lost: Mapping[int, Sequence[int]] = NO_LINES
    """The numbers of media that turned out to be lost, by the seq of their message."""
    filled_bytes: int = 0
    """Bytes of the bodies that have their pictures and files in their places."""

    @property
    def records(self) -> Records:
        """The records of all messages that were read, those before the tail first, as they were counted."""
        records, tail = self.tail.records, self.tail
        if self.own_tokens:
            records = Records(records.packed, records.details, self.own_tokens)
        if tail.outside:
            before = [each.record for each in tail.outside]
            front = tail.front.counted([each.own_tokens for each in before])
            records = front.before(records, front=len(front))
            records.front_records = () if front.details else before
        return records

    @property
    def work(self) -> int:
        """The work of its window, in messages of a plain chat that a window is chosen from."""
        records = self.tail.records
        detailed = records.having(Flags.RICH | Flags.MIXED).count(1) if records.details else 0
        return work_of(len(records.flags), detailed) + (_RARE * len(records.rare) if detailed else 0)

    @property
    def is_short(self) -> bool:
        """Whether its window takes a few milliseconds at most, and so is built without a thread."""
        records = self.tail.records
        if self.work > SHORT:
            return False
        return TOOL not in records.roles or max(self.filled_bytes, records.sizes().max()) <= LARGE_BYTES

    @property
    def is_large(self) -> bool:
        """Whether it takes more than a few milliseconds to decode all its messages."""
        return self.filled_bytes > LARGE_BYTES or int(self.tail.records.sizes().sum()) > _MANY_BYTES

    async def read_older(self, first_seq: int) -> None:
        """Read records from ``first_seq`` on, and put them before the tail."""
        tail = self.tail
        older = await self._reader.records(self.target, first_seq, tail.first_seq - 1, state=tail.state)
        outside = tuple(message for message in tail.outside if message.seq < first_seq)
        records, front = older.before(tail.records), tail.front[: len(outside)]
        self.tail = msgspec.structs.replace(tail, first_seq=first_seq, records=records, outside=outside, front=front)

    def uncounted(self) -> dict[int, Record]:
        """Records of the messages before the tail that have no count in the model's own vocabulary yet."""
        return {each.seq: each.record for each in self.tail.outside if each.record.own_tokens is None}

    def count(self, records: Mapping[int, Record]) -> None:
        """Replace records of messages before the tail by these, which have counts in the model's vocabulary."""
        replace = msgspec.structs.replace
        outside = tuple(
            replace(each, record=records[each.seq]) if each.seq in records else each for each in self.tail.outside
        )
        self.tail = replace(self.tail, outside=outside)

    async def read_bodies(self, seqs: Sequence[int], history: History) -> None:
        """Read the bodies of messages in ``history``, except those that were read before. ``seqs`` are ascending."""
        bodies, first = self.bodies, self.tail.first_seq
        index = bisect_left(seqs, first)
        oldest = seqs[index] if index < len(seqs) else self.tail.state.length + 1
        if oldest < bodies.first_seq:
            records = self.tail.records[oldest - first : bodies.first_seq - first]
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
        return 1 in self.tail.records.having(Flags.MEDIA) or any(each.record.media for each in self.tail.outside)

    def media(
        self, seqs: Iterable[int], recalled: Mapping[int, Record] = NO_RECORDS
    ) -> dict[int, tuple[StoredMedium, ...]]:
        """The pictures and files of messages that were read, by seq, where these stand beside the messages."""
        first, records = self.tail.first_seq, self.tail.records
        found = {first + index: records.details[index].media for index in records.where(Flags.MEDIA)}
        found |= {each.seq: each.record.media for each in self.tail.outside if each.record.media}
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
        contents = await self._media.read(self.target, wanted.values(), made=self.tail.state.made)
        self._lost |= wanted.keys() - contents.keys()
        whole: dict[int, Pieces] = {}
        for seq, found in media.items():
            whole[seq], lost = filled_with(bodies[seq], found, {**contents, **instead.get(seq, {})})
            if lost:
                self.lost = {**self.lost, seq: sorted({*self.lost.get(seq, ()), *lost})}
        changed = instead.keys() | (self.lost.keys() & whole.keys())
        self._bare = {**self._bare, **{seq: bodies[seq] for seq in changed}}
        tail, outside = [*self.bodies.tail], {**self.bodies.outside}
        for seq, body in whole.items():
            if seq >= self.bodies.first_seq:
                tail[seq - self.bodies.first_seq] = body
            else:
                outside[seq] = body
        self.bodies = Bodies(self.bodies.first_seq, tail, outside)
        self._filled |= whole.keys() - changed
        self.filled_bytes += size

    async def apart(self, records: Mapping[int, Record]) -> dict[int, bytes]:
        """Read the bodies of single messages, by seq, beside those of the window."""
        found = await self._read([(seq, Records.bare([record])) for seq, record in records.items()])
        return dict(zip(records, found, strict=True))

    async def _read(self, stretches: Sequence[tuple[int, Records]]) -> list[bytes]:
        return await self._reader.bodies(self.target, stretches, state=self.tail.state)

    async def grounding(self, mode: str, view: str | None = None) -> dict[int, StoredGrounding]:
        """Documents that the window may send, by seq: the newest question's, or those of all messages that were read.

        With a ``view`` whose newest question is another one, they are read for it.
        """
        if mode == "none" or not self.tail.state.grounding_messages:
            return {}
        if mode == "latest" and (view is None or self._is_question_of(view)):
            return {self.tail.state.question: self.tail.documents} if self.tail.documents else {}
        grounded = self._grounded() if self.is_short else await PROCESSOR.run(self._grounded)
        return await self._reader.grounding(self.target, grounded, state=self.tail.state)

    def _is_question_of(self, view: str) -> bool:
        """Whether the agent may see the newest user message."""
        tail, seq = self.tail, self.tail.state.question
        if seq < tail.first_seq:
            return all(each.record.party.is_seen(view) for each in tail.outside if each.seq == seq)
        record: Record = tail.records[seq - tail.first_seq]
        return record.party.is_seen(view)

    def _grounded(self) -> dict[int, Record]:
        """Records of the messages that have documents."""
        tail = self.tail
        records = {tail.first_seq + row: tail.records[row] for row in tail.records.where(Flags.RICH)}
        records |= {message.seq: message.record for message in tail.outside}
        return {seq: record for seq, record in records.items() if record.grounding is not None}


def _stretches(seqs: Sequence[int], history: History) -> Iterator[tuple[int, Records]]:
    """Runs of consecutive ``seqs``: the first seq and the records of each run."""
    for first, last in runs(seqs):
        row = history.seqs.index(first)
        yield first, history.records[row : row + last - first + 1]
