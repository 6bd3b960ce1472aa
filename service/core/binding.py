"""Which blocks of reasoning a model still accepts that binds each to all that stood before it when it was made.

A block stands while the window that it was made from is the beginning of this one. Windows begin alike while nothing was
left out, or while a stable cut stands; what stood in one only because it was the newest is gone from the next. Blocks may be
left out from the oldest on, so one seq decides: reasoning from there on is sent.
"""

from typing import Final

from service.core.costs import record_cost
from service.core.models import Model
from service.core.parameters import WindowQuery
from service.core.results import RESULTS
from service.core.stable import Cut
from service.core.units import USER
from service.core.view import View, unit_at

_NEWEST: Final = ("newest", "question")


def standing_from(
    view: View, *, model: Model, options: WindowQuery, room: int, kept: frozenset[int], cut: Cut | None
) -> int:
    """Return the first seq whose reasoning stands; one behind the history where none does.

    ``room`` is the budget less the fixed parts, ``kept`` the units of the window, ``cut`` where a stable cut lets history
    begin: None where nothing was left out.
    """
    history = view.history
    behind = history.length + 1
    if options.dedupe == "messages":  # an equal message takes the one before it away
        return behind
    # Documents of earlier questions are not sent again, which changes what came before.
    documents = history.grounding_messages and options.grounding != "none"
    stands = max(history.question + 1 if documents else 0, _behind_cut_results(view, model, options, room))
    return stands if cut is None else max(stands, _behind_cut(view, kept, cut))


def _behind_cut(view: View, kept: frozenset[int], cut: Cut) -> int:
    """The first seq that was made from a window which began at the cut, and held nothing before it that is gone now."""
    history, units = view.history, view.units
    first = history.first_seq
    if not first <= cut.seq <= history.length:
        return history.length + 1
    if any(
        index not in kept and index not in units.broken for index in range(unit_at(units, cut.seq - first), len(units))
    ):
        return history.length + 1
    question = history.records.roles.find(USER, cut.seq - first)
    return max(cut.since_seq, cut.seq, first + question if question >= 0 else 0) + 1


def _behind_cut_results(view: View, model: Model, options: WindowQuery, room: int) -> int:
    """The first seq behind results that were cut while they were the newest, and what was made of them.

    They were sent shorter then, because they and their question are in every window, than they are as history.
    """
    history, units = view.history, view.units
    first, roles = history.first_seq, history.records.roles
    steady = sum(cost for why, cost in view.always_costs().items() if why not in _NEWEST)
    question = 0
    stands = 0
    for index, start in enumerate(units.starts[:-1]):
        if roles[start] == USER:
            question = view.unit_costs[index]
        end = units.starts[index + 1]
        if roles[end - 1] not in RESULTS or roles[start] in RESULTS:
            continue
        cost = sum(max(view.cost_of(first + place), _whole(view, place, model, options)) for place in range(start, end))
        if options.stable and cost > room:  # cut alike wherever it stands
            cost = room // 2
        if cost + question > room - steady:
            stands = first + end + 1
    return stands


def _whole(view: View, place: int, model: Model, options: WindowQuery) -> int:
    """What a message costs that is no longer than the parameters say."""
    cost = record_cost(view.history.records[place], model)
    limit = options.tool_result_max_tokens
    return cost if limit is None else min(cost, limit)
