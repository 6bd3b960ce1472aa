"""Metrics of what providers billed, by model: tokens beside the prediction, the prompt cache, and dropped reasoning."""

from collections.abc import Mapping

from sash.core.counts.models.models import Model
from sash.operations.model_names import ModelNames
from sash.operations.money import Money
from sash.operations.registry import Registry

RATIO = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999999, 1.0, 1.005, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0)
"""Bounds of predicted divided by billed tokens: below 1, a window cost more than predicted."""

_OUTCOMES = ("under", "exact", "over")


class BillMetrics:
    """Metrics of reported bills."""

    def __init__(self, registry: Registry, names: ModelNames, money: Money) -> None:
        counter, histogram = registry.counter, registry.histogram
        self._names = names
        self._money = money
        self._predictions = counter(
            "sash_predictions_total", "Reports of billed tokens: predicted under, exact or over.", "model", "outcome"
        )
        self._error_tokens = counter(
            "sash_prediction_error_tokens_total", "The errors of predictions, in tokens.", "model", "outcome"
        )
        self._billed_tokens = counter("sash_billed_tokens_total", "Reported billed tokens.", "model")
        self._cache_tokens = counter(
            "sash_prompt_cache_tokens_total",
            "Reported billed tokens, by the provider's prompt cache: read, written or neither.",
            *("model", "part"),
        )
        self._reasoning_dropped = counter(
            "sash_reasoning_dropped_total", "Blocks of reasoning that a provider dropped, by cause.", "model", "cause"
        )
        self._cache_misses = counter(
            "sash_prompt_cache_misses_total", "Misses of a prompt cache, by the provider's reason.", "model", "reason"
        )
        self._ratio = histogram("sash_prediction_ratio", "Predicted divided by billed tokens.", RATIO, "model")

    def record_usage(self, model: str, predicted: int, billed: int | None, in_all: int | None = None) -> None:
        """Record a provider's bill and the prediction, in tokens.

        ``billed`` is the window's, None if the bill does not tell; ``in_all`` are those of all passes.
        """
        label = self._names.label(model)
        self._billed_tokens(label).inc(in_all if in_all is not None else billed or 0)
        if billed is None:
            return
        self._ratio(label).observe(predicted / max(1, billed))
        for outcome in _OUTCOMES:  # created at 0 by the first report, so that rates include the first event
            self._predictions(label, outcome)
        outcome = _OUTCOMES[(predicted > billed) - (predicted < billed) + 1]
        self._predictions(label, outcome).inc()
        if predicted != billed:
            self._error_tokens(label, outcome).inc(abs(predicted - billed))

    def record_diagnosis(self, model: str, dropped: Mapping[str, int], miss: str | None) -> None:
        """Record reasoning that a provider dropped, by cause, and the reason of a cache miss."""
        label = self._names.label(model)
        for cause, blocks in dropped.items():
            self._reasoning_dropped(label, cause).inc(blocks)
        if miss is not None:
            self._cache_misses(label, miss).inc()

    def record_cache(self, model: Model, *, billed: int, read: int, written: int) -> None:
        """Record the tokens of a bill that the provider read from and wrote to its prompt cache, and their money."""
        label, prices = self._names.label(model.id), model.prices_at(billed)
        if (uncached := prices.input_price) is not None:
            cached = uncached if prices.cached_input_price is None else prices.cached_input_price
            dearer = (prices.cache_write_price or uncached) - uncached
            self._money.add(label, "read", read * (uncached - cached))
            self._money.add(label, "written", written * dearer)
            self._money.add(label, "billed", billed * uncached - read * (uncached - cached) + written * dearer)
        for part, tokens in (("read", read), ("written", written), ("neither", billed - read - written)):
            self._cache_tokens(label, part).inc(tokens)
