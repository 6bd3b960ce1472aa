"""Details: a message's facts beside its record. Where they are stored one behind the other, rows are read without decoding.

Details are a msgpack array of which the first parts have fixed places (``store/data/layout.py``): a header, 10 bytes of the
digest, then the id, the stamp or none, the row, and what a row cannot have. Plain messages end before the row.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from sash.core.chat.audiences import PARTY_BYTES, Party
from sash.core.counts.measures import Extra
from sash.core.counts.numbers import Number
from sash.core.counts.rows import Rows, extra_of
from sash.core.law.apart import StoredMedium
from sash.core.law.identities import CHANCE_BITS, STAMP_CHANCE_BITS

_FEW: Final = 64
"""Details that are decoded sooner than found."""
_ARRAY, _DIGEST = 0x90, b"\xc4\x08"
_SHORT_TEXT, _TEXT, _STAMP, _NIL = 0xA0, 0xD9, 0xCF, 0xC0
_BYTES, _MORE_BYTES = 0xC4, 0xC5
_IDENTITY_PARTS: Final = 3
_END: Final = bytes((0x90,)) + bytes(16)
"""What follows the last details, so that a place that looks like them may be read to its end."""


class Details(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A message's facts that are not in its record: its identity, and parts other than plain text that cost tokens.

    ``id`` is in its short form. There is no ``stamp`` where the id tells it (identities.py).
    ``row`` has the numbers of its tokens (core/counts/rows.py). It is empty for plain text, and where ``extra`` has them.
    ``grounding`` are the tokens that all of its documents add, in o200k_base and cl100k_base, and ``digits`` those that
    their numbers add where each digit is a token. ``links`` join it to its calls, or to the call that it answers
    (``Calls.links``). ``media`` are stored beside the log (``apart.py``). ``author`` and ``audience`` are the entry's, and
    ``party_digest`` is their digest, which stands last, so that many are read without decoding. The garbage collector does
    not look at details: thousands are read at once, and none is in a cycle.
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


encode_details = msgspec.msgpack.Encoder().encode
decode_details = msgspec.msgpack.Decoder(Details).decode
_decode_all = msgspec.msgpack.Decoder(list[Details]).decode


def details_in(joined: bytes, count: int) -> Sequence[Details]:
    """The details of ``count`` messages."""
    found = StoredDetails.found_in(joined, count) if count >= _FEW else None
    return _all_in(joined, count) if found is None else found


def _all_in(joined: bytes, count: int) -> list[Details]:
    return _decode_all(b"\xdd" + count.to_bytes(4, "big") + joined)


def times_in(details: Iterable[Details]) -> list[int]:
    """The messages' times in milliseconds since 1970; 0 for one without a time. A stamp may be the beginning of an id."""
    found = []
    for each in details:
        stamp = each.stamp
        if stamp is None:
            stamp = int.from_bytes(each.id) >> CHANCE_BITS if isinstance(each.id, bytes) else 0
        found.append(stamp >> STAMP_CHANCE_BITS)
    return found


class StoredDetails(Sequence[Details]):
    """Details of messages. ``starts`` and ``ends`` are their places in ``joined``. ``is_rare`` marks
    messages whose tokens do not follow from a row."""

    def __init__(self, joined: bytes, starts: Number, ends: Number, rows: Rows, is_rare: Number) -> None:
        self.joined = joined
        self.starts = starts
        self.ends = ends
        self.rows = rows
        self.is_rare = is_rare

    @classmethod
    def found_in(cls, joined: bytes, count: int) -> "StoredDetails | None":
        """The details of ``count`` messages; None where their places are not certain.

        Each begins like an array with a digest. Other bytes may look so too, but not where there are ``count`` such places.
        """
        found = np.frombuffer(joined + _END, np.uint8)
        at = np.flatnonzero((found[1:-1] == _DIGEST[0]) & (found[2:] == _DIGEST[1]))
        at = at[found[at] & 0xF0 == _ARRAY]
        starts, parts = at, found[at] & 0x0F
        at = at + 1 + len(_DIGEST) + _DIGEST[1]
        is_short = found[at] & 0xE0 == _SHORT_TEXT
        is_id = is_short | (found[at] == _TEXT) | (found[at] == _BYTES)
        at = np.minimum(
            at + np.where(is_short, 1 + (found[at] & 0x1F), 2 + found[at + 1].astype(np.int64)), len(joined)
        )
        is_none, is_alone = found[at] == _NIL, parts < _IDENTITY_PARTS
        likely = is_id & np.where(is_alone, found[at] & 0xF0 == _ARRAY, is_none | (found[at] == _STAMP))
        at = np.minimum(at + np.where(is_none, 1, 9), len(joined))
        starts, parts, at = starts[likely], parts[likely], at[likely]
        if len(starts) != count:
            return None
        has_row, is_long = parts > _IDENTITY_PARTS, found[at] == _MORE_BYTES
        if (has_row & ~is_long & (found[at] != _BYTES)).any():
            return None
        lengths = np.where(is_long, found[at + 1].astype(np.int64) << 8 | found[at + 2], found[at + 1]) * has_row
        begins = at + np.where(is_long, 3, 2)
        is_rare = has_row & (parts > _IDENTITY_PARTS + 1) & (found[begins + lengths] != _NIL)
        return cls(joined, starts, np.append(starts[1:], len(joined)), Rows(joined, begins, lengths), is_rare)

    def stored(self, index: int) -> bytes:
        """The details of one message, as they are stored."""
        return self.joined[self.starts[index] : self.ends[index]]

    def parties(self, indexes: Number) -> Number:
        """The digests of the parties of these messages, as numbers. Each of them must have a party."""
        last = np.ndarray(max(0, len(self.joined) - PARTY_BYTES + 1), f"V{PARTY_BYTES}", self.joined, strides=(1,))
        found: Number = last[self.ends[indexes] - PARTY_BYTES].view("<u8")
        return found

    def taken(self, places: Number | slice) -> "StoredDetails":
        """The details at these places, which are not decoded."""
        rows = Rows(self.joined, self.rows.begins[places], self.rows.lengths[places])
        return StoredDetails(self.joined, self.starts[places], self.ends[places], rows, self.is_rare[places])

    def without_rows(self, places: Number) -> "StoredDetails":
        """The details without the numbers of the messages at these places, which are sent as plain text."""
        lengths = self.rows.lengths.copy()
        lengths[places] = 0
        return StoredDetails(self.joined, self.starts, self.ends, self.rows._replace(lengths=lengths), self.is_rare)

    def before(self, newer: "StoredDetails") -> "StoredDetails":
        """These details, followed by the ``newer`` ones."""
        shift, joined = len(self.joined), self.joined + newer.joined
        begins = np.append(self.rows.begins, newer.rows.begins + shift)
        rows = Rows(joined, begins, np.append(self.rows.lengths, newer.rows.lengths))
        starts, ends = np.append(self.starts, newer.starts + shift), np.append(self.ends, newer.ends + shift)
        return StoredDetails(joined, starts, ends, rows, np.append(self.is_rare, newer.is_rare))

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204 - as every sequence's
        return self.taken(index) if isinstance(index, slice) else decode_details(self.stored(index))

    def __iter__(self) -> Iterator[Details]:
        return iter(_all_in(b"".join(map(self.stored, range(len(self)))), len(self)))
