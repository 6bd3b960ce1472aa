"""Tool groups: what stays together or goes together.

A unit is one message, or an assistant message with calls and the results right after it. Providers answer 400 for a call
without its results, and for a result without its call.
"""

from collections.abc import Sequence
from typing import NamedTuple

from service.core.counting import ROLES
from service.core.records import Flags, Record

SYSTEM, DEVELOPER, USER, ASSISTANT, TOOL, FUNCTION = range(len(ROLES))
assert ROLES == ("system", "developer", "user", "assistant", "tool", "function")  # noqa: S101 - records store these numbers


class Unit(NamedTuple):
    """Records ``start`` to ``end`` (exclusive) of a list; ``whole`` when it may be sent."""

    start: int
    end: int
    whole: bool


def group_units(records: Sequence[Record]) -> list[Unit]:
    """Units of consecutive records, ascending.

    Results whose call is not among the records make a unit that is not whole; so do calls that other messages overtook
    before every result came. Calls at the very end wait for their results still, and are whole.
    """
    units = []
    index, count = 0, len(records)
    while index < count:
        start = index
        record = records[index]
        role = record.measure.role
        index += 1
        whole = True
        if role == ASSISTANT:
            if record.calls:
                while index < count and records[index].measure.role == TOOL:
                    index += 1
                whole = index - start > record.calls or index == count
            elif record.flags & Flags.LEGACY_CALL and index < count and records[index].measure.role == FUNCTION:
                index += 1
        elif role == TOOL:
            while index < count and records[index].measure.role == TOOL:
                index += 1
            whole = False
        units.append(Unit(start, index, whole))
    return units
