"""What the input of a window costs at list prices."""

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from sash.core.counts.models.models import Model
from sash.core.counts.models.price_tiers import PriceTier


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
    """The list price of a window's input in dollars, and its price tier."""

    usd: Annotated[float, Meta(description="Without a prompt cache. What the cache served is told by the bill.")]
    tier: ReachedTier


def input_prices(model: Model, total: int) -> InputPrices | None:
    """The prices of a request of ``total`` input tokens; None if they are unknown."""
    prices = model.prices_at(total)
    uncached, first = prices.input_price or model.input_price, model.input_price
    if not uncached or not first:
        return None
    cached = prices.cached_input_price if prices.cached_input_price is not None else uncached
    written = prices.cache_write_price or uncached
    above = prices.above if isinstance(prices, PriceTier) else 0
    return InputPrices(uncached, cached, written, ReachedTier(above, round(uncached / first, 4)))
