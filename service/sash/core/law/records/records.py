"""Records as columns: consecutive messages, as a window reads them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from itertools import repeat
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from sash.core.chat.audiences import EVERYBODY, Party
from sash.core.chat.messages import digest
from sash.core.counts.costs.message_cost import LIST_BEGINS, LIST_ENDS
from sash.core.counts.measures.measures import Measure
from sash.core.counts.measures.media_facts import Medium
from sash.core.counts.measures.rows import Row, columns_of, taken
from sash.core.counts.models.families import ASSISTANT, FUNCTION, TOOL, USER
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import Number
from sash.core.law.lazily import lazy
from sash.core.law.records.units import Units, grouped
from sash.core.stored.details import Details, StoredDetails, decode_details
from sash.core.stored.identities import Identity
from sash.core.stored.record import (
    DIGEST_BYTES,
    FLAG_BYTES,
    GROUPED,
    ITS_OWN,
    LAYOUT,
    OF_DETAILS,
    RECORD_BYTES,
    RESULTS,
    UNSENT,
    Flags,
    Record,
    WindowFlags,
    encode_record,
    pack,
)

_DIGESTS: Final = np.dtype([("rest", f"V{RECORD_BYTES - DIGEST_BYTES}"), ("digest", "<u8")])
_REASONING = frozenset({"plain0", "blocks0", "signatures0", "form"})
NO_ROLE: Final = 255
_NO_CONTENT = digest(["assistant", None], DIGEST_BYTES)
"""The digest of all assistant messages without content (writing, calls), which are not duplicates of each other."""


def plain_records(roles: bytes, o200k: Iterable[int], sizes: Iterable[int], digests: Iterable[bytes]) -> "Records":
    """The records of plain texts that are counted in o200k_base alone. ``digests`` may go on behind the last message."""
    none = repeat(0)
    return Records(b"".join(map(LAYOUT.pack, none, roles, none, none, o200k, none, sizes, none, none, digests)))


@cache
def _having(flags: int) -> tuple[int, bytes]:
    """The byte of a record that has these flags, and a table for ``bytes.translate``: 1 where the byte has one of them."""
    byte = (flags.bit_length() - 1) // 8
    wanted = flags >> 8 * byte
    return FLAG_BYTES[byte], bytes(1 if each & wanted else 0 for each in range(256))


_LEGACY, _OUT, _COVERED = (_having(flags)[1] for flags in (Flags.LEGACY_CALL, UNSENT, WindowFlags.COVERED))
_NOBODY = Identity("", 0, bytes(DIGEST_BYTES))
_NOTHING = Details(_NOBODY.digest, "")
_NO_DETAILS = StoredDetails.of([_NOTHING])


class Records(Sequence[Record]):
    """Consecutive messages as columns. ``details`` are the messages' details, or None if no message is rich, nor needs its
    scripts. ``own_tokens`` are their tokens + 1 in the model's own vocabulary (0: not counted), or None."""

    front_records: Sequence[Record] = ()
    """The messages before the tail, if their details are read from here, and not from ``details``."""
    whole: "Records | None" = None
    """The records as they are stored, if some of these are of messages that are sent with less."""
    window_flags = b""
    """The flags that each message has in this window; empty where none has any."""
    costs: Sequence[tuple[Model, Number]] = ()
    """These messages' costs, for each model that was asked for."""
    _units: Units | None = None
    _columns: Mapping[bool, Row] = MappingProxyType({})
    """The numbers of all messages, without or with the mixes."""

    def __init__(
        self,
        packed: bytes,
        details: StoredDetails | None = None,
        own_tokens: Sequence[int] | None = None,
        front: int = 0,
    ) -> None:
        self.packed = packed
        self.front = front
        """The number of messages before those of a tail; other messages are between these and the tail."""
        self.details: StoredDetails = details  # type: ignore[assignment] # code that needs them knows that they were read
        self.own_tokens: Number = None if own_tokens is None else np.asarray(own_tokens, np.int64)
        self.flags = packed[::RECORD_BYTES]
        self.roles = packed[1::RECORD_BYTES]
        self.calls = packed[2::RECORD_BYTES]

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Records":
        """The columns of these records."""
        packed = [pack(record, _NOBODY) for record in records]
        details = StoredDetails.read(b"".join([each for _, each in packed]), len(packed))
        return cls(b"".join([each for each, _ in packed]), details)

    @classmethod
    def lone(cls, records: Sequence[Record]) -> "Records":
        """The columns of these records, with ``own_tokens``, and with details only if one is more than plain text."""
        is_plain = all(each.measure.extra is None and each.lone_text for each in records)
        found = cls.bare(records) if is_plain else cls.of(records)
        return found.counted([each.own_tokens for each in records])

    def counted(self, tokens: Sequence[int | None]) -> "Records":
        """These records with their tokens in the model's own vocabulary, where these are known."""
        if all(each is None for each in tokens):
            return self
        return self._with(self.packed, self.details, [0 if each is None else each + 1 for each in tokens])

    @classmethod
    def bare(cls, records: Iterable[Record]) -> "Records":
        """The columns of these records, without their details."""
        return cls(b"".join(map(encode_record, records)))

    @classmethod
    def texts(cls, records: Iterable[Record]) -> "Records":
        """The columns of these records, which are lone texts."""
        replace = msgspec.structs.replace
        return cls.bare(replace(each, measure=replace(each.measure, extra=None)) for each in records)

    def __len__(self) -> int:
        return len(self.flags)

    def __getitem__(self, index):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204 - as every sequence's
        if isinstance(index, slice):
            return self.taken(index)
        made = self._made[index]
        if made is None:
            made = self._made[index] = self.record(index % len(self.flags))
        return made

    @lazy
    def _made(self) -> list[Record | None]:
        """The records that were asked for, at their places."""
        return [None] * len(self)

    def record(self, index: int, details: Details | None = None) -> Record:
        """A message's record, with its details: these, or those that were read."""
        if details is None and index < len(self.front_records):
            return self.front_records[index]
        at = index * RECORD_BYTES
        low, role, calls, high, o200k, cl100k, size, further, tag, digest = LAYOUT.unpack_from(self.packed, at)
        flags = low | high << 8 | further << 16
        if details is None:
            is_linked = calls or role in RESULTS or flags & (GROUPED | OF_DETAILS)
            details = self.details[index] if flags & Flags.RICH or (is_linked and self.details) else _NOTHING
        return Record(
            flags & ITS_OWN | (int(self.parallel[index]) if flags & Flags.PARALLEL else 0),
            Measure(role, o200k, cl100k, details.measured),
            size,
            calls,
            digest,
            details.grounding,
            int(self.own_tokens[index]) - 1 if self.own_tokens is not None and self.own_tokens[index] else None,
            details.digits,
            details.links,
            details.media,
            details.party,
            tag,
        )

    def taken(self, places: Number | slice) -> "Records":
        """The records at these indexes, with what was read of their details and costs."""
        before = [index for index in np.arange(len(self))[places].tolist() if index < self.front] if self.front else ()
        part = Records(
            np.frombuffer(self.packed, f"V{RECORD_BYTES}")[places].tobytes(),
            self.details and self.details.taken(places),
            self.own_tokens if self.own_tokens is None else self.own_tokens[places],
            len(before),
        )
        part.front_records = [self.front_records[index] for index in before] if self.front_records else ()
        part._columns = {mixes: taken(columns, places) for mixes, columns in self._columns.items()}
        part.whole = self.whole and self.whole.taken(places)
        if self.window_flags:
            part.window_flags = np.frombuffer(self.window_flags, np.uint8)[places].tobytes()
        # A result's cost may depend on its neighbours.
        if self.costs and (part.parallel == self.parallel[places]).all():
            part.costs = [(model, costs[places]) for model, costs in self.costs]
        return part

    def before(self, newer: "Records", *, front: int = 0) -> "Records":
        """These records, followed by the ``newer`` ones; the first ``front`` of all are not of the tail."""
        parts, details = (self, newer), None
        own_tokens: Number = None
        if self.details or newer.details:
            older, later = (part.details or _NO_DETAILS.taken(np.zeros(len(part), np.int64)) for part in parts)
            details = older.before(later)
        if self.own_tokens is not None or newer.own_tokens is not None:
            own_tokens = np.concatenate(
                [np.zeros(len(part)) if part.own_tokens is None else part.own_tokens for part in parts]
            )
        joined = Records(self.packed + newer.packed, details, own_tokens, front)
        if self.window_flags or newer.window_flags:
            joined.window_flags = b"".join(part.window_flags or bytes(len(part)) for part in parts)
        if self.whole or newer.whole:
            joined.whole = (self.whole or self).before(newer.whole or newer, front=front)
        if newer.front_records:
            joined.front_records = [*self, *newer.front_records]
        return joined

    def rows(self) -> Number:
        """The records as rows of bytes, which may be changed."""
        return np.frombuffer(self.packed, np.uint8).reshape(-1, RECORD_BYTES).copy()

    def changed_at(self, places: Iterable[int], flag: int, *, is_set: bool) -> "Records":
        """These records, of which those at ``places`` have this flag, or do not."""
        byte, rows = _having(flag)[0], self.rows()
        bit = flag >> 8 * FLAG_BYTES.index(byte)
        changed = [*places]
        rows[changed, byte] = rows[changed, byte] | bit if is_set else rows[changed, byte] & (255 - bit)
        return self._with(rows.tobytes(), self.details, self.own_tokens)

    def _with(self, packed: bytes, details: StoredDetails | None, own_tokens: Number) -> "Records":
        """These messages with other flags, details and tokens. All else stays: every copy of all messages is made here."""
        found = Records(packed, details, own_tokens, self.front)
        found.front_records, found.whole, found.window_flags = self.front_records, self.whole, self.window_flags
        if details is self.details:
            found._columns = self._columns
        return found

    def _with_less(self, rows: Number, details: StoredDetails | None, own_tokens: Number) -> "Records":
        """These messages, of which some are sent with less."""
        found = self._with(rows.tobytes(), details, own_tokens)
        found.whole = self.whole or self
        return found

    def flagged(self, rows: Number, window_flags: Number) -> "Records":
        """These records with other flags, stored ones and those of the window, and with what was read of their details."""
        found = self._with_less(rows, self.details, self.own_tokens)
        found.window_flags = window_flags.tobytes()
        return found

    def flagged_rows(self, flag: int) -> list[int]:
        """Indexes of the messages that have this flag in this window, ascending."""
        rows: list[int] = np.flatnonzero(self.of_window() & flag).tolist() if self.window_flags else []
        return rows

    def of_window(self) -> Number:
        """The flags that each message has in this window, as an array."""
        return np.frombuffer(self.window_flags or bytes(len(self)), np.uint8)

    def replaced(self, records: Mapping[int, Record]) -> "Records":
        """These records with others in their place, by index."""
        rows, details, replace = self.rows(), {}, msgspec.structs.replace
        own_tokens = self.own_tokens if self.own_tokens is None else self.own_tokens.copy()
        for index, record in records.items():
            packed, facts = pack(record, _NOBODY)
            rows[index], old = np.frombuffer(packed, np.uint8), self.details[index]
            details[index] = replace(
                decode_details(facts), digest=old.digest, id=old.id, stamp=old.stamp, status=old.status
            )
            if own_tokens is not None and record.own_tokens is not None:
                own_tokens[index] = record.own_tokens + 1
        found = self._with_less(rows, self.details and self.details.replaced(details), own_tokens)
        found.front_records = [records.get(index, each) for index, each in enumerate(self.front_records)]
        return found

    def as_plain(self, places: Number, flags: int) -> "Records":
        """These records, in which those at ``places`` are of plain text, and have at most these ``flags``."""
        rows = self.rows()
        rows[places, 0] &= flags
        rows[places, 2:4] = rows[places, 16:18] = 0
        return self._with_less(rows, self.details and self.details.without_rows(places), self.own_tokens)

    def with_flag(self, places: Collection[int], flag: int) -> "Records":
        """These records, of which those at ``places`` have another flag in this window."""
        flags = self.of_window().copy()
        flags[[*places]] |= flag
        found = self._with(self.packed, self.details, self.own_tokens)
        found.window_flags, found.costs = flags.tobytes(), self.costs
        return found

    @lazy
    def media(self) -> Mapping[int, Sequence[Medium]]:
        """What messages enclose beside their text, by index. The details must have been read."""
        return {index: media for index in self.rare if (media := self[index].enclosed)}

    def tokens(self, column: int) -> Number:
        """Tokens of each message's text, in o200k_base (column 0) or cl100k_base (1), as an array."""
        return np.frombuffer(self.packed, "<u4")[1 + column :: RECORD_BYTES // 4].astype(np.int64)

    def counted_texts(self, column: int) -> Sequence[int]:
        """The same without an array: one call of numpy takes longer than the sums of a chat."""
        return memoryview(self.packed).cast("I")[1 + column :: RECORD_BYTES // 4].tolist()

    def sizes(self) -> Number:
        """Bytes of each message's body, as an array."""
        return np.frombuffer(self.packed, "<u4")[3 :: RECORD_BYTES // 4].astype(np.int64)

    def words(self, index: int) -> bytes | None:
        """The digest of what a user or the assistant says, by which repeats are found; None for other messages."""
        if self.roles[index] not in (USER, ASSISTANT) or self.calls[index] or self.flags[index] & Flags.LEGACY_CALL:
            return None
        end = (index + 1) * RECORD_BYTES
        found = self.packed[end - DIGEST_BYTES : end]
        return found if found != _NO_CONTENT else None

    def repeats(self) -> bool:
        """Whether two messages have the same digest: as nearly never, where none repeats another."""
        digests = np.frombuffer(self.packed, _DIGESTS)["digest"].tolist()
        return len(set(digests)) < len(digests)

    def having(self, flags: int) -> bytes:
        """1 for each message that has one of these flags, which are all of the same byte, 0 for the others."""
        byte, table = _having(flags)
        return self.packed[byte::RECORD_BYTES].translate(table)

    def where(self, flags: int) -> Iterator[int]:
        """Indexes of the messages that have one of these flags, ascending."""
        marks = self.having(flags)
        index = marks.find(1)
        while index >= 0:
            yield index
            index = marks.find(1, index + 1)

    def parties(self) -> tuple[Number, Sequence[Party]]:
        """The number of each message's party, as an array, and the parties. The details must have been read.

        The first party is everybody's.
        """
        numbers, named = np.zeros(len(self), np.int64), np.array([*self.where(Flags.NAMED)], np.int64)
        if not len(named):
            return numbers, [EVERYBODY]
        digests = self.details.parties(named)
        _, first, which = np.unique(digests, return_index=True, return_inverse=True)
        numbers[named] = which + 1
        return numbers, [EVERYBODY, *(self.details[index].party for index in named[first].tolist())]

    @lazy
    def rare(self) -> list[int]:
        """Indexes of messages whose tokens do not follow from a row, such as those with images, ascending."""
        return np.flatnonzero(self.details.is_rare).tolist() if self.details else []

    @lazy
    def with_parts(self) -> AbstractSet[int]:
        """Indexes of messages with more than text, such as files: the ``rare`` ones, those with an estimate, and those whose
        text tells parts."""
        more = np.flatnonzero(self.columns["estimated"] + self.columns["told"]) if self.details else ()
        return {*self.rare, *map(int, more)}

    @property
    def columns(self) -> Row:
        """The numbers of all messages; those of ``rare`` ones are not complete. The details must have been read."""
        return self._columns.get(False) or self.columns_for(None)

    def columns_for(self, model: Model | None) -> Row:
        """The numbers of all messages, with the mixes if the model's tokens are estimated."""
        mixes = model is not None and model.ratios is not None
        found = self._columns.get(True) or self._columns.get(mixes)
        if found is None:
            roles = np.frombuffer(self.roles, np.uint8).astype(np.int64)
            rows, texts = self.details.rows, (self.tokens(0), self.tokens(1))
            found = columns_of(rows, roles, texts, mixes=mixes)
            self._columns = {**self._columns, mixes: found}
        return found

    @property
    def thinks(self) -> bool:
        """Whether a message has reasoning, or parts in a provider's own format."""
        extras = (self.details[index].extra for index in self.rare)
        return not _REASONING.isdisjoint(self.columns) or any(
            each and (each.reasoning or each.beside) for each in extras
        )

    @lazy
    def parallel(self) -> Number:
        """PARALLEL, LIST_BEGINS and LIST_ENDS of each message, as an array: 0 if it is not one of several results.

        A late result is in no list.
        """
        if 1 not in self.having(Flags.PARALLEL):
            return np.zeros(len(self), np.int64)
        flags = np.frombuffer(self.flags, np.uint8)
        is_result = np.zeros(len(self) + 2, bool)
        is_result[1:-1] = (np.frombuffer(self.roles, np.uint8) == TOOL) & (flags & Flags.LATE == 0)
        goes_on = is_result[2:] | (self.of_window() & WindowFlags.GOES_ON != 0)
        ends = np.where(is_result[:-2], 0, LIST_BEGINS) + np.where(goes_on, 0, LIST_ENDS)
        if 0 < self.front < len(self):  # other messages are between these two
            ends[self.front - 1] |= LIST_ENDS
            ends[self.front] |= LIST_BEGINS
        parallel = flags & Flags.PARALLEL
        return np.where(parallel, parallel + ends, 0)

    @property
    def leading_results(self) -> int:
        """The number of results that stand before the tail's other messages."""
        roles = self.roles[self.front :]
        return len(roles) - len(roles.lstrip(RESULTS))

    @lazy
    def sent_roles(self) -> bytes:
        """The roles, with NO_ROLE for each message that a client left out of windows."""
        left_out = self.having(Flags.LEFT_OUT)
        if 1 not in left_out:
            return self.roles
        return bytes(NO_ROLE if is_out else role for role, is_out in zip(self.roles, left_out, strict=True))

    @property
    def units(self) -> Units:
        """Units of these messages, which are kept beside them: each alone, if all are texts that may be sent."""
        if self._units is None:
            is_alone = not (
                self.calls.strip(b"\0")
                or TOOL in self.roles
                or FUNCTION in self.roles
                or 1 in self.flags.translate(_LEGACY)
                or 1 in self.packed[3::RECORD_BYTES].translate(_OUT)
                or 1 in self.window_flags.translate(_COVERED)
            )
            starts = range(len(self.flags) + 1)
            self._units = Units(starts, starts, self.front, single=True) if is_alone else grouped(self)
        return self._units

    @property
    def marked(self) -> bool:
        """Whether a result is late, or an assistant's message calls in the form before tool calls."""
        return 1 in self.flags.translate(_LEGACY)

    @lazy
    def unsent(self) -> bytes:
        """1 for each message that no window has: withheld, a compaction, or covered by one. 0 for the others."""
        return bytes(np.frombuffer(self.having(UNSENT), np.uint8) | (self.of_window() & WindowFlags.COVERED != 0))
