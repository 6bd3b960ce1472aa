"""Identities of messages, and the digits of their ids.

A ULID is 26 characters for 128 bits, and most ids are ULIDs or UUIDs. They are stored in a short form, as these bits::

    ULID   16 bytes: 48 bits of milliseconds, 80 bits of chance
    UUID   17 bytes: a zero byte, then its 16
    other  its text

An id that Sash makes begins with its entry's stamp (48 bits of milliseconds, 20 of chance), so the stamp is not
stored again.

``record.pack`` writes the short form, and ``Details`` reads it.
"""

from itertools import product
from typing import Final

import msgspec

CHANCE_BITS: Final = 60
"""Bits of an id of Sash's behind its stamp, which has 68."""
STAMP_CHANCE_BITS: Final = 20
"""Bits of chance behind a stamp's milliseconds, which tell a repeated request from another one of the same moment."""
DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
DIGIT_PAIRS: Final = ["".join(pair) for pair in product(DIGITS, repeat=2)]
"""The two digits of each value of ten bits."""
DIGIT_OF_BYTE: Final = DIGITS.encode() * 8
"""A digit for each value of a byte: random bytes become random digits."""
CHANCE_DIGITS: Final = CHANCE_BITS // 5
ULID_BYTES: Final = 16
"""The size of a ULID's short form."""


class Identity(msgspec.Struct, frozen=True):
    """A message's identity: its id, its stamp (time of creation), and a digest of its entry as it was sent.

    ``status`` is the client's status of a reply: ``in_progress``, ``completed``, ``interrupted``, or None.
    """

    id: str
    stamp: int
    digest: bytes
    status: str | None = None

    @property
    def created_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.stamp >> STAMP_CHANCE_BITS


def ulid_of(value: int) -> str:
    """The ULID of 128 bits: 26 characters, which sort as the bits do."""
    found = ""
    for shift in range(120, -1, -10):
        found += DIGIT_PAIRS[value >> shift & 1023]
    return found
