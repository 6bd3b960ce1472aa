"""Figures as Prometheus reads them: base units, ``sash_`` before every name, and help that says what a figure is."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from service import __version__
from service.operations.figures import Figures, Histogram, ModelFigures

Row = tuple[tuple[str, ...], Any]
"""Values of labels, and the number or histogram that they have."""


class Gauges(NamedTuple):
    """What only the present has, all workers together."""

    workers: int
    in_progress: int
    store_waiting: int
    resident_bytes: int
    store_idle: int = 0
    store_busy: int = 0
    store_down: int = 0


def expose(figures: Figures, gauges: Gauges, accept: str) -> tuple[bytes, str]:
    """The exposition in the format that ``accept`` asks for, and its media type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(figures, gauges))
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


class _Once(Collector):
    def __init__(self, figures: Figures, gauges: Gauges) -> None:
        self._figures = figures
        self._gauges = gauges

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from _gauges(self._gauges)
        yield from _requests(self._figures)
        yield from _windows(self._figures.models)
        yield from _savings(self._figures.models)
        yield from _predictions(self._figures.models)
        yield from _store(self._figures)


def _gauges(gauges: Gauges) -> Iterator[Metric]:
    build = GaugeMetricFamily("sash_build_info", "The version that answers.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    for name, meaning, value in (
        ("sash_workers", "Worker processes that count.", gauges.workers),
        ("sash_requests_in_progress", "Requests being answered.", gauges.in_progress),
        (
            "sash_store_commands_waiting",
            "Commands queued for the store, or sent and not answered.",
            gauges.store_waiting,
        ),
        ("sash_resident_memory_bytes", "Memory of all workers.", gauges.resident_bytes),
    ):
        yield GaugeMetricFamily(name, meaning, value=value)
    pool = GaugeMetricFamily(
        "sash_store_connections", "Connections to the store: idle, busy, or down and asked for.", labels=["state"]
    )
    for state, number in (("idle", gauges.store_idle), ("busy", gauges.store_busy), ("down", gauges.store_down)):
        pool.add_metric([state], number)
    yield pool


def _requests(figures: Figures) -> Iterator[Metric]:
    operations = figures.operations
    yield _counter(
        "sash_requests_total",
        "Requests answered, by operation and class of status.",
        ("operation", "status"),
        (((name, status), n) for name, each in operations.items() for status, n in each.statuses.items()),
    )
    yield _histogram(
        "sash_request_duration_seconds",
        "From the first byte of a request to the last of its answer.",
        ("operation",),
        (((name,), each.duration) for name, each in operations.items()),
    )
    yield _histogram(
        "sash_append_duration_seconds", "Appends, from their body to their place.", (), [((), figures.append)]
    )
    yield _histogram(
        "sash_tokenise_duration_seconds",
        "Counting the tokens of what came.",
        (),
        [((), figures.tokenise)],
    )
    yield _counter("sash_appended_messages_total", "Messages stored.", (), [((), figures.appended_messages)])
    yield _counter(
        "sash_cpu_seconds_total", "Processor time of all workers.", (), [((), figures.cpu_milliseconds / 1000)]
    )


def _windows(models: Mapping[str, ModelFigures]) -> Iterator[Metric]:
    yield _counter(
        "sash_windows_total",
        "Windows served, by what ended them.",
        ("model", "stop_reason"),
        (((model, stop), n) for model, each in models.items() for stop, n in each.stops.items()),
    )
    yield _of_models(models, "sash_window_does_not_fit_total", "Windows refused: too much must be in.", "does_not_fit")
    yield _of_models(models, "sash_window_duration_seconds", "Building a window, from messages to JSON.", "duration")
    yield _of_models(models, "sash_window_tokens", "Predicted tokens of a window.", "tokens")
    yield _of_models(models, "sash_window_fill_ratio", "A window's tokens divided by its budget.", "fill")
    yield _of_models(models, "sash_window_kept_messages_total", "Messages sent in windows.", "kept_messages")
    yield _of_models(models, "sash_window_dropped_messages_total", "Messages left out of windows.", "dropped_messages")
    yield _of_models(models, "sash_window_dropped_tokens_total", "Tokens of messages left out.", "dropped_tokens")


def _savings(models: Mapping[str, ModelFigures]) -> Iterator[Metric]:
    yield _of_models(
        models,
        "sash_documents_saved_tokens_total",
        "Documents of messages in a window that were not sent again.",
        "documents_saved_tokens",
    )
    yield _of_models(
        models,
        "sash_documents_trimmed_tokens_total",
        "What the newest question's documents lost for want of room.",
        "documents_trimmed_tokens",
    )
    yield _of_models(
        models, "sash_document_truncations_total", "Windows that cut or left out documents.", "truncations"
    )
    cuts = [
        ((model, cut), reuse)
        for model, each in models.items()
        for cut, reuse in (("stable", each.stable), ("sliding", each.sliding))
    ]
    yield _counter(
        "sash_window_followups_total",
        "Windows that left history out and followed another of their conversation, by whether they began as it did.",
        ("model", "cut", "beginning"),
        (
            ((*labels, beginning), n)
            for labels, reuse in cuts
            for beginning, n in (("same", reuse.same), ("moved", reuse.windows - reuse.same))
        ),
    )
    yield _counter(
        "sash_window_followup_tokens_total",
        "Tokens of those windows.",
        ("model", "cut"),
        ((labels, reuse.tokens) for labels, reuse in cuts),
    )
    yield _counter(
        "sash_window_reused_tokens_total",
        "Of them, tokens that stood in the same place before: what a provider's prompt cache can serve.",
        ("model", "cut"),
        ((labels, reuse.reused_tokens) for labels, reuse in cuts),
    )


def _predictions(models: Mapping[str, ModelFigures]) -> Iterator[Metric]:
    reported = {model: each.prediction for model, each in models.items() if each.prediction.ratio.count}
    yield _counter(
        "sash_predictions_total",
        "Reports of billed tokens, by where the prediction was.",
        ("model", "outcome"),
        (((model, name), getattr(p, name)) for model, p in reported.items() for name in ("under", "exact", "over")),
    )
    yield _counter(
        "sash_prediction_error_tokens_total",
        "Tokens that predictions were off by.",
        ("model", "outcome"),
        (((model, name), getattr(p, f"{name}_tokens")) for model, p in reported.items() for name in ("under", "over")),
    )
    yield _counter(
        "sash_billed_tokens_total",
        "Tokens that were reported as billed.",
        ("model",),
        (((model,), p.billed_tokens) for model, p in reported.items()),
    )
    yield _histogram(
        "sash_prediction_ratio",
        "Predicted divided by billed tokens.",
        ("model",),
        (((model,), p.ratio) for model, p in reported.items()),
    )


def _store(figures: Figures) -> Iterator[Metric]:
    yield _histogram(
        "sash_store_duration_seconds",
        "From asking the store to its answer, by script.",
        ("call",),
        (((call,), each.duration) for call, each in figures.calls.items()),
    )
    yield _counter(
        "sash_store_failures_total",
        "Calls that the store did not answer, or refused.",
        ("call",),
        (((call,), each.failures) for call, each in figures.calls.items()),
    )
    yield _histogram("sash_store_batch_commands", "Commands that left in one write.", (), [((), figures.batch)])
    yield _counter("sash_store_reconnects_total", "Connections lost or not had.", (), [((), figures.reconnects)])
    yield _counter(
        "sash_statistics_failures_total",
        "Statistics that could not be added to the store's; they are kept for the next time.",
        (),
        [((), figures.flush_failures)],
    )


def _of_models(models: Mapping[str, ModelFigures], name: str, meaning: str, field: str) -> Metric:
    rows = [((model,), getattr(each, field)) for model, each in models.items()]
    kind: Callable[..., Metric] = _counter if name.endswith("_total") else _histogram
    return kind(name, meaning, ("model",), rows)


def _counter(name: str, meaning: str, labels: tuple[str, ...], rows: Any) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _histogram(name: str, meaning: str, labels: tuple[str, ...], rows: Any) -> Metric:
    family = HistogramMetricFamily(name, meaning, labels=labels)
    for values, histogram in rows:
        family.add_metric(values, _buckets(histogram), histogram.sum)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    exported = set(histogram.exported)
    below = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        below += count
        if bound in exported:
            buckets.append((repr(bound), below))
    return [*buckets, ("+Inf", histogram.count)]
