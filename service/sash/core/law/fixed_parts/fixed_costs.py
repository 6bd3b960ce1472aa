"""Tokens of the fixed parts of a window, beside the messages that it must have."""

from collections.abc import Sequence

from sash.core.counts.costs.counting import has_calls
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, TOOL
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.fillers import joined_systems
from sash.core.law.history.notes import Line
from sash.core.law.history.view import View
from sash.core.law.records.figures import WindowTokens
from sash.core.providers import PROVIDERS
from sash.core.stored.stored_summary import Summary


def first_rows(rows: Sequence[int], roles: bytes, model: Model, systems: Sequence[int]) -> list[int]:
    """The rows on which the cost of definitions depends: the first, and the system messages. A form that writes these as
    notes among the others has as system messages only those before all others."""
    if not PROVIDERS[model.format].fills:
        return sorted({*rows[:1], *systems})
    found = []
    for row in sorted(rows):
        found.append(row)
        if roles[row] > DEVELOPER:
            break
    return found


def costs_beside(view: View, plan: Plan, lines: Sequence[Line | Summary]) -> WindowTokens:
    """Tokens of the fixed parts beside lines or system messages, or where messages may call without definitions.

    ``lines`` stand between the few-shots and the messages. Those of definitions may depend on the request's first message.
    If that is not known (no fixed message, no line, and the first message may be left out), the larger cost is taken.
    """
    model, fills = plan.model, PROVIDERS[plan.model.format].fills
    records = view.history.records
    required = view.required_rows if plan.defines or model.lone else []
    is_oldest = bool(required) and view.history.seqs[required[0]] == 1
    if fills and required:  # a later system text is a note among the messages
        runs = [row for at, row in enumerate(required) if row == at] if is_oldest else []
        required = first_rows(runs, records.roles, model, view.systems)
    is_compacted = bool(lines) and lines[0].measure.role == ASSISTANT
    texts = len(lines) - is_compacted if fills else 0
    return plan.costs_beside(
        lines,
        [records[index].measure for index in required],
        # A tool that stands in is reserved in every window, the cost of calls without definitions where a message may call.
        calls=not plan.bare_calls or any(records.calls) or max(records.roles, default=0) >= TOOL or records.marked,
        is_oldest=is_oldest,
        joints=texts if plan.parts.system or not texts or joined_systems(view, model) else texts - 1,
    )


def tools_beside(view: View, plan: Plan, rows: Sequence[int], lines: Sequence[Line | Summary | None]) -> int:
    """The tokens of definitions beside the messages of a window's ``rows``, and ``lines`` before these. They may depend on
    the first message and on system messages.

    Where one stands in for tools, it is sent beside calls alone; so it is with the cost of calls without definitions.
    """
    records = view.history.records
    known = rows[:1] if not view.systems else first_rows(rows, records.roles, plan.model, view.systems)
    beside = [each.measure for each in (*lines, *(records[row] for row in known)) if each is not None]
    calls = plan.stands_in and any(has_calls(records[row].measure) for row in rows)
    return plan.tools_tokens(beside, calls=calls)
