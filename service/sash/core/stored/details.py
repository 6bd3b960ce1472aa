"""Details: a message's facts beside its record. They are stored one behind the other, and rows are read without decoding.

Details are a msgpack array of which the first parts have fixed places (``store/data/layout.py``): a header, 10 bytes of the
digest, then the id, the stamp or none, the row, and what a row cannot have. Plain messages end before the row.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from sash.core.chat.audiences import PARTY_BYTES, Party
from sash.core.counts.measures.measures import Extra
from sash.core.counts.measures.rows import Rows, extra_of
from sash.core.counts.text.numbers import Number
from sash.core.stored.identities import CHANCE_BITS, ULID_BYTES, Identity, ulid_of
from sash.core.stored.split_media import StoredMedium

_ARRAY, _DIGEST, _ID = 0x90, b"\xc4\x08", 11
"""The first bytes of details, and the place of their id."""
_NIL, _BYTES, _MORE_BYTES, _TEXT = 0xC0, 0xC4, 0xC5, 0xD9
_SHORT_TEXTS: Final = range(0xA0, 0xC0)
_IDENTITY_PARTS: Final = 3
_FEW: Final = 64
"""Details that are decoded sooner than found."""
_HEADS: Final = np.array([1 if byte in _SHORT_TEXTS else 2 if byte in (_BYTES, _TEXT) else 0 for byte in range(256)])
"""Bytes before an id's own, by the first of them; 0 for what is no id."""
_STAMPS: Final = np.array([{0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}.get(byte, 1) for byte in range(256)])
"""Bytes of a stamp or none, by the first of them."""
_END: Final = bytes(16)
"""What follows the last details, so that a place that looks like them may be read to its end."""


class Details(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message's facts that are not in its record: its identity, and parts other than plain text that cost tokens.

    ``id`` is in its short form. There is no ``stamp`` where the id tells it (identities.py).
    ``row`` has the numbers of its tokens (counts/measures/rows.py). It is empty for plain text, and where ``extra`` is.
    ``grounding`` are the tokens that all of its documents add, in o200k_base and cl100k_base, and ``digits`` those that
    their numbers add where each digit is a token. ``links`` join it to its calls, or to the call that it answers
    (``Calls.links``). ``media`` are stored beside the log (``split_media.py``). ``parts`` are the kind of each part of a
    message with more than text, and its tokens in o200k_base and cl100k_base; nothing writes them yet. ``author`` and
    ``audience`` are the entry's, and ``party_digest`` is their digest, which stands last, so that many are read without
    decoding. There are at most 15 fields, the most of an array whose head is one byte. The garbage collector does not
    look at details: thousands are read at once, and none is in a cycle.
    """

    digest: bytes
    id: Any  # bytes or str: msgspec decodes no union of them
    stamp: int | None = None
    row: bytes = b""
    extra: Extra | None = None
    grounding: tuple[int, int] | None = None
    status: str | None = None
    digits: int = 0
    links: str = ""
    media: tuple[StoredMedium, ...] = ()
    parts: tuple[tuple[str, int, int], ...] = ()
    author: str | None = None
    audience: tuple[str, ...] = ()
    party_digest: bytes = b""

    @property
    def party(self) -> Party:
        """The agent that it is of, and those that may see it."""
        return Party(self.author, self.audience)

    @property
    def measured(self) -> Extra | None:
        """What the message has beside plain text."""
        return extra_of(self.row) if self.row else self.extra

    @property
    def identity(self) -> Identity:
        """The message's identity."""
        return Identity(*long_form(self.id, self.stamp), self.digest, self.status)


def long_form(short: bytes | str, stamp: int | None) -> tuple[str, int]:
    """The id and the stamp of the short form of an id."""
    if isinstance(short, str):
        return short, stamp or 0
    if len(short) == ULID_BYTES:
        value = int.from_bytes(short)
        return ulid_of(value), value >> CHANCE_BITS if stamp is None else stamp
    digits = short[1:].hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])), stamp or 0


encode_details = msgspec.msgpack.Encoder().encode
decode_details = msgspec.msgpack.Decoder(Details).decode
_decode_all = msgspec.msgpack.Decoder(list[Details]).decode
_divide = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class StoredDetails(msgspec.Struct):
    """Details of messages. ``starts`` and ``ends`` are their places in ``joined``. ``is_rare`` marks
    messages whose tokens do not follow from a row."""

    joined: bytes
    starts: Number
    ends: Number
    rows: Rows
    is_rare: Number

    @classmethod
    def of(cls, details: Sequence[Details]) -> "StoredDetails":
        """These details, as they are stored."""
        return cls.read(b"".join(map(encode_details, details)), len(details))

    @classmethod
    def read(cls, joined: bytes, count: int) -> "StoredDetails":
        """The details of ``count`` messages. Raises msgspec.DecodeError.

        Each begins like an array with a digest and an id. Other bytes may look so too, but not where there are ``count``
        such places.
        """
        if count < _FEW:
            return cls._decoded(joined, count)
        found = np.frombuffer(joined + _END, np.uint8)
        starts = np.flatnonzero((found[1:-1] == _DIGEST[0]) & (found[2:] == _DIGEST[1]))
        starts = starts[(found[starts] & 0xF0 == _ARRAY) & (_HEADS[found[starts + _ID]] > 0)]
        if len(starts) != count:
            return cls._decoded(joined, count)
        parts, at = found[starts] & 0x0F, starts + _ID
        head = found[at]
        at = at + _HEADS[head] + np.where(head < _BYTES, head & 0x1F, found[at + 1])
        at = at + _STAMPS[found[at]]
        has_row, is_long = parts > _IDENTITY_PARTS, found[at] == _MORE_BYTES
        lengths = np.where(is_long, found[at + 1].astype(np.int64) << 8 | found[at + 2], found[at + 1]) * has_row
        begins = at + 2 + is_long
        is_rare = has_row & (parts > _IDENTITY_PARTS + 1) & (found[begins + lengths] != _NIL)
        return cls(joined, starts, np.append(starts[1:], len(joined)), Rows(joined, begins, lengths), is_rare)

    @classmethod
    def _decoded(cls, joined: bytes, count: int) -> "StoredDetails":
        array = _as_array(joined, count)
        each, sizes = _decode_all(array), np.fromiter(map(len, _divide(array)), np.int64, count)
        ends, is_rare = np.cumsum(sizes), np.array([details.extra is not None for details in each], bool)
        return cls(joined, ends - sizes, ends, Rows.of([details.row for details in each]), is_rare)

    def parties(self, indexes: Number) -> Number:
        """The digests of the parties of these messages, as numbers. Each of them must have a party."""
        last = np.ndarray(max(0, len(self.joined) - PARTY_BYTES + 1), f"V{PARTY_BYTES}", self.joined, strides=(1,))
        found: Number = last[self.ends[indexes] - PARTY_BYTES].view("<u8")
        return found

    def taken(self, places: Number | slice) -> "StoredDetails":
        """The details at these places, which are not decoded."""
        rows = self.rows._replace(begins=self.rows.begins[places], lengths=self.rows.lengths[places])
        return StoredDetails(self.joined, self.starts[places], self.ends[places], rows, self.is_rare[places])

    def without_rows(self, places: Number) -> "StoredDetails":
        """The details without the numbers of the messages at these places, which are sent as plain text."""
        lengths = self.rows.lengths.copy()
        lengths[places] = 0
        return msgspec.structs.replace(self, rows=self.rows._replace(lengths=lengths))

    def before(self, newer: "StoredDetails") -> "StoredDetails":
        """These details, followed by the ``newer`` ones."""
        (joined, *mine), (newer_joined, *its), shift = self.rows, newer.rows, len(self.joined)
        begins, lengths = np.append(mine[0], its[0] + len(joined)), np.append(mine[1], its[1])
        return StoredDetails(
            self.joined + newer.joined,
            np.append(self.starts, newer.starts + shift),
            np.append(self.ends, newer.ends + shift),
            Rows(joined + newer_joined, begins, lengths),
            np.append(self.is_rare, newer.is_rare),
        )

    def replaced(self, others: Mapping[int, Details]) -> "StoredDetails":
        """These details with others in their place, by index."""
        places = np.arange(len(self.starts))
        places[[*others]] = len(places) + np.arange(len(others))
        return self.before(StoredDetails.of([*others.values()])).taken(places)

    def __getitem__(self, index: int) -> Details:
        return decode_details(self.joined[self.starts[index] : self.ends[index]])

    def __iter__(self) -> Iterator[Details]:
        each = [self.joined[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]
        return iter(_decode_all(_as_array(b"".join(each), len(each))))


def _as_array(joined: bytes, count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + joined
