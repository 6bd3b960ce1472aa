"""Figures of ``GET /stats``: each is one declaration."""

from typing import Annotated

import msgspec

from sash.operations.series import Series
from sash.operations.summary import PredictionStats, Sums, collected, share, total


class Extra(msgspec.Struct, frozen=True):
    """Figures that the service does not have, and one Struct of those that it has."""

    kept: Annotated[int, total("sash_window_kept_messages_total")]
    kept_share: Annotated[
        float | None,
        share(total("sash_window_kept_messages_total"), total("sash_window_dropped_messages_total"), 2),
    ]
    prediction: PredictionStats


FLAT = {
    "sash_window_kept_messages_total|a": 3,
    "sash_window_kept_messages_total|b": 4,
    "sash_window_dropped_messages_total|a": 4,
    "sash_predictions_total|a|under": 1,
    "sash_predictions_total|a|exact": 2,
}


def test_a_figure_is_declared_beside_its_type() -> None:
    """A new member of a Struct of figures, and a Struct within, are computed for one model and for all."""
    series = Series(FLAT)

    one, every, none = (collected(Extra, Sums(series, model)) for model in ("a", None, "c"))

    assert (one.kept, one.kept_share, one.prediction.reports, one.prediction.under) == (3, 0.75, 3, 1)
    assert (every.kept, every.kept_share) == (7, 1.75)
    assert (none.kept, none.kept_share, none.prediction.reports) == (0, None, 0)
