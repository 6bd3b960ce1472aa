"""Calibration: the errors of predictions against bills, and the correction of an estimated model.

The store adds up the reports of a model (``store/data/usage.py``), and keeps the ratios of the last 100.
"""

import math
from collections.abc import Sequence
from statistics import median

import msgspec

# One report is enough to raise a margin. A margin is lowered fully only after this many reports.
_ENOUGH = 10
# Every part of a request is rounded up, so the ratio of a whole request is slightly wrong for its parts.
_HEADROOM = 1.02
_DRIFT = 0.01
_OFTEN = 0.05
MOST_RATIO = 10.0
"""Larger ratios of billed to predicted tokens are refused: no tokeniser makes ten tokens where another makes one, so such
a report is of another request."""
# Ratios under a half are not believed either. Bills are that low if cached tokens were not reported, or if the estimate of
# a file was too high. With such a margin, the next window of plain text would be over its budget.
_LEAST_MARGIN = 0.5


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
    with predictions as they were told, which reports of older versions lack.
    """

    reports: int = 0
    error_sum: int = 0
    worst_error: int = 0
    ratios: tuple[float, ...] = ()
    told: tuple[float, ...] = ()

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


def corrected_margin(calibration: ModelReports, margin: float) -> float:
    """Return the corrected margin of an estimated model; ``margin`` is its margin without reports.

    With the result, none of the last 100 reported requests is predicted below its bill. The margin is raised at once. It
    is lowered by a tenth of the difference with each of the first ten reports, because few reports are weak evidence. The
    result is never below 0.5.
    """
    if not calibration.ratios:
        return margin
    needed = max(_LEAST_MARGIN, math.ceil(max(calibration.ratios) * _HEADROOM * 1_000) / 1_000)
    trusted = min(len(calibration.ratios), _ENOUGH)
    return round(needed + max(0.0, margin - needed) * (_ENOUGH - trusted) / _ENOUGH, 4)


def billed_ratio(billed: int, predicted: int, margins: Sequence[float], known: ModelReports) -> float:
    """Return billed / predicted tokens before the margin, which was one of ``margins``.

    A report does not contain its prediction's margin, and there may have been several lately. The ratio is then in a
    range, of which the value nearest to the highest known ratio is returned: a late report that agrees with earlier ones
    must not raise the margin again. The result is at most ``MOST_RATIO``.
    """
    bare = billed / max(1, predicted)
    low, high = bare * min(margins), bare * max(margins)
    nearest = max(known.ratios) if known.ratios else low
    return round(min(max(nearest, low), high, MOST_RATIO), 4)


def is_plausible(billed: int, predicted: int, margin: float, context_window: int) -> bool:
    """Return whether a report can belong to a window that was sent.

    ``margin`` is the margin in ``predicted``, or 1.0. The other figures are tokens. ``billed`` and ``predicted`` are at most
    ten context windows: a provider may accept more tokens than it publishes, but not that many.
    """
    return billed * margin <= predicted * MOST_RATIO and max(billed, predicted) <= context_window * MOST_RATIO
