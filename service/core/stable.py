"""stable_cut: where history begins, so that it begins there again next turn.

A window that slides by one message each turn throws the provider's prompt cache away. Here the beginning moves in steps of
a part of the budget. Lay all messages of the conversation end to end, as tokens; a window needs the first ``x`` of them
gone; then what goes is everything before the next multiple of the step after ``x``. That depends on history and
parameters alone, so every replica finds the same place.

``x`` never falls as messages are appended, although documents come and go with the newest question: every message looks
back at what the window needed when that message was the newest, and the greatest need stands. No window needs more gone
than there was, so messages older than what must go now cannot have needed more, and the tail that was read is enough.

    tokens   0 ........ step ........ 2 step ........ 3 step ........ end
    need                      x |----------- budget for history ------|
    kept                              |--------------------------------|
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from service.core.costs import record_cost, reference_costs
from service.core.documents import Documents
from service.core.models import Model
from service.core.records import Record
from service.core.units import DEVELOPER, USER
from service.core.view import View, unit_at, unit_costs


class Span(NamedTuple):
    """A unit on the line of tokens. ``cost`` counts towards the window (0 for what is in anyway), ``length`` is its
    place on the line in reference tokens, ``documents`` what its documents would add, ``question`` if a user wrote it."""

    cost: int
    length: int
    documents: int
    question: bool


def cut_seq(view: View, room: int, step: float, *, model: Model, documents: Documents, mode: str) -> int | None:
    """The seq where a stable cut lets history begin; None when the tail is too short to tell.

    ``room`` is the budget less the fixed parts, ``step`` a number of the model's tokens; ``mode`` says whose documents
    are sent: those of the ``latest`` question, of ``all``, of ``none``.
    """
    history, column = view.history, view.history.column

    def span(record: Record, cost: int, length: int) -> Span:
        question = record.measure.role == USER
        added = _documents_tokens(record, model, column, documents) if question and record.grounding else 0
        return Span(cost + (added if mode == "all" else 0), length, added if mode == "latest" else 0, question)

    # A pinned group that nobody finished is not sent, but its room stays set aside: given back, it would move the cut back.
    records, units = history.records, view.units
    pinned = {unit_at(units, index) for index in records.pinned()}
    spans = []
    for index, (cost, length) in enumerate(zip(view.unit_costs, _lengths(view), strict=True)):
        if view.role(index) <= DEVELOPER or index in pinned:
            room -= cost
            cost = 0  # noqa: PLW2901 - it is in anyway
        spans.append(span(records[units.starts[index]], cost, length))
    asked = None
    for seq, record in history.outside.items():
        cost = record_cost(record, model)
        is_steady = record.pinned or seq != history.question
        if is_steady:
            room -= cost
        if seq == history.question:
            asked = span(record, 0 if is_steady else cost, 0)
    # The line is in reference tokens, which an estimated model's margin makes fewer than its own.
    step /= model.margin
    cut = stable_cut(spans, end=history.tokens, room=room, step=step, whole=history.first_seq == 1, asked=asked)
    if cut is None:
        return None
    return history.length + 1 if cut == len(spans) else view.seq(cut)


def _lengths(view: View) -> list[int]:
    """Each unit's place on the line, in reference tokens."""
    return unit_costs(view.units, reference_costs(view.history.records, view.history.column))


def _documents_tokens(record: Record, model: Model, column: int, documents: Documents) -> int:
    """What a message's documents add at most, in the model's tokens."""
    if record.grounding is None:
        return 0
    tokens = math.ceil(record.grounding[column] * model.margin)
    return tokens if documents.max_tokens is None else min(tokens, documents.max_tokens)


def stable_cut(
    spans: Sequence[Span], *, end: int, room: int, step: float, whole: bool, asked: Span | None = None
) -> int | None:
    """The index of the first span that is kept; ``len(spans)`` when none is.

    ``end`` is the line's length in reference tokens (the spans are its end), ``room`` what history and documents may
    take, ``whole`` whether the spans are all of the history, ``asked`` the newest question when it lies before them.
    None when more of the history is needed to tell.
    """
    need, before_question = _greatest_need(spans, room, asked)
    if need <= 0 or not spans:
        return 0 if whole else None
    if not whole and (need <= spans[0].cost or need < before_question):
        return None
    start = first = end - sum(span.length for span in spans)
    gone = last = 0
    while gone + spans[last].cost < need:
        gone += spans[last].cost
        start += spans[last].length
        last += 1
    place = start + (need - gone) * spans[last].length / spans[last].cost
    threshold = math.ceil(place / step) * step
    for index, span in enumerate(spans):
        if first >= threshold:
            return index
        first += span.length
    return len(spans)


def _greatest_need(spans: Sequence[Span], room: int, asked: Span | None) -> tuple[int, int]:
    """How many tokens of ``spans`` must go, and how many of them lie before any question that is known."""
    total = need = unknown = 0
    start = 0
    question = asked
    outgrown = asked is not None
    for span in spans:
        if span.question:
            question, start, outgrown = span, total, False
        total += span.cost
        besides = 0
        if question is None:
            unknown = total
        else:
            documents = max(0, min(question.documents, room - question.cost))
            # A question that the window has outgrown stays in it all the same, before everything else that is kept.
            outgrown = outgrown or total - start + documents > room
            besides = documents + (question.cost if outgrown else 0)
        need = max(need, min(total, total + besides - room))
    return need, unknown
