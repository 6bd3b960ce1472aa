"""stable_cut: where history begins, so that it begins there again next turn.

A window that slides by one message each turn throws the provider's prompt cache away. Here the beginning moves in steps of
a part of the budget. Lay all messages of the conversation end to end, as tokens; a window needs the first ``x`` of them
gone; then what goes is everything before the next multiple of the step after ``x``. That depends on history and
parameters alone, so every replica finds the same place.

``x`` never falls as messages are appended, although documents come and go with the newest question: every message looks
back at what the window needed when that message was the newest, and the greatest need stands. Messages older than one
budget cannot have needed more than the window needs now, so the tail that was read is enough.

    tokens   0 ........ step ........ 2 step ........ 3 step ........ end
    need                      x |----------- budget for history ------|
    kept                              |--------------------------------|
"""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """A unit on the line of tokens. ``cost`` counts towards the window (0 for what is in anyway), ``length`` is its
    place on the line in reference tokens, ``documents`` what its documents would add, ``question`` if a user wrote it."""

    cost: int
    length: int
    documents: int
    question: bool


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
    start = end - sum(span.length for span in spans)
    gone = 0
    for span in spans:
        if gone + span.cost >= need:
            break
        gone += span.cost
        start += span.length
    place = start + (need - gone) * span.length / span.cost
    threshold = math.ceil(place / step) * step
    place = end - sum(span.length for span in spans)
    for index, span in enumerate(spans):
        if place >= threshold:
            return index
        place += span.length
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
        if question is None:
            unknown = total
            need = max(need, total - room)
            continue
        documents = max(0, min(question.documents, room - question.cost))
        # A question that the window has outgrown stays in it all the same, before everything else that is kept.
        outgrown = outgrown or total - start + documents > room
        need = max(need, total + documents + (question.cost if outgrown else 0) - room)
    return min(need, total), unknown
