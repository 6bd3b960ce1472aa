"""A history for one model: its units, their costs, and the units of every window."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

import msgspec
import numpy as np

from sash.core.counts.families import DEVELOPER, FUNCTION, ROLES, SYSTEM, TOOL, USER
from sash.core.counts.models import Model
from sash.core.counts.numbers import Number
from sash.core.law.costs import message_costs, record_cost, reference_costs
from sash.core.law.lines import Gap, lines_tokens
from sash.core.law.reasons import Reason
from sash.core.law.records import Flags, Record, Records, Summary, indexes_of
from sash.core.law.results import Edit
from sash.core.law.units import Units, group_units

_LEADING = bytes(1 if role in (SYSTEM, DEVELOPER) else 0 for role in range(256))


class History(msgspec.Struct, frozen=True):
    """The part of a conversation that was read.

    ``records`` is its tail, from ``first_seq`` to the newest message. ``outside`` are required messages before the tail:
    the newest user message, system and developer messages, and pinned ones with their whole tool group. Totals are of the
    whole conversation, in reference tokens of the model's encoding (``column``).
    """

    first_seq: int
    records: Records
    outside: Mapping[int, Record]
    length: int
    column: int
    tokens: int
    grounding_messages: int
    grounding_tokens: int
    question: int
    """Seq of the newest user message; 0 if there is none."""
    summary: Summary | None = None
    recalled: AbstractSet[int] = frozenset()
    """Seqs of recalled messages (whole units), which this window must contain."""
    covered: int = 0
    """The last seq that a provider's compaction covers in this window (``compaction.py``); 0 without one."""
    stored: Mapping[int, Record] = {}
    """The records as they are stored of those ``outside`` whose messages are sent with less."""
    pause_ms: int | None = None
    """Milliseconds from the message before the newest reply to the newest message, which are those between two windows; None
    if they are unknown, or without a reply."""
    unseen: int = 0
    """The number of messages of the tail that an agent does not see. ``length`` is without them."""
    is_numbered_anew: bool = False
    """Whether its seqs are not those of the log."""
    seen: "Perspective | None" = None
    """What one agent sees, if not all is for it. Then this history's seqs are numbers of the messages that it sees."""
    order: "Order | None" = None
    """Where the tail's messages stand, if they are not sent in the order of the log. Then this history's seqs are places
    (``order.py``)."""

    @property
    def is_whole(self) -> bool:
        """Whether no message before the tail may be sent, beside those ``outside``."""
        return self.first_seq <= self.covered + 1 or (self.seen is not None and self.seen.is_whole)

    def line_lengths(self) -> Number:
        """Reference tokens of each message of the tail on the line of a stable cut: with what is left out behind it."""
        seen = self.seen
        return reference_costs(self.records, self.column) if seen is None else seen.lengths[: len(self.records)]

    def seq(self, number: int) -> int:
        """The seq in the log of the message with this number."""
        if self.seen is None or number < self.first_seq:
            return number
        return self.seen.seqs[number - self.first_seq]

    def number(self, seq: int) -> int:
        """The number of a message of the log, or of the next one that the agent sees."""
        if self.seen is None or seq < self.first_seq:
            return seq
        return self.first_seq + bisect_left(self.seen.seqs, seq)

    def has(self, seq: int) -> bool:
        """Whether a message of the log that was read is among those that the agent sees."""
        if seq < self.first_seq:
            return self.seen is None or seq in self.outside
        return self.seen is None or self.seen.seqs[self.number(seq) - self.first_seq :][:1] == [seq]

    def lines_tokens(self, place: int, model: Model) -> int:
        """The tokens of the lines behind the call at a place; 0 without lines."""
        gap = self.order.lines.get(place) if self.order else None
        if gap is None:
            return 0
        return lines_tokens(self.record(place), gap, model, are_all=gap.last == place - self.first_seq)

    def name(self, place: int) -> int:
        """The seq in the log of the message at a place."""
        first, order, seen = self.first_seq, self.order, self.seen
        number = place if order is None or place < first else order.names[place - first]
        return number if seen is None or number < first else seen.seqs[number - first]

    def names(self, places: Sequence[int]) -> list[int]:
        """The seqs in the log of the messages at these places, which are ascending."""
        first, order, seen = self.first_seq, self.order, self.seen
        before = bisect_left(places, first)
        found = [place - first for place in places[before:]]
        if order is not None:
            found = [order.names[index] - first for index in found]
        named = [index + first for index in found] if seen is None else [seen.seqs[index] for index in found]
        return [*places[:before], *named]

    def numbered(self, place: int) -> int:
        """The number of the message at a place."""
        return place if self.order is None or place < self.first_seq else self.order.names[place - self.first_seq]

    def place(self, seq: int) -> int:
        """The place of a message of the log."""
        number = seq if self.seen is None else self.number(seq)
        return number if self.order is None or number < self.first_seq else self.order.places[number]

    def since(self, number: int) -> int:
        """The first place whose unit begins with the message of this number or a later one."""
        if self.order is None or number < self.first_seq:
            return number
        return self.first_seq + bisect_left(self.order.heads, number)

    def turn(self, count: int) -> int:
        """The place of the user's message that begins the last ``count`` turns; 1 if it was not read."""
        place, roles = len(self.records), self.records.roles
        for _ in range(count):
            place = roles.rfind(USER, 0, place)
            if place < 0:
                return self.question if count == 1 else 1
        return self.first_seq + place

    def record(self, seq: int) -> Record:
        """The record of a message that was read."""
        return self.records[seq - self.first_seq] if seq >= self.first_seq else self.outside[seq]

    def role(self, seq: int) -> int:
        """The role of a message that was read."""
        return self.records.roles[seq - self.first_seq] if seq >= self.first_seq else self.outside[seq].measure.role

    def roles_of(self, seqs: Sequence[int]) -> bytes:
        """The roles of messages that were read."""
        first, roles, outside = self.first_seq, self.records.roles, self.outside
        return bytes([roles[seq - first] if seq >= first else outside[seq].measure.role for seq in seqs])

    def whole_cost(self, seq: int, model: Model) -> int:
        """Tokens of a message as it is stored, without documents and reasoning."""
        return self.whole_costs((seq,), model)[seq]

    def whole_costs(self, seqs: Iterable[int], model: Model) -> dict[int, int]:
        """The same of several messages, by seq."""
        costs, first, outside = message_costs(self.records, model), self.first_seq, self.outside
        return {seq: costs.item(seq - first) if seq >= first else record_cost(outside[seq], model) for seq in seqs}


class Perspective(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent sees of a tail (``perspective.py``). Each list has an item for each message that it sees."""

    seqs: Sequence[int]
    """The messages' seqs in the log."""
    lengths: Number
    """Reference tokens on the line of the log, from each message to the next one that it sees."""
    texts: AbstractSet[int]
    """The numbers of messages that are sent as their text alone, also before the tail."""
    retired: Records
    """Messages that earlier windows had, and this one does not."""
    behind: Number
    """The index of the message with which each of these counts on the line of a stable cut."""
    is_whole: bool
    """Whether no message before the tail may be sent, beside those outside: the tail begins at the horizon, or before."""
    is_short: bool
    """Whether messages are before the horizon."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The places of a tail's messages. Each list has an item for each place."""

    original: History
    """The history in the order of the log."""
    names: Sequence[int]
    """The messages' seqs, or their numbers where an agent does not see all."""
    places: Mapping[int, int]
    """Each message's place, by the same."""
    heads: Sequence[int]
    """The seqs, or numbers, of the first messages of their groups, ascending."""
    lines: Mapping[int, Gap]
    """Calls whose results are a constant line, by the place of their message."""
    dropped: Mapping[int, Gap]
    """Calls that are left out."""
    gone: Mapping[int, Gap]
    """All calls of messages that said nothing else, where they are left out."""
    waiting: Mapping[int, Gap]
    """The calls that wait for results at the end."""
    late: AbstractSet[int]
    """Places of results that did not stand behind their call."""
    interrupted: Mapping[int, tuple[int, int]]
    """Seqs of messages that came while calls waited, each with the seq of the message that called, and their number."""
    brings: Mapping[int, tuple[Sequence[int], int]]
    """Seqs of late results, each with the seqs of its group's earlier messages, and the number of the group's calls."""


class View(msgspec.Struct, frozen=True, dict=True):
    """The tail's units and their costs for one model. ``always`` are the indexes of required units, with the reason."""

    history: History
    costs: Number
    """The tokens of each message of the tail, as an array."""
    units: Units
    always: dict[int, Reason]
    outside: dict[int, int]
    """Tokens of required messages before the tail, by seq."""
    headless: bool
    """Whether the first unit may have begun before the tail, so that it cannot be judged."""
    reasoning: Mapping[int, int] = {}
    """Tokens of the reasoning that is sent, by seq. The costs include them."""
    reasoning_left: Mapping[int, int] = {}
    """Tokens of the reasoning that is not sent, by seq."""
    lasting: Mapping[int, int] = {}
    """Tokens of the reasoning that is sent in every turn, such as signatures, by seq."""
    passing: Mapping[int, int] = {}
    """Tokens of the reasoning that is sent until the next question, by seq."""
    edits: Mapping[int, Edit] = {}
    """Cuts of tool results, by seq. The costs are those after the cut."""
    brings: Mapping[int, int] = {}
    """Tokens of the group that a late result brings while it is the newest message, by seq."""

    @cached_property
    def unit_costs(self) -> Number:
        """The tokens of each unit, as an array."""
        return unit_costs(self.units, self.costs)

    @property
    def covered(self) -> AbstractSet[int]:
        """The indexes of units that a provider's compaction stands for."""
        if not self.history.covered:
            return frozenset()
        marks = self.history.records.having(Flags.COVERED)
        return {index for index in self.units.broken if marks[self.units.starts[index]]}

    def seq(self, index: int) -> int:
        """The seq of a unit's first message."""
        return self.history.first_seq + self.units.starts[index]

    def members(self, index: int) -> range:
        """The seqs of a unit's messages."""
        first, starts = self.history.first_seq, self.units.starts
        return range(first + starts[index], first + starts[index + 1])

    def role(self, index: int) -> int:
        """The role of a unit's first message."""
        return self.history.records.roles[self.units.starts[index]]

    def always_seqs(self) -> list[int]:
        """Seqs of required messages before the tail and of required units' first messages, ascending."""
        return sorted(self.outside) + sorted(map(self.seq, self.always))

    @cached_property
    def systems(self) -> list[int]:
        """Seqs of required system and developer messages, ascending."""
        seqs = self.always_seqs()
        return [seq for seq, role in zip(seqs, self.history.roles_of(seqs), strict=True) if role <= DEVELOPER]

    def always_costs(self) -> dict[Reason, int]:
        """Tokens of required messages by reason; the reasons are in the order of their oldest messages."""
        costs: dict[Reason, int] = {}
        for seq, cost in self.outside.items():
            why = self.why(seq)
            costs[why] = costs.get(why, 0) + cost
        for index, why in self.always.items():
            costs[why] = costs.get(why, 0) + int(self.unit_costs[index])
        return costs

    def cost_of(self, seq: int) -> int:
        """Tokens of a message that was read, without documents."""
        first = self.history.first_seq
        if seq >= first:
            return int(self.costs[seq - first])
        return self.outside[seq]

    def costs_of(self, seqs: Iterable[int]) -> list[int]:
        """The same of several messages."""
        first, costs, outside = self.history.first_seq, self.costs.tolist(), self.outside
        return [costs[seq - first] if seq >= first else outside[seq] for seq in seqs]

    def why(self, seq: int) -> Reason:
        """The reason why a message before the tail is required."""
        record = self.history.outside[seq]
        if seq in self.history.recalled:
            return Reason.RECALLED
        return _why(record.measure.role, pinned=record.pinned or seq != self.history.question)


def view_history(history: History, model: Model) -> View | None:
    """The view; None if the tail begins inside a required tool group, so that older messages are needed."""
    grouped = grouped_units(history)
    if grouped is None:
        return None
    records, (units, headless) = history.records, grouped
    costs = _with_lines(history, message_costs(records, model), model)
    outside = {seq: record_cost(record, model) for seq, record in history.outside.items()}
    return View(history, costs, units, always_units(history, units), outside, headless)


def grouped_units(history: History) -> tuple[Units, bool] | None:
    """The tail's units, and whether the first may have begun before the tail; None if older messages are needed."""
    records, first = history.records, history.first_seq
    units = group_units(records)
    headless = bool(records) and not history.is_whole and records.roles[0] in (TOOL, FUNCTION)
    if headless and (first - 1 in history.outside or next(records.pinned(), len(records)) < units.starts[1]):
        return None
    if not history.is_whole and units and ((newest := _newest(history, units)) is None or (headless and newest == 0)):
        return None
    return units, headless


def unit_costs(units: Units, costs: Number) -> Number:
    """The tokens of each unit: the sum over its messages."""
    return costs if units.single else np.add.reduceat(costs, units.begins)


def _why(role: int, *, pinned: bool) -> Reason:
    """The reason for a required message. A pinned question is ``pinned``: it is also required when it is not the newest."""
    if role <= DEVELOPER:
        return Reason.named(ROLES[role])
    return Reason.PINNED if pinned else Reason.QUESTION


def always_units(history: History, units: Units, *, broken_too: bool = False) -> dict[int, Reason]:
    """The indexes of required units, with the reason; ``broken_too``: also of those that may become whole (``order.py``)."""
    if not units:
        return {}
    records, broken = history.records, frozenset() if broken_too else units.broken
    pinned = {unit_at(units, index) for index in records.pinned()} - broken
    leading = {unit_at(units, index) for index in indexes_of(records.roles.translate(_LEADING))}
    asked = history.question - history.first_seq
    question = {unit_at(units, asked)} if asked >= 0 else set()
    always = {
        index: _why(records.roles[units.starts[index]], pinned=index in pinned)
        for index in sorted(pinned | leading | question)
    }
    if (newest := _newest(history, units)) is not None and newest not in broken:
        always.setdefault(newest, Reason.NEWEST)
    for seq in sorted(history.recalled):
        if seq >= history.first_seq and (index := unit_at(units, seq - history.first_seq)) not in broken:
            always.setdefault(index, Reason.RECALLED)
    return always


def _newest(history: History, units: Units) -> int | None:
    """The newest unit that is not a reply in progress; None if there is none."""
    last = history.records.unsent.rfind(0)
    if last >= 0 and history.order is not None:
        newest = history.order.original.records.unsent.rfind(0)
        last = min(history.order.places[history.first_seq + max(0, newest)] - history.first_seq, last)
    return unit_at(units, last) if last >= 0 else None


def unit_at(units: Units, index: int) -> int:
    """The index of the unit that contains a message."""
    return index if units.single else bisect_right(units.starts, index) - 1


def _with_lines(history: History, costs: Number, model: Model) -> Number:
    """The messages' costs. A call's lines cost with the call."""
    if history.order is None or not history.order.lines:
        return costs
    costs = costs.copy()
    for place in history.order.lines:
        if place - history.first_seq < len(costs):
            costs[place - history.first_seq] += history.lines_tokens(place, model)
    return costs
