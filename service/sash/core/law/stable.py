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
from sash.core.counts.models import Model
from sash.core.counts.numbers import Number
from sash.core.law.costs import message_costs, reference_costs
from sash.core.law.documents import Documents
from sash.core.law.records import Flags
from sash.core.law.results import RESULTS
from sash.core.law.units import Units
from sash.core.law.view import View, unit_at

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


def cut_seq(
    view: View,
    room: int,
    step: float,
    block: int,
    *,
    model: Model,
    documents: Documents,
    mode: str,
    limit: int | None,
    spared: Spared | None = None,
) -> Cut | Before:
    """The stable cut; Before if the tail is too short to find it.

    ``room`` is the budget minus the fixed parts and ``step`` a length, both in the model's tokens; ``block`` is in reference
    tokens. ``mode`` is the ``grounding`` parameter and ``limit`` is ``tool_result_max_tokens``.
    """
    history = view.history
    spans, steady = _spans(view, room, model=model, documents=documents, mode=mode, limit=limit)
    room -= steady
    asked = None
    for seq, record in history.outside.items():
        # As in the tail: a result's cost after its cut, and signatures without the reasoning of a turn.
        cost = view.lasting_cost_of(seq)
        is_steady = record.pinned or seq != history.question
        if is_steady:
            room -= cost
        if seq == history.question:
            added = documents.most_tokens(record, model)
            before, beside = _placed(added, mode)
            asked = EarlierQuestion((0 if is_steady else cost) + before, beside)
    if spared is not None:
        spared = spared.by_unit(view.units) if len(view.units) else None
    found = stable_cut(
        spans,
        end=history.tokens,
        room=room,
        step=step,
        block=block,
        whole=history.is_whole,
        asked=asked,
        spared=spared,
    )
    if isinstance(found, Before):
        return found
    since_seq = view.seq(found.since + 1) - 1 if found.since is not None else 0
    seq = history.length + 1 if found.cut == len(spans.cost) else view.seq(found.cut)
    return Cut(seq, since_seq, found.for_price)


def _placed(added: int, mode: str) -> tuple[int, int]:
    """The tokens of a question's documents in each later window, and those with the newest question alone."""
    return (added, 0) if mode == "all" else (0, added if mode == "latest" else 0)


def _spans(
    view: View, room: int, *, model: Model, documents: Documents, mode: str, limit: int | None
) -> tuple[Spans, int]:
    """The tail's units, and the tokens of the required ones, whose room no other message has.

    An unfinished pinned group is not sent, but its room stays reserved: otherwise the cut would move back.
    """
    history, units, records = view.history, view.units, view.history.records
    count, starts = len(units), units.begins
    roles = np.frombuffer(records.roles, np.uint8)[starts] if count else np.zeros(0, np.uint8)
    passing = _by_message(view, view.passing)
    # Other reasoning counts in its turn only.
    lasting = view.costs - _by_message(view, view.reasoning) + _by_message(view, view.lasting)
    lengths = reference_costs(records, history.column) if history.seen is None else history.line_lengths()
    cost, reasoning, length = (_sums(each, starts) for each in (lasting, passing, lengths))
    required = roles <= DEVELOPER
    required[[unit_at(units, index) for index in records.pinned()]] = True
    steady = int(cost[required].sum())
    cost[required] = 0
    beside, open_longer = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if history.grounding_messages:
        for index in range(count):
            if roles[index] == USER and records.flags[starts[index]] & Flags.GROUNDED:
                added = documents.most_tokens(records[int(starts[index])], model)
                before, beside[index] = _placed(added, mode)
                cost[index] += before
    if history.seen is not None and len(history.seen.behind) and count:
        gone = np.minimum(message_costs(history.seen.retired, model), max(0, room))
        np.add.at(cost, np.searchsorted(starts, history.seen.behind, side="right") - 1, gone)
    if history.covered and count:
        is_covered = np.frombuffer(records.covered_marks, np.uint8)[starts] != 0
        for each in (cost, reasoning, beside):
            each[is_covered] = 0
    for index in {unit_at(units, seq - history.first_seq) for seq in view.edits if seq >= history.first_seq}:
        open_longer[index] = _while_open(view, index, room, limit)
    for seq, tokens in view.brings.items():
        open_longer[unit_at(units, seq - history.first_seq)] += tokens
    # A question continues the turn before it if it follows tool results, or a message that was not read yet.
    continues = np.zeros(count, bool)
    if view.passing and count:
        is_result = np.frombuffer(records.roles.translate(_RESULT), np.uint8)
        continues[1:] = is_result[starts[1:] - 1] != 0
        continues[0] = not history.is_whole
    return Spans(cost, length, beside, roles == USER, reasoning, continues, open_longer), steady


def _by_message(view: View, tokens: Mapping[int, int]) -> Number:
    """Tokens by seq as an array, with a number for each message of the tail."""
    found = np.zeros(len(view.costs), np.int64)
    for seq, number in tokens.items():
        if seq >= view.history.first_seq:
            found[seq - view.history.first_seq] = number
    return found


def _sums(numbers: Number, starts: Number) -> Number:
    """The sums over units that begin at ``starts``."""
    return np.add.reduceat(numbers, starts) if len(starts) else numbers[:0]


def _while_open(view: View, index: int, room: int, limit: int | None) -> int:
    """The tokens that a tool group has lost since its last results came, because its results are cut now.

    Before, the group was sent whole if it fit into ``room``.

    ``limit`` is the ``tool_result_max_tokens`` parameter.
    """
    starts, first = view.units.starts, view.history.first_seq
    seqs = range(first + starts[index], first + starts[index + 1])
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
    gone = np.concatenate(([0], np.cumsum(spans.cost)))
    needs, untold = _needs(spans, gone, room, asked, whole=whole)
    plain, brief = int(needs.max(initial=0)), None
    if spared is not None:
        unknown = np.flatnonzero(np.logical_not(spared.told))
        untold = max(untold, int(gone[unknown[-1] + 1]) if len(unknown) else 0)
        needs = _spared(needs, spans, gone, room, asked, whole=whole, spared=spared)
        if spared.briefly.any():
            brief = _brief(spans, gone, room, asked, whole=whole, spared=spared)
            needs = np.where(needs > brief.left_out, needs, 0)
    needs = np.maximum.accumulate(np.maximum(needs, 0))
    need = int(needs[-1]) if len(needs) else 0
    if need <= 0 and whole:
        return brief.begins if brief is not None else Begins(0)
    line = end - int(spans.length.sum())
    begins = Before(line // block * block)
    places = _places(spans, gone, line, step, block, whole=whole)
    if need <= 0 and brief is not None:
        told = int(np.searchsorted(gone[places], untold))
        is_behind = told < len(places) and gone[places[told]] <= brief.left_out[-1]
        return brief.begins if is_behind and brief.begins.cut else begins
    if not whole and (need <= 0 or need < untold):
        return begins
    later = int(np.searchsorted(gone[places], need))
    if later == 0 or (gone[places[later - 1]] < untold and not whole):
        return begins
    cut = int(places[later]) if later < len(places) else len(spans.cost)
    before = gone[places[later - 1]]
    if brief is not None and brief.begins.cut > cut:
        return brief.begins
    # The first span that needed a later cut than the previous place.
    return Begins(cut, int(np.searchsorted(needs, before, side="right")), for_price=plain <= before)


class _Brief(NamedTuple):
    """Where history begins by what was needed while the cache was cold briefly; and the tokens before it at each span."""

    begins: Begins
    left_out: Number


def _brief(
    spans: Spans, gone: Number, room: int, asked: EarlierQuestion | None, *, whole: bool, spared: Spared
) -> _Brief:
    needs, _ = _needs(spans, gone, room - spared.briefly_free, asked, whole=whole)
    needs = np.maximum.accumulate(np.where(spared.briefly, np.maximum(needs, 0), 0))
    cuts = np.searchsorted(gone, needs)
    cut = int(cuts[-1])
    since = int(np.searchsorted(needs, gone[cut - 1], side="right")) if cut else None
    return _Brief(Begins(cut, since, for_price=cut > 0), gone[cuts])


def _spared(
    needs: Number,
    spans: Spans,
    gone: Number,
    room: int,
    asked: EarlierQuestion | None,
    *,
    whole: bool,
    spared: Spared,
) -> Number:
    """The needs with what ``price=auto`` leaves free."""
    if spared.outgrown:
        outgrown, _ = _needs(spans, gone, room - spared.outgrown, asked, whole=whole)
        needs = np.where(needs > 0, outgrown, needs)
    if spared.while_cold and spared.cold.any():
        while_cold, _ = _needs(spans, gone, room - spared.while_cold, asked, whole=whole)
        needs = np.where(spared.cold, np.maximum(needs, while_cold), needs)
    return needs


def _places(spans: Spans, gone: Number, line: int, step: float, block: int, *, whole: bool) -> Number:
    """Indexes where history may begin: each block's first span, and the first span after each step in the block."""
    stands = line + np.cumsum(spans.length) - spans.length
    blocks = stands // block
    is_first = np.concatenate(([whole], blocks[1:] > blocks[:-1]))[: len(stands)]
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(stands)), -1))
    steps = (gone[:-1] - gone[first]) // step
    is_place = is_first | ((first >= 0) & np.concatenate(([False], steps[1:] > steps[:-1]))[: len(stands)])
    return np.flatnonzero(is_place)


def _needs(spans: Spans, gone: Number, room: int, asked: EarlierQuestion | None, *, whole: bool) -> tuple[Number, int]:
    """The tokens that had to be left out when each span was the newest; and the tokens before the first known question.

    A turn's reasoning counts while it is kept and the turn is the newest.
    """
    count, totals = len(spans.cost), gone[1:]
    index = np.arange(count)
    begins = spans.question & np.logical_not(spans.continues)
    turn = np.maximum.accumulate(np.where(begins, index, 0))  # where the turn of each span begins
    is_known = whole or asked is not None
    knows = np.ones(count, bool) if is_known else np.logical_or.accumulate(begins)
    place = np.maximum.accumulate(np.where(spans.question & knows, index, -1))  # that of its question
    first = asked or EarlierQuestion()
    question = np.where(place < 0, first.cost, spans.cost[place])
    documents = np.where(place < 0, first.documents, spans.documents[place])
    most = room - np.maximum(0, np.minimum(documents, room - question)) - spans.while_open
    thoughts = np.cumsum(spans.reasoning)
    thoughts = thoughts - (thoughts - spans.reasoning)[turn]
    in_turn = totals - gone[turn] + thoughts
    needs = np.minimum(totals, totals + np.where(knows, thoughts - most, spans.while_open - room))
    outgrown = knows & (in_turn > most)
    if asked is not None and not whole:
        outgrown |= (turn == 0) & np.logical_not(begins[:1].any())
    if outgrown.any():
        _outgrown(spans, gone, needs, turn=turn, place=place, most=most, question=question, outgrown=outgrown)
    return needs, int(totals[np.logical_not(knows)].max(initial=0))


def _outgrown(spans: Spans, gone: Number, needs: Number, **known: Number) -> None:
    """Change the needs of turns that are larger than the window: the question is kept, before the turn's last messages."""
    turn, place, most, question, outgrown = (known[name] for name in ("turn", "place", "most", "question", "outgrown"))
    spent = np.concatenate(([0], np.cumsum(spans.cost + spans.reasoning)))
    left = -1  # the turn whose beginning is left out, and its first kept span
    first = 0
    for index in range(int(np.argmax(outgrown)), len(needs)):
        if turn[index] != left:
            if not outgrown[index]:
                continue
            left, first = turn[index], turn[index]
        while first <= index and spent[index + 1] - spent[first] > most[index] - (
            question[index] if first > place[index] else 0
        ):
            first += 1
        needs[index] = gone[first]
