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

from typing import NamedTuple

import numpy as np

from sash.core.counts.models.families import DEVELOPER, TOOL, USER
from sash.core.counts.text.numbers import Number
from sash.core.law.fixed_parts.plan import WindowSpec
from sash.core.law.history.view import View, unit_costs
from sash.core.law.records.costs import message_costs
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.records.units import unit_at
from sash.core.law.selection.cutting import lasting_units, uncut
from sash.core.stored.record import Flags


class Spans(NamedTuple):
    """The units on the line of tokens: for each figure an array, with a number for each unit.

    ``cost`` are a unit's tokens in the window (0 for a required unit), ``length`` its counted reference tokens,
    ``documents`` the tokens that its documents would add, ``question`` whether it is a user's message. ``passing`` are
    additional tokens until the next question that does not continue the turn (``continues``), and ``while_open`` until the
    last result of a tool group, which makes the group larger than the room, so that it is cut; or while a late result is the
    newest message, which brings its group.

    If the newest question is before the tail, all its tokens are ``passing``: the window of the next question does not have
    it.
    """

    cost: Number
    length: Number
    documents: Number
    question: Number
    passing: Number
    continues: Number
    while_open: Number


class Cut(NamedTuple):
    """The row where history begins, and the row of the message that moved it there; None if nothing is left out.

    ``stable_cut`` tells both by the index of the unit.
    """

    row: int
    since: int | None


def cut_seq(view: View, room: int, step: float, block: int, spec: WindowSpec) -> Cut | NeedOlder:
    """The stable cut, in the view's rows; all else is as in ``stable_cut``."""
    history, starts = view.history, view.units.starts
    spans, steady = _spans(view, room, spec)
    found = stable_cut(spans, end=history.tokens, room=room - steady, step=step, block=block, whole=history.is_whole)
    if isinstance(found, NeedOlder):
        return found
    return Cut(starts[found.row], None if found.since is None else starts[found.since + 1] - 1)


def _spans(view: View, room: int, spec: WindowSpec) -> tuple[Spans, int]:
    """All units, and the tokens of the required ones, whose room no other message has.

    An unfinished pinned group is not sent, but its room stays reserved: otherwise the cut would move back. Units before the
    tail have no length, and but for the newest question nothing at all.
    """
    history, units, records, thoughts = view.history, view.units, view.history.records, view.thoughts
    starts, front, query = units.begins, units.front, spec.plan.query
    before = [unit_at(units, history.asked)] if 0 <= history.asked < records.front else []
    roles = np.frombuffer(records.sent_roles, np.uint8)[starts]
    is_sent = np.frombuffer(records.unsent, np.uint8)[starts] == 0
    length = unit_costs(units, np.append(np.zeros(records.front, np.int64), history.log_lengths()))
    passing, documents, while_open = np.zeros((3, len(units)), np.int64)
    cost, continues = unit_costs(units, view.costs).copy(), np.zeros(len(units), bool)
    if thoughts is not None and thoughts.passing.any():
        passing = unit_costs(units, thoughts.passing)
        # A question continues the turn before it if it follows tool results, or a message that was not read yet.
        continues[1:] = np.frombuffer(records.roles, np.uint8)[starts[1:] - 1] >= TOOL
        continues[front : front + 1] = not history.is_whole
        continues[before] = False
    if thoughts is not None:
        cost += unit_costs(units, thoughts.lasting - thoughts.sent)
    required = roles <= DEVELOPER
    required[[*lasting_units(view)]] = True
    steady = int(cost[required & is_sent].sum())
    cost[required] = 0
    is_question = roles == USER
    for marks in (is_sent, is_question):
        marks[:front], marks[before] = False, True
    is_grounded = np.frombuffer(records.flags, np.uint8)[starts] & Flags.GROUNDED != 0
    for unit in np.flatnonzero(is_question & is_grounded).tolist() if query.grounding != "none" else ():
        added = cost if query.grounding == "all" else documents  # all: in each later window, too
        added[unit] += spec.documents.most_tokens(records[units.starts[unit]], spec.plan.model)
    if history.seen is not None and len(history.seen.behind) and len(units) > front:
        gone = np.minimum(message_costs(history.seen.retired, spec.plan.model), max(0, room))
        behind = np.searchsorted(starts, records.front + history.seen.behind, side="right") - 1
        np.add.at(cost, behind, gone)
    cost, passing, documents = (each * is_sent for each in (cost, passing, documents))
    passing[before] += cost[before]
    cost[before] = 0
    whole = uncut(view, query.tool_result_max_tokens) if view.edits else view.costs
    for unit in {unit_at(units, row) for row in view.edits if row >= records.front}:
        group = slice(*units.starts[unit : unit + 2])
        grown, now = np.cumsum(whole[group]), int(view.costs[group].sum())
        # Before its last results came, the group was sent whole if it fit; now its results are cut.
        while_open[unit] = int(grown[grown <= room].max(initial=now)) - now if len(grown) > 1 else 0
    for row, tokens in view.brings.items():
        while_open[unit_at(units, row)] += tokens
    return Spans(cost, length, documents, is_question, passing, continues, while_open), steady


def stable_cut(spans: Spans, *, end: int, room: int, step: float, block: int, whole: bool) -> Cut | NeedOlder:
    """The cut before the first kept span, or behind all. NeedOlder if the tail must begin earlier on the line.

    ``end`` and ``block`` are lengths in reference tokens; the spans are the line's last part. ``room`` are the model's
    tokens for history and documents, and ``step`` is a number of them. ``whole``: the spans are the whole history.
    """
    begins = spans.question & ~spans.continues
    gone = np.append(0, np.cumsum(spans.cost))
    told = 0 if whole else int(np.argmax(np.append(begins, True)))  # the first span whose turn and question are known
    needs = _needs(spans, gone, begins, room)
    needs[:told] = 0
    need = int(needs.max(initial=0))
    if whole and not need:
        return Cut(0, None)
    line = end - int(spans.length.sum())
    places = _places(spans, gone, line, step, block, whole=whole)
    before = gone[places]
    # What messages before the tail need is at most what is before the first told one, so places behind that are certain.
    certain = int(np.searchsorted(before, gone[told]))
    if not (before[certain : certain + 1] < need).any():
        return NeedOlder(place=line // block * block)
    place = int(np.searchsorted(before, need))
    # The first span that needed a later cut than the previous place.
    return Cut(int(np.append(places, len(spans.cost))[place]), int(np.argmax(needs > before[place - 1])))


def _places(spans: Spans, gone: Number, line: int, step: float, block: int, *, whole: bool) -> Number:
    """Indexes where history may begin: each block's first span, and the first span after each step in the block."""
    blocks = (line + np.cumsum(spans.length) - spans.length) // block
    is_first = np.diff(blocks, prepend=blocks[:1]) > 0
    is_first[:1] = whole
    first = _last(is_first)
    steps = (gone[:-1] - gone[first]) // step
    return np.flatnonzero(is_first | ((first >= 0) & (np.diff(steps, prepend=steps[:1]) > 0)))


def _last(marks: Number) -> Number:
    """The index of the last mark up to each span, and -1 before the first."""
    return np.maximum.accumulate(np.where(marks, np.arange(len(marks)), -1))


def _needs(spans: Spans, gone: Number, begins: Number, room: Number) -> Number:
    """The tokens that had to be left out of a room in each window: one for each span, when that span was the newest.

    Each had to contain a turn and a question. A turn larger than the room is sent with its question, and the last of its
    other messages. ``gone`` are the tokens before each span; a turn ``begins`` with some of these.
    """
    sent = np.append(0, np.cumsum(spans.cost + spans.passing))
    turn, asked = np.maximum(0, _last(begins)), _last(spans.question)
    question, documents = (np.append(each, 0)[asked] for each in (spans.cost + spans.passing, spans.documents))
    room = room - np.minimum(documents, np.maximum(0, room - question)) - spans.while_open
    of_turn = sent[1:] - sent[turn]
    needs = gone[turn] + of_turn - room
    outgrown = np.flatnonzero(of_turn > room)
    over = (sent[1:] - room)[outgrown]
    first = np.searchsorted(sent, over)
    without = np.minimum(np.searchsorted(sent, over + question[outgrown]), outgrown + 1)
    needs[outgrown] = gone[np.where(first > asked[outgrown], without, first)]
    return np.maximum(0, needs)
