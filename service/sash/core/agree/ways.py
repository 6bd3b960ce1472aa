"""The branches that a chat may go on in, where the sender's list leaves the log.

::

    log      q1 a1 ─┬─ q2' a3
    branch          └─ q2 a2 ─┬─ q3        the list  q1 a1 q2 a2 q4  goes on in the branch, and leaves it behind a2
"""

from collections.abc import Sequence
from typing import NamedTuple

from sash.core.agree.chat_lines import ChatLine, ChatLines
from sash.core.agree.chat_units import Unit, compare, units_of


class Way(NamedTuple):
    """A branch: its number, the one in which it hangs (0: the log), the seq behind which, and its messages."""

    number: int
    parent: int
    after_seq: int
    lines: ChatLines


class Ways(NamedTuple):
    """The branches of a log, of which ``first_seq`` is the first message that was read. Those in ``taken`` are its end, in
    the order in which they were taken."""

    first_seq: int
    all: Sequence[Way]
    taken: tuple[Way, ...] = ()

    def next(self, at: int, unit: Unit) -> Way | None:
        """The newest branch that hangs at the index ``at`` of the log, and whose first unit is the same as the sender's."""
        seq = self.first_seq + at - 1
        parent = next((each.number for each in reversed(self.taken) if each.after_seq < seq), 0)
        for way in reversed(self.all):
            if way.parent == parent and way.after_seq == seq and way not in self.taken:
                own = units_of(way.lines)
                if own and compare(unit, own[0]) is not None:
                    return way
        return None

    def along(self, way: Way) -> "Ways":
        """The branches where this one is the log's end."""
        return self._replace(taken=(*self.taken, way))


def joined(log: ChatLines, at: int, way: Way) -> ChatLines:
    """The log up to the index ``at``, and behind it the branch."""
    bodies, roles = [*log.bodies[:at], *way.lines.bodies], [*log.roles[:at], *way.lines.roles]
    odd = {place for place in log.odd if place < at} | {at + place for place in way.lines.odd}

    def make(place: int) -> ChatLine:
        line: ChatLine = log[place] if place < at else way.lines[place - at]
        return line

    return ChatLines(lambda: bodies, roles, frozenset(odd), make)
