"""From numbers by path to what people ask of them: the body of ``GET /stats``, declared once."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from service.operations.figures import Flat, Histogram, ModelFigures, OperationFigures, Reuse, Seconds, added, unflatten


class Prices(msgspec.Struct, frozen=True):
    """Dollars a million input tokens, and as many from the prompt cache; null where nobody published them."""

    input: float | None = None
    cached_input: float | None = None


class Quantiles(msgspec.Struct, frozen=True):
    """What half of the values, and 95 in 100, do not exceed; null without values. Read off a histogram: ±10 %."""

    p50: float | None
    p95: float | None


class FillStats(msgspec.Struct, frozen=True):
    """A window's tokens divided by its budget; ``histogram`` counts windows by twentieths, emptiest first."""

    p50: float | None
    p95: float | None
    histogram: list[int]


class StopReasons(msgspec.Struct, frozen=True):
    """Windows by what ended them."""

    complete: int
    budget: int
    limit: int
    summary: int


class ReuseStats(msgspec.Struct, frozen=True):
    """Windows that left history out and followed another of their conversation.

    ``same_beginning`` of them began as the one before; ``reused_tokens`` of their ``tokens`` stood in the same place
    there, which is what a provider's prompt cache can serve. A lower bound: each worker knows its own windows.
    """

    windows: int
    same_beginning: int
    tokens: int
    reused_tokens: int
    share: float | None


class PredictionStats(msgspec.Struct, frozen=True):
    """Predicted against billed, from reported usage: ``under`` are reports of more than was predicted.

    ``mean_error_tokens`` is predicted - billed; ``mean_error_share`` is the distance as a part of what was billed.
    """

    reports: int
    under: int
    exact: int
    over: int
    under_tokens: int
    over_tokens: int
    billed_tokens: int
    mean_error_tokens: float | None
    mean_error_share: float | None


class SavedStats(msgspec.Struct, frozen=True):
    """Dollars not spent, at list prices: documents not sent again, and prompts that a cache can serve under stable cuts."""

    documents_usd: float | None
    prompt_cache_usd: float | None


class WindowStats(msgspec.Struct, frozen=True, kw_only=True):
    """Windows served. Tokens are the model's own; those dropped, saved and trimmed are the encoding's."""

    windows: int
    does_not_fit: int
    stop_reasons: StopReasons
    milliseconds: Quantiles
    tokens: Quantiles
    fill: FillStats
    kept_messages: int
    dropped_messages: int
    dropped_tokens: int
    grounding_tokens_saved: int
    grounding_tokens_trimmed: int
    grounding_truncations: int
    stable: ReuseStats
    sliding: ReuseStats
    prediction: PredictionStats
    saved: SavedStats


class ModelStats(WindowStats, frozen=True, kw_only=True):
    """The same of one model; ``other`` are names that nobody has published."""

    model: str
    usd_per_million: Prices


class RequestStats(msgspec.Struct, frozen=True):
    """Requests of clients: probes, scrapes and the dashboard, which ask all day, are not among them.

    ``append_milliseconds`` and ``window_milliseconds`` are whole requests: ``POST …/messages``, with or without a window,
    and ``GET …/window``.
    """

    requests: int
    client_errors: int
    server_errors: int
    append_milliseconds: Quantiles
    window_milliseconds: Quantiles


class Moment(msgspec.Struct, frozen=True):
    """A minute of the hour, or an hour of the day."""

    at: str
    windows: int
    requests: int
    server_errors: int
    window_p95_milliseconds: float | None


class RangeStats(msgspec.Struct, frozen=True):
    """A stretch of time up to now."""

    since: str
    seconds: int
    requests: RequestStats
    all: WindowStats
    models: list[ModelStats]
    timeline: list[Moment]


class Stats(msgspec.Struct, frozen=True):
    """The deployment's statistics. ``hour`` and ``day`` hold 60 minutes and 24 hours and the running one beside;
    ``start`` all that this store ever counted. Figures of other workers are up to ``flush_seconds`` old."""

    at: str
    flush_seconds: float
    hour: RangeStats
    day: RangeStats
    start: RangeStats


def summarise(
    flat: Flat, slices: Mapping[int, Flat], *, since_ms: int, at_ms: int, prices: Callable[[str], Prices]
) -> RangeStats:
    """What ``flat`` says of the time since ``since_ms``; ``slices`` are its parts by when they began, milliseconds."""
    figures = unflatten(flat)
    models = [
        ModelStats(model=name, usd_per_million=prices(name), **_windows(each, prices(name)))
        for name, each in sorted(figures.models.items(), key=lambda item: (-item[1].tokens.count, item[0]))
    ]
    return RangeStats(
        since=moment(since_ms),
        seconds=max(1, (at_ms - since_ms) // 1000),
        requests=_requests(figures.operations),
        all=WindowStats(**{**_windows(_together(flat), Prices()), "saved": _sum_saved(models)}),
        models=models,
        timeline=[_moment(start, each) for start, each in sorted(slices.items())],
    )


def moment(milliseconds: int) -> str:
    """RFC 3339, in UTC, to the second."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat().replace("+00:00", "Z")


def _together(flat: Flat) -> ModelFigures:
    """All models as one."""
    paths = ((path.split("|", 2), number) for path, number in flat.items() if path.startswith("models|"))
    merged = added({f"models|all|{rest}": number} for (_, _, rest), number in paths)
    return unflatten(merged).models.get("all", ModelFigures())


def _windows(figures: ModelFigures, price: Prices) -> dict[str, Any]:
    return {
        "windows": figures.tokens.count,
        "does_not_fit": figures.does_not_fit,
        "stop_reasons": StopReasons(*(figures.stops.get(name, 0) for name in StopReasons.__struct_fields__)),
        "milliseconds": _quantiles(figures.duration, 1000),
        "tokens": _quantiles(figures.tokens),
        "fill": FillStats(figures.fill.quantile(0.5), figures.fill.quantile(0.95), figures.fill.counts[:20]),
        "kept_messages": figures.kept_messages,
        "dropped_messages": figures.dropped_messages,
        "dropped_tokens": figures.dropped_tokens,
        "grounding_tokens_saved": figures.documents_saved_tokens,
        "grounding_tokens_trimmed": figures.documents_trimmed_tokens,
        "grounding_truncations": figures.truncations,
        "stable": _reuse(figures.stable),
        "sliding": _reuse(figures.sliding),
        "prediction": _prediction(figures),
        "saved": _saved(figures, price),
    }


def _quantiles(histogram: Histogram, scale: float = 1) -> Quantiles:
    values = (histogram.quantile(share) for share in (0.5, 0.95))
    return Quantiles(*(None if value is None else round(value * scale, 3) for value in values))


def _reuse(reuse: Reuse) -> ReuseStats:
    share = round(reuse.reused_tokens / reuse.tokens, 4) if reuse.tokens else None
    return ReuseStats(reuse.windows, reuse.same, reuse.tokens, reuse.reused_tokens, share)


def _prediction(figures: ModelFigures) -> PredictionStats:
    seen = figures.prediction
    reports = seen.under + seen.exact + seen.over
    return PredictionStats(
        reports,
        seen.under,
        seen.exact,
        seen.over,
        seen.under_tokens,
        seen.over_tokens,
        seen.billed_tokens,
        round((seen.over_tokens - seen.under_tokens) / reports, 2) if reports else None,
        round((seen.over_tokens + seen.under_tokens) / seen.billed_tokens, 6) if seen.billed_tokens else None,
    )


def _saved(figures: ModelFigures, price: Prices) -> SavedStats:
    if price.input is None:
        return SavedStats(None, None)
    cheaper = None if price.cached_input is None else price.input - price.cached_input
    return SavedStats(
        round(figures.documents_saved_tokens * price.input / 1e6, 6),
        None if cheaper is None else round(figures.stable.reused_tokens * cheaper / 1e6, 6),
    )


def _sum_saved(models: list[ModelStats]) -> SavedStats:
    """What is known of it; null when no model has a price."""
    documents = [each.saved.documents_usd for each in models if each.saved.documents_usd is not None]
    cache = [each.saved.prompt_cache_usd for each in models if each.saved.prompt_cache_usd is not None]
    return SavedStats(round(sum(documents), 6) if documents else None, round(sum(cache), 6) if cache else None)


_WATCHERS = frozenset({"live", "ready", "getMetrics", "getStats", "getDashboard"})


def _status(operations: Mapping[str, OperationFigures], group: str) -> int:
    return sum(each.statuses.get(group, 0) for each in operations.values())


def _requests(all_operations: Mapping[str, OperationFigures]) -> RequestStats:
    operations = {name: each for name, each in all_operations.items() if name not in _WATCHERS}
    durations = [
        operations[name].duration if name in operations else Seconds() for name in ("appendMessages", "getWindow")
    ]
    return RequestStats(
        sum(sum(each.statuses.values()) for each in operations.values()),
        _status(operations, "4xx"),
        _status(operations, "5xx"),
        *(_quantiles(each, 1000) for each in durations),
    )


def _moment(start_ms: int, flat: Flat) -> Moment:
    requests = _requests(unflatten({path: n for path, n in flat.items() if path.startswith("operations|")}).operations)
    windows = sum(n for path, n in flat.items() if path.startswith("models|") and path.split("|")[2] == "stops")
    return Moment(
        moment(start_ms), windows, requests.requests, requests.server_errors, requests.window_milliseconds.p95
    )
