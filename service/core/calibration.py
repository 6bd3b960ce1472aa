"""Predicted against billed: how far off counts are, and the correction of an estimated model.

::

    report ──fold──▶ ModelReports ──corrected_margin──▶ the margin to count with
    ModelReports + ModelReports ──merge──▶ ModelReports

A calibration is a value of at most a kilobyte as msgpack. Nothing here is random or knows the time: the last 100 reports
are those folded last.
"""

import math
from collections.abc import Sequence

import msgspec

_REMEMBERED = 100
# A margin is raised by the first report that asks for it, and lowered all the way only when this many agree that it can.
_ENOUGH = 10
# Every part of a request is rounded up, so what a report says of the whole is a little off for its parts.
_HEADROOM = 1.02
_DRIFT = 0.01
MOST_RATIO = 10.0
"""No tokeniser makes ten tokens where another makes one: who reports that counted another request."""
# Nor does one make half as many. Bills are that low when cached tokens were left out, or a file was guessed high; a margin
# that believed them would let the next window of plain text go over.
_LEAST_MARGIN = 0.5


class ModelReports(msgspec.Struct, array_like=True, frozen=True):
    """What the reports of one model say. Errors are predicted - billed, in tokens: negative where too little was said.

    ``ratios`` are billed / predicted of the last 100 reports, the prediction taken without its margin.
    """

    reports: int = 0
    error_sum: int = 0
    worst_error: int = 0
    ratios: tuple[float, ...] = ()

    @property
    def mean_error(self) -> float:
        """The mean of predicted - billed, in tokens; 0 without reports."""
        return self.error_sum / self.reports if self.reports else 0.0

    @property
    def is_drifting(self) -> bool:
        """Whether ten reports or more are off by over one per cent on average: an exact model counts otherwise now."""
        return len(self.ratios) >= _ENOUGH and abs(sum(self.ratios) / len(self.ratios) - 1) > _DRIFT


NO_REPORTS = ModelReports()


def fold(calibration: ModelReports, *, billed: int, predicted: int, margin: float = 1.0) -> ModelReports:
    """Return ``calibration`` with one report more.

    ``billed`` and ``predicted`` are tokens; ``margin`` is the one that ``predicted`` was made with.
    """
    error = predicted - billed
    ratio = round(billed * margin / max(1, predicted), 4)
    return ModelReports(
        calibration.reports + 1,
        calibration.error_sum + error,
        max(calibration.worst_error, error, key=abs),
        (*calibration.ratios, ratio)[-_REMEMBERED:],
    )


def merge(a: ModelReports, b: ModelReports) -> ModelReports:
    """Return two calibrations of one model as one; of more than 100 ratios the greatest stay, which is the safe side."""
    return ModelReports(
        a.reports + b.reports,
        a.error_sum + b.error_sum,
        max(a.worst_error, b.worst_error, key=abs),
        tuple(sorted((*a.ratios, *b.ratios))[-_REMEMBERED:]),
    )


def corrected_margin(calibration: ModelReports, margin: float) -> float:
    """Return the margin to count an estimated model with, ``margin`` being the one it has without reports.

    Counted with it, none of the last 100 reported requests is predicted below what was billed for it. It is raised at
    once, and lowered a tenth of the way with each of the first ten reports: few of them say little of what is to come.
    However little was billed, it is never lowered below a half.
    """
    if not calibration.ratios:
        return margin
    needed = max(_LEAST_MARGIN, math.ceil(max(calibration.ratios) * _HEADROOM * 1_000) / 1_000)
    trusted = min(len(calibration.ratios), _ENOUGH)
    return round(needed + max(0.0, margin - needed) * (_ENOUGH - trusted) / _ENOUGH, 4)


def billed_ratio(billed: int, predicted: int, margins: Sequence[float], known: ModelReports) -> float:
    """Return billed / predicted as it was without its margin, when that was one of ``margins``.

    A report does not say which margin its prediction was made with, and lately there may have been several. Then the
    ratio lies between two figures, and of those between them it is the one nearest to the highest known: a report that
    agrees with what is known must not move it, or late reports would raise the margin again and again. It is at most
    ``MOST_RATIO``.
    """
    bare = billed / max(1, predicted)
    low, high = bare * min(margins), bare * max(margins)
    nearest = max(known.ratios) if known.ratios else low
    return round(min(max(nearest, low), high, MOST_RATIO), 4)


def is_plausible(billed: int, predicted: int, margin: float, most_tokens: int) -> bool:
    """Return whether a report can be one of a window that was sent.

    ``margin`` is the one that was told with ``predicted`` (1.0 without), ``most_tokens`` is the model's context window.
    Neither figure may be over ten such windows: a provider that takes more than it says takes a little more.
    """
    return billed * margin <= predicted * MOST_RATIO and max(billed, predicted) <= most_tokens * MOST_RATIO
