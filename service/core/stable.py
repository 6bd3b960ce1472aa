"""stable_cut: where history begins, so that it begins there again next turn.

A window that slides by one message each turn throws the provider's prompt cache away. Here the beginning moves in steps of
a part of the budget. Lay all messages of the conversation end to end, as the tokens that they are sent with; a window needs
the first ``x`` of them gone; then what goes is everything before the first place after ``x`` where a step ends. That depends
on history and parameters alone, so every replica finds the same place.

Nobody knows how many tokens lie before the tail, as they are sent: reasoning is left out, long results are cut. How many
were counted is known. So steps are counted anew at each block of counted tokens, and only the block is read.

``x`` never falls as messages are appended, although documents and reasoning come and go with the newest question: every
message looks back at what the window needed when that message was the newest, and the greatest need stands. No window needs
more gone than there was, so messages older than what must go now cannot have needed more, and the tail that was read is
enough.

    counted  block ......................................... block ......
    sent     0 ........ step ........ 2 step ........ 3 step 0 ......... end
    need                      x |----------- budget for history ------|
    kept                              |--------------------------------|
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from service.core.costs import record_cost, reference_costs
from service.core.documents import Documents
from service.core.models import Model
from service.core.records import Record
from service.core.units import DEVELOPER, USER
from service.core.view import View, unit_at, unit_costs


class Span(NamedTuple):
    """A unit on the line of tokens. ``cost`` counts towards the window (0 for what is in anyway), ``length`` is what was
    counted of it in reference tokens, ``documents`` what its documents would add, ``question`` if a user wrote it.
    ``reasoning`` is what it costs besides until the next question."""

    cost: int
    length: int
    documents: int
    question: bool
    reasoning: int = 0


class Before(NamedTuple):
    """The tail is too short: it must begin at this place of the line, in reference tokens, or before."""

    place: int


class Cut(NamedTuple):
    """Where history begins, and the seq of the message that moved it there; 0 while nothing was left out."""

    seq: int
    since_seq: int


def cut_seq(
    view: View,
    room: int,
    step: float,
    block: int,
    *,
    model: Model,
    documents: Documents,
    mode: str,
    turn_only: bool = False,
) -> Cut | Before:
    """Where a stable cut lets history begin; Before when the tail is too short to tell.

    ``room`` is the budget less the fixed parts, ``step`` a number of the model's tokens, ``block`` of reference tokens;
    ``mode`` says whose documents are sent: those of the ``latest`` question, of ``all``, of ``none``. ``turn_only``:
    reasoning is sent until the next question.
    """
    history, column = view.history, view.history.column

    def span(record: Record, cost: int, length: int, thought: int = 0) -> Span:
        question = record.measure.role == USER
        added = _documents_tokens(record, model, column, documents) if question and record.grounding else 0
        return Span(cost + (added if mode == "all" else 0), length, added if mode == "latest" else 0, question, thought)

    # A pinned group that nobody finished is not sent, but its room stays set aside: given back, it would move the cut back.
    records, units = history.records, view.units
    pinned = {unit_at(units, index) for index in records.pinned()}
    thoughts = {**view.reasoning_left, **view.reasoning} if turn_only else {}
    spans = []
    for index, (cost, length) in enumerate(zip(view.unit_costs, _lengths(view), strict=True)):
        thought = 0
        if turn_only and thoughts:
            seqs = range(history.first_seq + units.starts[index], history.first_seq + units.starts[index + 1])
            thought = sum(thoughts.get(seq, 0) for seq in seqs)
            cost -= sum(view.reasoning.get(seq, 0) for seq in seqs)  # noqa: PLW2901 - it counts for its turn alone
        if view.role(index) <= DEVELOPER or index in pinned:
            room -= cost
            cost = 0  # noqa: PLW2901 - it is in anyway
        spans.append(span(records[units.starts[index]], cost, length, thought))
    asked = None
    for seq, record in history.outside.items():
        cost = record_cost(record, model)
        is_steady = record.pinned or seq != history.question
        if is_steady:
            room -= cost
        if seq == history.question:
            asked = span(record, 0 if is_steady else cost, 0)
    end = history.tokens
    found = stable_cut(spans, end=end, room=room, step=step, block=block, whole=history.first_seq == 1, asked=asked)
    if isinstance(found, Before):
        return found
    cut, since = found
    since_seq = view.seq(since + 1) - 1 if since is not None else 0
    return Cut(history.length + 1 if cut == len(spans) else view.seq(cut), since_seq)


def _lengths(view: View) -> list[int]:
    """Each unit's place on the line, in reference tokens."""
    return unit_costs(view.units, reference_costs(view.history.records, view.history.column))


def _documents_tokens(record: Record, model: Model, column: int, documents: Documents) -> int:
    """What a message's documents add at most, in the model's tokens."""
    if record.grounding is None:
        return 0
    tokens = math.ceil(record.grounding[column] * model.scale)
    return tokens if documents.max_tokens is None else min(tokens, documents.max_tokens)


def stable_cut(
    spans: Sequence[Span], *, end: int, room: int, step: float, block: int, whole: bool, asked: Span | None = None
) -> tuple[int, int | None] | Before:
    """The index of the first span that is kept, ``len(spans)`` when none is; and that of the span that moved it there.

    ``end`` is the line's length in reference tokens (the spans are its end), ``room`` what history and documents may
    take, ``whole`` whether the spans are all of the history, ``asked`` the newest question when it lies before them.
    Before, when more of the history is needed to tell.
    """
    gone = [0, *accumulate(span.cost for span in spans)]
    needs, before_question = _greatest_needs(spans, gone, room, asked)
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
    return cut, bisect_right(needs, gone[previous])  # the first that needed more gone than lies before the place before


def _places(spans: Sequence[Span], line: int, step: float, block: int, *, whole: bool) -> Iterator[int]:
    """Where history may begin: each block's first span, and the first one behind each step from there."""
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
    """How many tokens must go, when each of ``spans`` was the newest; and how many lie before any question that is known.

    ``gone`` are the tokens before each span. A turn's reasoning counts while it is kept and the turn is the newest.
    """
    need = unknown = 0
    needs = []
    question, outgrown = asked, asked is not None
    first = turn = thoughts = 0  # the turn's first span that is kept, what it costs from there, and its reasoning
    for index, span in enumerate(spans):
        if span.question:
            question, outgrown, first, turn, thoughts = span, False, index, 0, 0
        total = gone[index + 1]
        turn += span.cost + span.reasoning
        thoughts += span.reasoning
        if question is None:
            unknown = total
            need = max(need, min(total, total - room))
        else:
            documents = max(0, min(question.documents, room - question.cost))
            # A question that the window has outgrown stays in it all the same, before everything else that is kept.
            outgrown = outgrown or turn + documents > room
            while outgrown and first <= index and turn > room - documents - question.cost:
                turn -= spans[first].cost + spans[first].reasoning
                first += 1
            need = max(need, gone[first] if outgrown else min(total, total + thoughts + documents - room))
        needs.append(need)
    return needs, unknown
