"""Which of how many ways a chat goes on, where branches hang: what a screen draws as ``2 of 3``.

::

    path     q1 ─┬─ a2 q2          a2 has  {"at": 2, "ids": ["b-1", null, "b-4"]}: the second of three answers to q1
    b-1          ├─ a1
    b-4          └─ a3
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from sash.core.screens.screen_form import KEPT, Object

_WAYS: Final = "ways"


class ScreenWays(msgspec.Struct, frozen=True):
    """The ways that a chat goes on at a fork, in the order in which they began."""

    at: Annotated[int, Meta(description="Which of them the conversation itself is, from 1 on.")]
    ids: Annotated[list[str | None], Meta(description="The branches; null is the conversation itself.")]


class OtherWay(NamedTuple):
    """A branch that hangs in the log behind the message ``after_seq``, and when its first message was stored."""

    id: str
    after_seq: int
    created_ms: int


def tell_ways(
    messages: Sequence[Object], entries: Sequence[tuple[int, int]], others: Sequence[OtherWay], *, is_end: bool
) -> ScreenWays | None:
    """Tell each of a screen's ``messages``, ascending, which way it is of how many: as ``metadata.sash.ways`` of the first
    one behind a fork. Returns the ways behind the last one, where ``is_end`` and the path ends at a fork.

    ``entries`` are seqs, and times of storing in milliseconds, of the entries that the messages show; ``ids`` has null for
    the path's own way. The ways stand in the order in which their first messages were stored.
    """
    places = [(message["metadata"][KEPT]["last_seq"], message) for message in messages if "metadata" in message]
    behind = [seq for seq, _ in places]

    def place(other: OtherWay) -> int:
        return bisect_right(behind, other.after_seq)

    at_end = None
    for index, group in groupby(sorted(others, key=attrgetter("after_seq")), place):
        hung = list(group)
        if index < len(places):
            places[index][1]["metadata"][KEPT][_WAYS] = _ways(hung, entries)
        elif is_end:
            at_end = _ways(hung, entries)
    return at_end


def _ways(hung: Sequence[OtherWay], entries: Sequence[tuple[int, int]]) -> ScreenWays:
    """The ways at one place, among them the path's own, which is the newest where nothing stands there yet."""
    own = next((created for seq, created in entries if seq > hung[0].after_seq), None)
    order = sorted(hung, key=attrgetter("created_ms"))
    before = [each.id for each in order if own is None or each.created_ms < own]
    return ScreenWays(len(before) + 1, [*before, None, *(each.id for each in order[len(before) :])])
