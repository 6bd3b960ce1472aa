"""Units: messages that a window keeps or leaves out together.

A unit is one message, or a tool group: an assistant message with calls, and the results directly after it. Providers
answer 400 for a call without its results, and for a result without its call.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from sash.core.counts.families import ASSISTANT, FUNCTION, TOOL
from sash.core.law.records import Flags, Records

LONGEST_GROUP = 129
"""Messages of the longest tool group: an assistant message and the results of its 128 calls."""


class Unit(NamedTuple):
    """Records ``start`` to ``end`` (exclusive) of a list; ``whole`` if the unit is complete and may be sent."""

    start: int
    end: int
    whole: bool


class Units(Sequence[Unit]):
    """Units of consecutive records, ascending. ``broken`` are the indexes of units that are not whole.

    ``starts`` are the indexes of the units' first records, and one more: the index after the last record.
    """

    def __init__(self, starts: Sequence[int], broken: AbstractSet[int] = frozenset()) -> None:
        self.starts = starts
        self.broken = broken

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204 - as every sequence's
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        index %= len(self)
        return Unit(self.starts[index], self.starts[index + 1], index not in self.broken)

    @property
    def single(self) -> bool:
        """Whether every unit is one message, so that a unit's index is its message's."""
        return isinstance(self.starts, range)


def group_units(records: Records) -> Units:  # noqa: C901 - one loop, as it goes over every message of a tail
    """Units of consecutive records.

    These units are not whole: results whose call is not among the records, calls with missing results before another
    message, and a message in progress. Calls at the very end still wait for results, and are whole.
    """
    roles, flags, calls = records.roles, records.flags, records.calls
    if TOOL not in roles and records.plain:
        return Units(range(len(roles) + 1))
    starts: list[int] = []
    broken: set[int] = set()
    index, count, in_progress = 0, len(roles), records.in_progress
    while index < count:
        start = index
        role = roles[index]
        index += 1
        if in_progress[start]:
            broken.add(len(starts))
        elif role == ASSISTANT:
            if calls[start]:
                while index < count and roles[index] == TOOL:
                    index += 1
                if index - start <= calls[start] and index < count:
                    broken.add(len(starts))
            elif flags[start] & Flags.LEGACY_CALL and index < count and roles[index] == FUNCTION:
                index += 1
        elif role == TOOL:
            while index < count and roles[index] == TOOL:
                index += 1
            broken.add(len(starts))
        starts.append(start)
    return Units([*starts, count], broken)
