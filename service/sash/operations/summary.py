"""The body of ``GET /stats``: a table of figures, each declared beside its type with how it is computed.

::

    windows: Annotated[int, total("sash_windows_total")]     the sum of a metric's series, for a model or for all

A figure is a function of ``Sums``. A member without one is a Struct of figures.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from sash.core.law.fixed_parts.history_tools import READ, SEARCH
from sash.operations.lately import ProblemCount, counts
from sash.operations.metrics import FILL, TOKENS, TWENTIETHS_FROM
from sash.operations.registry import SECONDS, Flat
from sash.operations.requests import ASKING
from sash.operations.series import Series

T = TypeVar("T", bound=msgspec.Struct)


class Prices(msgspec.Struct, frozen=True):
    """List prices of a million input tokens in dollars: uncached, read from cache, written to cache. Null if unknown."""

    input: float | None = None
    cached_input: float | None = None
    cache_write: float | None = None


_DOLLARS = "sash_input_nanodollars_total"


class Sums(NamedTuple):
    """What figures are computed from: sums by series, and the model that they are of, with its list prices.

    ``model`` is None for all models, which ``prices`` has by name. ``cut`` is ``stable`` or ``sliding`` for figures of one
    kind of window.
    """

    series: Series
    model: str | None = None
    prices: Mapping[str, Prices] = {}
    cut: str | None = None

    def total(self, name: str, *labels: str | None) -> int:
        """The sum of a metric whose first label is the model."""
        return self.series.sum(name, self.model, *labels)

    def usd(self, what: str) -> float | None:
        """The dollars of one kind; None if no model has a price."""
        if all(price.input is None for price in self.prices.values()):
            return None
        return round(self.total(_DOLLARS, what) / 1e9, 6)


Figure = Callable[[Sums], Any]


def collected(struct: type[T], sums: Sums) -> T:
    """Return a Struct whose members are computed by their figures."""
    return struct(**{name: figure(sums) for name, figure in _figures(struct).items()})


@cache
def _figures(struct: type[msgspec.Struct]) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for name, hint in get_type_hints(struct, include_extras=True).items():
        metadata = getattr(hint, "__metadata__", ())
        found[name] = metadata[0] if metadata else partial(collected, hint)
    return found


def total(name: str, *labels: str) -> Figure:
    """The sum of a metric's series with these labels."""
    return lambda sums: sums.total(name, *labels)


def total_of_cut(name: str, *labels: str) -> Figure:
    """The sum of a metric's series for one kind of window."""
    return lambda sums: sums.total(name, sums.cut, *labels)


def of_cut(struct: type[msgspec.Struct], cut: str) -> Figure:
    """The figures of one kind of window."""
    return lambda sums: collected(struct, sums._replace(cut=cut))


def share(part: Figure, whole: Figure, digits: int) -> Figure:
    """The quotient of two figures; None where the second is 0."""

    def quotient(sums: Sums) -> float | None:
        of = whole(sums)
        return round(part(sums) / of, digits) if of else None

    return quotient


def usd(what: str) -> Figure:
    """The dollars of one kind of ``sash_input_nanodollars_total``: each window and bill counts at its tier's prices."""
    return lambda sums: sums.usd(what)


class Quantiles(msgspec.Struct, frozen=True):
    """The median and the 95th percentile; null without values. Taken from a histogram, so accurate to ±10 %."""

    p50: float | None
    p95: float | None


def quantiles(name: str, bounds: tuple[float, ...], scale: float = 1) -> Figure:
    """The quantiles of a histogram, times ``scale``."""
    return lambda sums: Quantiles(*sums.series.quantiles(name, bounds, sums.model, scale=scale))


class FillStats(msgspec.Struct, frozen=True):
    """Windows' tokens divided by their budgets. ``histogram`` counts windows by twentieths, the emptiest first."""

    p50: float | None
    p95: float | None
    histogram: list[int]


def _fill(sums: Sums) -> FillStats:
    p50, p95 = sums.series.quantiles("sash_window_fill_ratio", FILL, sums.model)
    buckets = sums.series.buckets("sash_window_fill_ratio", FILL, sums.model)[:-1]
    first, rest = buckets[: TWENTIETHS_FROM + 1], buckets[TWENTIETHS_FROM + 1 :]
    return FillStats(p50, p95, [sum(first), *rest])


class StopReasons(msgspec.Struct, frozen=True):
    """Numbers of windows by ``stop_reason``."""

    complete: Annotated[int, total("sash_windows_total", "complete")]
    budget: Annotated[int, total("sash_windows_total", "budget")]
    limit: Annotated[int, total("sash_windows_total", "limit")]
    summary: Annotated[int, total("sash_windows_total", "summary")]
    bytes: Annotated[int, total("sash_windows_total", "bytes")]
    images: Annotated[int, total("sash_windows_total", "images")]
    price: Annotated[int, total("sash_windows_total", "price")]
    horizon: Annotated[int, total("sash_windows_total", "horizon")]


_FOLLOWED, _REUSED = "sash_window_followup_tokens_total", "sash_window_reused_tokens_total"


class ReuseStats(msgspec.Struct, frozen=True):
    """Windows that left history out and followed another window of their conversation.

    ``same_beginning`` counts those that began like the window before. ``reused_tokens`` of their ``tokens`` were in the
    same place there, so a provider's prompt cache can serve them. A lower bound: each worker compares its own windows.
    """

    windows: Annotated[int, total_of_cut("sash_window_followups_total")]
    same_beginning: Annotated[int, total_of_cut("sash_window_followups_total", "same")]
    tokens: Annotated[int, total_of_cut(_FOLLOWED)]
    reused_tokens: Annotated[int, total_of_cut(_REUSED)]
    share: Annotated[float | None, share(total_of_cut(_REUSED), total_of_cut(_FOLLOWED), 4)]


_REPORTS, _ERRORS, _BILLED = "sash_predictions_total", "sash_prediction_error_tokens_total", "sash_billed_tokens_total"


def _error(sums: Sums) -> int:
    return sums.total(_ERRORS, "over") - sums.total(_ERRORS, "under")


def _absolute_error(sums: Sums) -> int:
    return sums.total(_ERRORS, "over") + sums.total(_ERRORS, "under")


class PredictionStats(msgspec.Struct, frozen=True):
    """Predicted and billed tokens of reported usage. ``under`` counts reports where the prediction was too low.

    ``mean_error_tokens`` is the mean of predicted - billed. ``mean_error_share`` is all absolute errors / billed tokens.
    """

    reports: Annotated[int, total(_REPORTS)]
    under: Annotated[int, total(_REPORTS, "under")]
    exact: Annotated[int, total(_REPORTS, "exact")]
    over: Annotated[int, total(_REPORTS, "over")]
    under_tokens: Annotated[int, total(_ERRORS, "under")]
    over_tokens: Annotated[int, total(_ERRORS, "over")]
    billed_tokens: Annotated[int, total(_BILLED)]
    mean_error_tokens: Annotated[float | None, share(_error, total(_REPORTS), 2)]
    mean_error_share: Annotated[float | None, share(_absolute_error, total(_BILLED), 6)]


class SavedStats(msgspec.Struct, frozen=True):
    """Saved dollars at list prices: documents not repeated, and tokens of stable windows that a cache can serve.

    ``cuts_usd`` is the price of the history that windows left out, and ``tiers_usd`` the difference between the prices of
    windows that ended below a price tier and the prices above it.
    """

    documents_usd: Annotated[float | None, usd("documents")]
    prompt_cache_usd: Annotated[float | None, usd("stable_cut")]
    cuts_usd: Annotated[float | None, usd("cuts")]
    tiers_usd: Annotated[float | None, usd("tiers")]


_CACHED = "sash_prompt_cache_tokens_total"


class CostStats(msgspec.Struct, frozen=True):
    """Dollars of input at list prices, of those bills that report cached tokens."""

    billed_usd: Annotated[float | None, usd("billed")]


class ReasonCount(msgspec.Struct, frozen=True):
    """A reason, and how often it was reported."""

    reason: str
    count: int


def _misses(sums: Sums) -> list[ReasonCount]:
    found: Counter[str] = Counter()
    for (model, reason), number in sums.series.of("sash_prompt_cache_misses_total"):
        found[reason] += number if sums.model in (None, model) else 0
    return [ReasonCount(reason, number) for reason, number in found.most_common() if number]


class CacheStats(msgspec.Struct, frozen=True):
    """Providers' prompt caches, from reported usage with ``cached_tokens`` or ``cache_write_tokens``.

    ``hit_share`` is read tokens divided by billed tokens. Compared with uncached input at list prices, ``saved_usd`` is the
    saving by reading, and ``lost_usd`` the extra cost of writing.
    """

    billed_tokens: Annotated[int, total(_CACHED)]
    read_tokens: Annotated[int, total(_CACHED, "read")]
    written_tokens: Annotated[int, total(_CACHED, "written")]
    hit_share: Annotated[float | None, share(total(_CACHED, "read"), total(_CACHED), 4)]
    saved_usd: Annotated[float | None, usd("read")]
    lost_usd: Annotated[float | None, usd("written")]
    misses: Annotated[list[ReasonCount], _misses]
    """Reported reasons of misses, the most frequent first."""


_DROPPED = "sash_reasoning_dropped_total"


class ReasoningStats(msgspec.Struct, frozen=True):
    """Blocks of reasoning that providers dropped from requests, from reported ``input_transformations``, by cause.

    ``prefix``: something before the block has changed. ``model``, ``organization``, ``end_user``: it was made for another
    one. ``turn``: its turn is over.
    """

    dropped: Annotated[int, total(_DROPPED)]
    prefix: Annotated[int, total(_DROPPED, "prefix")]
    model: Annotated[int, total(_DROPPED, "model")]
    organization: Annotated[int, total(_DROPPED, "organization")]
    end_user: Annotated[int, total(_DROPPED, "end_user")]
    turn: Annotated[int, total(_DROPPED, "turn")]
    other: Annotated[int, total(_DROPPED, "other")]


class WindowStats(msgspec.Struct, frozen=True, kw_only=True):
    """Served windows. Tokens are the model's; dropped, saved and trimmed tokens are the encoding's."""

    windows: Annotated[int, total("sash_windows_total")]
    does_not_fit: Annotated[int, total("sash_window_does_not_fit_total")]
    stop_reasons: StopReasons
    milliseconds: Annotated[Quantiles, quantiles("sash_window_duration_seconds", SECONDS, scale=1000)]
    tokens: Annotated[Quantiles, quantiles("sash_window_tokens", TOKENS)]
    fill: Annotated[FillStats, _fill]
    kept_messages: Annotated[int, total("sash_window_kept_messages_total")]
    dropped_messages: Annotated[int, total("sash_window_dropped_messages_total")]
    dropped_tokens: Annotated[int, total("sash_window_dropped_tokens_total")]
    dropped_images: Annotated[int, total("sash_window_dropped_images_total")]
    dropped_media_bytes: Annotated[int, total("sash_window_dropped_media_bytes_total")]
    grounding_tokens_saved: Annotated[int, total("sash_documents_saved_tokens_total")]
    grounding_tokens_trimmed: Annotated[int, total("sash_documents_trimmed_tokens_total")]
    grounding_truncations: Annotated[int, total("sash_document_truncations_total")]
    views: Annotated[int, total("sash_view_windows_total")]
    """Windows of what one of several agents sees."""
    view_messages_unseen: Annotated[int, total("sash_view_unseen_messages_total")]
    stable: Annotated[ReuseStats, of_cut(ReuseStats, "stable")]
    sliding: Annotated[ReuseStats, of_cut(ReuseStats, "sliding")]
    prediction: PredictionStats
    cache: CacheStats
    reasoning: ReasoningStats
    saved: SavedStats
    cost: CostStats


class ModelStats(WindowStats, frozen=True, kw_only=True):
    """Served windows of one model; ``other`` sums those whose names are not published."""

    model: Annotated[str, lambda sums: sums.model]
    usd_per_million: Annotated[Prices, lambda sums: sums.prices[sums.model]]


_WATCHERS = frozenset({"live", "ready", "getMetrics", "getStats", "getStatus", "getDashboard"})


def answered(status: str = "") -> Figure:
    """The number of clients' requests whose status begins so; to ask whether a conversation began is no error."""

    def number(sums: Sums) -> int:
        requests = sums.series.of("sash_requests_total")
        return sum(n for (operation, code), n in requests if operation not in _WATCHERS and is_counted(operation, code))

    def is_counted(operation: str, code: str) -> bool:
        return code.startswith(status) and not (status and code == "404" and operation in ASKING)

    return number


def took(name: str, *labels: str) -> Figure:
    """The milliseconds of requests, by a histogram of seconds."""
    return lambda sums: Quantiles(*sums.series.quantiles(name, SECONDS, *labels, scale=1000))


def _problems(sums: Sums) -> list[ProblemCount]:
    return counts(Counter({slug: number for (slug,), number in sums.series.of("sash_refused_total")}))


def summed(name: str, *labels: str) -> Figure:
    """The sum of a metric's series with these labels, of no model."""
    return lambda sums: sums.series.sum(name, *labels)


class EventStats(msgspec.Struct, frozen=True):
    """Events that were sent to followers of conversations, and the time from a change to its event."""

    sent: Annotated[int, summed("sash_events_total")]
    slow_followers: Annotated[int, summed("sash_followers_ended_total", "slow")]
    """Streams that were cut because their readers did not keep up."""
    delay_milliseconds: Annotated[Quantiles, took("sash_event_delay_seconds")]


_AGAIN = "sash_window_receipts_total"


class GoneReceipts(msgspec.Struct, frozen=True):
    """The number of windows that could not be made again, for one reason of `receipt-gone`."""

    reason: str
    windows: int


def _gone(sums: Sums) -> list[GoneReceipts]:
    found = Counter({outcome: number for (outcome,), number in sums.series.of(_AGAIN) if outcome != "same"})
    return [GoneReceipts(reason, number) for reason, number in found.most_common() if number]


class ReceiptStats(msgspec.Struct, frozen=True):
    """Windows that were given with a receipt, and those that were asked for by it: made again, or not, by the reason."""

    given: Annotated[int, summed("sash_window_receipts_given_total")]
    again: Annotated[int, summed(_AGAIN, "same")]
    gone: Annotated[list[GoneReceipts], _gone]


_TOOL_CALLS = "sash_history_tool_calls_total"


class ToolStats(msgspec.Struct, frozen=True):
    """Calls of the history tools that were answered, those of them over MCP, and the tokens of the answers."""

    searches: Annotated[int, summed(_TOOL_CALLS, SEARCH)]
    reads: Annotated[int, summed(_TOOL_CALLS, READ)]
    over_mcp: Annotated[int, lambda sums: sums.series.sum(_TOOL_CALLS, None, "mcp")]
    tokens: Annotated[int, summed("sash_history_tool_tokens_total")]


class RequestStats(msgspec.Struct, frozen=True):
    """Requests of clients, without probes, scrapes and the dashboard.

    ``append_milliseconds`` and ``window_milliseconds`` are whole requests: ``POST …/messages``, with or without a window,
    and all whose answer has a window.
    """

    requests: Annotated[int, answered()]
    client_errors: Annotated[int, answered("4")]
    server_errors: Annotated[int, answered("5")]
    append_milliseconds: Annotated[Quantiles, took("sash_request_duration_seconds", "appendMessages")]
    window_milliseconds: Annotated[Quantiles, took("sash_window_request_duration_seconds")]
    events: EventStats
    receipts: ReceiptStats
    tools: ToolStats
    problems: Annotated[list[ProblemCount], _problems]
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
    """The deployment's statistics: of the last 15 and 60 minutes, 24 hours, 30 days, and since the start. The current
    minute, hour and day are included. Other workers' figures are up to ``flush_seconds`` old."""

    at: str
    flush_seconds: float
    quarter: RangeStats
    hour: RangeStats
    day: RangeStats
    month: RangeStats
    start: RangeStats


def summarise(
    flat: Flat, slices: Mapping[int, Flat], *, since_ms: int, at_ms: int, prices: Callable[[str], Prices]
) -> RangeStats:
    """The statistics of ``flat`` since ``since_ms``. ``slices`` are its parts by their start; times are in milliseconds."""
    series = Series(flat)
    names = series.values("sash_windows_total") | series.values("sash_window_does_not_fit_total")
    known = {name: prices(name) for name in sorted(names | series.values("sash_predictions_total"))}
    models = [collected(ModelStats, Sums(series, name, {name: price})) for name, price in known.items()]
    return RangeStats(
        since=moment(since_ms),
        seconds=max(1, (at_ms - since_ms) // 1000),
        requests=collected(RequestStats, Sums(series)),
        all=collected(WindowStats, Sums(series, None, known)),
        models=sorted(models, key=lambda each: -each.windows),
        tenants=_tenants(series),
        timeline=[_moment(start, each) for start, each in sorted(slices.items())],
    )


def moment(milliseconds: int) -> str:
    """The time in RFC 3339, in UTC, to the second."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat().replace("+00:00", "Z")


_TENANTS_SHOWN = 20


def _tenants(series: Series) -> list[TenantStats]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (tenant, kind), number in series.of("tenants"):
        found[tenant][kind] += number
    told = [
        TenantStats(tenant, by.total() - by["tokens"], by["4"], by["5"], by["tokens"]) for tenant, by in found.items()
    ]
    return sorted(told, key=lambda each: -each.requests)[:_TENANTS_SHOWN]


_OF_A_MOMENT = ("sash_windows_total|", "sash_requests_total|", "sash_window_request_duration_seconds_bucket|")


def _moment(start_ms: int, flat: Flat) -> Moment:
    series = Series({path: number for path, number in flat.items() if path.startswith(_OF_A_MOMENT)})
    requests = collected(RequestStats, Sums(series))
    return Moment(
        at=moment(start_ms),
        windows=series.sum("sash_windows_total"),
        requests=requests.requests,
        server_errors=requests.server_errors,
        window_p95_milliseconds=requests.window_milliseconds.p95,
    )
