"""The window of the messages that a walk kept: its tokens, the edits of its messages, and what it leaves out."""

from collections.abc import Sequence

import msgspec
import numpy as np

from sash.core.counts.costs.counting import has_calls, reference_tokens
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import Number
from sash.core.law.fixed_parts.fixed_costs import first_rows
from sash.core.law.fixed_parts.plan import Plan, WindowSpec
from sash.core.law.history.notes import note_line
from sash.core.law.history.results import Edit
from sash.core.law.history.view import Thoughts, View
from sash.core.law.records.costs import costs_as_counted, reference_costs
from sash.core.law.records.figures import Dropped, WindowTokens
from sash.core.law.records.reasons import Reason
from sash.core.law.selection.binding import accepted_from
from sash.core.law.selection.cutting import grown
from sash.core.law.selection.explain import explain
from sash.core.law.selection.sending import begins_turn
from sash.core.law.selection.walk import Walk
from sash.core.law.selection.window import Allowed, Window
from sash.core.providers import binds_reasoning
from sash.core.stored.record import WindowFlags
from sash.core.stored.stored_summary import Summary


def composed(taken: Walk, spec: WindowSpec, allowed: Allowed, budget: int, goes_on: int | None) -> Window:
    """The window of a walk. ``budget`` is in tokens. A line may ask to go on behind the reply of the row ``goes_on``."""
    plan, view, rows, fixed = spec.plan, taken.view, taken.rows, taken.fixed
    history, seqs, messages, is_moved = view.history, view.history.seqs, taken.cost, view.history.order is not None
    if view.edits:  # remaining room extends the newest results again
        view = grown(view, spec, taken.room)
        messages += int((view.costs - taken.view.costs).sum())
    tools, texts, reasoning = fixed.tools, messages, 0
    sent, left, left_of, accepted = None, None, (), 0
    if view.thoughts is not None:
        sent, left, accepted = _reasoning(view, view.thoughts, taken, spec, allowed, budget - fixed.total)
        texts -= int(view.thoughts.sent[rows].sum())
        reasoning, left_of = int(sent[rows].sum()), left[rows].tolist()
    if taken.note or taken.summary is not None or plan.stands_in or view.systems:
        tools = _tools_tokens(view, plan, taken, rows)
    grounding, left_grounding = {}, history.grounding_tokens
    if taken.grounding:
        grounding = {seqs[row]: taken.grounding[row] for row in sorted(taken.grounding)}
        left_grounding = max(0, left_grounding - sum(each.tokens for each in grounding.values()))
    missing = history.length - len(rows) if taken.summary is None else left_out(view, len(rows), taken.summary)
    is_edited = left_of or view.edits or is_moved or history.seen is not None
    return Window(
        budget=budget,
        rows=rows,
        seqs=seqs[rows.start : rows.stop] if isinstance(rows, range) else [*map(seqs.__getitem__, rows)],
        question=seqs[history.asked] if history.asked >= 0 else 0,
        is_moved=is_moved,
        grounding=grounding,
        summary=taken.summary,
        note=taken.note,
        tokens=WindowTokens(
            total=fixed.total - fixed.tools + tools + texts + taken.spent + reasoning,
            priming=fixed.priming,
            system=fixed.system,
            few_shots=fixed.few_shots,
            tools=tools,
            summary=fixed.summary,
            messages=texts,
            grounding=taken.spent,
            reasoning=reasoning,
        ),
        dropped=Dropped(
            messages=missing,
            tokens=_tokens_left_out(view, plan.model, taken, messages) if missing else 0,
            duplicates=taken.duplicates,
            grounding_messages=history.grounding_messages - len(taken.grounding),
            grounding_tokens=left_grounding,
            reasoning_tokens=sum(left_of),
            images=0,
            files=0,
            media_bytes=0,
        ),
        stop_reason=taken.stop,
        explain=explain(view, taken, sent, left) if plan.query.explain else None,
        edits=_edits(view, plan, rows, left_of, accepted) if is_edited else {},
        path=spec.path,
        opening=taken.opening,
        cut=taken.cut if taken.cut is not None and taken.cut.since is not None else None,
        passed=_passed(taken, view) if taken.reasons else frozenset(),
        goes_on=seqs[goes_on] if goes_on is not None and goes_on in rows else 0,
    )


def _reasoning(
    view: View, thoughts: Thoughts, taken: Walk, spec: WindowSpec, allowed: Allowed, room: int
) -> tuple[Number, Number, int]:
    """Each message's tokens of reasoning that are sent, and those that are not; and the first row whose are accepted."""
    if not binds_reasoning(spec.plan.model.known_as):
        return thoughts.sent, thoughts.left, 0
    accepted = accepted_from(view, spec, taken, allowed, room, noted=bool(taken.note))
    is_refused = (thoughts.sent > 0) & (np.arange(len(thoughts.sent)) < accepted)
    return np.where(is_refused, 0, thoughts.sent), np.where(is_refused, thoughts.sent, thoughts.left), accepted


def _edits(view: View, plan: Plan, rows: Sequence[int], left: Sequence[int], accepted: int) -> dict[int, Edit]:
    """The changes to messages before they are sent, by row. ``left`` are their tokens of reasoning that is left out."""
    edits = {row: view.edits[row] for row in rows if row in view.edits} if view.edits else {}
    order, seen = view.history.order, view.history.seen
    if any(left):
        # Signatures go with ``reasoning=none``, but those of the newest turn, and where the model refuses the reasoning.
        turn = begins_turn(view.history) + 1 if plan.query.reasoning == "none" else 0
        for row, tokens in zip(rows, left, strict=True):
            if tokens:
                is_unsigned = row < max(accepted, turn)
                edits[row] = msgspec.structs.replace(
                    edits.get(row, Edit()), without_reasoning=True, without_seals=is_unsigned
                )
    if order is not None:
        for row in order.missing["dropped"].keys() & set(rows):
            edits[row] = msgspec.structs.replace(edits.get(row, Edit()), without_calls=order.missing["dropped"][row])
    if seen is not None:
        texts = {*view.history.records.flagged_rows(WindowFlags.TEXT_ONLY)}
        edits |= {row: Edit(only_text=True) for row in rows if row in texts}
    return edits


def _tools_tokens(view: View, plan: Plan, taken: Walk, rows: Sequence[int]) -> int:
    """The tokens of definitions. They may depend on the first message and on system messages.

    Where one stands in for tools, it is sent beside calls alone; so it is with the cost of calls without definitions.
    """
    if not plan.parts.fixed.defines(plan.model):
        return 0
    records = view.history.records
    lines = (taken.summary, note_line(taken.note, plan.model.vocabulary) if taken.note else None)
    known = rows[:1] if not view.systems else first_rows(rows, records.roles, plan.model, view.systems)
    beside = [each.measure for each in (*lines, *(records[row] for row in known)) if each is not None]
    calls = plan.stands_in and any(has_calls(records[row].measure) for row in rows)
    return plan.parts.fixed.tools_tokens(plan.model, beside, calls=calls)


def _passed(taken: Walk, view: View) -> frozenset[int]:
    """The seqs of the units that the walk passed over although they would fit, or although it kept older ones."""
    oldest, passed = taken.oldest, (Reason.UNANSWERED, Reason.DUPLICATE)
    units = sorted(index for index, why in taken.reasons.items() if index > oldest or why in passed)
    return frozenset(map(view.history.seqs.__getitem__, view.units.members(units)))


def _tokens_left_out(view: View, model: Model, taken: Walk, messages: int) -> int:
    """The parts of the history that the window leaves out, in reference tokens of the encoding. ``messages`` are the tokens
    of those that it has, with reasoning."""
    history, summary = view.history, taken.summary
    is_in_order = history.order is None and history.seen is None
    alike = is_in_order and not view.edits and costs_as_counted(history.records, model, history.column)
    if not alike:
        messages = int(reference_costs(history.records, history.column)[[*taken.rows]].sum())
    if summary is not None and _is_message(summary):
        messages += reference_tokens(summary.measure)[history.column]
    return history.tokens - messages


def left_out(view: View, kept: int, summary: Summary | None) -> int:
    """The number of messages beside those that are ``kept``, and not sent as the summary."""
    return view.history.length - kept - (summary is not None and _is_message(summary))


def _is_message(summary: Summary) -> bool:
    """Whether the summary is a message of the conversation as it came."""
    return bool(summary.seq) and summary.compaction is not None
