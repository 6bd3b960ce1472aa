"""Records: the facts about a message that a window needs, stored apart from the body, so that no body is decoded.

A record has 24 bytes for every message, so that a tail of records is read as columns: the cost of a thousand plain
messages takes one addition for each. Facts that few messages have (tool calls, names, images, documents) are in
``Details``, which are read only if a flag says so::

    0  flags   1  role   2  calls   3  more flags   4-7  tokens in o200k_base   8-11  in cl100k_base
    12-15  bytes of the body   16-23  digest of role and content; numbers are little-endian
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import repeat
from struct import Struct
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from sash.core.chat.audiences import EVERYBODY, Party, party_digest
from sash.core.chat.messages import digest
from sash.core.counts.families import ASSISTANT, DEVELOPER, FUNCTION, SYSTEM, TOOL, USER
from sash.core.counts.measures import Extra, Measure
from sash.core.counts.media_facts import IMAGE, Medium
from sash.core.counts.models import Model
from sash.core.counts.numbers import Number
from sash.core.counts.prices import LIST_BEGINS, LIST_ENDS
from sash.core.counts.rows import Row, Rows, columns_of, stored_row, taken
from sash.core.law.apart import GAP, StoredMedium
from sash.core.law.details import Details, StoredDetails, times_in
from sash.core.law.identities import Identity, long_form, short_form, stamp_of
from sash.core.law.reasons import Reason

if TYPE_CHECKING:
    from sash.core.law.units import Units

RECORD_BYTES: Final = 24
DIGEST_BYTES: Final = 8
"""The size of a content's digest, at the end of a record, and of an entry's, in its details."""
_LAYOUT: Final = Struct("<BBBBIII8s")
_LARGEST: Final = 2**32 - 1


class Flags:
    """A record's flags: the lowest eight are its byte 0, the next eight its byte 3.

    PARALLEL: a result of one of several calls. LATE: a result that does not stand directly behind its call and the call's
    other results, or is not its first (``order.py``). RICH: the message's cost depends on its details. MIXED: its details
    have its writing systems, which only estimates need, or its author and audience, which only views need. LIST_BEGINS,
    LIST_ENDS: the first and the last of several results (not stored: the neighbours tell). NAMED: the message has an author
    or an audience. WORDLESS: it is a reply that was interrupted before a word came. MEDIA: it has pictures or files that are
    stored beside it. COVERED: a compaction stands for it, in one window (not stored). COMPACTION: it is a provider's
    compaction, which windows have as their summary. IN_PROGRESS: it is still being written. WITHHELD: in progress or
    wordless, which no window has.
    """

    PINNED: Final = 1
    GROUNDED: Final = 2
    NOTED: Final = 4
    PARALLEL: Final = 8
    REDACTED: Final = 16
    LEGACY_CALL: Final = 32
    LATE: Final = 32  # of a result; the flag above is of the assistant's
    RICH: Final = 64
    MIXED: Final = 128
    NAMED: Final = 1 << 10
    WORDLESS: Final = 1 << 11
    MEDIA: Final = 1 << 12
    COVERED: Final = 1 << 13
    COMPACTION: Final = 1 << 14
    IN_PROGRESS: Final = 1 << 15
    WITHHELD: Final = IN_PROGRESS | WORDLESS


_IN_DETAILS = Flags.RICH | Flags.MIXED
_OF_DETAILS = _IN_DETAILS | Flags.MEDIA | Flags.NAMED
"""Flags that follow from the details."""
_ENDS = LIST_BEGINS | LIST_ENDS
_THOUGHTS = frozenset({"plain0", "blocks0", "signatures0", "form"})
_UNSENT = Flags.WITHHELD | Flags.COMPACTION
_GROUPED = Flags.LEGACY_CALL | _UNSENT
RESULTS: Final = bytes((TOOL, FUNCTION))
"""The roles of results."""
_NO_CONTENT = digest(["assistant", None], DIGEST_BYTES)
"""The digest of all assistant messages without content (refusals, calls), which are not duplicates of each other."""


class Record(msgspec.Struct, frozen=True):
    """One message. ``size`` is the body's bytes in the log, ``calls`` its number of tool calls. ``grounding``, ``digits``,
    ``links``, ``media`` and ``party`` are as in its details, which must have been read."""

    flags: int
    measure: Measure
    size: int
    calls: int
    content_digest: bytes
    grounding: tuple[int, int] | None = None
    said: int | None = None
    """Tokens of its text in the model's own vocabulary, if counted; not stored in the record."""
    digits: int = 0
    links: str = ""
    media: tuple[StoredMedium, ...] = ()
    party: Party = EVERYBODY

    @property
    def makes_calls(self) -> bool:
        """Whether it is an assistant's message with calls, also in the form before tool calls."""
        return self.measure.role == ASSISTANT and (self.calls > 0 or bool(self.flags & Flags.LEGACY_CALL))

    @property
    def whole_size(self) -> int:
        """The body's bytes with its media in their places."""
        return self.size + sum(each.length - GAP for each in self.media)

    @property
    def enclosed(self) -> Sequence[Medium]:
        """What the message encloses: pictures, files and sounds.

        A message that was stored by a version without these facts has pictures of known sides alone.
        """
        extra = self.measure.extra
        if extra is None or extra.media or not extra.images or extra.estimated or extra.beside is not None:
            return extra.media if extra is not None else ()
        size = self.whole_size // len(extra.images)
        return [Medium(IMAGE, "", size, width, height) for width, height, _ in extra.images]

    @property
    def pinned(self) -> bool:
        """Whether the message is in every window."""
        return bool(self.flags & Flags.PINNED)

    @property
    def in_progress(self) -> bool:
        """Whether the message is still being written. No window contains it then."""
        return bool(self.flags & Flags.IN_PROGRESS)

    @property
    def withheld(self) -> bool:
        """Whether no window has the message, because it is still being written, or was interrupted before a word came."""
        return bool(self.flags & Flags.WITHHELD)

    @property
    def compaction(self) -> bool:
        """Whether the message is a provider's compaction. No window has it among its messages."""
        return bool(self.flags & Flags.COMPACTION)

    @property
    def grouped(self) -> bool:
        """Whether the message is not sent alone: it is a call, a result, withheld, or a compaction."""
        return bool(self.calls) or self.measure.role in RESULTS or bool(self.flags & _GROUPED)

    @property
    def parallel(self) -> int:
        """Not 0 if the message answers one of several calls; LIST_BEGINS and LIST_ENDS mark the first and the last."""
        return self.flags & (Flags.PARALLEL | _ENDS)

    @property
    def rich(self) -> bool:
        """Whether its cost, or what is sent, depends on more than role and text."""
        extra = self.measure.extra
        return self.grounding is not None or bool(self.media) or (extra is not None and not extra.is_mix)


def encode_record(record: Record) -> bytes:
    """The record's 24 bytes. Its other facts are in its details."""
    one, is_named = record.measure, record.party != EVERYBODY
    is_mixed = is_named or (one.extra is not None and one.extra.mix is not None)
    flags = record.flags & ~(_OF_DETAILS | _ENDS) | (Flags.RICH if record.rich else 0)
    flags |= (Flags.MIXED if is_mixed else 0) | (Flags.MEDIA if record.media else 0) | (Flags.NAMED if is_named else 0)
    o200k, cl100k = min(one.o200k, _LARGEST), min(one.cl100k, _LARGEST)
    return _LAYOUT.pack(
        flags & 255, one.role, record.calls, flags >> 8, o200k, cl100k, record.size, record.content_digest
    )


def plain_records(roles: bytes, o200k: Iterable[int], sizes: Iterable[int], digests: Iterable[bytes]) -> "Records":
    """The records of plain texts that are counted in o200k_base alone. ``digests`` may go on behind the last message."""
    none = repeat(0)
    return Records(b"".join(map(_LAYOUT.pack, none, roles, none, none, o200k, none, sizes, digests)))


def details_of(record: Record, identity: Identity) -> Details:
    """The details of the record's message."""
    return Details(
        identity.digest,
        *short_form(identity),
        *row_and_extra(record.measure.extra),
        record.grounding,
        identity.status,
        record.digits,
        record.links,
        record.media,
        *record.party,
        party_digest(*record.party),
    )


def row_and_extra(extra: Extra | None) -> tuple[bytes, Extra | None]:
    """A message's facts beside plain text as details have them: as a row, or whole where a row cannot have all."""
    row = stored_row(extra) if extra is not None else None
    return row or b"", None if row else extra


def _places(flags: int) -> bytes:
    """A table for ``bytes.translate``: 1 for a byte of a record with one of these flags, which are all of the same byte."""
    wanted = flags if flags < 1 << 8 else flags >> 8
    return bytes(1 if byte & wanted else 0 for byte in range(256))


_PINNED, _RICH, _LEGACY = _places(Flags.PINNED), _places(Flags.RICH), _places(Flags.LEGACY_CALL)
_OUT, _COVERED = _places(_UNSENT | Flags.COVERED), _places(Flags.COVERED)
_MEDIA, _NAMED = _places(Flags.MEDIA), _places(Flags.NAMED)
_NOTHING = Details(b"", "")
_A_RESULT = bytes((TOOL,))
_DETAILED = _places(_IN_DETAILS)


class Records(Sequence[Record]):
    """Consecutive messages as columns. ``details`` are the messages' details, or empty if no message is rich, nor needs its
    scripts. ``said`` are their tokens + 1 in the model's own vocabulary (0: not counted), or empty.

    ``mended`` are indexes of tool groups that may be sent although results are missing, each with the index of its last
    message and the number of lines in place of results (``order.py``).
    """

    def __init__(
        self,
        packed: bytes,
        details: Sequence[Details] = (),
        said: Sequence[int] = (),
        mended: Mapping[int, tuple[int, int]] = MappingProxyType({}),
    ) -> None:
        self.packed = packed
        self.mended = mended
        self.details = details
        self.said = said
        self.whole: Records | None = None
        """The records as they are stored, if some of these are of messages that are sent with less."""
        self.flags = packed[::RECORD_BYTES]
        self.roles = packed[1::RECORD_BYTES]
        self.calls = packed[2::RECORD_BYTES]
        self.more = packed[3::RECORD_BYTES]
        self._made: list[Record | None] = []
        self._columns: Row | None = None
        self._has_mixes = False
        self.costs: list[tuple[Model, Number]] = []
        """These messages' costs, for each model that was asked for."""
        self.units: Units | None = None
        """These messages' units, once they were asked for."""

    @classmethod
    def of(cls, records: Sequence[Record], times: Sequence[int] = ()) -> "Records":
        """The columns of these records. ``times`` are in milliseconds since 1970."""
        stamps = [stamp_of(time, 0) for time in times] or [0] * len(records)
        nobodies = (Identity("", stamp, b"") for stamp in stamps)
        return cls(b"".join(map(encode_record, records)), list(map(details_of, records, nobodies)))

    @classmethod
    def bare(cls, records: Iterable[Record]) -> "Records":
        """The columns of these records, without their details."""
        return cls(b"".join(map(encode_record, records)))

    def __len__(self) -> int:
        return len(self.flags)

    def __getitem__(self, index):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204 - as every sequence's
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        if not self._made:
            self._made = [None] * len(self)
        made = self._made[index]
        if made is None:
            made = self._made[index] = self._make(index % len(self.flags))
        return made

    def _slice(self, start: int, end: int, step: int) -> "Sequence[Record]":
        if step != 1:
            return [self[i] for i in range(start, end, step)]
        part = Records(
            self.packed[start * RECORD_BYTES : end * RECORD_BYTES], self.details[start:end], self.said[start:end]
        )
        if self.mended:
            groups = ((first, *rest) for first, rest in self.mended.items() if start <= first < end)
            part.mended = {first - start: (last - start, lines) for first, last, lines in groups}
        part._columns, part._has_mixes = self._columns and taken(self._columns, slice(start, end)), self._has_mixes
        part.whole = self.whole and self.whole[start:end]
        if (start == 0 or self.roles[start : start + 1] != _A_RESULT) and self.roles[end : end + 1] != _A_RESULT:
            # It divides no list of results, in which a message's cost depends on its place.
            part._made = self._made[start:end]
            part.costs = [(model, costs[start:end]) for model, costs in self.costs]
            if self.units is not None and start == 0:
                part.units = self.units.until(end)
        return part

    def taken(self, places: Number) -> "Records":
        """The records at these indexes, which are ascending, with what was read of their details and costs."""
        details: Sequence[Details] = ()
        if isinstance(self.details, StoredDetails):
            details = self.details.taken(places)
        elif self.details:
            details = [self.details[index] for index in places.tolist()]
        said = np.array(self.said, np.int64)[places].tolist() if self.said else ()
        part = Records(np.frombuffer(self.packed, f"V{RECORD_BYTES}")[places].tobytes(), details, said)
        part._columns, part._has_mixes = self._columns and taken(self._columns, places), self._has_mixes
        if self.costs and (part.places == self.places[places]).all():
            part.costs = [(model, costs[places]) for model, costs in self.costs]
        return part

    def _make(self, index: int) -> Record:
        low, role, calls, high, o200k, cl100k, size, digest = _LAYOUT.unpack_from(self.packed, index * RECORD_BYTES)
        flags = (low | high << 8) & ~_ENDS
        if flags & Flags.PARALLEL:
            flags |= int(self.places[index])
        is_linked = calls or role in RESULTS or flags & (_GROUPED | _OF_DETAILS)
        details = self.details[index] if flags & Flags.RICH or (is_linked and self.details) else _NOTHING
        measure = Measure(role, o200k, cl100k, details.measured)
        said = self.said[index] - 1 if self.said and self.said[index] else None
        return Record(
            flags & ~_OF_DETAILS,
            measure,
            size,
            calls,
            digest,
            details.grounding,
            said,
            details.digits,
            details.links,
            details.media,
            details.party,
        )

    def before(self, newer: "Records") -> "Records":
        """These records, followed by the ``newer`` ones."""
        packed, details = self.packed + newer.packed, self.details
        if isinstance(details, StoredDetails) and isinstance(newer.details, StoredDetails):
            return Records(packed, details.before(newer.details))
        if not (details or newer.details):
            return Records(packed)
        return Records(packed, [each for part in (self, newer) for each in part.details or [_NOTHING] * len(part)])

    def replaced(self, records: Mapping[int, Record]) -> "Records":
        """These records with others in their place, by index."""
        packed, details, said = bytearray(self.packed), list(self.details), list(self.said)
        for index, record in records.items():
            packed[index * RECORD_BYTES : (index + 1) * RECORD_BYTES] = encode_record(record)
            details[index] = msgspec.structs.replace(details[index], row=b"", extra=record.measure.extra)
            if said and record.said is not None:
                said[index] = record.said + 1
        changed = Records(bytes(packed), details, said, self.mended)
        changed.whole = self.whole or self
        return changed

    @cached_property
    def media(self) -> Mapping[int, Sequence[Medium]]:
        """What messages enclose beside their text, by index. The details must have been read."""
        return {index: media for index in self.rare if (media := self[index].enclosed)}

    def has_text(self, index: int) -> bool:
        """Whether a message has a text, whose cost may depend on its details."""
        if not self.details or index in self.rare:
            extra = self[index].measure.extra
            return extra is None or extra.has_text
        return not isinstance(textless := self.columns["textless"], np.ndarray) or not textless[index]

    def identity(self, index: int) -> Identity:
        """A message's identity. Its details must have been read."""
        details = self.details[index]
        return Identity(*long_form(details.id, details.stamp), details.digest, details.status)

    def tokens(self, column: int) -> Number:
        """Tokens of each message's text, in o200k_base (column 0) or cl100k_base (1), as an array."""
        return self._words[:, 1 + column].astype(np.int64)

    def sizes(self) -> list[int]:
        """Bytes of each message's body."""
        return self._words[:, 3].tolist()  # type: ignore[no-any-return]

    def words(self, index: int) -> bytes | None:
        """The digest of what a user or the assistant says, by which repeats are found; None for other messages."""
        if self.roles[index] not in (USER, ASSISTANT) or self.calls[index] or self.flags[index] & Flags.LEGACY_CALL:
            return None
        end = (index + 1) * RECORD_BYTES
        found = self.packed[end - DIGEST_BYTES : end]
        return found if found != _NO_CONTENT else None

    def repeats(self, start: int) -> bool:
        """Whether two messages from index ``start`` on have the same digest: as nearly never, where none repeats another."""
        digests = np.frombuffer(self.packed, "<u8").reshape(len(self), -1)[max(0, start) :, -1].tolist()
        return len(set(digests)) < len(digests)

    def pinned(self) -> Iterator[int]:
        """Indexes of pinned messages, ascending."""
        return indexes_of(self.flags.translate(_PINNED))

    @property
    def marks_any(self) -> bool:
        """Whether a system, developer or pinned message is among these."""
        return SYSTEM in self.roles or DEVELOPER in self.roles or 1 in self.flags.translate(_PINNED)

    def rich(self) -> Iterator[int]:
        """Indexes of messages whose cost depends on their details, ascending."""
        return indexes_of(self.flags.translate(_RICH))

    @cached_property
    def with_media(self) -> list[int]:
        """Indexes of messages with media that are stored beside the log, ascending."""
        return [*indexes_of(self.more.translate(_MEDIA))]

    @cached_property
    def named(self) -> Number:
        """Indexes of messages with an author or an audience, ascending."""
        return np.flatnonzero(np.frombuffer(self.more.translate(_NAMED), np.uint8))

    def parties(self) -> tuple[Number, Sequence[Party]]:
        """The number of each message's party, as an array, and the parties. The details must have been read.

        The first party is everybody's.
        """
        numbers, named = np.zeros(len(self), np.int64), self.named
        if not len(named):
            return numbers, [EVERYBODY]
        if isinstance(self.details, StoredDetails):
            digests = self.details.parties(named)
        else:
            given = [int.from_bytes(self.details[index].party_digest, "little") for index in named]
            digests = np.array(given, np.uint64)
        _, first, which = np.unique(digests, return_index=True, return_inverse=True)
        numbers[named] = which + 1
        return numbers, [EVERYBODY, *(self.details[index].party for index in named[first].tolist())]

    @cached_property
    def rare(self) -> list[int]:
        """Indexes of messages whose tokens do not follow from a row, such as those with images, ascending."""
        if isinstance(self.details, StoredDetails):
            return np.flatnonzero(self.details.is_rare).tolist()  # type: ignore[no-any-return]
        return [index for index, details in enumerate(self.details) if details.extra is not None]

    @cached_property
    def with_parts(self) -> AbstractSet[int]:
        """Indexes of messages with more than text, such as files: the ``rare`` ones, and those with an estimate."""
        return {*self.rare, *(np.flatnonzero(self.columns["estimated"]).tolist() if self.details else ())}

    @property
    def columns(self) -> Row:
        """The numbers of all messages; those of ``rare`` ones are not complete. The details must have been read."""
        return self.columns_for(None) if self._columns is None else self._columns

    def columns_for(self, model: Model | None) -> Row:
        """The numbers of all messages, with the mixes if the model's tokens are estimated."""
        mixes = model is not None and model.ratios is not None
        if self._columns is not None and self._has_mixes >= mixes:
            return self._columns
        roles = np.frombuffer(self.roles, np.uint8).astype(np.int64)
        given = self.details
        rows = given.rows if isinstance(given, StoredDetails) else Rows.of([details.row for details in given])
        self._columns, self._has_mixes = columns_of(rows, roles, (self.tokens(0), self.tokens(1)), mixes=mixes), mixes
        return self._columns

    @property
    def thinks(self) -> bool:
        """Whether a message has reasoning, or parts in a provider's own format."""
        extras = (self.details[index].extra for index in self.rare)
        return not _THOUGHTS.isdisjoint(self.columns) or any(
            each and (each.reasoning or each.beside) for each in extras
        )

    @cached_property
    def places(self) -> Number:
        """PARALLEL, LIST_BEGINS and LIST_ENDS of each message, as an array: 0 if it is not one of several results.

        A late result is in no list.
        """
        flags = np.frombuffer(self.flags, np.uint8)
        is_result = np.zeros(len(self) + 2, bool)
        is_result[1:-1] = (np.frombuffer(self.roles, np.uint8) == TOOL) & (flags & Flags.LATE == 0)
        ends = np.where(is_result[:-2], 0, LIST_BEGINS) + np.where(is_result[2:], 0, LIST_ENDS)
        for last, lines in self.mended.values():
            if lines:
                ends[last] &= ~LIST_ENDS
        parallel = flags & Flags.PARALLEL
        return np.where(parallel, parallel + ends, 0)

    @property
    def leading_results(self) -> int:
        """The number of results that stand before all other messages."""
        return len(self.roles) - len(self.roles.lstrip(RESULTS))

    @cached_property
    def marked(self) -> bool:
        """Whether a result is late, or an assistant's message calls in the form before tool calls."""
        return 1 in self.flags.translate(_LEGACY)

    @cached_property
    def times(self) -> Number:
        """The messages' times in milliseconds since 1970, as an array: 0 without one. The details must have been read."""
        return np.array(times_in(self.details) if self.details else [0] * len(self), np.int64)

    @property
    def detailed(self) -> int:
        """The number of messages whose cost or estimate depends on their details."""
        return self.flags.translate(_DETAILED).count(1)

    @property
    def plain(self) -> bool:
        """Whether no message has a tool call, and each may be sent."""
        return not (self.calls.strip(b"\0") or 1 in self.flags.translate(_LEGACY) or 1 in self.more.translate(_OUT))

    @cached_property
    def unsent(self) -> bytes:
        """1 for each message that no window has: withheld, a compaction, or covered by one. 0 for the others."""
        return self.more.translate(_OUT)

    @property
    def covered_marks(self) -> bytes:
        """1 for each message that a compaction stands for in this window, 0 for the others."""
        return self.more.translate(_COVERED)

    def why_unsent(self, index: int) -> Reason:
        """Why no window has the message."""
        flags = self.more[index] << 8
        if flags & Flags.COMPACTION:
            return Reason.COMPACTION
        if flags & Flags.WORDLESS:
            return Reason.WORDLESS
        return Reason.IN_PROGRESS if flags & Flags.IN_PROGRESS else Reason.SUMMARY

    def covered(self, places: Collection[int]) -> "Records":
        """These records, of which no window has those at ``places``, because a compaction stands for them."""
        packed = bytearray(self.packed)
        for index in places:
            packed[index * RECORD_BYTES + 3] |= Flags.COVERED >> 8
        found = Records(bytes(packed), self.details, self.said, self.mended)
        found._columns, found._has_mixes, found.costs = self._columns, self._has_mixes, self.costs
        return found

    @property
    def _words(self) -> Number:
        """The records as rows of numbers of four bytes."""
        return np.frombuffer(self.packed, "<u4").reshape(-1, RECORD_BYTES // 4)

    def as_plain(self, places: Number, flags: int) -> "Records":
        """These records, in which those at ``places`` are of plain text, and have at most these ``flags``."""
        packed = np.frombuffer(self.packed, np.uint8).reshape(-1, RECORD_BYTES).copy()
        packed[places, 0] &= flags
        packed[places, 2] = 0
        packed[places, 3] = 0
        if isinstance(self.details, StoredDetails):
            return Records(packed.tobytes(), self.details.without_rows(places), self.said)
        details = list(self.details)
        for index in places.tolist():
            details[index] = msgspec.structs.replace(details[index], row=b"", extra=None)
        return Records(packed.tobytes(), details, self.said)


def indexes_of(marks: bytes) -> Iterator[int]:
    """The indexes at which ``marks`` is 1."""
    index = marks.find(1)
    while index >= 0:
        yield index
        index = marks.find(1, index + 1)


StoredDocument = tuple[str | None, str]
"""A document's id and text. Two are the same where both are."""


class StoredGrounding(msgspec.Struct, array_like=True, frozen=True):
    """A message's documents. ``start`` and ``end`` are the offsets of the content's value in the body.

    ``template`` is the digest of the template and separator of the stored counts. If the conversation's template changes,
    the documents are counted again. ``shorter`` are the shorter levels of each document; empty if none has any.
    """

    template: bytes
    start: int
    end: int
    documents: list[StoredDocument]
    shorter: list[list[str]] = []

    def levels(self, index: int) -> list[str]:
        """The texts of a document, the longest first. One that is not shorter than the text before it is left out."""
        texts = [self.documents[index][1]]
        for text in self.shorter[index] if self.shorter else ():
            if len(text) < len(texts[-1]):
                texts.append(text)
        return texts


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A summary of messages 1 to ``through_seq``.

    ``compaction`` is a provider's compaction as a chat message with a ``native`` member. Windows in the provider's format
    begin with it; other windows have the text.
    """

    text: str
    through_seq: int
    measure: Measure
    compaction: dict[str, Any] | None = None
    compaction_measure: Measure | None = None
    audience: list[str] | None = None
    """The agents that may see every message that it covers; None if all may."""
    seq: int = 0
    """The seq of the message that it is, if it was appended, else 0. Its words, where it has some, then stand for what it
    covers in all formats. It is not stored."""
    replaces: bool = False
    """Whether it was put in place of such a message, and so stands as that did. It is not stored."""
    said: int | None = None
    """The text's tokens in a model's own vocabulary, while a window is made for this model. It is not stored."""

    def for_those(self, names: frozenset[str] | None) -> "Summary":
        """The summary for these agents; None are all."""
        return msgspec.structs.replace(self, audience=None if names is None else sorted(names))

    def is_seen(self, view: str) -> bool:
        """Whether this agent may see every message that it covers."""
        return self.audience is None or view in self.audience

    def sent_as(self, form: str) -> "Summary | None":
        """The summary in this format: with its compaction alone, or its text alone; None if it has neither."""
        if self.compaction is not None and self.compaction["native"]["format"] == form:
            return msgspec.structs.replace(self, measure=self.compaction_measure)
        if not self.text:
            return None
        return self if self.compaction is None else msgspec.structs.replace(self, compaction=None)

    @property
    def stands(self) -> bool:
        """Whether windows have it in place of the messages that it covers, and never these, once it is as it is sent."""
        return bool(self.seq) or self.replaces or self.compaction is not None
