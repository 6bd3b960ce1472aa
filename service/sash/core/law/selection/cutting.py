"""The cutting of tool results.

* What it is for: results that are longer than they may be, or older than those that are sent whole.
* When it can matter: in every window but with ``tool_result_overflow=error``; with ``tool_result_max_tokens`` or
  ``tool_results_kept`` then, too.
* What wakes it: a result.
* What it does: results cost less, and the view tells how each is cut (``Edit``). Their texts are cut behind the choice.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from sash.core.counts.models.families import FUNCTION, TOOL
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.results import Edit, line_costs, share_of, shared_limits
from sash.core.law.history.view import View
from sash.core.law.records.costs import message_costs
from sash.core.law.records.reasons import Reason
from sash.core.law.records.units import unit_at
from sash.core.stored.record import RESULTS, Flags


def limited(view: View, spec: WindowSpec, limit: int) -> View:
    """The view with results cut to ``tool_result_max_tokens``."""
    results = _results_in(view, _groups(view))
    return _cut(view, spec, [index for index in results if view.costs[index] > limit], limit)


def overlong_cut(view: View, spec: WindowSpec, room: int) -> View:
    """The view with tool groups larger than their share of ``room`` cut to it, wherever they are in the history.

    So such a group is sent in the same form while it is the newest and afterwards.
    """
    share = share_of(room)
    if spec.plan.query.tool_result_overflow != "trim" or view.unit_costs.max(initial=0) <= share:
        return view
    for unit in np.flatnonzero(view.unit_costs > share).tolist():
        is_pinned = view.required.get(unit) not in (None, Reason.NEWEST)
        if not (is_pinned or unit in view.units.broken):
            results = _results_in(view, [unit])
            beside = int(view.unit_costs[unit] - view.costs[results].sum())
            view = _shared(view, spec, results, share - beside)
    return view


def required_cut(view: View, spec: WindowSpec, room: int, beside: Callable[[], int]) -> View:
    """The view with required results cut to their share of ``room``, or to less if the required messages do not fit.

    ``beside`` tells the smallest number of tokens for documents and an opening.
    """
    if spec.plan.query.tool_result_overflow != "trim":
        return view
    if spec.plan.query.stable:
        # Also pinned groups whose other results have not come yet.
        pinned = {unit_at(view.units, index) for index in view.history.records.where(Flags.PINNED)}
        kept = _results_in(view, sorted(pinned.union(range(view.units.front))))
        view = _shared(view, spec, kept, share_of(room)) if kept else view
    results = _results_in(view, view.required)
    if not results:
        return view
    cost = int(view.costs[results].sum())
    most = min(share_of(room), cost + room - beside() - sum(view.required_costs().values()))
    return _shared(view, spec, results, most) if cost > most else view


def grown(view: View, spec: WindowSpec, room: int) -> View:
    """The view in which the cut results of required messages are longer by the remaining ``room``."""
    if room <= 0 or not view.edits or spec.plan.query.stable:
        return view
    cut = [index for index in _results_in(view, view.required) if index in view.edits]
    return _shared(view, spec, cut, int(view.costs[cut].sum()) + room) if cut else view


def cleared(view: View, spec: WindowSpec, newest: int) -> View:
    """The view with results as one line each, except those of the newest ``tool_results_kept`` groups.

    Groups are counted back from the row ``newest``. Results of required groups are not changed.
    """
    kept = spec.plan.query.tool_results_kept
    if kept is None:
        return view
    starts = view.units.starts
    counted = [index for index in _groups(view) if starts[index] <= newest]
    if counted and newest < starts[counted[-1] + 1]:
        kept = max(kept, 1)  # the newest message is never cleared, and must not change until the cut moves
    old = [index for index in counted[: max(0, len(counted) - kept)] if index not in view.required]
    return _cut(view, spec, _results_in(view, old), 0)


def _shared(view: View, spec: WindowSpec, results: Sequence[int], room: int) -> View:
    """The view with ``results`` cut so that together they cost ``room``, if possible."""
    lines, limit = _lines(view, spec, results), spec.plan.query.tool_result_max_tokens
    whole = message_costs(view.history.records, spec.plan.model)[[*results]]
    if limit is not None:
        whole = np.minimum(whole, np.maximum(limit, lines))
    least = np.minimum(whole, lines)
    return _sent(view, spec, results, shared_limits(whole.tolist(), least.tolist(), room))


def _cut(view: View, spec: WindowSpec, results: Sequence[int], limit: int) -> View:
    """The view with results cut to ``limit``, or to one line if that costs more or it is 0. None becomes longer."""
    lines, costs = _lines(view, spec, results, alone=not limit), view.costs.tolist()
    each = ((index, max(limit, line)) for index, line in zip(results, lines, strict=True))
    less = {index: cost for index, cost in each if cost < costs[index]}
    return _sent(view, spec, [*less], [*less.values()], are_lines=not limit)


def _sent(
    view: View, spec: WindowSpec, results: Sequence[int], costs: Sequence[int], *, are_lines: bool = False
) -> View:
    """The view with results cut so that they have these costs. One that has its whole cost is not cut."""
    if not results:
        return view
    whole, most = message_costs(view.history.records, spec.plan.model), spec.plan.query.tool_result_max_tokens
    changed, edits = view.costs.copy(), dict(view.edits)
    for index, cost in zip(results, costs, strict=True):
        changed[index], saved = cost, whole.item(index) - cost
        edits.pop(index, None)
        if saved:
            edits[index] = Edit(limit=0 if are_lines else min(cost, most or cost), saved=saved)
    return msgspec.structs.replace(view, priced=changed, edits=edits)


def _lines(view: View, spec: WindowSpec, results: Sequence[int], *, alone: bool = False) -> list[int]:
    """Tokens of these results as one line each, with their images and files unless it is sent ``alone``."""
    records, seqs = view.history.records, [view.history.seqs[row] for row in results]
    return line_costs(records, results, seqs, spec.path, spec.plan.model, alone=alone) if results else []


def _results_in(view: View, units: Iterable[int]) -> list[int]:
    """The indexes of the tool results in these units."""
    roles, starts = view.history.records.roles, view.units.starts
    return [at for unit in units for at in range(starts[unit], starts[unit + 1]) if roles[at] in RESULTS]


def _groups(view: View) -> list[int]:
    """Indexes of the units that end with a tool result."""
    records = view.history.records
    last = np.frombuffer(records.roles, np.uint8)[view.units.ends - 1]
    found: list[int] = np.flatnonzero((last == TOOL) | (last == FUNCTION)).tolist()
    return found
