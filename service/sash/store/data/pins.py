"""Which messages are in every window because one of their tool group is pinned.

A pinned call, or a pinned result behind its call, pins the whole group. A late result (``order.py``) is pinned with its
call, or by itself alone. ``append.lua`` says the same of new messages, one at a time.
"""

from bisect import bisect_right
from collections.abc import Set as AbstractSet

import numpy as np

from sash.core.counts.models.families import ASSISTANT, TOOL
from sash.core.law.records.records import Records
from sash.core.law.records.units import late_in
from sash.core.stored.record import Flags, Record


def is_late(record: Record) -> bool:
    """Whether a message is a result that does not stand directly behind its call."""
    return record.measure.role == TOOL and bool(record.flags & Flags.LATE)


def group_at(records: Records, place: int) -> range:
    """Return the places of the message's tool group, from the first to the last, with late results that are between.

    It is the group also where it is left out of windows.
    """
    records = records.changed_at(range(len(records)), Flags.LEFT_OUT, is_set=False)
    alone = range(place, place + 1)
    if is_late(records[place]):
        return alone
    beside = np.setdiff1d(np.arange(len(records)), late_in(records))
    starts = records.taken(beside).units.starts
    unit = bisect_right(starts, np.searchsorted(beside, place)) - 1
    group = range(beside.item(starts[unit]), beside.item(starts[unit + 1] - 1) + 1)
    return group if records.roles[group.start] == ASSISTANT else alone  # else its call is before these records


def pinned_in(records: Records, group: range, kept: AbstractSet[int]) -> set[int]:
    """Return the places of a group that are in every window; ``kept`` are those of late results whose call is pinned.

    None is if one of them is left out of windows.
    """
    if any(records[place].is_left_out and not is_late(records[place]) for place in group):
        return set()
    always = {place for place in group if records[place].is_always}
    if any(not is_late(records[place]) for place in always):
        return {place for place in group if not records[place].is_left_out}
    return always.union(kept)
