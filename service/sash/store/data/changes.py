"""What each version of a conversation changed, for those who follow it.

Most versions add one message, and nothing is written about these: from one version to the next the log is longer by one.
The field ``changes`` of the conversation's hash has a line for every other version, 24 bytes, little-endian::

    kinds 2   how many 2   version 4   length 4   seq 4   added 4   forgot 4

``kinds`` is one or more of ``ChangeKind``. A line is about ``how many`` like versions, one after the other, of which
``version`` is the last, and ``length`` is the log's after that one. ``seq`` is the message that was replaced, redacted or
amended, else 0. Each of them first forgot the newest ``forgot`` messages, and then added ``added``.

A history begins empty, with version 0, or 1 where the conversation was created before its first message. The newest 48 lines
are kept: the oldest of them then has the kind ``FLOOR``, and what came before is not known. Where the lengths do not add up
(an older Sash wrote some version), only what came since is known.
"""

from collections.abc import Callable
from enum import IntFlag
from struct import Struct
from typing import Final

import msgspec

LINE: Final = Struct("<HHIIIII")
"""A line. parts/changes.lua writes it; a test compares them."""
KIND_BITS: Final = 16


class ChangeKind(IntFlag):
    """What a version did, in ``KIND_BITS`` of a line. The scripts write these numbers (parts/versions.lua)."""

    APPENDED = 1
    REPLACED = 2
    REWOUND = 4
    REDACTED = 8
    AMENDED = 16
    SETTINGS = 32
    SUMMARY = 64
    FLOOR = 128
    BRANCHES = 256


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

    def versions(self, after: int) -> range:
        """These versions after another one. Of the texts of one message, only the last is told."""
        first = self.version if self.kinds == ChangeKind.REPLACED else self.first
        return range(max(after + 1, first), self.version + 1)

    def change(self, version: int) -> VersionChange:
        """What one of these versions did."""
        last = self.length - self.added * (self.version - version)
        to_seq = last - self.added if self.forgot else None
        return VersionChange(version, self.kinds & ~ChangeKind.FLOOR, self.seq, last - self.added + 1, last, to_seq)


class Changes(msgspec.Struct, frozen=True):
    """Changes after a version, oldest first."""

    found: list[VersionChange]
    is_all: bool
    """Whether there are no more."""
    length: int
    """The messages that no later change forgot: those up to this seq."""


class _Finding:
    """The first ``limit`` changes after a version."""

    def __init__(self, after: int, length: int, limit: int | None) -> None:
        self.after = after
        self.found: list[VersionChange] = []
        self.is_all = True
        self.length = length
        self._limit = limit

    def add(self, versions: range, change: Callable[[int], VersionChange]) -> None:
        """Add what these versions did, as far as there is room."""
        room = len(versions) if self._limit is None else self._limit - len(self.found)
        self.found += map(change, versions[:room])
        if left := versions[room:]:
            self.is_all = False
            to_seq = change(left[-1]).to_seq  # only a line of one version forgets
            self.length = self.length if to_seq is None else min(self.length, to_seq)


def changes_since(after: int, version: int, length: int, field: bytes, limit: int | None = None) -> Changes | None:
    """Return the first ``limit`` changes after one version, up to ``version``, after which the log has ``length`` messages.

    ``field`` is the conversation's field ``changes``. None where not all changes are known. The time depends on ``limit``,
    and not on how many changes there are.

    >>> [each.first_seq for each in changes_since(1, 3, 3, b"").found]
    [2, 3]
    """
    finding = _Finding(after, length, limit)
    floor = at = at_length = 0
    for kinds, *rest in LINE.iter_unpack(field):
        line = _Line(ChangeKind(kinds), *rest)
        if line.kinds & ChangeKind.FLOOR:
            floor = line.version if line.begun else line.first - 1
        else:
            floor = max(floor, _singles(finding, at, at_length, line.first - 1, line.length_before))
        if not line.begun:
            finding.add(line.versions(after), line.change)
        at, at_length = line.version, line.length
    floor = max(floor, _singles(finding, at, at_length, version, length))
    return Changes(finding.found, finding.is_all, finding.length) if floor <= after <= version else None


def _singles(finding: _Finding, at: int, length: int, version: int, then: int) -> int:
    """Add the versions behind ``at``, up to ``version``, that added one message each.

    Returns the version after which all is known: 0, or ``version`` where the lengths differ by another number. It is 1 where
    the conversation was created empty.
    """
    begun = int(at == 0 and version - then == 1)
    if version - at - begun != then - length:
        return version

    def change(each: int) -> VersionChange:
        seq = length + each - at - begun
        return VersionChange(each, ChangeKind.APPENDED, 0, seq, seq)

    finding.add(range(max(at + begun, finding.after) + 1, version + 1), change)
    return begun
