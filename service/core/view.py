"""A history as one model sees it: units, their costs, and what is in every window."""

from collections.abc import Mapping, Sequence

import msgspec

from service.core.counting import ROLES, message_tokens
from service.core.models import Model
from service.core.records import Record, Summary
from service.core.units import DEVELOPER, TOOL, Unit, group_units


class History(msgspec.Struct, frozen=True):
    """A conversation as far as it was read.

    ``records`` is its tail, from ``first_seq`` to the newest; ``outside`` holds the messages of every window that lie
    before the tail. Totals are of the whole conversation, in reference tokens of the model's encoding (``column``).
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

    def seq(self, unit: Unit) -> int:
        return self.history.first_seq + unit.start

    def cost(self, unit: Unit) -> int:
        return self.costs[unit.start] if unit.end - unit.start == 1 else sum(self.costs[unit.start : unit.end])

    def role(self, unit: Unit) -> int:
        return self.history.records[unit.start].measure.role

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
        return _why(self.history.outside[seq], seq, self.history)


def view_history(history: History, model: Model) -> View | None:
    """The view; None when the tail cuts through a group that is in every window, so that older messages are needed."""
    records, first = history.records, history.first_seq
    units = group_units(records)
    cut_head = bool(records) and first > 1 and records[0].measure.role == TOOL
    if cut_head and (len(units) == 1 or first - 1 in history.outside or any(r.pinned for r in records[: units[0].end])):
        return None
    costs = [message_tokens(r.measure, model, parallel=r.parallel) for r in records]
    return View(history, costs, units, _always(history, units), _outside(history, model))


def _why(record: Record, seq: int, history: History) -> str:
    if seq == history.question:
        return "question"
    return ROLES[record.measure.role] if record.measure.role <= DEVELOPER else "pinned"


def _always(history: History, units: Sequence[Unit]) -> dict[int, str]:
    always: dict[int, str] = {}
    first, records = history.first_seq, history.records
    for index, unit in enumerate(units):
        record = records[unit.start]
        if record.measure.role <= DEVELOPER or (
            unit.whole and any(records[i].pinned for i in range(unit.start, unit.end))
        ):
            always[index] = _why(record, 0, history)
        elif first + unit.start == history.question:
            always[index] = "question"
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
