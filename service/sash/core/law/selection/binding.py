"""Finds the reasoning that a provider still accepts, if the provider binds each block to the messages before it.

The model wrote a block of reasoning after it had read a window. The provider accepts the block only behind the messages of
that window. This holds while no message is left out, or since a stable cut last moved. It does not hold if that window had
a message only because the message was the newest one. Providers let clients leave out the oldest blocks, so the result is
one row: reasoning is sent from there on.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

import msgspec
import numpy as np

from sash.core.counts.models.families import ASSISTANT, DEVELOPER, SYSTEM, TOOL, USER
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.results import share_of
from sash.core.law.history.view import History, Thoughts, View, since, unit_costs
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.reasons import Reason
from sash.core.law.records.units import unit_at
from sash.core.law.selection.cutting import uncut
from sash.core.law.selection.stable import Cut
from sash.core.law.selection.walk import Walk
from sash.core.law.selection.window import Allowed
from sash.core.providers import PROVIDERS, binds_reasoning
from sash.core.stored.record import Flags, WindowFlags
from sash.core.stored.stored_summary import Summary


def accepted_of(thoughts: Thoughts, taken: Walk, spec: WindowSpec, allowed: Allowed, room: int) -> tuple[Thoughts, int]:
    """The reasoning as the provider accepts it, and the first row whose reasoning it accepts."""
    if not binds_reasoning(spec.plan.model.known_as):
        return thoughts, 0
    accepted = _accepted_from(taken, spec, allowed, room)
    is_refused = (thoughts.sent > 0) & (np.arange(len(thoughts.sent)) < accepted)
    sent, left = np.where(is_refused, 0, thoughts.sent), np.where(is_refused, thoughts.sent, thoughts.left)
    return msgspec.structs.replace(thoughts, sent=sent, left=left), accepted


def _accepted_from(taken: Walk, spec: WindowSpec, allowed: Allowed, room: int) -> int:
    """The first row whose reasoning is accepted; the number of rows if no reasoning is.

    Behind a provider's own compaction reasoning stays accepted
    (platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks, November 2026).
    """
    view, options, summary = taken.view, spec.plan.query, taken.summary
    history = view.history
    compaction = summary if summary is not None and summary.compaction is not None else None
    stood = history.covered if compaction is not None else 0
    oldest = history.first_seq if history.seen is not None and history.seen.is_whole else 1
    is_all = [history.seqs[row] for row in taken.rows[:1]] == [oldest] and taken.stop == "complete" and summary is None
    is_lined = bool(taken.note) or allowed.is_lined or any(each.limit == 0 for each in view.edits.values())
    is_whole = (taken.stop == "summary" if stood else is_all) and not is_lined
    # Recalled messages and a summary may be new, and then so is the text before the reasoning.
    cut = None if spec.recall_reserve or (summary is not None and not stood) else taken.cut
    behind = len(history.records)
    # With dedupe=messages, a message removes an earlier equal one.
    if (not is_whole and cut is None) or options.dedupe == "messages" or (stood and history.recalled):
        return behind
    stands = max(_behind_changes(view, spec, room, stood), allowed.changed_row + 1)
    if history.order is not None and history.order.late:  # earlier reasoning was made without these results
        stands = max(stands, since(history, max(history.seqs[row] for row in history.order.late) + 1))
    if compaction is not None:
        stands = max(stands, _behind_compaction(history, spec, taken.rows, compaction))
    if not is_whole and cut is not None:
        stands = max(stands, _behind_cut(view, {*taken.kept}, cut, noted=options.note))
    return stands


def _behind_changes(view: View, spec: WindowSpec, room: int, stood: int) -> int:
    """The first row after what changes in its place: redacted messages, instructions, documents and long results.

    ``stood`` is the seq of the last message that the provider's own compaction covers.
    """
    history, model, options = view.history, spec.plan.model, spec.plan.query
    behind, front = len(history.records), history.records.front
    # The store does not keep when a redaction was made. With `reasoning=turn`, a message before the question was probably
    # redacted before the question was asked.
    asked_at = history.asked if options.reasoning == "turn" else 0
    begins = max(asked_at, front + sum(seq <= stood for seq in history.seqs[front:]))
    if any(flags & Flags.REDACTED for flags in history.records.flags[begins:]):
        return behind
    lifts = not PROVIDERS[model.format].replies_are_items  # Responses have system messages in their places
    # The newest system or developer message is sent at the top, before all reasoning.
    roles = history.records.roles
    stands, asked = max(roles.rfind(SYSTEM), roles.rfind(DEVELOPER)) + 1 if lifts else 0, 0
    if history.grounding_messages and options.grounding != "none":
        if options.grounding == "all":  # a repeated document moves to the newest question
            return behind
        stands = max(stands, history.asked + 1)  # documents of earlier questions are not sent again
        if history.asked >= 0:
            chosen = spec.documents.choose(history.seqs[history.asked], history.records[history.asked], model, room)
            asked = chosen.cost if chosen else 0
    return max(stands, _behind_pressed(view, options, room, asked))


def _behind_compaction(history: History, spec: WindowSpec, rows: Sequence[int], summary: Summary) -> int:
    """The first row that was written in a window with the compaction and what is sent between it and its reply.

    The reply that the compaction came with was written right behind it.
    """
    stands, roles = history.covered, history.records.roles
    between = [row for row in rows if history.seqs[row] <= stands and roles[row] > DEVELOPER]
    # Another question had other recalled messages before it.
    asked = history.asked + 1 if spec.recall_reserve else 0
    if not (between or spec.plan.parts.few_shots):
        return asked
    if not summary.seq:  # it was put at an unknown time
        return len(roles)
    behind = range(since(history, max(history.first_seq, stands + 1)), len(roles))
    return max(asked, next((row for row in behind if roles[row] != ASSISTANT), len(roles)))


def _behind_cut(view: View, kept: AbstractSet[int], cut: Cut, *, noted: bool) -> int:
    """The first row whose message was made from a window with the same cut and the same messages since the cut.

    ``noted``: the system text has the number of left-out messages, among them unanswered calls and replies in progress.
    """
    history, units = view.history, view.units
    count = len(history.records)
    if not history.records.front <= cut.row < count:
        return count
    since = range(unit_at(units, cut.row), len(units))
    if any(index not in kept and (noted or index not in units.broken) for index in since):
        return count
    return max(cut.since or 0, cut.row, history.records.sent_roles.find(USER, cut.row)) + 1


def _behind_pressed(view: View, options: WindowQuery, room: int, asked: int) -> int:
    """The first row after the tool groups that did not fit whole while they were the newest.

    Their results, or the newest question's documents of ``asked`` tokens, were shorter in that window than they are now.
    """
    history, units, uncut_costs = view.history, view.units, uncut(view, options.tool_result_max_tokens)
    free = room - sum(cost for why, cost in view.required_costs().items() if not why.moves)
    # Pinned results may be longer in the next window, as the newest group of this one cuts them.
    cut = ((row, unit_at(units, row)) for row in view.edits)
    pinned = [row for row, unit in cut if unit < units.front or view.required.get(unit) == Reason.PINNED]
    longest = int(uncut_costs[pinned].sum())
    free -= max(0, (min(longest, share_of(room)) if options.stable else longest) - int(view.costs[pinned].sum()))
    costs = zip(view.unit_costs.tolist(), unit_costs(units, uncut_costs).tolist(), strict=True)
    roles, marks, stands, question = history.records.sent_roles, history.records.of_window(), 0, 0
    for unit, ((first, end), (now, whole)) in enumerate(zip(pairwise(units.starts), costs, strict=True)):
        is_group = roles[first] == ASSISTANT and roles[end - 1] >= TOOL
        is_asked = roles[first] == USER and (unit >= units.front or first == history.asked)
        if marks[first] & WindowFlags.COVERED or not (is_group or is_asked):
            continue
        if is_asked:
            question = now + (asked if first == history.asked else 0)
        # With a stable cut, a group is cut to the same length wherever it is; else it had all the room as the newest.
        then = 0 if is_asked else min(whole, max(share_of(room), now)) if options.stable else whole
        is_longer = is_group and not options.stable and unit not in view.required and whole > now
        if unit >= units.front and (then + question > free or is_longer):
            stands = end + 1
    return stands
