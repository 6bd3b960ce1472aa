"""What a window tells: the reason for each message, what became of documents, and the parts that do not fit."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from sash.core.counts.models.families import ROLES, TOOL
from sash.core.law.history.view import Thoughts
from sash.core.law.records.figures import Explained, ExplainedDocument
from sash.core.law.records.reasons import APART_FROM, Fate, Reason
from sash.core.law.records.units import late_orphans
from sash.core.law.selection.walk import Walk
from sash.core.stored.record import Flags
from sash.core.stored.stored_grounding import StoredGrounding
from sash.problems import GroundingDoesNotFit, WindowDoesNotFit

_UNSENT: Final = {getattr(Flags, name): Reason[name] for name in ("LEFT_OUT", "COMPACTION", "WORDLESS", "IN_PROGRESS")}
"""Why no window has a message with this flag."""


def documents_told(given: StoredGrounding, fates: Sequence[Fate] | None = None) -> list[ExplainedDocument]:
    """The lines of a message's documents; without ``fates`` the message is left out."""
    fates = [APART_FROM] * len(given.documents) if fates is None else fates
    return [ExplainedDocument(identity, *fate) for (identity, _), fate in zip(given.documents, fates, strict=True)]


def explain(taken: Walk, accepted: Thoughts | None) -> list[Explained]:
    """One line a message, by ascending seq: the required messages before the tail, and those of the tail's whole units.

    A late result whose call may be before the tail has no line, as it is told with its call. ``accepted`` is the reasoning
    in the request.
    """
    view, history, covered = taken.view, taken.view.history, taken.view.covered
    starts, thoughts, order, untold = view.units.starts, view.thoughts, history.order, set()
    if order is not None and not history.is_whole:
        untold = {order.original.seqs[row] for row in late_orphans(order.original.records)}
    seqs, records, roles = history.seqs, history.records, history.records.roles
    is_kept, tokens = np.zeros(len(roles), bool), view.costs.copy()
    is_kept[taken.rows] = True
    reasoning = left_out = np.zeros_like(tokens)
    if thoughts is not None and accepted is not None:
        sent, left = (accepted.sent, accepted.left), (thoughts.sent, thoughts.left)
        reasoning, left_out = np.where(is_kept, sent, left)
        tokens += reasoning - thoughts.sent
    for row in view.edits.keys() - taken.rows:
        tokens[row] += view.edits[row].saved
    rest = taken.rest or taken.stop
    others = Reason.FITS if rest == "complete" else Reason(rest)
    told = [*zip(tokens.tolist(), is_kept.tolist(), reasoning.tolist(), left_out.tolist(), strict=True)]
    lines = []
    for unit, first in enumerate(starts[:-1]):
        if seqs[first] in untold or (view.headless and unit == view.units.front):
            continue
        why = view.required.get(unit) or (Reason.FITS if is_kept[first] else taken.reasons.get(unit, others))
        if (why is Reason.UNANSWERED or unit in covered) and records.unsent[first]:
            why = next((each for flag, each in _UNSENT.items() if records.having(flag)[first]), Reason.SUMMARY)
            is_summary = taken.summary is not None and taken.summary.seq == seqs[first]
            why = Reason.STANDS if why is Reason.COMPACTION and is_summary else why
        elif why is Reason.UNANSWERED and roles[first] >= TOOL:
            why = Reason.APART
        for row in range(first, starts[unit + 1]):
            cost, kept, thought, unsaid = told[row]
            lines.append(Explained(seqs[row], ROLES[roles[row]], cost, kept, why.text, thought, unsaid))
    return lines if order is None else sorted(lines, key=lambda line: line.seq)


def does_not_fit(budget: int, parts: Mapping[str, int]) -> WindowDoesNotFit:
    """The problem with the tokens of each required part, which sum to ``needed``.

    ``grounding`` are documents that may not be trimmed. Where all fits without them, the problem is theirs.
    """
    costs = {name: cost for name, cost in parts.items() if cost}
    needed, grounding = sum(costs.values()), costs.get("grounding", 0)
    said = ", ".join(f"{name} {cost}" for name, cost in costs.items())
    members = {"limit": "tokens", "budget": budget, "needed": needed, "shortfall": needed - budget, "costs": costs}
    if needed - grounding <= budget:
        room = budget - needed + grounding
        return GroundingDoesNotFit(
            f"The documents cost {grounding} tokens and there is room for {room}: {needed - budget} over.",
            members=members,
        )
    return WindowDoesNotFit(
        f"What must be in the window costs {needed} tokens ({said}) and the budget is {budget}: {needed - budget} over.",
        members=members,
    )
