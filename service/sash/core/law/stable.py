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

With ``price=auto`` a message also needs more to be left out if the provider's cache was cold when it came, because another
beginning costs nothing then; and if history has outgrown a price tier. The places are the same, so a window begins at the
message at which it would begin without, or at a later place. A window that would be too short to be cached again is cut
anywhere, so that it stays longer.
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from sash.core.counts.families import DEVELOPER, USER
from sash.core.counts.numbers import Number
from sash.core.law.costs import message_costs
from sash.core.law.records import RESULTS, Flags, Record
from sash.core.law.terms import Terms
from sash.core.law.units import Units
from sash.core.law.view import View, unit_at, unit_costs

_RESULT = bytes(role in RESULTS for role in range(256))


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


class Before(NamedTuple):
    """The tail is too short: it must begin at this place of the line, in reference tokens, or earlier."""

    place: int


class Cut(NamedTuple):
    """The seq where history begins, and the seq of the message that moved it there; 0 if nothing is left out."""

    seq: int
    since_seq: int
    for_price: bool = False
    """Whether it is there for ``price=auto`` alone."""


class Spared(NamedTuple):
    """The tokens of the room that ``price=auto`` leaves free, for each message, or for each unit.

    ``while_cold`` are left free where the provider's cache was ``cold`` when the message came; where it was ``briefly``,
    history begins right behind what needs to be left out for ``briefly_free`` tokens. ``told``: the tail tells it.
    ``outgrown`` are left free once history is larger than the room.
    """

    cold: Number
    while_cold: int
    briefly: Number
    briefly_free: int
    told: Number
    outgrown: int

    def by_unit(self, units: Units) -> "Spared":
        """The same for units of these messages."""
        if units.single:
            return self
        cold, briefly = (np.logical_or.reduceat(each, units.begins) for each in (self.cold, self.briefly))
        return self._replace(cold=cold, briefly=briefly, told=np.logical_and.reduceat(self.told, units.begins))


class Begins(NamedTuple):
    """The index of the first kept span, or their number if none is kept, and of the span that moved the cut there."""

    cut: int
    since: int | None = None
    for_price: bool = False


def cut_seq(view: View, room: int, step: float, block: int, terms: Terms, spared: Spared | None = None) -> Cut | Before:
    """The stable cut; Before if the tail is too short to find it.

    ``room`` is the budget minus the fixed parts and ``step`` a length, both in the model's tokens; ``block`` is in reference
    tokens.
    """
    history = view.history
    spans, steady = _spans(view, room, terms)
    room -= steady
    # As in the tail: a result's cost after its cut, and signatures without the reasoning of a turn.
    costs = {seq: cost - view.reasoning.get(seq, 0) + view.lasting.get(seq, 0) for seq, cost in view.outside.items()}
    asked = None
    if (question := history.outside.get(history.question)) is not None:
        own = 0 if question.pinned else costs.pop(history.question)
        before, beside = _placed(question, terms)
        asked = EarlierQuestion(own + before, beside)
    found = stable_cut(
        spans,
        end=history.tokens,
        room=room - sum(costs.values()),
        step=step,
        block=block,
        whole=history.is_whole,
        asked=asked,
        spared=spared.by_unit(view.units) if spared is not None and len(view.units) else None,
    )
    if isinstance(found, Before):
        return found
    since_seq = view.seq(found.since + 1) - 1 if found.since is not None else 0
    seq = history.length + 1 if found.cut == len(spans.cost) else view.seq(found.cut)
    return Cut(seq, since_seq, found.for_price)


def _placed(question: Record, terms: Terms) -> tuple[int, int]:
    """The tokens of a question's documents in each later window, and those with the newest question alone."""
    added, mode = terms.documents.most_tokens(question, terms.model), terms.options.grounding
    return (added, 0) if mode == "all" else (0, added if mode == "latest" else 0)


def _spans(view: View, room: int, terms: Terms) -> tuple[Spans, int]:
    """The tail's units, and the tokens of the required ones, whose room no other message has.

    An unfinished pinned group is not sent, but its room stays reserved: otherwise the cut would move back.
    """
    history, units, records = view.history, view.units, view.history.records
    count, starts, first = len(units), units.begins, history.first_seq
    roles = np.frombuffer(records.roles, np.uint8)[starts]
    # Other reasoning counts in its turn only.
    lasting = view.costs - _by_message(view, view.reasoning) + _by_message(view, view.lasting)
    cost, reasoning, length = (
        unit_costs(units, each) for each in (lasting, _by_message(view, view.passing), history.line_lengths())
    )
    required = roles <= DEVELOPER
    required[[unit_at(units, index) for index in records.pinned()]] = True
    steady = int(cost[required].sum())
    cost[required] = 0
    beside, while_open = np.zeros(count, np.int64), np.zeros(count, np.int64)
    is_grounded = np.frombuffer(records.flags, np.uint8)[starts] & Flags.GROUNDED != 0
    for index in np.flatnonzero((roles == USER) & is_grounded).tolist():
        before, beside[index] = _placed(records[units.starts[index]], terms)
        cost[index] += before
    if history.seen is not None and len(history.seen.behind) and count:
        gone = np.minimum(message_costs(history.seen.retired, terms.model), max(0, room))
        np.add.at(cost, np.searchsorted(starts, history.seen.behind, side="right") - 1, gone)
    if history.covered:
        is_sent = np.frombuffer(records.having(Flags.COVERED), np.uint8)[starts] == 0
        cost, reasoning, beside = (each * is_sent for each in (cost, reasoning, beside))
    for index in {unit_at(units, seq - first) for seq in view.edits if seq >= first}:
        while_open[index] = _while_open(view, index, room, terms.options.tool_result_max_tokens)
    for seq, tokens in view.brings.items():
        while_open[unit_at(units, seq - first)] += tokens
    # A question continues the turn before it if it follows tool results, or a message that was not read yet.
    continues = np.zeros(count, bool)
    if view.passing and count:
        is_result = np.frombuffer(records.roles.translate(_RESULT), np.uint8)
        continues[1:] = is_result[starts[1:] - 1] != 0
        continues[0] = not history.is_whole
    return Spans(cost, length, beside, roles == USER, reasoning, continues, while_open), steady


def _by_message(view: View, tokens: Mapping[int, int]) -> Number:
    """Tokens by seq as an array, with a number for each message of the tail."""
    found = np.zeros(len(view.costs), np.int64)
    for seq, number in tokens.items():
        if seq >= view.history.first_seq:
            found[seq - view.history.first_seq] = number
    return found


def _while_open(view: View, index: int, room: int, limit: int | None) -> int:
    """The tokens that a tool group has lost since its last results came, because its results are cut now.

    Before, the group was sent whole if it fit into ``room``. ``limit`` is the ``tool_result_max_tokens`` parameter.
    """
    seqs = view.members(index)
    if len(seqs) == 1:
        return 0
    costs = list(map(view.cost_of, seqs))
    whole = [cost + view.edits[seq].saved if seq in view.edits else cost for seq, cost in zip(seqs, costs, strict=True)]
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
    spared: Spared | None = None,
) -> Begins | Before:
    """Where history begins. Before, if more of the history is needed.

    ``end`` is the line's length in reference tokens; the spans are its last part. ``room`` are the tokens for history and
    documents. ``whole``: the spans are the whole history. ``asked`` is the newest question if it is before the spans.
    """
    needed = _Needs(spans, asked, whole=whole)
    gone, untold, needs = needed.gone, needed.untold, needed.in_room(room)
    plain, brief, left_out = int(needs.max(initial=0)), Begins(0), np.zeros(1, np.int64)
    if spared is not None:
        untold = max(untold, int(gone[1:][~spared.told].max(initial=0)))
        if spared.outgrown:
            needs = np.where(needs > 0, needed.in_room(room - spared.outgrown), needs)
        if spared.while_cold and spared.cold.any():
            needs = np.where(spared.cold, np.maximum(needs, needed.in_room(room - spared.while_cold)), needs)
        if spared.briefly.any():
            brief, left_out = needed.cut_anywhere(
                np.where(spared.briefly, needed.in_room(room - spared.briefly_free), 0)
            )
            needs = np.where(needs > left_out, needs, 0)
    needs = np.maximum.accumulate(np.maximum(needs, 0))
    need = int(needs[-1]) if len(needs) else 0
    if need <= 0 and whole:
        return brief
    line = end - int(spans.length.sum())
    older = Before(line // block * block)
    places = _places(spans, gone, line, step, block, whole=whole)
    if need <= 0:
        told = int(np.searchsorted(gone[places], untold))
        is_told = told < len(places) and gone[places[told]] <= left_out[-1]
        return brief if is_told and brief.cut else older
    later = int(np.searchsorted(gone[places], need))
    if need < untold or later == 0 or gone[places[later - 1]] < untold:
        return older
    cut = int(places[later]) if later < len(places) else len(spans.cost)
    before = gone[places[later - 1]]
    if brief.cut > cut:
        return brief
    # The first span that needed a later cut than the previous place.
    return Begins(cut, int(np.searchsorted(needs, before, side="right")), for_price=plain <= before)


def _places(spans: Spans, gone: Number, line: int, step: float, block: int, *, whole: bool) -> Number:
    """Indexes where history may begin: each block's first span, and the first span after each step in the block."""
    stands = line + np.cumsum(spans.length) - spans.length
    blocks = stands // block
    is_first = np.concatenate(([whole], blocks[1:] > blocks[:-1]))[: len(stands)]
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(stands)), -1))
    steps = (gone[:-1] - gone[first]) // step
    is_place = is_first | ((first >= 0) & np.concatenate(([False], steps[1:] > steps[:-1]))[: len(stands)])
    return np.flatnonzero(is_place)


class _Needs:
    """Running sums over the spans, and what they say of the question and the turn in which each span is.

    ``gone`` are the tokens before each span, ``untold`` those before the first known question, ``turn`` and ``place`` the
    indexes of the spans with which its turn and its question begin, and ``thoughts`` the turn's reasoning up to it.
    """

    def __init__(self, spans: Spans, asked: EarlierQuestion | None, *, whole: bool) -> None:
        self.spans = spans
        self.gone = np.concatenate(([0], np.cumsum(spans.cost)))
        index, begins = np.arange(len(spans.cost)), spans.question & ~spans.continues
        self.turn = np.maximum.accumulate(np.where(begins, index, 0))
        self.knows = np.logical_or.accumulate(begins | whole | (asked is not None))
        self.untold = int(self.gone[1:][~self.knows].max(initial=0))
        self.place = np.maximum.accumulate(np.where(spans.question & self.knows, index, -1))
        first = asked or EarlierQuestion()
        self.question = np.where(self.place < 0, first.cost, spans.cost[self.place])
        self.documents = np.where(self.place < 0, first.documents, spans.documents[self.place])
        thoughts = np.cumsum(spans.reasoning)
        self.thoughts = thoughts - (thoughts - spans.reasoning)[self.turn]
        # The turn of an earlier question began before the spans.
        self.began_before = (self.turn == 0) & (asked is not None and not whole and not begins[:1].any())

    def in_room(self, room: int) -> Number:
        """The tokens that had to be left out of a room when each span was the newest.

        A turn's reasoning counts while it is kept and the turn is the newest.
        """
        spans, totals = self.spans, self.gone[1:]
        most = room - np.maximum(0, np.minimum(self.documents, room - self.question)) - spans.while_open
        needs = np.minimum(totals, totals + np.where(self.knows, self.thoughts - most, spans.while_open - room))
        in_turn = totals - self.gone[self.turn] + self.thoughts
        outgrown = self.knows & (in_turn > most) | self.began_before
        if outgrown.any():
            self._outgrow(needs, most, outgrown)
        return needs

    def _outgrow(self, needs: Number, most: Number, outgrown: Number) -> None:
        """Change the needs of turns larger than the window: the question is kept, before the turn's last messages."""
        spent = np.concatenate(([0], np.cumsum(self.spans.cost + self.spans.reasoning)))
        left, first = -1, 0  # the turn whose beginning is left out, and its first kept span
        for index in range(int(np.argmax(outgrown)), len(needs)):
            if self.turn[index] != left:
                if not outgrown[index]:
                    continue
                left, first = self.turn[index], self.turn[index]
            while first <= index and spent[index + 1] - spent[first] > most[index] - (
                self.question[index] if first > self.place[index] else 0
            ):
                first += 1
            needs[index] = self.gone[first]

    def cut_anywhere(self, needs: Number) -> tuple[Begins, Number]:
        """Where history begins if it may begin at any span, and the tokens left out before it when each was the newest."""
        needs = np.maximum.accumulate(np.maximum(needs, 0))
        cuts: Number = np.searchsorted(self.gone, needs)
        cut = int(cuts[-1])
        since = int(np.searchsorted(needs, self.gone[cut - 1], side="right")) if cut else None
        return Begins(cut, since, for_price=cut > 0), self.gone[cuts]
