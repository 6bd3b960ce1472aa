"""Metrics of windows, by model: counters by a model's label (model_names.py), histograms exposed by provider."""

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import cycle
from typing import Any, NamedTuple

from sash.core.counts.models.models import Model
from sash.core.law.records.figures import Dropped
from sash.core.providers.destinations.rules import RULES
from sash.operations.followups import Followups
from sash.operations.genai import of_window
from sash.operations.logging import best_effort, log_beside
from sash.operations.model_names import OTHER, ModelNames
from sash.operations.registry import FOLDER_VARIABLE, SECONDS, Registry
from sash.operations.served import beginning, broken_rules, document_tokens, tokens_between, unseen_messages
from sash.operations.tracing import OpenTelemetry
from sash.problems import RECEIPT_REASONS
from sash.store.data.layout import Target
from sash.windows.answer import Made
from sash.windows.head import WindowHead

TOKENS = tuple(sorted({float(round(2 ** (step / 4))) for step in range(89)}))
"""Bucket bounds from 1 to 4 million, four in each doubling: a quantile is accurate to a tenth."""
_DOUBLINGS = tuple(float(2**power) for power in range(23))
FILL = (0.001, 0.002, 0.005, 0.01, 0.02, 0.035, *(step / 20 for step in range(1, 21)))
TWENTIETHS_FROM = 6
"""The number of bounds of ``FILL`` in the first twentieth: short chats take a thousandth of a large budget."""
RATIO = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999999, 1.0, 1.005, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0)
"""Bounds of predicted divided by billed tokens: below 1, a window cost more than predicted."""

CHECKED_EVERY = 100
"""One window in so many is checked against the rules of its destination."""

_STOPS = frozenset({"complete", "budget", "limit", "summary", "bytes", "images", "price", "horizon"})
_NOTHING = Dropped(0, 0, 0, 0, 0, 0, 0, 0, 0)
_OUTCOMES = ("under", "exact", "over")


class _WindowSeries(NamedTuple):
    """The series of a model's label that each window adds to."""

    label: str
    windows: Callable[[str], Any]
    """By stop_reason."""
    seconds: Callable[[float], None]
    tokens: Callable[[float], None]
    fill: Callable[[float], None]
    kept_messages: Any
    dropped_messages: Any
    dropped_tokens: Any


class WindowMetrics:
    """Metrics of windows and of what providers billed for them."""

    def __init__(self, registry: Registry, spans: OpenTelemetry | None = None) -> None:
        counter, histogram = registry.counter, registry.histogram
        self.names = ModelNames(os.environ.get(FOLDER_VARIABLE))
        registry.provider_of = self.names.provider_of
        self._series: dict[str, _WindowSeries] = {}
        """By label, which is the model's name, or ``other``."""
        self._last = Followups()
        self._spans = spans
        self.served = counter("sash_windows_total", "Windows served, by stop_reason.", "model", "stop_reason")
        self.refused = counter(
            "sash_window_does_not_fit_total", "Windows refused because the required parts do not fit.", "model"
        )
        self.seconds = histogram(
            "sash_window_duration_seconds", "Building a window, from messages to JSON.", SECONDS, "model"
        )
        self.tokens = histogram(
            "sash_window_tokens", "Predicted tokens of a window.", TOKENS, "model", exposed=_DOUBLINGS
        )
        self.fill = histogram("sash_window_fill_ratio", "A window's tokens divided by its budget.", FILL, "model")
        self.kept_messages = counter("sash_window_kept_messages_total", "Messages sent in windows.", "model")
        self.dropped_messages = counter("sash_window_dropped_messages_total", "Messages left out of windows.", "model")
        self.dropped_tokens = counter("sash_window_dropped_tokens_total", "Tokens of messages left out.", "model")
        self.dropped_images = counter(
            "sash_window_dropped_images_total",
            "Pictures, files and sounds of sent messages that were sent as one line of text.",
            "model",
        )
        self.dropped_media_bytes = counter(
            "sash_window_dropped_media_bytes_total", "Bytes of these pictures, files and sounds as JSON.", "model"
        )
        self.saved_tokens = counter(
            "sash_documents_saved_tokens_total", "Tokens of windows' documents that were not repeated.", "model"
        )
        self.trimmed_tokens = counter(
            "sash_documents_trimmed_tokens_total",
            "Tokens of the newest question's documents that did not fit.",
            "model",
        )
        self.truncations = counter(
            "sash_document_truncations_total", "Windows that cut or left out documents.", "model"
        )
        self.followups = counter(
            "sash_window_followups_total",
            "Windows that left history out and followed another of their conversation, by same or moved beginning.",
            *("model", "cut", "beginning"),
        )
        self.followup_tokens = counter("sash_window_followup_tokens_total", "Tokens of those windows.", "model", "cut")
        self.reused_tokens = counter(
            "sash_window_reused_tokens_total",
            "Tokens of those windows in the same place as before, which a provider's prompt cache can serve.",
            *("model", "cut"),
        )
        self.predictions = counter(
            "sash_predictions_total", "Reports of billed tokens: predicted under, exact or over.", "model", "outcome"
        )
        self.error_tokens = counter(
            "sash_prediction_error_tokens_total", "The errors of predictions, in tokens.", "model", "outcome"
        )
        self.billed_tokens = counter("sash_billed_tokens_total", "Reported billed tokens.", "model")
        self.cache_tokens = counter(
            "sash_prompt_cache_tokens_total",
            "Reported billed tokens, by the provider's prompt cache: read, written or neither.",
            *("model", "part"),
        )
        self.reasoning_dropped = counter(
            "sash_reasoning_dropped_total", "Blocks of reasoning that a provider dropped, by cause.", "model", "cause"
        )
        self.cache_misses = counter(
            "sash_prompt_cache_misses_total", "Misses of a prompt cache, by the provider's reason.", "model", "reason"
        )
        self.nanodollars = counter(
            "sash_input_nanodollars_total",
            "Billionths of a dollar of input at list prices: billed, read from a cache, written to it; and saved by "
            "documents, cuts, tiers and stable cuts.",
            *("model", "what"),
        )
        self.views = counter("sash_view_windows_total", "Windows of what one of several agents sees.", "model")
        self.unseen_messages = counter(
            "sash_view_unseen_messages_total",
            "Messages behind the first one of such windows that they left out, because they are for others.",
            "model",
        )
        self.given = counter("sash_window_receipts_given_total", "Windows that were given with a receipt.")
        self.receipts = counter(
            "sash_window_receipts_total", "Windows asked for by receipt: made again, or the reason why not.", "outcome"
        )
        self.is_sampled = cycle([number == CHECKED_EVERY for number in range(1, CHECKED_EVERY + 1)]).__next__
        """Whether the next window is checked: one in ``CHECKED_EVERY``."""
        self.refused_by_rule = counter(
            "sash_requests_refused_by_rule_total",
            f"Rules of their destination that requests of windows break; one window in {CHECKED_EVERY} is checked.",
            "rule",
        )
        for rule in sorted(RULES):
            self.refused_by_rule(rule)
        self.ratio = histogram("sash_prediction_ratio", "Predicted divided by billed tokens.", RATIO, "model")

    def record_window(self, made: Made, seconds: float, line: dict[str, Any], target: Target | None = None) -> None:
        """Record a window that was made in ``seconds``, also in ``line``, its request's log line.

        ``target`` is its conversation, with whose last window it is compared. An error is logged, and not raised.
        """
        try:
            head, plan = made.head, made.asked.plan
            if made.receipt:
                self.given.value += 1
            if plan.query.explain:
                return  # an explained window is read by people, and not sent to a provider
            model, total, dropped = head.model, head.tokens.total, head.dropped
            series = self._series.get(model)
            if series is None:
                model, series = self.names.known(model), self._begin(model)
            series.windows(head.stop_reason).value += 1
            series.seconds(seconds)
            series.tokens(total)
            series.fill(total / head.budget)
            series.kept_messages.value += head.kept.messages
            if dropped != _NOTHING or made.history.grounding_messages or plan.query.view is not None:
                self._count_left_out(made, series, target)
            if self._spans is not None:
                attributes = of_window(head, model, made.receipt, plan.model.provider)
                self._spans.built_window(target, attributes, seconds)
            line |= {
                "model": model,
                "window_tokens": total,
                "budget": head.budget,
                "kept": head.kept.messages,
                "dropped": dropped.messages,
            }
            if made.receipt:
                line["receipt"] = made.receipt.decode()
            if self.is_sampled() and (broken := broken_rules(made)):
                line["refused_by_rules"] = broken
                for rule in broken:
                    self.refused_by_rule(rule).inc()
        except Exception as error:  # noqa: BLE001 - no figure of a window fails its answer
            log_beside(error)

    def _count_left_out(self, made: Made, series: _WindowSeries, target: Target | None) -> None:
        """Count what a window does not send: messages, media, documents, and what is for others."""
        head, plan, label = made.head, made.asked.plan, series.label
        dropped, documents = head.dropped, 0
        if dropped.messages:
            series.dropped_messages.value += dropped.messages
            series.dropped_tokens.value += dropped.tokens
            if target is not None and made.window.seqs:
                self._follow(made, label, target)
        if dropped.media_bytes or dropped.images or dropped.files:
            self.dropped_images(label).inc(dropped.images + dropped.files)
            self.dropped_media_bytes(label).inc(dropped.media_bytes)
        if made.history.grounding_messages:
            documents, trimmed = document_tokens(made)
            self.saved_tokens(label).inc(documents)
            self.trimmed_tokens(label).inc(trimmed)
            self.truncations(label).inc(head.grounding.truncated)
        if plan.query.view is not None:
            self.views(label).inc()
            self.unseen_messages(label).inc(unseen_messages(made))
        elif documents or dropped.tokens:
            self.count_savings(head, label, plan.model, documents)

    def count_savings(self, head: WindowHead, label: str, model: Model, documents: int) -> None:
        """Record the money that a window saved by what it leaves out. ``documents`` are tokens of repeated documents.

        All count at the list price of input. A window that ends below a price tier saves the difference between the tiers.
        """
        prices, total = model.prices_at(head.tokens.total), head.tokens.total
        if prices.input_price is None:
            return
        self._pay(label, "documents", documents * prices.input_price)
        self._pay(label, "cuts", head.dropped.tokens * prices.input_price)
        if head.stop_reason == "price":
            above = next((tier for tier in model.price_tiers if total <= tier.above < head.budget), None)
            if above is not None and above.input_price:
                self._pay(label, "tiers", total * (above.input_price - prices.input_price))

    def _pay(self, label: str, what: str, millionths: float) -> None:
        """Add to the money of a kind: tokens times dollars for a million of them."""
        self.nanodollars(label, what).value += round(millionths * 1000)

    def _begin(self, model: str) -> _WindowSeries:
        """The series of a model's label. They are created at 0, so that rates include the first event."""
        label = self.names.label(model)
        if label in self._series:
            return self._series[label]
        documents, media = (self.saved_tokens, self.trimmed_tokens), (self.dropped_images, self.dropped_media_bytes)
        for metric in (self.refused, *media, *documents, self.truncations, self.views, self.unseen_messages):
            metric(label)
        for cut in ("stable", "sliding"):
            for metric in (self.followup_tokens, self.reused_tokens):
                metric(label, cut)
            for how in ("same", "moved"):
                self.followups(label, cut, how)
        self._series[label] = series = _WindowSeries(
            label,
            cache(lambda reason: self.served(label, reason if reason in _STOPS else OTHER)),
            self.seconds(label).observe,
            self.tokens(label).observe,
            self.fill(label).observe,
            self.kept_messages(label),
            self.dropped_messages(label),
            self.dropped_tokens(label),
        )
        return series

    def _follow(self, made: Made, label: str, target: Target) -> None:
        """Compare a conversation's window that left history out with the one before it, as ``Followups.follow`` does."""
        head, plan, window = made.head, made.asked.plan, made.window
        seqs = sorted(window.seqs) if window.is_moved else window.seqs
        key = target.name, head.model, plan.query.view
        reused = self._last.follow(key, seqs, beginning(made, seqs), partial(tokens_between, made))
        if reused is None:
            return
        cut = "stable" if plan.query.stable else "sliding"
        self.followups(label, cut, "same" if reused else "moved").value += 1
        self.followup_tokens(label, cut).value += head.tokens.total
        self.reused_tokens(label, cut).value += reused
        if plan.query.stable:
            prices = plan.model.prices_at(head.tokens.total)
            if prices.input_price and prices.cached_input_price is not None:
                self._pay(label, "stable_cut", reused * (prices.input_price - prices.cached_input_price))

    def does_not_fit(self, model: str) -> None:
        """Count a window whose required parts were over its budget."""
        with best_effort:
            self.refused(self.names.label(model)).inc()

    def asked_again(self, outcome: str) -> None:
        """Count a receipt: ``same`` where its window was made again, else the reason why not."""
        with best_effort:
            for each in ("same", *RECEIPT_REASONS):  # created at 0, so that rates include the first event
                self.receipts(each)
            self.receipts(outcome).inc()

    def record_usage(self, model: str, predicted: int, billed: int | None, in_all: int | None = None) -> None:
        """Record a provider's bill and the prediction, in tokens.

        ``billed`` is the window's, None if the bill does not tell; ``in_all`` are those of all passes.
        """
        label = self.names.label(model)
        self.billed_tokens(label).inc(in_all if in_all is not None else billed or 0)
        if billed is None:
            return
        self.ratio(label).observe(predicted / max(1, billed))
        for outcome in _OUTCOMES:  # created at 0 by the first report, so that rates include the first event
            self.predictions(label, outcome)
        outcome = _OUTCOMES[(predicted > billed) - (predicted < billed) + 1]
        self.predictions(label, outcome).inc()
        if predicted != billed:
            self.error_tokens(label, outcome).inc(abs(predicted - billed))

    def record_diagnosis(self, model: str, dropped: Mapping[str, int], miss: str | None) -> None:
        """Record reasoning that a provider dropped, by cause, and the reason of a cache miss."""
        label = self.names.label(model)
        for cause, blocks in dropped.items():
            self.reasoning_dropped(label, cause).inc(blocks)
        if miss is not None:
            self.cache_misses(label, miss).inc()

    def record_cache(self, model: Model, *, billed: int, read: int, written: int) -> None:
        """Record the tokens of a bill that the provider read from and wrote to its prompt cache, and their money."""
        label, prices = self.names.label(model.id), model.prices_at(billed)
        if (uncached := prices.input_price) is not None:
            cached = uncached if prices.cached_input_price is None else prices.cached_input_price
            dearer = (prices.cache_write_price or uncached) - uncached
            self._pay(label, "read", read * (uncached - cached))
            self._pay(label, "written", written * dearer)
            self._pay(label, "billed", billed * uncached - read * (uncached - cached) + written * dearer)
        for part, tokens in (("read", read), ("written", written), ("neither", billed - read - written)):
            self.cache_tokens(label, part).inc(tokens)
