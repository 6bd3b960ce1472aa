"""What requests add to this process's metrics: calls of the store, appends, and windows.

What only some of them add, and the rest, have files of their own: ``left_out_metrics``, ``bill_metrics``,
``event_metrics``, ``process_metrics``.

Labels have fixed sets of values: operations, statuses, scripts, and published or configured models; any other model is
``other``. A label never contains a tenant, an id or text.
"""

import math
import os
import time
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from itertools import cycle
from typing import Any, NamedTuple

from sash.core.law.records.figures import Dropped
from sash.core.providers.destinations.rules import RULES
from sash.operations.bill_metrics import BillMetrics
from sash.operations.event_metrics import EventMetrics
from sash.operations.genai import of_window
from sash.operations.left_out_metrics import LeftOutMetrics
from sash.operations.logging import best_effort, log_beside
from sash.operations.model_names import OTHER, ModelNames
from sash.operations.money import Money
from sash.operations.process_metrics import ProcessMetrics
from sash.operations.registry import FOLDER_VARIABLE, SECONDS, Registry
from sash.operations.served import broken_rules
from sash.operations.tracing import OpenTelemetry
from sash.problems import RECEIPT_REASONS, StoreFull
from sash.store.data.layout import Target
from sash.windows.answer import Made

LINE: ContextVar[dict[str, Any] | None] = ContextVar("line", default=None)
"""The log line of the current request, also in its threads; None outside of a request."""

_SIZES = tuple(float(2**power) for power in range(13))
TOKENS = tuple(sorted({float(round(2 ** (step / 4))) for step in range(89)}))
"""Bucket bounds from 1 to 4 million, four in each doubling: a quantile is accurate to a tenth."""
_DOUBLINGS = tuple(float(2**power) for power in range(23))
FILL = (0.001, 0.002, 0.005, 0.01, 0.02, 0.035, *(step / 20 for step in range(1, 21)))
TWENTIETHS_FROM = 6
"""The number of bounds of ``FILL`` in the first twentieth: short chats take a thousandth of a large budget."""
CHECKED_EVERY = 100
"""One window in so many is checked against the rules of its destination."""

_STOPS = frozenset({"complete", "budget", "limit", "summary", "bytes", "images", "price", "horizon"})
_NOTHING = Dropped(0, 0, 0, 0, 0, 0, 0, 0, 0)


class Metrics:
    """The metrics of one process: those of every request, and the others by what they are of."""

    def __init__(self, spans: OpenTelemetry | None = None) -> None:
        self.registry = registry = Registry()
        self.running: set[Any] = set()
        """Requests in progress."""
        self.spans = spans
        names, money = ModelNames(os.environ.get(FOLDER_VARIABLE)), Money(registry)
        registry.provider_of = names.provider_of
        self.left_out = LeftOutMetrics(registry, money)
        self.windows = WindowMetrics(registry, names, self.left_out, spans)
        self.bills = BillMetrics(registry, names, money)
        self.events = EventMetrics(registry)
        counter, histogram = registry.counter, registry.histogram
        self.tool_calls = counter(
            "sash_history_tool_calls_total",
            "Calls of the history tools that were answered, by http or mcp.",
            "tool",
            "via",
        )
        self.tool_tokens = counter("sash_history_tool_tokens_total", "Tokens of the answers' texts.")
        self.append_seconds = histogram("sash_append_duration_seconds", "Appends, from body to answer.", SECONDS)
        self.tokenise_seconds = histogram("sash_tokenise_duration_seconds", "Counting the tokens of an input.", SECONDS)
        self.refused = counter("sash_refused_total", "Requests answered with a problem, by its type.", "problem")
        self.full_at = -math.inf
        """When a request was last refused because the store is full, in seconds of ``time.monotonic``."""
        self.appended_messages = counter("sash_appended_messages_total", "Messages stored.")
        seconds = histogram("sash_store_duration_seconds", "Calls of the store, by script.", SECONDS, "call")
        failures = counter("sash_store_failures_total", "Calls that the store refused or did not answer.", "call")
        self._store = cache(lambda call: (seconds(call).observe, failures(call)))
        """The series of a call. Failures are created at 0, so that a rate includes the first one."""
        self.store_lately: list[float] = []
        """The seconds of each call of the store since the watch looked last."""
        self.sent = histogram("sash_store_batch_commands", "Commands sent in one write.", _SIZES).observe
        """Records the number of commands sent in one write."""
        self.reconnected = counter(
            "sash_store_reconnects_total", "Connections to the store that were lost or failed."
        ).inc
        """Counts a connection to the store that was lost or failed."""
        self.embedding_seconds = histogram(
            "sash_embedding_duration_seconds", "Requests to the embeddings endpoint.", SECONDS
        )
        self.embedding_failures = counter("sash_embedding_failures_total", "Failed requests to the endpoint.")
        self.embedded_texts = counter("sash_embedded_texts_total", "Texts that were embedded.")
        self.flush_failures = counter(
            "sash_statistics_failures_total", "Failures to write statistics to the store. They are written later."
        )
        self._process = ProcessMetrics(registry)

    def present(self, *, waiting: int, idle: int, busy: int, down: int) -> None:
        """Set all gauges, those of the store's client to these values, and share changes with the other workers."""
        self._process.set(len(self.running), waiting, {"idle": idle, "busy": busy, "down": down})
        self.registry.share()

    def refuse(self, problem: str) -> None:
        """Count a request that was answered with a problem of this type."""
        self.refused(problem).inc()
        if problem == StoreFull.slug:
            self.full_at = time.monotonic()

    def append(self, messages: int, *, seconds: float, tokenise_seconds: float) -> None:
        """Record an append; ``messages`` does not include duplicates."""
        self.appended_messages.value += messages
        self.append_seconds.observe(seconds)
        self.counted(tokenise_seconds)
        if self.spans is not None:
            self.spans.did("append", seconds)

    def counted(self, seconds: float) -> None:
        """Record the counting of an input's tokens. A request may count repeatedly."""
        self.tokenise_seconds.observe(seconds)
        line = LINE.get()
        if line is not None:
            line["tokenise_milliseconds"] = line.get("tokenise_milliseconds", 0.0) + 1000 * seconds

    def answered(self, call: str, seconds: float, *, failed: bool) -> None:
        """Record a call of the store: a script, or plain commands."""
        try:
            observe, failures = self._store(call)
            observe(seconds)
            self.store_lately.append(seconds)
            if failed:
                failures.inc()
            line = LINE.get()
            if line is not None:
                line["store_milliseconds"] = line.get("store_milliseconds", 0.0) + 1000 * seconds
            if self.spans is not None:
                self.spans.asked_store(call, seconds, failed=failed)
        except Exception as error:  # noqa: BLE001 - no figure of a call fails it
            log_beside(error)

    def answered_tool(self, tool: str, via: str, tokens: int) -> None:
        """Count a call of a history tool that was answered with a text of so many tokens."""
        with best_effort:
            self.tool_calls(tool, via).inc()
            self.tool_tokens.inc(tokens)

    def embedded(self, texts: int, seconds: float) -> None:
        """Record a request to the embeddings endpoint; ``texts`` is 0 if it failed."""
        self.embedding_seconds.observe(seconds)
        self.embedded_texts.inc(texts)
        if not texts:
            self.embedding_failures.inc()


class _WindowSeries(NamedTuple):
    """The series of a model's label that each window adds to."""

    label: str
    windows: Callable[[str], Any]
    """By stop_reason."""
    seconds: Callable[[float], None]
    tokens: Callable[[float], None]
    fill: Callable[[float], None]
    kept_messages: Any


class WindowMetrics:
    """What every window adds, by a model's label; histograms are exposed by provider."""

    def __init__(
        self, registry: Registry, names: ModelNames, left_out: LeftOutMetrics, spans: OpenTelemetry | None
    ) -> None:
        counter, histogram = registry.counter, registry.histogram
        self.names = names
        self._left_out = left_out
        self._spans = spans
        self._series: dict[str, _WindowSeries] = {}
        """By label, which is the model's name, or ``other``."""
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
            model, total, kept, dropped = head.model, head.tokens.total, head.kept.messages, head.dropped
            series = self._series.get(model)
            if series is None:
                model, series = self.names.known(model), self._begin(model)
            series.windows(head.stop_reason).value += 1
            series.seconds(seconds)
            series.tokens(total)
            series.fill(total / head.budget)
            series.kept_messages.value += kept
            if dropped != _NOTHING or made.history.grounding_messages or plan.query.view is not None:
                self._left_out.count(made, series.label, target)
            if self._spans is not None:
                attributes = of_window(head, model, made.receipt, plan.model.provider)
                self._spans.built_window(target, attributes, seconds)
            line["model"] = model
            line["window_tokens"] = total
            line["budget"] = head.budget
            line["kept"] = kept
            line["dropped"] = dropped.messages
            if made.receipt:
                line["receipt"] = made.receipt.decode()
            if self.is_sampled() and (broken := broken_rules(made)):
                line["refused_by_rules"] = broken
                for rule in broken:
                    self.refused_by_rule(rule).inc()
        except Exception as error:  # noqa: BLE001 - no figure of a window fails its answer
            log_beside(error)

    def _begin(self, model: str) -> _WindowSeries:
        """The series of a model's label. They are created at 0, so that rates include the first event."""
        label = self.names.label(model)
        if label in self._series:
            return self._series[label]
        self.refused(label)
        self._left_out.begin(label)
        self._series[label] = series = _WindowSeries(
            label,
            cache(lambda reason: self.served(label, reason if reason in _STOPS else OTHER)),
            self.seconds(label).observe,
            self.tokens(label).observe,
            self.fill(label).observe,
            self.kept_messages(label),
        )
        return series

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
