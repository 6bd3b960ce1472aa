"""stable_cut: the place where history begins, which stays the same for many turns.

If a window's beginning slid by one message each turn, the provider's prompt cache could not be used. Here the beginning
moves in steps of a share of the budget. Consider all messages of the conversation as a line of tokens as they are sent. If
the first ``x`` tokens do not fit, history begins at the first end of a step after ``x``. This place depends on history and
parameters alone, so every replica finds the same one.

The store has the counted tokens of messages before the tail. Their sent tokens are not known there: reasoning may be left
out, and long results cut. So the line is divided into blocks of counted tokens, steps start again at each block, and only
one block is read.

``x`` must never decrease as messages are appended. Documents and reasoning are sent with the newest question alone, so a
later window may need less room than an earlier one. Therefore ``x`` is the largest value of all windows so far: one window
for each message, when it was the newest. A window that ended before ``x`` cannot have left out more than ``x`` tokens, so
the tail that was read is enough.

    counted  block ......................................... block ......
    sent     0 ........ step ........ 2 step ........ 3 step 0 ......... end
    need                      x |----------- budget for history ------|
    kept                              |--------------------------------|
"""

from itertools import accumulate
from typing import NamedTuple

import numpy as np

from sash.core.counts.models.families import DEVELOPER, TOOL, USER
from sash.core.counts.text.numbers import Number
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.view import View, unit_costs
from sash.core.law.records.costs import message_costs
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.records.units import unit_at
from sash.core.stored.record import Flags, Record, WindowFlags


class Spans(NamedTuple):
    """The units on the line of tokens, as an array for each figure; the figures of one unit are numbers.

    ``cost`` are a unit's tokens in the window (0 for a required unit), ``length`` its counted reference tokens,
    ``documents`` the tokens that its documents would add, ``question`` whether it is a user's message. ``reasoning`` are
    additional tokens until the next question that does not continue the turn (``continues``), and ``while_open`` until the
    last result of a tool group, which makes the group larger than the room, so that it is cut; or while a late result is the
    newest message, which brings its group.
    """

    cost: Number
    length: Number
    documents: Number
    question: Number
    reasoning: Number
    continues: Number
    while_open: Number


class EarlierQuestion(NamedTuple):
    """The newest question, if it is before the spans: its tokens after it (0 if it is required), and its documents'."""

    cost: int = 0
    documents: int = 0


class Cut(NamedTuple):
    """The row where history begins, and the row of the message that moved it there; None if nothing is left out."""

    row: int
    since: int | None


class Begins(NamedTuple):
    """The index of the first kept span, or their number if none is kept, and of the span that moved the cut there."""

    cut: int
    since: int | None = None


def cut_seq(view: View, room: int, step: float, block: int, spec: WindowSpec) -> Cut | NeedOlder:
    """The stable cut, in the view's rows; NeedOlder if the tail is too short to find it.

    ``room`` is the budget minus the fixed parts and ``step`` a length, both in the model's tokens; ``block`` is in reference
    tokens.
    """
    history = view.history
    spans, steady = _spans(view, room, spec)
    room -= steady
    asked = None
    if 0 <= history.asked < history.records.front:
        question = history.records[history.asked]
        own = 0 if question.pinned else int(_lasting(view)[history.asked])
        room += own
        before, beside = _placed(question, spec)
        asked = EarlierQuestion(own + before, beside)
    found = stable_cut(
        spans,
        end=history.tokens,
        room=room,
        step=step,
        block=block,
        whole=history.is_whole,
        asked=asked,
    )
    if isinstance(found, NeedOlder):
        return found
    starts = view.units.starts
    since = starts[view.units.front + found.since + 1] - 1 if found.since is not None else None
    return Cut(starts[view.units.front + found.cut], since)


def _placed(question: Record, spec: WindowSpec) -> tuple[int, int]:
    """The tokens of a question's documents in each later window, and those with the newest question alone."""
    added, mode = spec.documents.most_tokens(question, spec.plan.model), spec.plan.query.grounding
    return (added, 0) if mode == "all" else (0, added if mode == "latest" else 0)


def _lasting(view: View) -> Number:
    """Each message's tokens in later windows: other reasoning counts in its turn only."""
    thoughts = view.thoughts
    return view.costs.copy() if thoughts is None else view.costs - thoughts.sent + thoughts.lasting


def _spans(view: View, room: int, spec: WindowSpec) -> tuple[Spans, int]:
    """The tail's units, and the tokens of the required ones, whose room no other message has.

    An unfinished pinned group is not sent, but its room stays reserved: otherwise the cut would move back.
    """
    history, units, records = view.history, view.units, view.history.records
    count, starts, front = len(units), units.begins, view.units.front
    roles = np.frombuffer(records.sent_roles, np.uint8)[starts]
    length = np.append(np.zeros(records.front, np.int64), history.log_lengths())
    passing = np.zeros(len(records), np.int64) if view.thoughts is None else view.thoughts.passing
    cost, reasoning, length = (unit_costs(units, each) for each in (_lasting(view), passing, length))
    if records.left_out:
        is_sent = np.frombuffer(records.left_out, np.uint8)[starts] == 0
        cost, reasoning = cost * is_sent, reasoning * is_sent
    required = roles <= DEVELOPER
    required[:front] = True
    required[[unit_at(units, index) for index in records.where(Flags.PINNED)]] = True
    steady = int(cost[required].sum())
    cost[required] = 0
    beside, while_open = np.zeros(count, np.int64), np.zeros(count, np.int64)
    is_grounded = np.frombuffer(records.flags, np.uint8)[starts] & Flags.GROUNDED != 0
    for index in np.flatnonzero((roles == USER) & is_grounded).tolist():
        before, beside[index] = _placed(records[units.starts[index]], spec)
        cost[index] += before
    if history.seen is not None and len(history.seen.behind) and count > front:
        gone = np.minimum(message_costs(history.seen.retired, spec.plan.model), max(0, room))
        behind = np.searchsorted(starts, records.front + history.seen.behind, side="right") - 1
        np.add.at(cost, behind, gone)
    if history.covered:
        is_sent = records.of_window()[starts] & WindowFlags.COVERED == 0
        cost, reasoning, beside = (each * is_sent for each in (cost, reasoning, beside))
    for index in {unit_at(units, row) for row in view.edits}:
        while_open[index] = _while_open(view, index, room, spec.plan.query.tool_result_max_tokens)
    for row, tokens in view.brings.items():
        while_open[unit_at(units, row)] += tokens
    # A question continues the turn before it if it follows tool results, or a message that was not read yet.
    continues = np.zeros(count, bool)
    if passing.any():
        continues[1:] = np.frombuffer(records.roles, np.uint8)[starts[1:] - 1] >= TOOL
        continues[front : front + 1] = not history.is_whole
    spans = Spans(cost, length, beside, roles == USER, reasoning, continues, while_open)
    return Spans(*[each[front:] for each in spans]), steady


def _while_open(view: View, index: int, room: int, limit: int | None) -> int:
    """The tokens that a tool group has lost since its last results came, because its results are cut now.

    Before, the group was sent whole if it fit into ``room``. ``limit`` is the ``tool_result_max_tokens`` parameter.
    """
    first, end = view.units.starts[index : index + 2]
    if end - first == 1:
        return 0
    costs = view.costs[first:end].tolist()
    whole = [cost + view.edits[row].saved if row in view.edits else cost for row, cost in enumerate(costs, first)]
    if limit is not None:
        whole = [min(tokens, max(limit, cost)) for tokens, cost in zip(whole, costs, strict=True)]
    now = sum(costs)
    return max((tokens - now for tokens in accumulate(whole) if now < tokens <= room), default=0)


def stable_cut(
    spans: Spans,
    *,
    end: int,
    room: int,
    step: float,
    block: int,
    whole: bool,
    asked: EarlierQuestion | None = None,
) -> Begins | NeedOlder:
    """Where history begins. NeedOlder if the tail must begin earlier on the line of reference tokens.

    ``end`` is the line's length in reference tokens; the spans are its last part. ``room`` are the tokens for history and
    documents. ``whole``: the spans are the whole history. ``asked`` is the newest question if it is before the spans.
    """
    turns = _Turns(spans, asked, whole=whole)
    gone, needs = turns.gone, turns.needs(room)
    need = int(needs.max(initial=0))
    if whole and not need:
        return Begins(0)
    line = end - int(spans.length.sum())
    places = _places(spans, gone, line, step, block, whole=whole)
    before = gone[places]
    # What messages before the tail need is at most what is before the first told one, so places behind that are certain.
    certain = int(np.searchsorted(before, gone[turns.told]))
    if not (before[certain : certain + 1] < need).any():
        return NeedOlder(place=line // block * block)
    place = int(np.searchsorted(before, need))
    cut = int(places[place]) if place < len(places) else len(spans.cost)
    # The first span that needed a later cut than the previous place.
    return Begins(cut, int(np.argmax(needs > before[place - 1])))


def _places(spans: Spans, gone: Number, line: int, step: float, block: int, *, whole: bool) -> Number:
    """Indexes where history may begin: each block's first span, and the first span after each step in the block."""
    blocks = (line + np.cumsum(spans.length) - spans.length) // block
    is_first = _rises(blocks, first=whole)
    first = _last(is_first)
    steps = (gone[:-1] - gone[first]) // step
    return np.flatnonzero(is_first | ((first >= 0) & _rises(steps, first=False)))


def _rises(values: Number, *, first: bool) -> Number:
    """Whether each value is above the one before it; of the first value, ``first``."""
    return np.concatenate(([first], values[1:] > values[:-1]))[: len(values)]


def _last(marks: Number) -> Number:
    """The index of the last mark up to each span, and -1 before the first."""
    return np.maximum.accumulate(np.where(marks, np.arange(len(marks)), -1))


class _Turns:
    """The turn and the question that each window had to contain: one window for each span, when that span was the newest.

    ``gone`` are the tokens before each span. ``told`` is the first span whose turn and question are known.
    """

    def __init__(self, spans: Spans, asked: EarlierQuestion | None, *, whole: bool) -> None:
        begins = spans.question & ~spans.continues
        self.told = 0 if whole or asked is not None else int(np.argmax(np.append(begins, True)))
        self.gone = np.concatenate(([0], np.cumsum(spans.cost)))
        self._sent = np.concatenate(([0], np.cumsum(spans.cost + spans.reasoning)))
        turn = np.maximum(0, _last(begins))
        self._before_turn = self.gone[turn]
        self._of_turn = self._sent[1:] - self._sent[turn]
        self._place = _last(spans.question)
        is_earlier, earlier = self._place < 0, asked or EarlierQuestion()
        self._began_earlier = is_earlier & (asked is not None and not whole)
        self._question = np.where(is_earlier, earlier.cost, spans.cost[self._place])
        self._documents = np.where(is_earlier, earlier.documents, spans.documents[self._place])
        self._while_open = spans.while_open

    def needs(self, room: Number) -> Number:
        """The tokens that had to be left out of a room when each span was the newest; 0 where that is not known.

        A turn larger than the room is sent with its question, and the last of its other messages.
        """
        room = room - np.minimum(self._documents, np.maximum(0, room - self._question)) - self._while_open
        needs = self._before_turn + self._of_turn - room
        outgrown = np.flatnonzero((self._of_turn > room) | self._began_earlier)
        if len(outgrown):
            over = (self._sent[1:] - room)[outgrown]
            first = np.searchsorted(self._sent, over)
            without = np.searchsorted(self._sent, over + self._question[outgrown])
            first = np.where(first > self._place[outgrown], np.minimum(without, outgrown + 1), first)
            needs[outgrown] = self.gone[first]
        needs[: self.told] = 0
        return np.maximum(0, needs)
