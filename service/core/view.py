"""A history as one model sees it: units, their costs, and what is in every window."""

from collections.abc import Mapping, Sequence

import msgspec

from service.core.counting import ROLES, message_tokens
from service.core.models import Model
from service.core.records import Record, Summary
from service.core.units import DEVELOPER, FUNCTION, TOOL, Unit, group_units


class History(msgspec.Struct, frozen=True):
    """A conversation as far as it was read.

    ``records`` is its tail, from ``first_seq`` to the newest; ``outside`` holds the messages of every window that lie
    before the tail: the newest user message, system and developer messages, and pinned ones with the whole of their tool
    group. Totals are of the whole conversation, in reference tokens of the model's encoding (``column``).
    """

    first_seq: int
    records: Sequence[Record]
    outside: Mapping[int, Record]
    length: int
    column: int
    tokens: int
    grounding_messages: int
    grounding_tokens: int
    question: int
    """Seq of the newest user message, 0 when there is none."""
    summary: Summary | None = None


class View(msgspec.Struct, frozen=True):
    """The tail as units and their costs for one model; ``always`` names the units of every window and says why."""

    history: History
    costs: list[int]
    units: list[Unit]
    always: dict[int, str]
    outside: dict[int, int]
    """Costs of what is in every window and lies before the tail, by seq."""
    headless: bool
    """Whether the first unit may have begun before the tail, so that nothing is known of it."""

    def seq(self, unit: Unit) -> int:
        return self.history.first_seq + unit.start

    def cost(self, unit: Unit) -> int:
        return self.costs[unit.start] if unit.end - unit.start == 1 else sum(self.costs[unit.start : unit.end])

    def role(self, unit: Unit) -> int:
        return self.history.records[unit.start].measure.role

    def always_seqs(self) -> list[int]:
        """Where each unit of every window begins, ascending; those before the tail message by message."""
        return sorted(self.outside) + sorted(self.seq(self.units[index]) for index in self.always)

    def always_costs(self) -> dict[str, int]:
        """Tokens of what is in every window, by the reason for it."""
        costs: dict[str, int] = {}
        for index, why in self.always.items():
            costs[why] = costs.get(why, 0) + self.cost(self.units[index])
        for seq, cost in self.outside.items():
            why = self.why(seq)
            costs[why] = costs.get(why, 0) + cost
        return costs

    def record(self, seq: int) -> Record:
        """The record of a message that was read."""
        first = self.history.first_seq
        return self.history.records[seq - first] if seq >= first else self.history.outside[seq]

    def cost_of(self, seq: int) -> int:
        """Tokens of a message that was read, without documents."""
        first = self.history.first_seq
        return self.costs[seq - first] if seq >= first else self.outside[seq]

    def why(self, seq: int) -> str:
        """Why a message before the tail is in every window."""
        record = self.history.outside[seq]
        return _why(record, pinned=record.pinned or seq != self.history.question)


def view_history(history: History, model: Model) -> View | None:
    """The view; None when the tail cuts through a group that is in every window, so that older messages are needed."""
    records, first = history.records, history.first_seq
    units = group_units(records)
    headless = bool(records) and first > 1 and records[0].measure.role in (TOOL, FUNCTION)
    if headless and (len(units) == 1 or first - 1 in history.outside or any(r.pinned for r in records[: units[0].end])):
        return None
    costs = [message_tokens(r.measure, model, parallel=r.parallel) for r in records]
    return View(history, costs, units, _always(history, units), _outside(history, model), headless)


def _why(record: Record, *, pinned: bool) -> str:
    """A pinned question is called pinned: that is what it stays when it is not the newest any more."""
    if record.measure.role <= DEVELOPER:
        return ROLES[record.measure.role]
    return "pinned" if pinned else "question"


def _always(history: History, units: Sequence[Unit]) -> dict[int, str]:
    always: dict[int, str] = {}
    question, records = history.question - history.first_seq, history.records
    for index, unit in enumerate(units):
        record = records[unit.start]
        pinned = unit.whole and (
            record.pinned if unit.end - unit.start == 1 else any(r.pinned for r in records[unit.start : unit.end])
        )
        if pinned or record.measure.role <= DEVELOPER or unit.start == question:
            always[index] = _why(record, pinned=pinned)
    if units:
        always.setdefault(len(units) - 1, "newest")
    return always


def _outside(history: History, model: Model) -> dict[int, int]:
    """Costs of the messages before the tail that are in every window; a pinned group that nobody finished is not."""
    costs: dict[int, int] = {}
    seqs = sorted(history.outside)
    start = 0
    while start < len(seqs):
        end = start + 1
        while end < len(seqs) and seqs[end] == seqs[end - 1] + 1:
            end += 1
        run = [history.outside[seq] for seq in seqs[start:end]]
        for unit in group_units(run):
            # Calls at the end of a run are waiting only where the run is the end of the history, which it is not.
            unanswered = run[unit.start].calls and unit.end - unit.start <= run[unit.start].calls
            if unit.whole and not unanswered:
                for index in range(unit.start, unit.end):
                    record = run[index]
                    costs[seqs[start + index]] = message_tokens(record.measure, model, parallel=record.parallel)
        start = end
    return costs
