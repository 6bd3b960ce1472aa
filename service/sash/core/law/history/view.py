"""What was read of a conversation, and the same for one model: units, their costs, and which are required."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from operator import add
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np

from sash.core.counts.models.families import DEVELOPER, ROLES, SYSTEM
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import Number
from sash.core.law.history.lines import Way, lines_tokens
from sash.core.law.history.results import Edit
from sash.core.law.lazily import lazy
from sash.core.law.records.costs import message_costs, reference_costs
from sash.core.law.records.reasons import Reason
from sash.core.law.records.records import Records
from sash.core.law.records.units import Units, unit_at
from sash.core.stored.record import RESULTS, Flags, Record, WindowFlags
from sash.core.stored.stored_summary import Summary

NOTHING: Final[Mapping[int, Any]] = MappingProxyType({})
"""What no message has."""
_QUESTION, _NEWEST = Reason.QUESTION, Reason.NEWEST


class History(msgspec.Struct, frozen=True):
    """The part of a conversation that was read: a table with a row for each message. A row's index is its only position.

    First are the required messages before the tail: the newest user message, system and developer messages, and pinned ones
    with their whole tool group. Behind these ``records.front`` rows is the tail, from ``first_seq`` to the newest message.
    Totals are of the whole conversation, in reference tokens of the model's encoding (``column``).
    """

    first_seq: int
    records: Records
    length: int
    column: int
    tokens: int
    grounding_messages: int
    grounding_tokens: int
    seqs: Sequence[int]
    """The number of each row's message in the log."""
    asked: int
    """The row of the newest user message that is not left out; -1 if there is none."""
    summary: Summary | None = None
    covered: int = 0
    """The last seq that a provider's compaction covers in this window (``compaction.py``); 0 without one."""
    lost: Mapping[int, Sequence[int]] = NOTHING
    """The numbers of media whose bytes the storage has lost, by the seq of their message in the log."""
    now: int = 0
    """The time of the newest message in seconds since 1970, by which references end; 0 where it is not known."""
    seen: "Perspective | None" = None
    """What one agent sees, if not all is for it."""
    order: "Order | None" = None
    """Where the tail's messages stand, if they are not sent in the order of the log (``order.py``)."""

    @property
    def is_whole(self) -> bool:
        """Whether no message before the tail may be sent, beside the required ones."""
        return self.first_seq <= self.covered + 1 or (self.seen is not None and self.seen.is_whole)

    @property
    def tail(self) -> Records:
        """The records without those before the tail."""
        return self.records[self.records.front :] if self.records.front else self.records

    @property
    def oldest_bound(self) -> int:
        """The bound that leaves nothing out: a bound before the tail is less than its first row by the unread messages."""
        return self.records.front + 1 - self.first_seq

    @property
    def recalled(self) -> list[int]:
        """The rows of recalled messages (whole units), which this window must contain."""
        return self.records.flagged_rows(WindowFlags.RECALLED)

    def log_lengths(self) -> Number:
        """Reference tokens of each message of the tail in the log: with those behind it that a view leaves out."""
        if self.seen is not None:
            return self.seen.lengths
        return reference_costs(self.records, self.column)[self.records.front :]

    def lines_tokens(self, row: int, model: Model) -> int:
        """The tokens of the lines behind the call of a row; 0 without lines."""
        missing = self.order.missing["line"].get(row) if self.order else None
        return lines_tokens(self.records[row], len(missing), model) if missing else 0


def since(history: History, seq: int) -> int:
    """The first row of the tail whose group begins at this message of the log or later, or where it would be.

    Limits, summaries and stable cuts are told by seqs, also by those of messages that were not read.
    """
    front, before = history.records.front, history.first_seq - seq
    if before > 0:
        return front - before
    if history.order is None:
        return bisect_left(history.seqs, seq, front)
    units = history.records.units
    return units.starts[bisect_left(units.starts, seq, units.front, len(units), key=history.seqs.__getitem__)]


def with_recalled(history: History, recalled: Mapping[int, Record]) -> History:
    """The history with recalled messages, by seq. Those that were not read stand before its tail."""
    records, before = history.records, history.seqs[: history.records.front]
    added = {seq: each for seq, each in recalled.items() if seq < history.first_seq and seq not in before}
    seqs = [*added, *history.seqs]
    if added:
        front = len(added) + len(before)
        order = [*sorted(range(front), key=seqs.__getitem__), *range(front, len(seqs))]
        records = Records.lone([*added.values()]).before(records, front=front).taken(np.array(order))
        seqs = [seqs[index] for index in order]
    rows = [row for row, seq in enumerate(seqs) if seq in recalled]
    asked = seqs.index(history.seqs[history.asked]) if history.asked >= 0 else -1
    return msgspec.structs.replace(
        history, records=records.with_flag(rows, WindowFlags.RECALLED), seqs=seqs, asked=asked
    )


class Perspective(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent sees of a tail (``perspective.py``). Each list has an item for each message that it sees."""

    lengths: Number
    """Reference tokens in the log, from each message to the next one that it sees."""
    retired: Records
    """Messages that earlier windows had, and this one does not."""
    behind: Number
    """The index of the message with which each of these counts on the line of a stable cut."""
    is_whole: bool
    """Whether no message before the tail may be sent, beside required ones: the tail begins at the horizon, or before."""
    horizon: int
    """The first seq of the log at the horizon or behind it; 1 where all are."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A tail's messages in another order than the log's. All is by row, unless it is of the original."""

    original: History
    """The history in the order of the log."""
    missing: Mapping[Way, Mapping[int, Sequence[int]]]
    """The numbers of calls without a result, by what becomes of them and by the row of their message."""
    late: AbstractSet[int]
    """Rows of results that did not stand behind their call."""
    interrupted: Mapping[int, tuple[int, int]]
    """The original's messages that came while calls waited, each with the one that called, and the number of calls."""
    brings: Mapping[int, Sequence[int]]
    """The original's late results, each with its group's earlier messages, of which the first called."""


class Thoughts(msgspec.Struct, frozen=True):
    """The tokens of each message's reasoning, as arrays. The messages' costs include what is sent."""

    sent: Number
    left: Number
    """Those that are not sent."""
    lasting: Number
    """Those that are sent in every turn, such as signatures."""
    passing: Number
    """Those that are sent until the next question."""


class View(msgspec.Struct, frozen=True, dict=True):
    """A history's units and their costs for one model. ``required`` are the indexes of required units, with the reason.

    Each array has a number for each record of the history.
    """

    history: History
    model: Model
    units: Units
    required: dict[int, Reason]
    headless: bool
    """Whether the tail's first unit may have begun before the tail, so that it cannot be judged."""
    priced: Number = None
    """The tokens of each message as it is sent in this window, where they are not those that were counted."""
    thoughts: Thoughts | None = None
    """The messages' reasoning; None if none has any."""
    systems: Sequence[int] = ()
    """The rows of required system and developer messages, ascending."""
    edits: Mapping[int, Edit] = NOTHING
    """Cuts of tool results, by row. The costs are those after the cut."""
    brings: Mapping[int, int] = NOTHING
    """Tokens of the group that a late result brings while it is the newest message, by row."""

    def dearer(self, more: Mapping[int, int]) -> "View":
        """The view in which messages cost so many tokens more, by row."""
        costs = self.costs.copy()
        for row, tokens in more.items():
            costs[row] += tokens
        return msgspec.structs.replace(self, priced=costs)

    @lazy
    def costs(self) -> Number:
        """The tokens of each message, as an array."""
        return message_costs(self.history.records, self.model) if self.priced is None else self.priced

    @lazy
    def unit_costs(self) -> Number:
        """The tokens of each unit, as an array."""
        return unit_costs(self.units, self.costs)

    def of_units(self, around: bytes | None) -> Sequence[int]:
        """The tokens of each unit.

        ``around`` is ``Plan.around``: the tokens around a text by its role, or None where a text costs more than these and
        its own. With it, units of one text each are summed as they are stored, which takes less time than an array.
        """
        records = self.history.records
        if around is None or records.details or self.priced is not None or not self.units.single:
            costs: Sequence[int] = self.unit_costs.tolist()
            return costs
        return [*map(add, records.roles.translate(around), records.counted_texts(self.model.column))]

    @property
    def is_whole(self) -> bool:
        """Whether it has all messages of the conversation, and all are plain texts: then the totals are their sum."""
        return self.history.first_seq == 1 and self.units.single and not self.history.records.details

    @property
    def covered(self) -> AbstractSet[int]:
        """The indexes of units that a provider's compaction stands for."""
        if not self.history.covered:
            return frozenset()
        marks = self.history.records.of_window() & WindowFlags.COVERED
        return {index for index in self.units.broken if marks[self.units.starts[index]]}

    def role(self, index: int) -> int:
        """The role of a unit's first message."""
        return self.history.records.roles[self.units.starts[index]]

    @property
    def required_rows(self) -> list[int]:
        """The rows of the first messages of required units, ascending."""
        return [self.units.starts[index] for index in sorted(self.required)]

    def required_costs(self) -> dict[Reason, int]:
        """Tokens of required messages by reason; the reasons are in the order of their oldest messages."""
        costs: dict[Reason, int] = {}
        for index, why in self.required.items():
            costs[why] = costs.get(why, 0) + self.unit_costs.item(index)
        return costs


def view_history(history: History, model: Model) -> View | None:
    """The view; None if the tail begins inside a required tool group, so that older messages are needed."""
    records, units, roles, asked = history.records, history.records.units, history.records.roles, history.asked
    newest: int | None = len(roles) - 1
    headless: bool | None = False
    systems: Sequence[int] = ()
    if not units.single or len(roles) == records.front:
        newest = _newest(history, units)
        headless = _is_headless(history, units, newest)
    if headless is None:
        return None
    is_marked = SYSTEM in roles or DEVELOPER in roles or 1 in records.having(Flags.PINNED)
    if is_marked or records.front or records.window_flags:
        required, systems = _required(history, units, newest)
    else:
        required = {} if asked < 0 else {asked if units.single else unit_at(units, asked): _QUESTION}
        if newest is not None and newest not in required:
            required[newest] = _NEWEST
    view = View(history, model, units, required, headless, None, None, systems)
    if history.order is None or not (lined := history.order.missing["line"].keys()):
        return view
    return view.dearer(dict(zip(lined, map(history.lines_tokens, lined, repeat(model)), strict=True)))


def _is_headless(history: History, units: Units, newest: int | None) -> bool | None:
    """Whether the tail's first unit may have begun before the tail; None if older messages are needed."""
    records, front = history.records, history.records.front
    if history.is_whole:
        return False
    headless = len(records) > front and records.roles[front] in RESULTS
    pinned = headless and any(front <= index < units.starts[units.front + 1] for index in records.where(Flags.PINNED))
    if pinned or (headless and history.first_seq - 1 in history.seqs[:front]):
        return None
    if len(units) > units.front and (newest is None or (headless and newest == units.front)):
        return None
    return headless


def unit_costs(units: Units, costs: Number) -> Number:
    """The tokens of each unit: the sum over its messages."""
    return costs if units.single else np.add.reduceat(costs, units.begins)


def _required(history: History, units: Units, newest: int | None) -> tuple[dict[int, Reason], list[int]]:
    """The indexes of required units, with the reason: those before the tail, the question, marked and pinned ones, the
    ``newest``, and recalled ones. A pinned question is ``pinned``: it is also required when it is not the newest. And the
    rows of system and developer messages among these."""
    records, front = history.records, frozenset(range(units.front))
    broken = units.broken - front
    recalled = {unit_at(units, row) for row in history.recalled} - broken
    pinned = {unit_at(units, index) for index in records.where(Flags.PINNED)} - broken
    leading = np.flatnonzero(np.frombuffer(records.sent_roles, np.uint8) <= DEVELOPER).tolist()
    question = {unit_at(units, history.asked)} if history.asked >= 0 else set()
    required = {}
    for unit in sorted(front - recalled | pinned | question | {unit_at(units, index) for index in leading}):
        role = records.roles[units.starts[unit]]
        why = Reason.PINNED if unit in pinned or unit not in question else Reason.QUESTION
        required[unit] = Reason(ROLES[role]) if role <= DEVELOPER else why
    if newest is not None:
        required.setdefault(newest, Reason.NEWEST)
    for unit in sorted(recalled):
        required.setdefault(unit, Reason.RECALLED)
    rows = sorted(map(units.starts.__getitem__, required))
    return required, [row for row in rows if records.roles[row] <= DEVELOPER]


def _newest(history: History, units: Units) -> int | None:
    """The newest unit of the tail that can be sent; None if there is none."""
    records = history.records
    rows: Sequence[int] = range(len(records) - 1, records.front - 1, -1)
    if history.order is not None:  # the newest message need not be the last row
        rows = sorted(rows, key=history.seqs.__getitem__, reverse=True)
    found = (unit_at(units, index) for index in rows if not records.unsent[index])
    return next((unit for unit in found if unit not in units.broken), None)
