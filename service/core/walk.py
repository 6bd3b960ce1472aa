"""walk: history from newest to oldest, into the room that is left."""

from typing import Literal

import msgspec

from service.core.documents import Documents
from service.core.grounding import Grounded
from service.core.models import Model
from service.core.units import DEVELOPER, TOOL, USER, Unit
from service.core.view import View

SKIP_HORIZON = 10_000
"""How many messages ``overflow=skip`` looks back over: a window must not cost the history."""
_SMALLEST_COST = 2
"""No message costs less, so nothing fits in less room."""

Reason = Literal["complete", "budget", "limit", "summary", "older"]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where history may begin: ``limit_seq`` by the caller's limit, ``summary_seq`` after what a summary covers,
    ``cut_seq`` by a stable cut; and how to walk."""

    limit_seq: int = 1
    summary_seq: int = 1
    cut_seq: int = 1
    skip: bool = False
    dedupe: bool = False
    user_first: bool = False
    documents_everywhere: bool = False


class Walk(msgspec.Struct):
    """What a walk kept, as unit indexes; ``stop`` is ``older`` when the tail was too short to know."""

    kept: list[int]
    room: int
    stop: Reason
    grounding: dict[int, Grounded]
    seen: set[str]
    duplicates: int
    reasons: dict[int, str]


def walk(view: View, room: int, bounds: Bounds, *, model: Model, documents: Documents, seen: set[str]) -> Walk:
    """Keep units from the newest to the oldest while they cost at most ``room`` tokens together.

    ``seen`` names the documents that newer messages carry.
    """
    state = Walk(kept=[], room=room, stop="complete", grounding={}, seen=seen, duplicates=0, reasons={})
    digests = _always_digests(view) if bounds.dedupe else set()
    limit_seq = max(bounds.limit_seq, view.history.length - SKIP_HORIZON + 1 if bounds.skip else 1)
    overflowed = False
    for index in range(len(view.units) - 1, -1, -1):
        if index in view.always:
            continue
        unit = view.units[index]
        if stop := _bound(view.seq(unit), limit_seq, bounds):
            return _ended(state, view, index, stop, bounds)
        if not unit.whole:
            if view.seq(unit) > 1 and unit.start == 0 and view.role(unit) == TOOL:
                break
            state.reasons[index] = "unanswered"
            continue
        if bounds.dedupe and _is_duplicate(view, unit, digests):
            state.duplicates += 1
            state.reasons[index] = "duplicate"
            continue
        if _keep(state, view, index, model, documents, everywhere=bounds.documents_everywhere):
            continue
        if not bounds.skip or state.room < _SMALLEST_COST:
            return _ended(state, view, index, "budget", bounds)
        overflowed = True
        state.reasons[index] = "too large"
    if view.history.first_seq > 1 and max(limit_seq, bounds.summary_seq, bounds.cut_seq) < view.history.first_seq:
        state.stop = "older"
        return state
    stop = "complete" if view.history.first_seq == 1 else _bound(view.history.first_seq - 1, limit_seq, bounds)
    return _ended(state, view, -1, "budget" if overflowed else stop or "complete", bounds)


def _bound(seq: int, limit_seq: int, bounds: Bounds) -> Reason | None:
    if seq < bounds.cut_seq:
        return "budget"
    if seq < limit_seq:
        return "limit" if seq < bounds.limit_seq else "budget"
    return "summary" if seq < bounds.summary_seq else None


def _keep(state: Walk, view: View, index: int, model: Model, documents: Documents, *, everywhere: bool) -> bool:
    unit = view.units[index]
    cost = view.cost(unit)
    grounded = None
    if everywhere and cost <= state.room:
        grounded = documents.choose(view.seq(unit), model, state.room - cost, state.seen)
        if grounded is not None:
            cost += documents.cost(view.history.records[unit.start], grounded, model)
    if cost > state.room:
        return False
    if grounded is not None:
        state.grounding[view.seq(unit)] = grounded
    state.room -= cost
    state.kept.append(index)
    return True


def _ended(state: Walk, view: View, index: int, stop: Reason, bounds: Bounds) -> Walk:
    """Close a walk that ended at unit ``index`` (-1: at the beginning); all from there back is left out."""
    state.stop = stop
    for left in range(index, -1, -1):
        state.reasons.setdefault(left, stop)
    if bounds.user_first:
        _begin_with_user(state, view)
    return state


def _begin_with_user(state: Walk, view: View) -> None:
    """Take away what leads before the first user message; the question itself may be that message."""
    while state.kept:
        oldest = view.units[state.kept[-1]]
        if view.role(oldest) == USER or 0 < view.history.question < view.seq(oldest):
            return
        state.reasons[state.kept.pop()] = "start"
        state.room += view.cost(oldest)


def _always_digests(view: View) -> set[bytes]:
    return {view.history.records[view.units[index].start].content_digest for index in view.always}


def _is_duplicate(view: View, unit: Unit, digests: set[bytes]) -> bool:
    """Whether a newer message says the same in the same role; tool groups are never the same."""
    record = view.history.records[unit.start]
    if unit.end - unit.start > 1 or record.calls or record.measure.role <= DEVELOPER:
        return False
    if record.content_digest in digests:
        return True
    digests.add(record.content_digest)
    return False
