"""cost_of: what the input of a window costs at list prices, and what the provider's prompt cache makes of it.

The window before is assumed to be the one that ended before the newest reply. It was sent when its last message came, and
this one when its newest message came: if the time between is longer than an entry lives, the cache is cold.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sash.core.counts.families import ASSISTANT
from sash.core.counts.models import Model
from sash.core.counts.price_tiers import PriceTier
from sash.core.law.caching import caching_of
from sash.core.law.expected import CachedWindow, Expected, expect_unhinted
from sash.core.law.view import History
from sash.core.law.window import Window
from sash.core.providers.cache_marks import Lifetime

CacheState = Annotated[
    Literal["warm", "cold", "unknown"],
    Meta(
        title="CacheState",
        description="`warm`: the window before was sent within the lifetime of the provider's cache. `cold`: it was not, or "
        "there is none. `unknown`: the messages have no times, or the model has no documented cache.",
    ),
]


class ReachedTier(msgspec.Struct, frozen=True):
    """The price tier of a window: the number of input tokens that it is above, and its input price over the first tier's."""

    above: int
    factor: float


class InputPrices(NamedTuple):
    """The prices of a request's input in dollars for a million tokens: uncached, read from the cache, and written to it."""

    uncached: float
    cached: float
    written: float
    tier: ReachedTier

    def dollars(self, total: int, read: int, written: int) -> float:
        """The price of ``total`` tokens, of which so many are read from the cache and written to it."""
        uncached = total - read - written
        return (read * self.cached + written * self.written + uncached * self.uncached) / 1e6


class Cost(msgspec.Struct, frozen=True):
    """The list price of a window's input in dollars: as the cache likely is, and if it is warm.

    With ``cache=unknown`` nothing is expected to be read. The expected tokens are those of a warm cache.
    """

    usd: float
    if_warm: float
    cache: CacheState
    tier: ReachedTier
    expected_read_tokens: int
    expected_write_tokens: int


def cost_of(
    window: Window,
    history: History,
    model: Model,
    *,
    stable: bool,
    hinted: Expected | None = None,
    lifetime: Lifetime | None = None,
) -> Cost | None:
    """The window's cost; None if the model's prices are unknown.

    ``hinted`` are the expected tokens of a window with hints for the cache. ``lifetime`` is the one that the hints ask for,
    in place of the model's usual one.
    """
    total, rules = window.tokens["total"], caching_of(model)
    prices = input_prices(model, total, lifetime)
    if prices is None:
        return None
    expected, lives_ms = hinted or Expected(0, 0), 0
    if rules is not None:
        lives_ms = 1000 * (lifetime.seconds if lifetime else rules.lifetime_seconds)
        if hinted is None and total >= rules.minimum_tokens and rules.kind != "cache_control":  # else nothing is marked
            expected = expect_unhinted(rules, CachedWindow(window, history, model), stable=stable)
    read, written = expected.expected_read_tokens, expected.expected_write_tokens
    warm = prices.dollars(total, read, written)
    cold = prices.dollars(total, 0, 0 if rules is None or rules.kind == "implicit" else read + written)
    cache: CacheState = "unknown"
    if rules is not None and history.pause_ms is not None:
        cache = "warm" if history.pause_ms <= lives_ms else "cold"
    elif rules is not None and not window.dropped["messages"] and ASSISTANT not in history.records.roles:
        cache = "cold"  # the first window; one that leaves messages out does not know whether a reply is among them
    if_warm = round(warm, 9)
    return Cost(
        usd=if_warm if cache == "warm" else round(cold, 9),
        if_warm=if_warm,
        cache=cache,
        tier=prices.tier,
        expected_read_tokens=read,
        expected_write_tokens=written,
    )


def input_prices(model: Model, total: int, lifetime: Lifetime | None = None) -> InputPrices | None:
    """The prices of a request of ``total`` input tokens; None if they are unknown. ``lifetime`` is as in ``cost_of``."""
    prices = model.prices_at(total) if model.price_tiers else model
    uncached, first = prices.input_price or model.input_price, model.input_price
    if not uncached or not first:
        return None
    cached = prices.cached_input_price if prices.cached_input_price is not None else uncached
    written = lifetime.write_price * uncached if lifetime else prices.cache_write_price or uncached
    above = prices.above if isinstance(prices, PriceTier) else 0
    return InputPrices(uncached, cached, written, ReachedTier(above, round(uncached / first, 4)))
