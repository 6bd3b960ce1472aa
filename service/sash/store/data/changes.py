"""What each version of a conversation changed, for those who follow it.

Most versions add one message, and nothing is written about these: from one version to the next the log is longer by one.
The field ``changes`` of the conversation's hash has a line for every other version, 23 bytes, little-endian::

    kinds 1   how many 2   version 4   length 4   seq 4   added 4   forgot 4

``kinds`` is one or more of ``ChangeKind``. A line is about ``how many`` like versions, one after the other, of which
``version`` is the last, and ``length`` is the log's after that one. ``seq`` is the message that was replaced, redacted or
amended, else 0. Each of them first forgot the newest ``forgot`` messages, and then added ``added``.

A history begins empty, with version 0, or 1 where the conversation was created before its first message. The newest 48 lines
are kept: the oldest of them then has the kind ``FLOOR``, and what came before is not known. Where the lengths do not add up
(an older Sash wrote some version), only what came since is known.
"""

from enum import IntFlag
from struct import Struct
from typing import Final

import msgspec

_LINE: Final = Struct("<BHIIIII")


class ChangeKind(IntFlag):
    """What a version did. The scripts write these numbers (parts/versions.lua)."""

    APPENDED = 1
    REPLACED = 2
    REWOUND = 4
    REDACTED = 8
    AMENDED = 16
    SETTINGS = 32
    SUMMARY = 64
    FLOOR = 128


class VersionChange(msgspec.Struct, frozen=True):
    """A version, and what it did. It forgot the messages after ``to_seq``, if that is not None; then it added ``first_seq``
    to ``last_seq``. ``seq`` is the message that it was about, or 0."""

    version: int
    kinds: ChangeKind
    seq: int
    first_seq: int
    last_seq: int
    to_seq: int | None = None


class _Line(msgspec.Struct, frozen=True):
    kinds: ChangeKind
    count: int
    version: int
    length: int
    seq: int
    added: int
    forgot: int

    @property
    def begun(self) -> bool:
        """Whether it is the beginning of a copy, whose earlier versions nobody knows."""
        return self.kinds == ChangeKind.FLOOR

    @property
    def first(self) -> int:
        return self.version - self.count + 1

    @property
    def length_before(self) -> int:
        return self.length - self.added * self.count + self.forgot

    def changes(self, after: int) -> list[VersionChange]:
        """These versions after another one. Of the texts of one message, only the last is told."""
        first = self.version if self.kinds == ChangeKind.REPLACED else self.first
        return [self._change(version) for version in range(max(after + 1, first), self.version + 1)]

    def _change(self, version: int) -> VersionChange:
        last = self.length - self.added * (self.version - version)
        to_seq = last - self.added if self.forgot else None
        return VersionChange(version, self.kinds & ~ChangeKind.FLOOR, self.seq, last - self.added + 1, last, to_seq)


def changes_since(after: int, version: int, length: int, field: bytes) -> list[VersionChange] | None:
    """Return the changes after one version, up to ``version``, after which the log has ``length`` messages.

    ``field`` is the conversation's field ``changes``. None where not all of them are known.

    >>> [each.first_seq for each in changes_since(1, 3, 3, b"")]
    [2, 3]
    """
    lines = [_Line(ChangeKind(kinds), *rest) for kinds, *rest in _LINE.iter_unpack(field)]
    found: list[VersionChange] = []
    floor = at = at_length = 0
    for line in lines:
        if line.kinds & ChangeKind.FLOOR:
            floor = line.version if line.begun else line.first - 1
        else:
            floor = max(floor, _singles(found, at, at_length, after, line.first - 1, line.length_before))
        found += [] if line.begun else line.changes(after)
        at, at_length = line.version, line.length
    floor = max(floor, _singles(found, at, at_length, after, version, length))
    return found if floor <= after <= version else None


def _singles(found: list[VersionChange], at: int, length: int, after: int, version: int, then: int) -> int:
    """Add the versions behind ``at``, up to ``version``, that added one message each, those after a version.

    Returns the version after which all is known: 0, or ``version`` where the lengths differ by another number. It is 1 where
    the conversation was created empty.
    """
    begun = int(at == 0 and version - then == 1)
    if version - at - begun != then - length:
        return version
    for each in range(max(at + begun, after) + 1, version + 1):
        seq = length + each - at - begun
        found.append(VersionChange(each, ChangeKind.APPENDED, 0, seq, seq))
    return begun
