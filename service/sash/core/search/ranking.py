"""The relevance of messages to a question: BM25 over the words of a message and of its neighbours.

A message with the answer seldom has all of the question's words: "When did she move?" is in one message, and "In May" in
the next. So a word also counts for the three messages before and after its own, at half the weight for each step. These
sums are weighted with BM25 (Robertson and Zaragoza 2009, with the usual parameters 1.2 and 0.75).

The functions work on the packed words of all searched messages at once, as numbers in one array (core/search/words.py).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sash.core.chat.packed import Packed
from sash.core.search.words import DIGEST_BITS, MOST_OFTEN

Scores = NDArray[np.float32]
_SHARES: Final = np.array((0.125, 0.25, 0.5, 1, 0.5, 0.25, 0.125), np.float32)
NEIGHBOURS: Final = len(_SHARES) // 2
"""The number of messages before and after one for which its words count too."""
_SATURATION, _LENGTH = 1.2, 0.75
_PER_DEVIATION: Final = np.float32(0.1)
_MOST_WORDS: Final = 32
"""The number of a question's words that are searched for, the rarest first. A question may be a pasted page."""


def fused(scores: Scores, near: Scores) -> Scores:
    """Scores by words and by vectors combined: those by words as shares of the best, plus a tenth for each standard
    deviation by which a message's vector is nearer to the question than the messages are on average.

    So vectors count as far as they single a message out, where ranks alone (Cormack et al. 2009) would put weak vectors on a
    level with words. A message without a vector is ranked by its words alone.
    """
    total = scores / (scores.max(initial=0) or np.float32(1))
    there = near != 0
    if there.any():
        known = near[there]
        total[there] += _PER_DEVIATION * (known - known.mean()) / (known.std() or np.float32(1))
    return np.maximum(total, 0, dtype=np.float32)


def scores_of_vectors(vectors: Packed, question: bytes, count: int) -> Scores:
    """The cosine of the question and each of ``count`` messages, plus a share of its neighbours' cosines.

    ``vectors`` has a value for each message except perhaps the newest, empty if the message has no vector.
    """
    near = np.zeros(count, np.float32)
    there = np.flatnonzero(np.frombuffer(vectors.sizes, "<u4"))
    if not question or len(vectors.joined) != len(there) * len(question) or not len(there):
        return near
    rows = np.frombuffer(vectors.joined, np.int8).reshape(len(there), -1).astype(np.float32)
    near[there] = rows @ np.frombuffer(question, np.int8).astype(np.float32)
    near[there] /= np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return _with_neighbours(near)


def scores_of_words(messages: Packed, question: Sequence[Sequence[int]]) -> tuple[Scores, NDArray[np.bool_]]:
    """Each message's score, and whether the message itself has a word of the question.

    The score is 0 if neither the message nor a neighbour has one. ``messages`` are packed words, in the conversation's
    order. ``question`` has, for each word, its possible numbers.
    """
    count = len(messages)
    sizes = np.frombuffer(messages.sizes, "<u4").astype(np.int64) >> 2
    often, holding = _frequencies(messages.joined, sizes, question)
    if not len(often):
        return np.zeros(count, np.float32), np.zeros(count, np.bool_)
    rarity = np.log1p((count - holding + 0.5) / (holding + 0.5)).astype(np.float32)
    lengths = _with_neighbours(sizes.astype(np.float32))
    norm = _SATURATION * (1 - _LENGTH + _LENGTH * lengths / (np.add.reduce(lengths) / count))
    around = _with_neighbours(often)
    weights = around * (_SATURATION + 1)
    around += norm
    weights /= around
    holds: NDArray[np.bool_] = np.logical_or.reduce(often, axis=0)
    return rarity @ weights, holds


def _frequencies(
    packed: bytes, sizes: NDArray[np.int64], question: Sequence[Sequence[int]]
) -> tuple[Scores, NDArray[np.int64]]:
    """The number of occurrences of the question's rarest words in each message: one row for each word that occurs; and the
    number of messages that have it."""
    pairs = sorted((number & DIGEST_BITS, row) for row, numbers in enumerate(question) for number in numbers)
    numbers = np.array([number for number, _ in pairs], np.uint32)
    rows = np.array([row for _, row in pairs], np.int64)
    words = np.frombuffer(packed, "<u4")
    places, which, found = _occurrences(words, numbers)
    rows_of = rows.take(which)
    holding = np.bincount(rows_of, minlength=len(question))
    rarest = np.argsort(holding, kind="stable")[np.count_nonzero(holding == 0) :][:_MOST_WORDS]
    row_of = np.full(len(question), -1)
    row_of[rarest] = np.arange(len(rarest))
    at = row_of.take(rows_of)
    if len(question) > _MOST_WORDS:
        wanted = at >= 0
        places, at, found = places[wanted], at[wanted], found[wanted]
    at *= len(sizes)
    at += np.repeat(np.arange(len(sizes)), sizes).take(places)  # the word's message
    often = np.zeros(len(rarest) * len(sizes), np.float32)
    often[at] = found & np.uint32(MOST_OFTEN)
    return often.reshape(len(rarest), len(sizes)), holding[rarest]


def _occurrences(
    words: NDArray[np.uint32], numbers: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
    """The places of words that have one of these numbers, which are ascending, the index of its number, and these words.

    The upper half of a number decides first: a table of these halves excludes nearly all words, and gives the index.
    """
    halves = numbers >> 16
    index_of = np.zeros(1 << 16, np.min_scalar_type(len(numbers)))  # the index + 1
    index_of[halves] = np.arange(1, len(numbers) + 1)
    found = index_of.take(words.view("<u2")[1::2])
    places = np.flatnonzero(found)
    these, which = words.take(places), found.take(places).astype(np.int64) - 1
    digests = these & np.uint32(DIGEST_BITS)
    if (halves[1:] == halves[:-1]).any():  # two numbers share a half
        which = np.searchsorted(numbers[:-1], digests)
    right = np.flatnonzero(numbers.take(which) == digests)
    return places.take(right), which.take(right), these.take(right)


def _with_neighbours(values: Scores) -> Scores:
    """The values along the last axis, each plus shares of the three values before and after it."""
    # Rows with zeros between them are one row, which numpy adds faster than many.
    count = values.shape[-1]
    padded = np.zeros((*values.shape[:-1], count + NEIGHBOURS), np.float32)
    padded[..., :count] = values
    total = np.convolve(padded.ravel(), _SHARES)[NEIGHBOURS:-NEIGHBOURS]
    return total.reshape(padded.shape)[..., :count]


def best(scores: Scores, limit: int) -> list[tuple[int, float]]:
    """Places and scores of the ``limit`` best messages, best first, the newer of equals first. Scores of 0 are left out."""
    places = np.flatnonzero(scores)
    if len(places) > limit:
        places = places[scores[places] >= np.partition(scores[places], -limit)[-limit]]
    order = places[np.lexsort((-places, -scores[places]))][:limit]
    return list(zip(order.tolist(), scores[order].tolist(), strict=True))
