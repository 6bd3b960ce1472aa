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

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

Leveled = Sequence[Sequence[str]]
"""Documents, each as its texts, the longest first."""


class LevelStep(NamedTuple):
    """The documents of a step: their texts, and the level of each; 0 is the longest. If ``cut``, the last text is."""

    texts: list[str]
    levels: tuple[int, ...]
    cut: bool = False


def step_at(documents: Leveled, number: int) -> LevelStep:
    """The step of this number."""
    sent, risen = documents[:number], number - len(documents)
    before = accumulate((len(texts) - 1 for texts in sent), initial=0)
    levels = [max(0, len(texts) - 1 - max(0, risen - steps)) for texts, steps in zip(sent, before, strict=False)]
    texts = [texts[level] for texts, level in zip(sent, levels, strict=True)]
    return LevelStep(texts, tuple(levels))


def highest(count: int, room: int, cost: Callable[[int], int], *, first: int = 1) -> int:
    """The highest number from ``first`` to ``count`` that costs at most ``room``; the one before ``first`` if none does.

    The cost of the number is at most ``room``, and the next one's is more: both were counted. Guesses go by proportion, so
    they are few, and soon near what has room. Each one counts the other end for half, so that both ends come closer.
    """
    if count < first or (most := cost(count)) <= room:  # as nearly always
        return count
    low, high = first - 1, count
    free, over = max(0, room - cost(low)), most - room
    while high - low > 1:
        guess = min(max(low + 1, low + (high - low) * free // (free + over)), high - 1)
        left = room - cost(guess)
        if left >= 0:
            low, free, over = guess, left, max(1, over // 2)
        else:
            high, free, over = guess, free // 2, -left
    return low
