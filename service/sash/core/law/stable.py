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

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from sash.core.counts.families import DEVELOPER, USER
from sash.core.counts.models import Model
from sash.core.law.costs import reference_costs
from sash.core.law.documents import Documents
from sash.core.law.results import RESULTS
from sash.core.law.view import View, unit_at, unit_costs


class Span(NamedTuple):
    """A unit on the line of tokens. ``cost`` are its tokens in the window (0 for a required unit), ``length`` its counted
    reference tokens, ``documents`` the tokens that its documents would add, ``question`` whether it is a user's message.
    ``reasoning`` are additional tokens until the next question that does not continue the turn (``continues``), and
    ``while_open`` until the last result of a tool group, which makes the group larger than the room, so that it is cut."""

    cost: int
    length: int
    documents: int
    question: bool
    reasoning: int = 0
    continues: bool = False
    while_open: int = 0


_NO_QUESTION = Span(0, 0, 0, question=True)
"""Stands before a whole history, whose first turn may have no question."""


class Before(NamedTuple):
    """The tail is too short: it must begin at this place of the line, in reference tokens, or earlier."""

    place: int


class Cut(NamedTuple):
    """The seq where history begins, and the seq of the message that moved it there; 0 if nothing is left out."""

    seq: int
    since_seq: int


def cut_seq(
    view: View, room: int, step: float, block: int, *, model: Model, documents: Documents, mode: str, limit: int | None
) -> Cut | Before:
    """The stable cut; Before if the tail is too short to find it.

    ``room`` is the budget minus the fixed parts and ``step`` a length, both in the model's tokens; ``block`` is in reference
    tokens. ``mode`` is the ``grounding`` parameter and ``limit`` is ``tool_result_max_tokens``.
    """
    history, column = view.history, view.history.column

    # An unfinished pinned group is not sent, but its room stays reserved: otherwise the cut would move back.
    records, units, room_of_groups = history.records, view.units, room
    roles, starts, rich = records.roles, units.starts, set(records.rich())
    pinned = {unit_at(units, index) for index in records.pinned()}
    spans = []
    lengths = unit_costs(units, reference_costs(records, column))
    for index, (cost, length) in enumerate(zip(view.unit_costs, lengths, strict=True)):
        start, thought, added = starts[index], 0, 0
        if view.reasoning or view.passing:
            seqs = range(history.first_seq + start, history.first_seq + starts[index + 1])
            thought = sum(view.passing.get(seq, 0) for seq in seqs)
            cost = sum(map(view.lasting_cost_of, seqs))  # noqa: PLW2901 - other reasoning counts in its turn only
        if roles[start] <= DEVELOPER or index in pinned:
            room -= cost
            cost = 0  # noqa: PLW2901 - required, and subtracted from the room
        # A question continues the turn before it if it follows tool results, or a message that was not read yet.
        continues = bool(view.passing) and (roles[start - 1] in RESULTS if start else history.first_seq > 1)
        more = _while_open(view, index, room_of_groups, limit) if view.edits else 0
        question = roles[start] == USER
        if question and start in rich:
            added = documents.most_tokens(records[start], model)
        before, beside = (added, 0) if mode == "all" else (0, added if mode == "latest" else 0)
        spans.append(Span(cost + before, length, beside, question, thought, continues, more))
    asked = None
    for seq, record in history.outside.items():
        # As in the tail: a result's cost after its cut, and signatures without the reasoning of a turn.
        cost = view.lasting_cost_of(seq)
        is_steady = record.pinned or seq != history.question
        if is_steady:
            room -= cost
        if seq == history.question:
            added = documents.most_tokens(record, model)
            before, beside = (added, 0) if mode == "all" else (0, added if mode == "latest" else 0)
            asked = Span((0 if is_steady else cost) + before, 0, beside, question=record.measure.role == USER)
    end = history.tokens
    found = stable_cut(spans, end=end, room=room, step=step, block=block, whole=history.first_seq == 1, asked=asked)
    if isinstance(found, Before):
        return found
    cut, since = found
    since_seq = view.seq(since + 1) - 1 if since is not None else 0
    return Cut(history.length + 1 if cut == len(spans) else view.seq(cut), since_seq)


def _while_open(view: View, index: int, room: int, limit: int | None) -> int:
    """The tokens that a tool group has lost since its last results came, because its results are cut now.

    Before, the group was sent whole if it fit into ``room``.

    ``limit`` is the ``tool_result_max_tokens`` parameter.
    """
    starts, first = view.units.starts, view.history.first_seq
    seqs = range(first + starts[index], first + starts[index + 1])
    if not view.edits or len(seqs) == 1:
        return 0
    costs = list(map(view.cost_of, seqs))
    whole = [cost + view.edits[seq].saved if seq in view.edits else cost for seq, cost in zip(seqs, costs, strict=True)]
    if limit is not None:
        whole = [min(tokens, max(limit, cost)) for tokens, cost in zip(whole, costs, strict=True)]
    now = sum(costs)
    return max((tokens - now for tokens in accumulate(whole) if now < tokens <= room), default=0)


def stable_cut(
    spans: Sequence[Span], *, end: int, room: int, step: float, block: int, whole: bool, asked: Span | None = None
) -> tuple[int, int | None] | Before:
    """The index of the first kept span (``len(spans)`` if none is kept), and of the span that moved the cut there.

    ``end`` is the line's length in reference tokens; the spans are its last part. ``room`` are the tokens for history and
    documents. ``whole``: the spans are the whole history. ``asked`` is the newest question if it is before the spans.
    Before, if more of the history is needed.
    """
    gone = [0, *accumulate(span.cost for span in spans)]
    needs, before_question = _greatest_needs(spans, gone, room, _NO_QUESTION if whole else asked)
    need = needs[-1] if needs else 0
    line = end - sum(span.length for span in spans)
    if need <= 0 and whole:
        return 0, None
    begins = line // block * block
    if not whole and (need <= 0 or need < before_question):
        return Before(begins)
    previous, cut = None, len(spans)
    for index in _places(spans, line, step, block, whole=whole):
        if gone[index] >= need:
            cut = index
            break
        previous = index
    if previous is None or (gone[previous] < before_question and not whole):
        return Before(begins)
    return cut, bisect_right(needs, gone[previous])  # the first span that needed a later cut than the previous place


def _places(spans: Sequence[Span], line: int, step: float, block: int, *, whole: bool) -> Iterator[int]:
    """Indexes where history may begin: each block's first span, and the first span after each step in the block."""
    begins: float | None = 0 if whole else None  # tokens since the block began
    block_before, steps = line // block, -1 if whole else 0
    for index, span in enumerate(spans):
        if line // block > block_before and index:
            begins, steps = 0, -1
        block_before = line // block
        if begins is not None:
            if begins // step > steps:
                steps = int(begins // step)
                yield index
            begins += span.cost
        line += span.length


def _greatest_needs(spans: Sequence[Span], gone: Sequence[int], room: int, asked: Span | None) -> tuple[list[int], int]:
    """The tokens that had to be left out when each of ``spans`` was the newest; and the tokens before the first question.

    ``gone`` are the tokens before each span. A turn's reasoning counts while it is kept and the turn is the newest.
    """
    need = unknown = 0
    needs = []
    question, outgrown = asked, asked is not None and asked is not _NO_QUESTION
    place = -1  # the question's
    first = turn = thoughts = 0  # the turn's first kept span, the turn's cost from this span on, and its reasoning
    for index, span in enumerate(spans):
        if span.question and not span.continues:
            outgrown, first, turn, thoughts = False, index, 0, 0
        if span.question and not (span.continues and question is None):
            question, place = span, index
        total = gone[index + 1]
        turn += span.cost + span.reasoning
        thoughts += span.reasoning
        if question is None:
            unknown = total
            need = max(need, min(total, total + span.while_open - room))
        else:
            documents = max(0, min(question.documents, room - question.cost))
            # If a turn is larger than the window, its question is still kept, before the turn's last messages.
            most = room - documents - span.while_open
            outgrown = outgrown or turn > most
            while outgrown and first <= index and turn > most - (question.cost if first > place else 0):
                turn -= spans[first].cost + spans[first].reasoning
                first += 1
            need = max(need, gone[first] if outgrown else min(total, total + thoughts - most))
        needs.append(need)
    return needs, unknown
