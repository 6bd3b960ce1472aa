"""Levels of documents: which text of each document is sent when the whole ones of all do not fit.

A document is a list of texts, the longest first. For some documents, each step of a staircase sends a little more than the
step before::

    documents   a: long, short   b: long, mid, short   c: long
    step 0      nothing
    step 1      a short                                  each document at its shortest, in their order
    step 2      a short   b short
    step 3      a short   b short   c long
    step 4      a long    b short   c long               then each is lengthened, in their order
    step 5      a long    b mid     c long
    step 6      a long    b long    c long               everything

A window has the highest step that fits. So more room never sends fewer documents, nor a shorter level of any.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

Leveled = Sequence[Sequence[str]]
"""Documents, each as its texts, the longest first."""


class LevelStep(NamedTuple):
    """The documents of a step: their texts, and the level of each, of which 0 is the longest."""

    texts: list[str]
    levels: tuple[int, ...]


def step_at(documents: Leveled, number: int) -> LevelStep:
    """The step of this number."""
    sent, risen = documents[:number], number - len(documents)
    before = accumulate((len(texts) - 1 for texts in sent), initial=0)
    levels = [max(0, len(texts) - 1 - max(0, risen - steps)) for texts, steps in zip(sent, before, strict=False)]
    texts = [texts[level] for texts, level in zip(sent, levels, strict=True)]
    return LevelStep(texts, tuple(levels))


def highest(documents: Leveled, room: int, cost: Callable[[Sequence[str]], int], *, last: int | None = None) -> int:
    """The highest step that costs at most ``room``, or 0. ``last`` is the highest that may be chosen, else all.

    The cost of the step is at most ``room``, and the next step's is more: both were counted.
    """
    last = sum(map(len, documents)) if last is None else last
    if not last or cost(step_at(documents, last).texts) <= room:  # as nearly always
        return last
    return bisect_right(range(1, last), room, key=lambda number: cost(step_at(documents, number).texts))
