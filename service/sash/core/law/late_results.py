"""Late results, which do not stand behind their call, and the messages that made their calls, by the calls' links."""

from collections.abc import Iterator

import numpy as np

from sash.core.chat.messages import links_in
from sash.core.counts.families import TOOL
from sash.core.counts.numbers import Number
from sash.core.law.records import Flags, Records
from sash.core.law.units import callers, group_units


def makers_of_late(records: Records) -> Iterator[tuple[int, int | None]]:
    """The index of each late result, and of the message that made its call; None if that is not among the records.

    The details must have been read.
    """
    if not records.marked:
        return
    roles, flags = np.frombuffer(records.roles, np.uint8), np.frombuffer(records.flags, np.uint8)
    makers: dict[str, int] = {}
    waiting = iter(np.flatnonzero(np.logical_or(*callers(records))).tolist())
    caller = next(waiting, None)
    for index in np.flatnonzero((roles == TOOL) & (flags & Flags.LATE != 0)).tolist():
        while caller is not None and caller < index:
            makers |= dict.fromkeys(links_in(records.details[caller].links), caller)
            caller = next(waiting, None)
        yield index, makers.get(records.details[index].links)


def late_orphans(records: Records) -> list[int]:
    """The indexes of late results whose call is before these records."""
    return [index for index, maker in makers_of_late(records) if maker is None]


def heads_of(records: Records) -> Number:
    """The index of the message that made the call of each result, as an array; the own index of other messages.

    A late result, which does not stand behind its call, is found by its link. Results whose call is not among the records
    have the index of a result.
    """
    begins = group_units(records).begins
    heads = np.repeat(begins, np.diff(begins, append=len(records)))
    for index, maker in makers_of_late(records):
        heads[index] = index if maker is None else maker
    return heads
