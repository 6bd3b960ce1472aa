"""Find late results, which do not stand directly behind their call, and the messages that made the calls of results."""

import numpy as np

from sash.core.chat.tool_groups import links_in
from sash.core.counts.models.families import TOOL
from sash.core.counts.text.numbers import Number
from sash.core.law.records.records import Records
from sash.core.law.records.units import callers, group_units
from sash.core.stored.record import Flags


def late_in(records: Records) -> list[int]:
    """The indexes of late results."""
    is_late = np.frombuffer(records.flags, np.uint8) & Flags.LATE != 0
    found: list[int] = np.flatnonzero(is_late & (np.frombuffer(records.roles, np.uint8) == TOOL)).tolist()
    return found


def heads_of(records: Records) -> Number:
    """The index of the message that made the call of each result, as an array; the own index of other messages.

    A late result, which does not stand behind its call, is found by its link: the details must have been read. Results whose
    call is not among the records have the index of a result.
    """
    units = group_units(records)
    heads = np.repeat(units.begins, units.ends - units.begins)
    makers: dict[str, int] = {}
    waiting = iter(np.flatnonzero(np.logical_or(*callers(records))).tolist())
    caller = next(waiting, None)
    for index in late_in(records):
        while caller is not None and caller < index:
            makers |= dict.fromkeys(links_in(records.details[caller].links), caller)
            caller = next(waiting, None)
        heads[index] = makers.get(records.details[index].links, index)
    return heads


def late_orphans(records: Records) -> list[int]:
    """The indexes of the tail's late results whose call is before it."""
    late = [index for index in late_in(records) if index >= records.front]
    heads = heads_of(records) if late else late
    return [index for index in late if heads[index] == index or heads[index] < records.front]
