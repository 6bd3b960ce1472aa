"""Tokens of the fixed parts of a window, beside the messages that it must have."""

from collections.abc import Sequence

from sash.core.counts.costs.counting import has_calls
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, TOOL
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.fillers import joined_systems
from sash.core.law.history.notes import Line
from sash.core.law.history.view import View
from sash.core.law.records.figures import WindowTokens
from sash.core.providers import PROVIDERS
from sash.core.stored.stored_summary import Summary


def _first_rows(rows: Sequence[int], view: View, form: str) -> list[int]:
    """The rows on which the cost of definitions depends: the first, and the system messages. A form that writes these as
    notes among the others has as system messages only those before all others."""
    if not PROVIDERS[form].fills:
        return sorted({*rows[:1], *view.systems})
    rows, roles = sorted(rows), view.history.records.roles
    return rows[: 1 + next((at for at, row in enumerate(rows) if roles[row] > DEVELOPER), len(rows))]


def costs_beside(view: View, plan: Plan, lines: Sequence[Line | Summary]) -> WindowTokens:
    """Tokens of the fixed parts beside lines or system messages, or where messages may call without definitions.

    ``lines`` stand between the few-shots and the messages. Those of definitions may depend on the request's first message.
    If that is not known (no fixed message, no line, and the first message may be left out), the larger cost is taken.
    """
    model, records, fills = plan.model, view.history.records, PROVIDERS[plan.model.format].fills
    rows = view.required_rows
    is_oldest = bool(rows) and view.history.seqs[rows[0]] == 1
    if fills and rows:  # a later system text is a note among the messages
        rows = _first_rows([row for at, row in enumerate(rows) if row == at] if is_oldest else [], view, model.format)
    measures, required = [line.measure for line in lines], [records[row].measure for row in rows]
    # Every window has room for a tool that stands in. Room for calls without definitions is needed where a message may call.
    calls = not plan.bare_calls or any(records.calls) or max(records.roles, default=0) >= TOOL or records.marked
    tools = plan.tools_tokens((*measures, *required), calls=calls)
    if required and not is_oldest and model.rules.joins_leading_system:
        tools = max(tools, plan.tools_tokens(measures, calls=calls))
    texts = sum(each.role != ASSISTANT for each in measures) if fills else 0
    joints = texts if plan.parts.system or not texts or joined_systems(view, model) else texts - 1
    return plan.costs_beside(lines, required, tools, joints)


def tools_beside(view: View, plan: Plan, rows: Sequence[int], lines: Sequence[Line | Summary | None]) -> int:
    """The tokens of definitions beside the messages of a window's ``rows``, and ``lines`` before these. They may depend on
    the first message and on system messages.

    Where one stands in for tools, it is sent beside calls alone; so it is with the cost of calls without definitions.
    """
    records = view.history.records
    known = _first_rows(rows, view, plan.model.format)
    beside = [each.measure for each in (*lines, *(records[row] for row in known)) if each is not None]
    calls = plan.stands_in and any(has_calls(records[row].measure) for row in rows)
    return plan.tools_tokens(beside, calls=calls)
