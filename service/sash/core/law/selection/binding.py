"""Finds the reasoning that a provider still accepts, if the provider binds each block to the messages before it.

The model wrote a block of reasoning after it had read a window. The provider accepts the block only behind the messages of
that window. This holds while no message is left out, or since a stable cut last moved. It does not hold if that window had
a message only because the message was the newest one. Providers let clients leave out the oldest blocks, so the result is
one row: reasoning is sent from there on.
"""

import numpy as np

from sash.core.counts.models.families import ASSISTANT, DEVELOPER, SYSTEM, TOOL, USER
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.window_spec import WindowSpec
from sash.core.law.history.results import share_of
from sash.core.law.history.view import History, View, unit_costs
from sash.core.law.records.costs import message_costs
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.reasons import Reason
from sash.core.law.records.records import Flags, WindowFlags
from sash.core.law.records.units import unit_at
from sash.core.law.selection.stable import Cut
from sash.core.providers import PROVIDERS


def keeps_reasoning_from(
    view: View,
    spec: WindowSpec,
    *,
    room: int,
    kept: frozenset[int],
    is_whole: bool,
    cut: Cut | None,
    stood: int = 0,
    since: int = 0,
) -> int:
    """Return the first row whose reasoning is accepted; the number of rows if no reasoning is.

    ``room`` is the budget minus the fixed parts, in tokens. ``kept`` are the indexes of the window's units. ``is_whole``:
    nothing was left out. ``cut`` is where a stable cut lets history begin. ``stood`` is the last message that the provider's
    own compaction covers, behind which reasoning stays accepted, and ``since`` the first row that was written behind what is
    sent between the two
    (platform.claude.com/docs/en/build-with-claude/compaction-thinking-blocks, November 2026); 0 without one.
    """
    history, model, options = view.history, spec.plan.model, spec.plan.query
    behind, front = len(history.records), history.records.front
    if not is_whole and cut is None:
        return behind
    if options.dedupe == "messages" or (stood and history.recalled):  # a message removes an earlier equal one
        return behind
    # The store does not keep when a redaction was made. With `reasoning=turn`, a message before the question was probably
    # redacted before the question was asked.
    asked_at = history.asked if options.reasoning == "turn" else 0
    begins = max(asked_at, front + int((history.seqs[front:] <= stood).sum()))
    if any(flags & Flags.REDACTED for flags in history.records.flags[begins:]):
        return behind
    lifts = not PROVIDERS[options.format].replies_are_items  # Responses have system messages in their places
    stands, asked = max(_behind_instructions(history) if lifts else 0, since), 0
    if history.grounding_messages and options.grounding != "none":
        if options.grounding == "all":  # a repeated document moves to the newest question
            return behind
        stands = max(stands, history.asked + 1)  # documents of earlier questions are not sent again
        asked = _documents_cost(history, spec, room)
    stands = max(stands, _behind_pressed(view, model, options, room, asked))
    return stands if is_whole or cut is None else max(stands, _behind_cut(view, kept, cut, noted=options.note))


def _documents_cost(history: History, spec: WindowSpec, room: int) -> int:
    """The tokens of the newest question's documents that fit a room."""
    asked = history.asked
    if asked < 0:
        return 0
    chosen = spec.documents.choose(history.question, history.records[asked], spec.plan.model, room)
    return chosen.cost if chosen else 0


def _behind_instructions(history: History) -> int:
    """The first row after the newest system or developer message, which is sent at the top, before all reasoning."""
    roles = history.records.roles
    return max(roles.rfind(SYSTEM), roles.rfind(DEVELOPER)) + 1


def _behind_cut(view: View, kept: frozenset[int], cut: Cut, *, noted: bool) -> int:
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
    return max(cut.since or 0, cut.row, history.records.roles.find(USER, cut.row)) + 1


def _behind_pressed(view: View, model: Model, options: WindowQuery, room: int, asked: int) -> int:
    """The first row after the tool groups that did not fit whole while they were the newest.

    Their results, or the newest question's documents of ``asked`` tokens, were shorter in that window than they are now.
    """
    history, units, now = view.history, view.units, view.unit_costs
    free = room - sum(cost for why, cost in view.always_costs().items() if not why.moves)
    free -= _cut_from_pinned(view, model, options, room)
    limit = options.tool_result_max_tokens
    whole = message_costs(history.records, model)
    whole = unit_costs(units, np.maximum(view.costs, whole if limit is None else np.minimum(whole, limit)))
    roles, begins = np.frombuffer(history.records.roles, np.uint8), units.begins
    is_sent = history.records.of_window()[begins] & WindowFlags.COVERED == 0
    is_newest = begins == history.asked
    is_inside = np.arange(len(units)) >= view.front
    asks = (roles[begins] == USER) & is_sent & (is_inside | is_newest)
    groups = (roles[begins] == ASSISTANT) & (roles[units.ends - 1] >= TOOL) & is_sent
    question = np.append(now + np.where(is_newest, asked, 0), 0)
    question = question[np.maximum.accumulate(np.where(asks, np.arange(len(units)), -1))]  # at -1 there is none
    if options.stable:  # a group is cut to the same length wherever it is
        whole = np.where(whole > share_of(room), np.maximum(share_of(room), now), whole)
    pressed = (asks | groups) & (np.where(groups, whole, 0) + question > free)
    if not options.stable:  # a group had all the room while it was the newest
        groups[[*view.always]] = False
        pressed |= groups & (whole > now)
    pressed &= is_inside
    return int(units.ends[pressed].max()) + 1 if pressed.any() else 0


def _cut_from_pinned(view: View, model: Model, options: WindowQuery, room: int) -> int:
    """Tokens of pinned results that are cut in this window because of its newest group, and may be whole in the next."""
    results = ((row, unit_at(view.units, row)) for row in view.edits)
    rows = [row for row, unit in results if unit < view.front or view.always.get(unit) == Reason.PINNED]
    limit = options.tool_result_max_tokens
    costs = message_costs(view.history.records, model)[rows].tolist()
    whole: int = sum(cost if limit is None else min(cost, limit) for cost in costs)
    return max(0, (min(whole, share_of(room)) if options.stable else whole) - int(view.costs[rows].sum()))
