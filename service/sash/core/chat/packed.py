"""Values of consecutive messages in one piece, so that thousands of them cost little to pass on."""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

SIZE_BYTES: Final = 4


class Packed(msgspec.Struct, frozen=True):
    """The values one after another, and the size of each in bytes as a little-endian number of four bytes."""

    joined: bytes = b""
    sizes: bytes = b""

    @classmethod
    def of(cls, values: Sequence[bytes]) -> "Packed":
        """Return these values in one piece."""
        return cls(b"".join(values), struct.pack(f"<{len(values)}I", *map(len, values)))

    @classmethod
    def concatenated(cls, parts: Iterable["Packed"]) -> "Packed":
        """Return the values of all parts."""
        parts = list(parts)
        return cls(b"".join([part.joined for part in parts]), b"".join([part.sizes for part in parts]))

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.sizes) // SIZE_BYTES

    def part(self, start: int, stop: int) -> "Packed":
        """Return the values from place ``start`` to before place ``stop``; both may be past the end."""
        first, last = SIZE_BYTES * start, SIZE_BYTES * max(start, stop)
        before, after = sum(_numbers(self.sizes[:first])), sum(_numbers(self.sizes[last:]))
        return Packed(self.joined[before : len(self.joined) - after], self.sizes[first:last])


def _numbers(sizes: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(sizes) // SIZE_BYTES}I", sizes)
