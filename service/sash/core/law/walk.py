"""walk: keeps units of history, from the newest to the oldest, while they fit into the remaining budget."""

from bisect import bisect_left
from collections.abc import Callable
from typing import Literal

import msgspec
import numpy as np

from sash.core.counts.families import DEVELOPER, FUNCTION, USER
from sash.core.law.grounding import Grounded
from sash.core.law.reasons import Reason
from sash.core.law.records import Records
from sash.core.law.view import View

Choose = Callable[[int, int, "Walk"], Grounded | None]
"""The documents of a message that fit a room, beside those that a walk has."""
SKIP_HORIZON = 256
"""Messages that ``overflow=skip`` considers after the first that is too large: its cost does not grow with the history."""
_SMALLEST_COST = 1
"""The smallest cost of a message with text."""

Stop = Literal["complete", "budget", "limit", "summary", "bytes", "price", "horizon", "older"]


class Bounds(msgspec.Struct, frozen=True):
    """Where history may begin, and the options of a walk. ``firsts`` are the first seqs that it may have, each with the
    reason why not the seqs before; of several reasons the first is told. ``documents`` chooses those of each message; None
    if not all messages have theirs."""

    firsts: tuple[tuple[Stop, int], ...] = ()
    skip: bool = False
    dedupe: bool = False
    user_first: bool = False
    documents: "Choose | None" = None

    @property
    def oldest_seq(self) -> int:
        """The oldest seq that may be kept."""
        return max([first for _, first in self.firsts], default=1)

    def reason(self, seq: int) -> Stop | None:
        """Why history must not include ``seq``; None if it may."""
        for why, first in self.firsts:
            if seq < first:
                return why
        return None


class Walk(msgspec.Struct):
    """The state and result of a walk. ``kept`` are unit indexes, newest first; ``stop`` is ``older`` for too short a tail.

    ``room`` is the rest of the budget and ``taken`` the kept units' cost, in tokens. ``grounding`` are the documents that
    are sent, ``seen`` their keys, ``spent`` their tokens. ``skipped_seq`` is the first message that was too large, or 0.
    ``reasons`` tell why single units are left out, ``rest`` why all others are.
    """

    room: int
    grounding: dict[int, Grounded]
    seen: set[str]
    spent: int = 0
    taken: int = 0
    kept: list[int] = []
    stop: Stop = "complete"
    rest: Stop = "complete"
    duplicates: int = 0
    reasons: dict[int, Reason] = {}
    skipped_seq: int = 0

    def add_documents(self, seq: int, grounded: Grounded) -> None:
        """Send the documents with message ``seq``."""
        self.grounding[seq] = grounded
        self.seen.update(grounded.keys)
        self.spent += grounded.cost
        self.room -= grounded.cost


def walk(state: Walk, view: View, bounds: Bounds) -> Walk:
    """Keep units from the newest to the oldest while they fit into the room. Changes and returns ``state``."""
    if bounds.skip or bounds.dedupe or bounds.documents is not None:
        return step_by_step(state, view, bounds)
    return at_once(state, view, bounds)


def at_once(state: Walk, view: View, bounds: Bounds) -> Walk:
    """The walk if only costs decide: keeps as many of the newest units as a running sum allows."""
    units, count = view.units, len(view.units)
    free = units.broken | view.always.keys()
    costs = view.unit_costs
    if free:
        costs = costs.copy()
        costs[[*free]] = 0
    newest = int(view.headless)  # the first unit that may be kept
    oldest = max(newest, bisect_left(units.starts, bounds.oldest_seq - view.history.first_seq, 0, count))
    sums = np.cumsum(costs[::-1])
    end = max(oldest, count - int(np.searchsorted(sums, state.room, side="right")))
    state.kept = [index for index in range(count - 1, end - 1, -1) if index not in free]
    state.taken = int(sums[count - 1 - end]) if end < count else 0
    state.room -= state.taken
    state.reasons = {index: Reason.UNANSWERED for index in units.broken - view.always.keys() if index >= end}
    if end > oldest:
        return _ended(state, view, bounds, "budget")
    passed = view.always.keys() | view.covered
    left = next((index for index in range(end - 1, newest - 1, -1) if index not in passed), None)
    if left is None:
        return _at_the_beginning(state, view, bounds)
    return _ended(state, view, bounds, bounds.reason(view.seq(left)) or "complete")


def step_by_step(state: Walk, view: View, bounds: Bounds) -> Walk:
    """The walk if kept units matter for older ones: with deduplication, documents everywhere, or skipping."""
    said = _always_said(view) if bounds.dedupe else set()
    state.reasons = dict.fromkeys(view.covered, Reason.SUMMARY)
    costs, oldest = view.unit_costs.tolist(), bounds.oldest_seq
    for index in range(len(view.units) - 1, -1, -1):
        seq = view.seq(index)
        stop = _stop(state, bounds, seq) if seq < oldest or state.skipped_seq else None
        if index in view.always:
            _pass(state, view, index, None if stop else bounds.documents)
            continue
        if index == 0 and view.headless:
            break
        if stop and index not in state.reasons:
            return _ended(state, view, bounds, stop)
        words = _said(view, index) if bounds.dedupe else None
        if index in view.units.broken:
            state.reasons.setdefault(index, Reason.UNANSWERED)
        elif words in said:
            state.duplicates += 1
            state.reasons[index] = Reason.DUPLICATE
        elif costs[index] <= state.room and (
            bounds.documents is None or _ground(state, view, index, costs[index], bounds.documents)
        ):
            state.room -= costs[index]
            state.taken += costs[index]
            state.kept.append(index)
            if words is not None:
                said.add(words)
        elif bounds.skip and state.room >= _SMALLEST_COST:
            state.skipped_seq = state.skipped_seq or seq
            state.reasons[index] = Reason.TOO_LARGE
        else:
            return _ended(state, view, bounds, "budget")
    return _at_the_beginning(state, view, bounds)


def _stop(state: Walk, bounds: Bounds, seq: int) -> Stop | None:
    """Why history must not include ``seq``; None if it may."""
    given_up = state.skipped_seq and seq < state.skipped_seq - SKIP_HORIZON
    return bounds.reason(seq) or ("budget" if given_up else None)


def _at_the_beginning(state: Walk, view: View, bounds: Bounds) -> Walk:
    """End a walk that saw the whole tail: the messages before are all left out for one reason, or must be read."""
    before, covered, seen_by = view.history.first_seq - 1, view.history.covered, view.history.seen
    stop = None if seen_by is not None else _stop(state, bounds, before)  # those before may all be for others
    if seen_by is not None and seen_by.is_short:
        return _ended(state, view, bounds, "horizon")
    seen = before <= covered + sum(seq > covered for seq in view.outside) and not view.headless
    if seen and (before <= covered or stop or bounds.documents is None):
        return _ended(state, view, bounds, "summary" if covered else "complete")
    if seen_by is not None and seen_by.is_whole:
        return _ended(state, view, bounds, "complete")
    alone = view.headless and view.role(0) == FUNCTION  # its call may be before the tail
    if stop is None or stop != _stop(state, bounds, 1) or alone:
        state.stop = "older"
        return state
    return _ended(state, view, bounds, stop)


def _pass(state: Walk, view: View, index: int, documents: Choose | None) -> None:
    """Add a required unit's documents, if they were not added before."""
    if documents is not None and view.seq(index) not in state.grounding:
        _ground(state, view, index, 0, documents)


def _ground(state: Walk, view: View, index: int, cost: int, documents: Choose) -> bool:
    """Add a user message's documents; ``cost`` is the message's own. False if they do not fit and may not be trimmed."""
    seq, room = view.seq(index), state.room - cost
    grounded = documents(seq, room, state) if view.role(index) == USER else None
    if grounded is not None and grounded.cost <= room:
        state.add_documents(seq, grounded)
    return grounded is None or grounded.cost <= room


def _ended(state: Walk, view: View, bounds: Bounds, stop: Stop) -> Walk:
    """End a walk. The units that it did not reach are left out."""
    state.rest = stop
    state.stop = "budget" if state.skipped_seq else stop
    if bounds.user_first:
        _begin_with_user(state, view)
    return state


def _begin_with_user(state: Walk, view: View) -> None:
    """Remove kept units before the first user message, except system and developer messages.

    Required units are not removed, so history that begins with one is not changed.
    """
    first_must = first_required(view)
    while state.kept:
        oldest = state.kept[-1]
        if view.role(oldest) == USER or first_must < view.seq(oldest):
            return
        _take_away(state, view, Reason.START)


def open_request(state: Walk, view: View, opening: Callable[[int], int]) -> int:
    """Make room for the tokens that a request costs more because of its first message. Return these tokens.

    ``opening`` gives them by the seq of the first message. The oldest kept units are removed until the tokens fit. These may
    still exceed the room if the first message is a required one.
    """
    first_must = first_required(view)
    while True:
        first = min(first_must, view.seq(state.kept[-1])) if state.kept else first_must
        tokens = opening(first) if first <= view.history.length else 0
        if tokens <= state.room or not state.kept:
            return tokens
        _take_away(state, view, Reason.TOO_LARGE)
        state.stop = "budget"


def first_required(view: View) -> int:
    """The seq of the first required message, without system and developer messages; length + 1 if there is none."""
    musts = (seq for seq in view.always_seqs() if view.history.role(seq) > DEVELOPER)
    return next(musts, view.history.length + 1)


def _take_away(state: Walk, view: View, why: Reason) -> None:
    """Take the oldest kept unit away."""
    oldest = state.kept.pop()
    state.reasons[oldest] = why
    cost = int(view.unit_costs[oldest])
    state.room += cost
    state.taken -= cost


def _always_said(view: View) -> set[bytes]:
    """Content digests of required messages."""
    inside = [_said(view, index) for index in view.always]
    outside = Records.of([view.history.record(seq) for seq in view.outside])
    return {words for words in (*inside, *map(outside.words, range(len(outside)))) if words is not None}


def _said(view: View, index: int) -> bytes | None:
    """A unit's content digest, by which duplicates are found; None for tool groups, which are never duplicates."""
    start, end = view.units.starts[index : index + 2]
    return view.history.records.words(start) if end - start == 1 else None
