"""Identities of messages, and the short forms in which they are stored.

A ULID is 26 characters for 128 bits, and most ids are ULIDs or UUIDs. They are stored as these bits::

    ULID   16 bytes: 48 bits of milliseconds, 80 bits of chance
    UUID   17 bytes: a zero byte, then its 16
    other  its text

An id that Sash makes begins with its entry's stamp (48 bits of milliseconds, 20 of chance), so the stamp is not
stored again.
"""

import re
from functools import lru_cache
from itertools import product
from typing import Final

import msgspec

CHANCE_BITS: Final = 60
"""Bits of an id of Sash's behind its stamp, which has 68."""
STAMP_CHANCE_BITS: Final = 20
"""Bits of chance behind a stamp's milliseconds, which tell a repeated request from another one of the same moment."""
_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGIT_PAIRS: Final = ["".join(pair) for pair in product(_DIGITS, repeat=2)]
DIGIT_OF_BYTE: Final = _DIGITS.encode() * 8
"""A digit for each value of a byte: random bytes become random digits."""
CHANCE_DIGITS: Final = CHANCE_BITS // 5
_ULID: Final = re.compile(f"[0-7][{_DIGITS}]{{25}}")
_UUID: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PYTHONS_DIGITS: Final = bytes.maketrans(_DIGITS.encode(), b"0123456789abcdefghijklmnopqrstuv")
_ULID_BYTES: Final = 16


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


def ulid_of(value: int, digits: int = 26) -> str:
    """The ULID of 128 bits: 26 characters, which sort as the bits do. Of fewer bits, its last ``digits``, an even number."""
    found = ""
    for shift in range(5 * digits - 10, -1, -10):
        found += _DIGIT_PAIRS[value >> shift & 1023]
    return found


def stamp_digits(stamp: int) -> str:
    """The 14 digits with which an id of this stamp begins. The first eight are the same for a second."""
    pairs = _DIGIT_PAIRS
    return _slow_digits(stamp >> 30) + pairs[stamp >> 20 & 1023] + pairs[stamp >> 10 & 1023] + pairs[stamp & 1023]


@lru_cache(maxsize=64)
def _slow_digits(beginning: int) -> str:
    return ulid_of(beginning, 8)


def short_form(identity: Identity) -> tuple[bytes | str, int | None]:
    """An identity's id in the form in which it is stored, and its stamp where this id does not tell it."""
    name, stamp = identity.id, identity.stamp
    if _ULID.fullmatch(name):
        value = int(name.encode().translate(_PYTHONS_DIGITS), 32)
        return value.to_bytes(_ULID_BYTES), None if value >> CHANCE_BITS == stamp else stamp
    if _UUID.fullmatch(name):
        return b"\0" + bytes.fromhex(name.replace("-", "")), stamp
    return name, stamp


def long_form(short: bytes | str, stamp: int | None) -> tuple[str, int]:
    """The id and the stamp of ``short_form``."""
    if isinstance(short, str):
        return short, stamp or 0
    if len(short) == _ULID_BYTES:
        value = int.from_bytes(short)
        return ulid_of(value), value >> CHANCE_BITS if stamp is None else stamp
    digits = short[1:].hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])), stamp or 0
