"""Units: messages that a window keeps or leaves out together.

A unit is one message, or a tool group: an assistant message with calls, and the results directly after it. Providers
answer 400 for a call without its results, and for a result without its call. A late result does not stand directly behind
its call.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from sash.core.chat.tool_groups import links_in
from sash.core.counts.models.families import ASSISTANT, FUNCTION, TOOL
from sash.core.counts.text.numbers import Number
from sash.core.law.lazily import lazy
from sash.core.stored.record import Flags, WindowFlags
from sash.core.stored.runs import runs

if TYPE_CHECKING:
    from sash.core.law.records.records import Records

_column: Callable[[bytes], Number] = partial(np.frombuffer, dtype=np.uint8)
LONGEST_GROUP = 129
"""Messages of the longest tool group: an assistant message and the results of its 128 calls."""


class Units(msgspec.Struct, frozen=True, dict=True):
    """Units of consecutive records, ascending. ``broken`` are the indexes of units that are not whole, and may not be sent.

    These are not whole: results whose call is not among the records, late results, calls with missing results before another
    message, and messages that no window has. Calls at the very end still wait for results, and are whole. So are those whose
    missing results are mended (``order.py``).

    ``starts`` are the indexes of the units' first records, and one more: the index after the last record; ``edges`` are the
    same as an array, or a range. ``front`` is the number of units before the tail. ``single``: every unit is one message, so
    that a unit's index is its message's. ``lacks_results``: one has fewer results than calls, if only the last.
    """

    starts: Sequence[int]
    edges: Number
    front: int
    broken: frozenset[int] = frozenset()
    single: bool = False
    lacks_results: bool = False

    @lazy
    def begins(self) -> Number:
        """The indexes of the units' first records, as an array."""
        return np.asarray(self.edges)[:-1]

    def members(self, indexes: Sequence[int]) -> Sequence[int]:
        """The indexes of the records of these units, both ascending: a range for a run of units."""
        starts = self.starts
        found = [range(starts[first], starts[last + 1]) for first, last in runs(indexes)]
        return found[0] if len(found) == 1 else [row for each in found for row in each]

    def __len__(self) -> int:
        return len(self.starts) - 1


def callers(records: "Records") -> Number:
    """Which messages make calls, also in the form before tool calls, as an array: those that may be sent."""
    roles, flags, calls, unsent = map(_column, (records.roles, records.flags, records.calls, records.unsent))
    return (roles == ASSISTANT) & (unsent == 0) & ((calls > 0) | (flags & Flags.LEGACY_CALL != 0))


def grouped(records: "Records") -> Units:
    """Units of records of which some call, answer a call, or are not sent."""
    marks = records.roles, records.flags, records.calls, records.having(Flags.LEFT_OUT), records.unsent
    roles, flags, calls, left_out, unsent = map(_column, marks)
    is_caller, is_late = callers(records), flags & Flags.LATE != 0
    asks, is_legacy = is_caller & (calls > 0), is_caller & (calls == 0)
    is_beside = ~is_late & (left_out == 0)  # a result that is not sent is none
    is_result, is_answer = (roles == TOOL) & is_beside, (roles == FUNCTION) & is_beside
    follows = np.zeros(len(roles), bool)
    follows[1:] = is_result[1:] & (is_result | asks)[:-1] | is_answer[1:] & is_legacy[:-1]
    follows[records.front : records.front + 1] = False  # other messages are before the tail
    starts = np.append(np.flatnonzero(np.logical_not(follows)), len(roles))
    first, ends = starts[:-1], starts[1:]
    lacks = asks[first] & (ends - first <= calls[first])
    is_broken = (roles == TOOL) | (roles == FUNCTION) & is_late | (unsent != 0)
    is_broken = is_broken[first] | lacks & (ends < len(roles))
    is_broken &= records.of_window()[first] & WindowFlags.MENDED == 0
    broken, front = frozenset(np.flatnonzero(is_broken).tolist()), int(np.searchsorted(starts, records.front))
    return Units(starts.tolist(), starts, front, broken, lacks_results=True in lacks.tolist())


def unit_at(units: Units, index: int) -> int:
    """The index of the unit that contains a message."""
    return bisect_right(units.starts, index) - 1


def late_in(records: "Records") -> list[int]:
    """The indexes of late results."""
    return [index for index in records.where(Flags.LATE) if records.roles[index] == TOOL]


def heads_of(records: "Records") -> Number:
    """The index of the message that made the call of each result, as an array; the own index of other messages.

    A late result, which does not stand behind its call, is found by its link: the details must have been read. Results whose
    call is not among the records have the index of a result.
    """
    units = records.units
    heads = np.repeat(units.begins, np.diff(units.edges))
    makers: dict[str, int] = {}
    late = late_in(records)
    for index in sorted([*np.flatnonzero(callers(records)).tolist(), *late]) if late else ():
        links = records.details[index].links
        if records.roles[index] == TOOL:
            heads[index] = makers.get(links, index)
        else:
            makers |= dict.fromkeys(links_in(links), index)
    return heads


def late_orphans(records: "Records") -> list[int]:
    """The indexes of the tail's late results whose call is before it."""
    late = [index for index in late_in(records) if index >= records.front]
    heads = heads_of(records) if late else late
    return [index for index in late if heads[index] == index or heads[index] < records.front]
