"""Which messages are in every window because one of their tool group is pinned.

A pinned call, or a pinned result behind its call, pins the whole group. A late result (``order.py``) is pinned with its
call, or by itself alone. ``append.lua`` says the same of new messages, one at a time.
"""

from collections.abc import Collection
from typing import NamedTuple

from sash.core.counts.families import ASSISTANT, DEVELOPER, FUNCTION, TOOL
from sash.core.law.records import Flags, Record, Records


class Group(NamedTuple):
    """Places of the first and the last message of a tool group in a list; a message by itself is both."""

    first: int
    last: int


def is_late(record: Record) -> bool:
    """Whether a message is a result that does not stand directly behind its call."""
    return record.measure.role == TOOL and bool(record.flags & Flags.LATE)


def group_at(records: Records, place: int) -> Group:
    """Return the tool group of the message at ``place``. Late results between its messages are within its places."""
    alone = Group(place, place)
    if is_late(records[place]):
        return alone
    if records[place].measure.role == FUNCTION:
        return Group(place - 1, place) if place > 0 and _is_legacy(records[place - 1]) else alone
    first = place
    while first > 0 and records[first].measure.role == TOOL:
        first -= 1
    head = records[first]
    if _is_legacy(head):
        is_answered = place + 1 < len(records) and records[place + 1].measure.role == FUNCTION
        return Group(place, place + 1) if first == place and is_answered else alone
    if not head.calls or head.in_progress:
        return alone
    last, at = first, first + 1
    while at < len(records) and records[at].measure.role == TOOL:
        last, at = last if is_late(records[at]) else at, at + 1
    return Group(first, last)


def _is_legacy(record: Record) -> bool:
    return bool(record.flags & Flags.LEGACY_CALL) and record.measure.role == ASSISTANT


def is_always(record: Record) -> bool:
    """Whether a message is in every window by itself: a pinned one, or a system or developer message."""
    return (record.pinned and not record.withheld) or record.measure.role <= DEVELOPER


def pinned_in(records: Records, group: Group, kept: Collection[int]) -> set[int]:
    """Return the places of a group that are in every window; ``kept`` are those of late results whose call is pinned."""
    places = range(group.first, group.last + 1)
    if group.first == group.last:
        return {each for each in places if is_always(records[each]) or each in kept}
    if any(is_always(records[each]) for each in places if not is_late(records[each])):
        return set(places)
    return {each for each in places if is_late(records[each]) and (is_always(records[each]) or each in kept)}
