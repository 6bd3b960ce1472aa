"""Predicted against billed: how far off counts are, and the correction of an estimated model.

Reports fold into a small value that can be stored, and two such values merge into one.
"""

import math

import msgspec

_REMEMBERED = 100


class Calibration(msgspec.Struct, array_like=True, frozen=True):
    """What reports of one model say so far. Errors are predicted - billed, in tokens: negative counts too little."""

    reports: int = 0
    error_sum: int = 0
    worst_error: int = 0
    ratios: tuple[float, ...] = ()  # billed / predicted without correction, of the last 100 reports, oldest first

    @property
    def mean_error(self) -> float:
        """The mean of predicted - billed in tokens; 0 without reports."""
        return self.error_sum / self.reports if self.reports else 0.0


EMPTY = Calibration()


def fold(calibration: Calibration, *, billed: int, predicted: int, margin: float = 1.0) -> Calibration:
    """Return ``calibration`` with one more report; ``margin`` is the one that ``predicted`` was made with."""
    error = predicted - billed
    worst = max(calibration.worst_error, error, key=abs)
    ratio = billed * margin / max(1, predicted)
    ratios = (*calibration.ratios, ratio)[-_REMEMBERED:]
    return Calibration(calibration.reports + 1, calibration.error_sum + error, worst, ratios)


def merge(a: Calibration, b: Calibration) -> Calibration:
    """Return the two as one; of the remembered ratios the greatest stay, so that a correction stays safe."""
    ratios = tuple(sorted((*a.ratios, *b.ratios))[-_REMEMBERED:])
    worst = max(a.worst_error, b.worst_error, key=abs)
    return Calibration(a.reports + b.reports, a.error_sum + b.error_sum, worst, ratios)


def corrected_margin(calibration: Calibration, margin: float) -> float:
    """Return the margin to count with from now on: never below what was billed in the last 100 reports."""
    if not calibration.ratios:
        return margin
    return math.ceil(max(calibration.ratios) * 1000) / 1000
