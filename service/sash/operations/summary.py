"""The body of ``GET /stats``, computed from sums by series."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from sash.operations.registry import SECONDS, Flat
from sash.operations.requests import ProblemCount, counts
from sash.operations.series import Series
from sash.operations.window_metrics import FILL, TOKENS, TWENTIETHS_FROM


class Prices(msgspec.Struct, frozen=True):
    """List prices of a million input tokens in dollars: uncached, read from cache, written to cache. Null if unknown."""

    input: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None


class Quantiles(msgspec.Struct, frozen=True):
    """The median and the 95th percentile; null without values. Taken from a histogram, so accurate to ±10 %."""

    p50: float | None
    p95: float | None


class FillStats(msgspec.Struct, frozen=True):
    """Windows' tokens divided by their budgets. ``histogram`` counts windows by twentieths, the emptiest first."""

    p50: float | None
    p95: float | None
    histogram: list[int]


class StopReasons(msgspec.Struct, frozen=True):
    """Numbers of windows by ``stop_reason``."""

    complete: int
    budget: int
    limit: int
    summary: int


class ReuseStats(msgspec.Struct, frozen=True):
    """Windows that left history out and followed another window of their conversation.

    ``same_beginning`` counts those that began like the window before. ``reused_tokens`` of their ``tokens`` were in the
    same place there, so a provider's prompt cache can serve them. A lower bound: each worker compares its own windows.
    """

    windows: int
    same_beginning: int
    tokens: int
    reused_tokens: int
    share: float | None


class PredictionStats(msgspec.Struct, frozen=True):
    """Predicted and billed tokens of reported usage. ``under`` counts reports where the prediction was too low.

    ``mean_error_tokens`` is the mean of predicted - billed. ``mean_error_share`` is all absolute errors / billed tokens.
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
    """Saved dollars at list prices: documents not repeated, and tokens of stable windows that a cache can serve."""

    documents_usd: float | None
    prompt_cache_usd: float | None


class CacheStats(msgspec.Struct, frozen=True):
    """Providers' prompt caches, from reported usage with ``cached_tokens`` or ``cache_write_tokens``.

    ``hit_share`` is read tokens divided by billed tokens. Compared with uncached input at list prices, ``saved_usd`` is the
    saving by reading, and ``lost_usd`` the extra cost of writing.
    """

    billed_tokens: int
    read_tokens: int
    written_tokens: int
    hit_share: float | None
    saved_usd: float | None
    lost_usd: float | None


class WindowStats(msgspec.Struct, frozen=True, kw_only=True):
    """Served windows. Tokens are the model's; dropped, saved and trimmed tokens are the encoding's."""

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
    cache: CacheStats
    saved: SavedStats


class ModelStats(WindowStats, frozen=True, kw_only=True):
    """Served windows of one model; ``other`` is all unpublished names."""

    model: str
    usd_per_million: Prices


class RequestStats(msgspec.Struct, frozen=True):
    """Requests of clients, without probes, scrapes and the dashboard.

    ``append_milliseconds`` and ``window_milliseconds`` are whole requests: ``POST …/messages``, with or without a window,
    and ``GET …/window``.
    """

    requests: int
    client_errors: int
    server_errors: int
    append_milliseconds: Quantiles
    window_milliseconds: Quantiles
    problems: list[ProblemCount]
    """Requests answered with a problem, by its type, the most frequent first."""


class TenantStats(msgspec.Struct, frozen=True):
    """Requests of one tenant, and tokens of its windows."""

    tenant: str
    requests: int
    client_errors: int
    server_errors: int
    window_tokens: int


class Moment(msgspec.Struct, frozen=True):
    """Figures of one minute of the hour, or one hour of the day."""

    at: str
    windows: int
    requests: int
    server_errors: int
    window_p95_milliseconds: float | None


class RangeStats(msgspec.Struct, frozen=True):
    """Statistics of a period that ends now."""

    since: str
    seconds: int
    requests: RequestStats
    all: WindowStats
    models: list[ModelStats]
    tenants: list[TenantStats]
    """The twenty tenants with the most requests. Without API keys, all requests are of the tenant ``default``."""
    timeline: list[Moment]


class Stats(msgspec.Struct, frozen=True):
    """The deployment's statistics: of the last 15 and 60 minutes, 24 hours, and since the start. The current minute and
    hour are included. Other workers' figures are up to ``flush_seconds`` old."""

    at: str
    flush_seconds: float
    quarter: RangeStats
    hour: RangeStats
    day: RangeStats
    start: RangeStats


def summarise(
    flat: Flat, slices: Mapping[int, Flat], *, since_ms: int, at_ms: int, prices: Callable[[str], Prices]
) -> RangeStats:
    """The statistics of ``flat`` since ``since_ms``. ``slices`` are its parts by their start; times are in milliseconds."""
    series = Series(flat)
    names = series.values("sash_windows_total") | series.values("sash_window_does_not_fit_total")
    known = {name: prices(name) for name in sorted(names | series.values("sash_predictions_total"))}
    models = [
        ModelStats(model=name, usd_per_million=price, **_windows(series, name, {name: price}))
        for name, price in known.items()
    ]
    return RangeStats(
        since=moment(since_ms),
        seconds=max(1, (at_ms - since_ms) // 1000),
        requests=_requests(series),
        all=WindowStats(**_windows(series, None, known)),
        models=sorted(models, key=lambda each: -each.windows),
        tenants=_tenants(series),
        timeline=[_moment(start, each) for start, each in sorted(slices.items())],
    )


def moment(milliseconds: int) -> str:
    """The time in RFC 3339, in UTC, to the second."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat().replace("+00:00", "Z")


def _windows(series: Series, model: str | None, prices: Mapping[str, Prices]) -> dict[str, Any]:
    """The figures of ``model``; None for all models, which ``prices`` has by name."""
    return {
        "windows": series.sum("sash_windows_total", model),
        "does_not_fit": series.sum("sash_window_does_not_fit_total", model),
        "stop_reasons": StopReasons(
            *(series.sum("sash_windows_total", model, name) for name in StopReasons.__struct_fields__)
        ),
        "milliseconds": Quantiles(*series.quantiles("sash_window_duration_seconds", SECONDS, model, scale=1000)),
        "tokens": Quantiles(*series.quantiles("sash_window_tokens", TOKENS, model)),
        "fill": _fill(series, model),
        "kept_messages": series.sum("sash_window_kept_messages_total", model),
        "dropped_messages": series.sum("sash_window_dropped_messages_total", model),
        "dropped_tokens": series.sum("sash_window_dropped_tokens_total", model),
        "grounding_tokens_saved": series.sum("sash_documents_saved_tokens_total", model),
        "grounding_tokens_trimmed": series.sum("sash_documents_trimmed_tokens_total", model),
        "grounding_truncations": series.sum("sash_document_truncations_total", model),
        "stable": _reuse(series, model, "stable"),
        "sliding": _reuse(series, model, "sliding"),
        "prediction": _prediction(series, model),
        "cache": _cache(series, model, prices),
        "saved": SavedStats(
            _usd(series, prices, lambda price: price.input, "sash_documents_saved_tokens_total"),
            _usd(series, prices, _cheaper, "sash_window_reused_tokens_total", "stable"),
        ),
    }


def _fill(series: Series, model: str | None) -> FillStats:
    p50, p95 = series.quantiles("sash_window_fill_ratio", FILL, model)
    buckets = series.buckets("sash_window_fill_ratio", FILL, model)[:-1]
    first, rest = buckets[: TWENTIETHS_FROM + 1], buckets[TWENTIETHS_FROM + 1 :]
    return FillStats(p50, p95, [sum(first), *rest])


def _reuse(series: Series, model: str | None, cut: str) -> ReuseStats:
    tokens = series.sum("sash_window_followup_tokens_total", model, cut)
    reused = series.sum("sash_window_reused_tokens_total", model, cut)
    return ReuseStats(
        windows=series.sum("sash_window_followups_total", model, cut),
        same_beginning=series.sum("sash_window_followups_total", model, cut, "same"),
        tokens=tokens,
        reused_tokens=reused,
        share=round(reused / tokens, 4) if tokens else None,
    )


def _prediction(series: Series, model: str | None) -> PredictionStats:
    under, exact, over = (series.sum("sash_predictions_total", model, name) for name in ("under", "exact", "over"))
    short, long = (series.sum("sash_prediction_error_tokens_total", model, name) for name in ("under", "over"))
    billed, reports = series.sum("sash_billed_tokens_total", model), under + exact + over
    return PredictionStats(
        reports=reports,
        under=under,
        exact=exact,
        over=over,
        under_tokens=short,
        over_tokens=long,
        billed_tokens=billed,
        mean_error_tokens=round((long - short) / reports, 2) if reports else None,
        mean_error_share=round((long + short) / billed, 6) if billed else None,
    )


def _cache(series: Series, model: str | None, prices: Mapping[str, Prices]) -> CacheStats:
    name = "sash_prompt_cache_tokens_total"
    read, written, neither = (series.sum(name, model, part) for part in ("read", "written", "neither"))
    billed = read + written + neither
    return CacheStats(
        billed_tokens=billed,
        read_tokens=read,
        written_tokens=written,
        hit_share=round(read / billed, 4) if billed else None,
        saved_usd=_usd(series, prices, lambda price: price.input and (_cheaper(price) or 0.0), name, "read"),
        lost_usd=_usd(
            series,
            prices,
            lambda price: price.input and (price.cache_write or price.input) - price.input,
            name,
            "written",
        ),
    )


def _cheaper(price: Prices) -> float | None:
    """The saving of a million tokens that are read from the cache."""
    return None if price.input is None or price.cached_input is None else price.input - price.cached_input


def _usd(
    series: Series, prices: Mapping[str, Prices], per_million: Callable[[Prices], float | None], name: str, *labels: str
) -> float | None:
    """The dollars of all models' tokens; None if no model has a price."""
    known = [
        series.sum(name, model, *labels) * dollars
        for model, price in prices.items()
        if (dollars := per_million(price)) is not None
    ]
    return round(sum(known) / 1e6, 6) if known else None


_TENANTS_SHOWN = 20
_WATCHERS = frozenset({"live", "ready", "getMetrics", "getStats", "getStatus", "getDashboard"})


def _requests(series: Series) -> RequestStats:
    by_status: Counter[str] = Counter()
    for (operation, status), number in series.of("sash_requests_total"):
        if operation not in _WATCHERS:
            by_status[status[0]] += number
    append, window = (
        Quantiles(*series.quantiles("sash_request_duration_seconds", SECONDS, name, scale=1000))
        for name in ("appendMessages", "getWindow")
    )
    problems = Counter({slug: number for (slug,), number in series.of("sash_refused_total")})
    return RequestStats(by_status.total(), by_status["4"], by_status["5"], append, window, counts(problems))


def _tenants(series: Series) -> list[TenantStats]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (tenant, kind), number in series.of("tenants"):
        found[tenant][kind] += number
    told = [
        TenantStats(tenant, by.total() - by["tokens"], by["4"], by["5"], by["tokens"]) for tenant, by in found.items()
    ]
    return sorted(told, key=lambda each: -each.requests)[:_TENANTS_SHOWN]


_OF_A_MOMENT = ("sash_windows_total|", "sash_requests_total|", "sash_request_duration_seconds_bucket|getWindow|")


def _moment(start_ms: int, flat: Flat) -> Moment:
    series = Series({path: number for path, number in flat.items() if path.startswith(_OF_A_MOMENT)})
    requests = _requests(series)
    return Moment(
        at=moment(start_ms),
        windows=series.sum("sash_windows_total"),
        requests=requests.requests,
        server_errors=requests.server_errors,
        window_p95_milliseconds=requests.window_milliseconds.p95,
    )
