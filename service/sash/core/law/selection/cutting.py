"""The cutting of tool results.

* What it is for: results that are longer than they may be, or older than those that are sent whole.
* When it can matter: in every window but with ``tool_result_overflow=error``; with ``tool_result_max_tokens`` or
  ``tool_results_kept`` then, too.
* What wakes it: a result.
* What it does: results cost less, and the view tells how each is cut (``Edit``). Their texts are cut behind the choice.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from sash.core.counts.models.families import TOOL
from sash.core.counts.text.numbers import Number
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.fillers import came_in
from sash.core.law.history.results import Edit, line_costs, share_of
from sash.core.law.history.view import View
from sash.core.law.records.costs import message_costs
from sash.core.law.records.reasons import Reason
from sash.core.law.records.units import unit_at
from sash.core.stored.record import RESULTS, Flags


def limited(view: View, spec: WindowSpec, limit: int) -> View:
    """The view with results cut to ``tool_result_max_tokens``."""
    is_result = np.frombuffer(view.history.records.roles, np.uint8) >= TOOL
    return _cut(view, spec, np.flatnonzero(is_result & (view.costs > limit)).tolist(), limit=limit)


def overlong_cut(view: View, spec: WindowSpec, room: int) -> View:
    """The view with tool groups larger than their share of ``room`` cut to it, wherever they are in the history.

    So such a group is sent in the same form while it is the newest and afterwards.
    """
    if spec.plan.query.tool_result_overflow != "trim":
        return view
    share, costs = share_of(room), view.unit_costs
    for unit in np.flatnonzero(costs > share).tolist():
        is_pinned = view.required.get(unit) not in (None, Reason.NEWEST)
        if not (is_pinned or unit in view.units.broken):
            results = _results_in(view, [unit])
            beside = int(costs[unit] - view.costs[results].sum())
            view = _cut(view, spec, results, room=share - beside)
    return view


def required_cut(view: View, spec: WindowSpec, room: int, beside: Callable[[], int]) -> View:
    """The view with required results cut to their share of ``room``, or to less if the required messages do not fit.

    ``beside`` tells the smallest number of tokens for documents and an opening.
    """
    if spec.plan.query.tool_result_overflow != "trim":
        return view
    if spec.plan.query.stable:
        view = _cut(view, spec, _results_in(view, lasting_units(view)), room=share_of(room))
    results = _results_in(view, view.required)
    if not results:
        return view
    cost = int(view.costs[results].sum())
    most = min(share_of(room), cost + room - beside() - sum(view.required_costs().values()))
    return _cut(view, spec, results, room=most) if cost > most else view


def grown(view: View, spec: WindowSpec, room: int) -> View:
    """The view in which the cut results of required messages are longer by the remaining ``room``."""
    if room <= 0 or spec.plan.query.stable:
        return view
    cut = [row for row in _results_in(view, view.required) if row in view.edits]
    return _cut(view, spec, cut, room=int(view.costs[cut].sum()) + room)


def cleared(view: View, spec: WindowSpec, newest: int) -> View:
    """The view with results as one line each, except those of the newest ``tool_results_kept`` groups.

    Groups are counted back from the row ``newest``. Results of required groups are not changed.
    """
    kept, starts = spec.plan.query.tool_results_kept or 0, view.units.starts
    is_group = np.frombuffer(view.history.records.roles, np.uint8)[np.asarray(view.units.edges)[1:] - 1] >= TOOL
    counted = [unit for unit in np.flatnonzero(is_group).tolist() if starts[unit] <= newest]
    if counted and newest < starts[counted[-1] + 1]:
        kept = max(kept, 1)  # the newest message is never cleared, and must not change until the cut moves
    old = [unit for unit in counted[: max(0, len(counted) - kept)] if unit not in view.required]
    return _cut(view, spec, _results_in(view, old), limit=0)


def lasting_units(view: View) -> set[int]:
    """The units whose room every later window keeps: those before the tail, but not the newest question; and pinned ones,
    also where their other results have not come yet."""
    units, history = view.units, view.history
    pinned = {unit_at(units, row) for row in history.records.where(Flags.PINNED)}
    return {*range(units.front)} - {unit_at(units, history.asked)} | pinned


def uncut(view: View, limit: int | None) -> Number:
    """The tokens of each message if results were cut to ``tool_result_max_tokens`` (``limit``) alone, as an array."""
    costs = view.costs.copy()
    for row, edit in view.edits.items():
        cost = costs.item(row)
        costs[row] = cost + edit.saved if limit is None else min(cost + edit.saved, max(limit, cost))
    return costs


def _cut(view: View, spec: WindowSpec, results: Sequence[int], *, limit: int = 0, room: int | None = None) -> View:
    """The view with these results cut to at most ``limit`` tokens each; with a ``room``, to the limit by which all of them
    fit into it, if there is one.

    A result of which a line costs more than the limit becomes this line, and with a limit of 0 each does. One that costs
    no more than its limit is not cut.
    """
    if not results:
        return view
    history, plan, most = view.history, spec.plan, spec.plan.query.tool_result_max_tokens
    are_lines = room is None and not limit  # then they have no images and files
    seqs = [history.seqs[row] for row in results]
    more = _beside_results(view, spec, results, are_lines=are_lines)
    lines = np.array(line_costs(history.records, results, seqs, spec.path, plan.model, alone=are_lines)) + more
    whole = uncut(view, most)[results]

    def costs(limit: int) -> Number:
        return np.minimum(whole, np.maximum(limit, lines))

    if room is not None:  # the longest are cut first
        limit = bisect_right(range(1, int(whole.max()) + 1), room, key=lambda each: costs(each).sum())
    changed, edits = view.costs.copy(), dict(view.edits)
    for row, cost, beside in zip(results, costs(limit).tolist(), more.tolist(), strict=True):
        before = edits.pop(row, None)
        saved = changed.item(row) + (before.saved if before is not None else 0) - cost
        changed[row] = cost
        if saved:
            sent = cost - beside
            edits[row] = Edit(limit=0 if are_lines else min(sent, most or sent), cost=sent, saved=saved)
    return msgspec.structs.replace(view, priced=changed, edits=edits)


def _beside_results(view: View, spec: WindowSpec, results: Sequence[int], *, are_lines: bool) -> Number:
    """The tokens that these messages cost beside their results: reasoning, and what a form adds for files and links, which a
    line does not have, nor a cut result in its chat form."""
    records, model = view.history.records, spec.plan.model
    more: Number = (uncut(view, None) - message_costs(records, model))[results]
    if not more.any():
        return more
    thoughts = view.thoughts.sent[results] if view.thoughts is not None else more * 0
    if are_lines:
        return thoughts
    return np.where([came_in(records[row].measure, model.format) for row in results], more, thoughts)


def _results_in(view: View, units: Iterable[int]) -> list[int]:
    """The rows of the tool results in these units, ascending."""
    roles, starts = view.history.records.roles, view.units.starts
    return [row for unit in sorted(units) for row in range(starts[unit], starts[unit + 1]) if roles[row] in RESULTS]
