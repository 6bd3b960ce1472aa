"""walk: history from newest to oldest, into the room that is left."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import Literal

import msgspec

from service.core.documents import Documents
from service.core.grounding import Grounded
from service.core.messages import digest
from service.core.models import Model
from service.core.records import Flags, Record
from service.core.units import ASSISTANT, DEVELOPER, FUNCTION, USER
from service.core.view import View

SKIP_HORIZON = 10_000
"""How many messages ``overflow=skip`` looks back over, once one was too large: a window must not cost the history."""
_SMALLEST_COST = 1
"""No message with text costs less, so nothing fits in less room."""
_NO_CONTENT = digest(["assistant", None], 8)
"""What assistant messages without content share: a refusal, a call. It does not make them the same."""

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

    @property
    def oldest_seq(self) -> int:
        """The oldest seq that history may go back to."""
        return max(self.cut_seq, self.limit_seq, self.summary_seq)

    def reason(self, seq: int) -> Reason | None:
        """Why history does not go back to ``seq``; None when it may."""
        if seq < self.cut_seq:
            return "budget"
        if seq < self.limit_seq:
            return "limit"
        return "summary" if seq < self.summary_seq else None


class Walk(msgspec.Struct):
    """What a walk kept, as unit indexes, newest first; ``stop`` is ``older`` when the tail was too short to know.

    ``room`` is what is left of the budget, ``taken`` what the kept units cost, ``grounding`` the documents that are
    sent, ``seen`` their keys and ``spent`` their tokens; ``skipped_seq`` is the first message that was too large, 0 while
    all fitted. ``reasons`` say why a unit that was passed is left out, ``rest`` why the others are.
    """

    room: int
    grounding: dict[int, Grounded]
    seen: set[str]
    spent: int = 0
    taken: int = 0
    kept: list[int] = []
    stop: Reason = "complete"
    rest: Reason = "complete"
    duplicates: int = 0
    reasons: dict[int, str] = {}
    skipped_seq: int = 0

    def add_documents(self, seq: int, grounded: Grounded, cost: int) -> None:
        """Send the documents with message ``seq``."""
        self.grounding[seq] = grounded
        self.seen.update(grounded.keys)
        self.spent += cost
        self.room -= cost


def walk(state: Walk, view: View, bounds: Bounds, *, model: Model, documents: Documents) -> Walk:
    """Keep units from the newest to the oldest while they fit into the room; gives ``state`` back, changed."""
    if bounds.skip or bounds.dedupe or bounds.documents_everywhere:
        return step_by_step(state, view, bounds, model=model, documents=documents)
    return at_once(state, view, bounds)


def at_once(state: Walk, view: View, bounds: Bounds) -> Walk:
    """The walk where a unit's cost alone decides: as many of the newest as a running sum allows."""
    units, count = view.units, len(view.units)
    free = units.broken | view.always.keys()
    costs = view.unit_costs
    if free:
        costs = costs.copy()
        for index in free:
            costs[index] = 0
    newest = int(view.headless)  # the first unit that the walk may see
    oldest = max(newest, bisect_left(units.starts, bounds.oldest_seq - view.history.first_seq, 0, count))
    sums = list(accumulate(reversed(costs)))
    end = max(oldest, count - bisect_right(sums, state.room))
    state.kept = list(range(count - 1, end - 1, -1))
    for index in sorted(free):
        if index >= end:
            del state.kept[count - 1 - index]
    state.taken = sums[count - 1 - end] if end < count else 0
    state.room -= state.taken
    state.reasons = {index: "unanswered" for index in units.broken - view.always.keys() if index >= end}
    if end > oldest:
        return _ended(state, view, "budget", user_first=bounds.user_first)
    left = next((index for index in range(end - 1, newest - 1, -1) if index not in view.always), None)
    if left is None:
        return _at_the_beginning(state, view, bounds)
    return _ended(state, view, bounds.reason(view.seq(left)) or "complete", user_first=bounds.user_first)


def step_by_step(state: Walk, view: View, bounds: Bounds, *, model: Model, documents: Documents) -> Walk:
    """The walk where what was kept before decides too: by what was said, by documents, by what was skipped."""
    said = _always_said(view) if bounds.dedupe else set()
    for index in range(len(view.units) - 1, -1, -1):
        seq = view.seq(index)
        stop = _stop(state, bounds, seq)
        if index in view.always:
            _pass(state, view, index, model, documents, everywhere=bounds.documents_everywhere and not stop)
            continue
        if index == 0 and view.headless:
            break
        if stop:
            return _ended(state, view, stop, user_first=bounds.user_first)
        words = _said(view, index) if bounds.dedupe else None
        if index in view.units.broken:
            state.reasons[index] = "unanswered"
        elif words in said:
            state.duplicates += 1
            state.reasons[index] = "duplicate"
        elif _keep(state, view, index, model, documents, everywhere=bounds.documents_everywhere):
            if words is not None:
                said.add(words)
        elif bounds.skip and state.room >= _SMALLEST_COST:
            state.skipped_seq = state.skipped_seq or seq
            state.reasons[index] = "too large"
        else:
            return _ended(state, view, "budget", user_first=bounds.user_first)
    return _at_the_beginning(state, view, bounds)


def _stop(state: Walk, bounds: Bounds, seq: int) -> Reason | None:
    """Why history does not go back to ``seq``; None when it may."""
    given_up = state.skipped_seq and seq < state.skipped_seq - SKIP_HORIZON
    return bounds.reason(seq) or ("budget" if given_up else None)


def _at_the_beginning(state: Walk, view: View, bounds: Bounds) -> Walk:
    """The walk saw all of the tail: what lies before it is left out for one reason, or must be read."""
    before = view.history.first_seq - 1
    stop = _stop(state, bounds, before)
    seen = before == len(view.outside) and not view.headless
    if seen and (before == 0 or stop or not bounds.documents_everywhere):
        return _ended(state, view, "complete", user_first=bounds.user_first)
    alone = view.headless and view.role(0) == FUNCTION  # or with a call before the tail: who knows
    if stop is None or stop != _stop(state, bounds, 1) or alone:
        state.stop = "older"
        return state
    return _ended(state, view, stop, user_first=bounds.user_first)


def _keep(state: Walk, view: View, index: int, model: Model, documents: Documents, *, everywhere: bool) -> bool:
    """Whether the unit fits, with its documents where messages have theirs."""
    cost = view.unit_costs[index]
    if cost > state.room or (everywhere and not _ground(state, view, index, cost, model, documents)):
        return False
    state.room -= cost
    state.taken += cost
    state.kept.append(index)
    return True


def _pass(state: Walk, view: View, index: int, model: Model, documents: Documents, *, everywhere: bool) -> None:
    """Give what is in anyway its documents, where messages have theirs; the newest question has them already."""
    if everywhere and view.seq(index) not in state.grounding:
        _ground(state, view, index, 0, model, documents)


def _ground(state: Walk, view: View, index: int, cost: int, model: Model, documents: Documents) -> bool:
    """Send a user message's documents beside its own ``cost``; False when they may not be trimmed and do not fit."""
    if view.role(index) != USER:
        return True
    seq, room = view.seq(index), state.room - cost
    grounded = documents.choose(seq, model, room, state.seen, spent=state.spent)
    if grounded is None:
        return True
    added = documents.cost(view.record(seq), grounded, model)
    if added > room:
        return False
    state.add_documents(seq, grounded, added)
    return True


def _ended(state: Walk, view: View, stop: Reason, *, user_first: bool) -> Walk:
    """Close a walk: what it did not reach is left out."""
    state.rest = stop
    state.stop = "budget" if state.skipped_seq else stop
    if user_first:
        _begin_with_user(state, view)
    return state


def _begin_with_user(state: Walk, view: View) -> None:
    """Take away what leads before the first user message, system and developer messages aside.

    What is in every window is not taken away, so history that begins with such a message is left as it is.
    """
    first_must = _first_must(view)
    while state.kept:
        oldest = state.kept[-1]
        if view.role(oldest) == USER or first_must < view.seq(oldest):
            return
        _take_away(state, view, "start")


def open_request(state: Walk, view: View, opening: Callable[[int], int]) -> int:
    """Take away the oldest units until there is room for what is added before the message that leads; gives its tokens.

    ``opening`` gives the tokens by that message's seq. They are over the room that is left where a message that is in every
    window leads.
    """
    first_must = _first_must(view)
    while True:
        first = min(first_must, view.seq(state.kept[-1])) if state.kept else first_must
        tokens = opening(first) if first <= view.history.length else 0
        if tokens <= state.room or not state.kept:
            return tokens
        _take_away(state, view, "too large")
        state.stop = "budget"


def _first_must(view: View) -> int:
    """The first message that is in every window, system and developer messages aside; past the end without one."""
    musts = (seq for seq in view.always_seqs() if view.record(seq).measure.role > DEVELOPER)
    return next(musts, view.history.length + 1)


def _take_away(state: Walk, view: View, why: str) -> None:
    """Take the oldest kept unit away."""
    oldest = state.kept.pop()
    state.reasons[oldest] = why
    state.room += view.unit_costs[oldest]
    state.taken -= view.unit_costs[oldest]


def _always_said(view: View) -> set[bytes]:
    """What the messages of every window say."""
    inside = [_said(view, index) for index in view.always]
    outside = [_words(view.record(seq)) for seq in view.outside]
    return {words for words in (*inside, *outside) if words is not None}


def _said(view: View, index: int) -> bytes | None:
    """What tells that a unit is said again; None for tool groups, which are never the same."""
    unit = view.units[index]
    return _words(view.history.records[unit.start]) if unit.end - unit.start == 1 else None


def _words(record: Record) -> bytes | None:
    plain = record.measure.role in (USER, ASSISTANT) and not record.calls and not record.flags & Flags.LEGACY_CALL
    return record.content_digest if plain and record.content_digest != _NO_CONTENT else None
