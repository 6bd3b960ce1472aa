"""Calibration: the errors of predictions against bills, and the correction of an estimated model.

The store adds up the reports of a model (``store/data/usage.py``), and keeps the sizes and ratios of the last 100.

::

    billed ≈ constant + margin · bare        bare: the prediction without its correction, in tokens

A host that puts a prompt of its own before every request bills a constant more. Two bills of different length solve both.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

import msgspec
import numpy as np

# One report is enough to raise a margin. A margin is lowered fully only after this many reports.
_ENOUGH = 10
# Every part of a request is rounded up, so the ratio of a whole request is slightly wrong for its parts.
_HEADROOM = 1.02
_DRIFT = 0.01
_OFTEN = 0.05
MOST_RATIO = 10.0
"""Larger ratios of billed to predicted tokens are refused: no tokeniser makes ten tokens where another makes one, so such
a report is of another request."""
MOST_CONSTANT = 5_000
"""Tokens that a host may add to every request: the largest hidden prompt in a bill, of 4,400, and a margin. A report that is
higher than ``MOST_RATIO`` and this together allow is refused."""
_APART = 2.0
"""How many times as long as the shortest a bill must be to tell a constant from a ratio."""
# Ratios under a half are not believed either. Bills are that low if cached tokens were not reported, or if the estimate of
# a file was too high. With such a margin, the next window of plain text would be over its budget.
_LEAST_MARGIN = 0.5


class Correction(NamedTuple):
    """What estimates of a model are multiplied by, and the tokens that are then added once a request."""

    margin: float
    constant: int = 0


class BilledSize(NamedTuple):
    """Two sizes of one request, in tokens: the prediction without its correction, and the bill."""

    bare: float
    billed: int


class Outcome(msgspec.Struct, frozen=True):
    """How the predictions of some reports did: billed / predicted tokens by median and by the 95th percentile, and the share
    of reports that were billed above their prediction."""

    count: int
    median_ratio: float
    p95_ratio: float
    short_share: float


class ModelReports(msgspec.Struct, frozen=True):
    """The reports of one model. Errors are predicted - billed, in tokens: negative if the prediction was too low.

    ``ratios`` are billed / predicted tokens of the last 100 reports, with predictions before their margin; ``told`` those
    with predictions as they were told, which reports of older versions lack. ``sizes`` are those of the same requests as
    ``ratios``, and empty if an older version counted one of them.
    """

    reports: int = 0
    error_sum: int = 0
    worst_error: int = 0
    ratios: tuple[float, ...] = ()
    told: tuple[float, ...] = ()
    sizes: tuple[BilledSize, ...] = ()

    @property
    def mean_error(self) -> float:
        """The mean of predicted - billed, in tokens; 0 without reports."""
        return self.error_sum / self.reports if self.reports else 0.0

    @property
    def is_drifting(self) -> bool:
        """Whether at least ten bills differ by over one per cent on average; an exact model's rules have then changed."""
        return len(self.ratios) >= _ENOUGH and abs(sum(self.ratios) / len(self.ratios) - 1) > _DRIFT

    @property
    def is_often_short(self) -> bool:
        """Whether at least ten bills show that over one in twenty predictions was too low, although they are corrected."""
        outcome = self.outcome
        return outcome is not None and outcome.count >= _ENOUGH and outcome.short_share > _OFTEN

    @property
    def outcome(self) -> Outcome | None:
        """How the last 100 predictions did; None without reports."""
        if not self.told:
            return None
        ratios = sorted(self.told)
        highest = ratios[math.ceil(0.95 * len(ratios)) - 1]
        short = sum(ratio > 1 for ratio in ratios) / len(ratios)
        return Outcome(len(ratios), round(median(ratios), 4), round(highest, 4), round(short, 4))


NO_REPORTS = ModelReports()


def correction_of(calibration: ModelReports, margin: float, priming: float = 0.0) -> Correction:
    """Return the correction of an estimated model with this ``margin`` and these tokens of ``priming`` without reports.

    With the result, none of the last 100 reported requests is predicted below its bill. Bills of different length tell the
    constant from the ratio; of all pairs that cover the bills, the one with the smallest sum of predictions is taken. Other
    bills tell a ratio alone, and a constant for what no ratio explains.

    What bills need more counts at once. What they need less counts by a tenth with each of the first ten reports, because
    few reports are weak evidence: a lower margin, and a negative constant, which takes away the ``priming`` at most.
    """
    sizes = [each for each in calibration.sizes if each.bare > 0]
    if not sizes or not _tell_constant(sizes):
        return Correction(_corrected_margin(calibration, margin))
    trusted = min(len(sizes), _ENOUGH) / _ENOUGH
    needed = _raised(_steepest(sizes, -priming) if _are_apart(sizes) else MOST_RATIO)
    found = round(needed + max(0.0, margin - needed) * (1 - trusted), 4)
    constant = _constant_beside(found, sizes, -priming)
    return Correction(found, math.ceil(constant if constant > 0 else constant * trusted))


def _tell_constant(sizes: Sequence[BilledSize]) -> bool:
    """Whether bills tell a constant: their lengths differ, or no ratio explains the highest."""
    return _are_apart(sizes) or any(each.billed > MOST_RATIO * each.bare for each in sizes)


def _are_apart(sizes: Sequence[BilledSize]) -> bool:
    shortest, longest = min(each.bare for each in sizes), max(each.bare for each in sizes)
    return longest >= _APART * shortest


def _constant_beside(ratio: float, sizes: Sequence[BilledSize], least: float) -> float:
    """The smallest constant with which no bill is above ``ratio`` times its bare prediction."""
    return max(least, *(each.billed - ratio * each.bare for each in sizes))


def _steepest(sizes: Sequence[BilledSize], least: float) -> float:
    """The ratio with which the sum of predictions that cover the bills is smallest; the highest of several.

    The sum is convex in the ratio, so halves of the range are left out where it rises.
    """
    bare, billed = np.array(sizes, np.float64).T
    total = float(bare.sum())

    def predicted(ratio: float) -> float:
        return len(sizes) * max(least, float((billed - ratio * bare).max())) + ratio * total

    low, high = _LEAST_MARGIN, MOST_RATIO
    while high - low > _SMALLEST_STEP:
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if predicted(a) < predicted(b) - _SMALLEST_STEP else (a, high)
    return high


_SMALLEST_STEP: Final = 1e-4


def _corrected_margin(calibration: ModelReports, margin: float) -> float:
    """The margin that covers the ratios alone."""
    if not calibration.ratios:
        return margin
    needed = _raised(max(calibration.ratios))
    trusted = min(len(calibration.ratios), _ENOUGH)
    return round(needed + max(0.0, margin - needed) * (_ENOUGH - trusted) / _ENOUGH, 4)


def _raised(ratio: float) -> float:
    """The ratio with its headroom; at least ``_LEAST_MARGIN``."""
    return max(_LEAST_MARGIN, math.ceil(ratio * _HEADROOM * 1_000) / 1_000)


def bare_tokens(
    billed: int, predicted: int, corrections: Sequence[Correction], known: ModelReports, rounded: float = 0.0
) -> float:
    """Return a prediction's tokens without its correction, which was one of ``corrections``; at least 1.

    A report may not contain its prediction's correction, and there may have been several lately. The tokens are then in a
    range, of which those are returned whose ratio is nearest to the highest known ratio: a late report that agrees with
    earlier ones must not raise the margin again.

    ``rounded`` is how many of the prediction's parts were rounded up, if it is known. Each may have had a token less, so a
    request of many short messages does not lower the margin below what it was billed.
    """
    found = [
        max(1.0, (predicted - each.constant - (rounded if each.margin != 1.0 else 0)) / each.margin)
        for each in corrections
    ]
    nearest = billed / max(known.ratios) if any(known.ratios) else max(found)
    return round(min(max(nearest, min(found)), max(found)), 2)


def is_plausible(billed: int, predicted: int, correction: Correction, context_window: int) -> bool:
    """Return whether a report can belong to a window that was sent.

    ``correction`` is the one in ``predicted``. The other figures are tokens. ``billed`` and ``predicted`` are at most ten
    context windows: a provider may accept more tokens than it publishes, but not that many.
    """
    explained = (predicted - correction.constant) * MOST_RATIO / correction.margin + MOST_CONSTANT
    is_learnt = correction.margin <= MOST_RATIO * _HEADROOM
    return is_learnt and billed <= explained and max(billed, predicted) <= context_window * MOST_RATIO
