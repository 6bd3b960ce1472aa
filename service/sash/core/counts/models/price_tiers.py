"""List prices of input tokens, which may depend on the number of a request's input tokens.

Above a tier's number, all tokens of the request have the tier's prices, not only those above it: OpenAI above 272,000
(developers.openai.com/api/docs/pricing), Google and some models of Anthropic above 200,000 (their price pages, all read in
November 2026).
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

_Price = Annotated[float, Meta(ge=0, le=1_000_000)]


class PriceTier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of a request of more than ``above`` input tokens, in dollars for a million tokens. None if unknown."""

    above: Annotated[int, Meta(ge=0)]
    input_price: _Price | None = None
    cached_input_price: _Price | None = None
    cache_write_price: _Price | None = None
    long_cache_write_price: _Price | None = None
    """The price of writing for the longer of the provider's two lifetimes."""


def tier_of(tiers: Sequence[PriceTier], tokens: int) -> PriceTier | None:
    """The highest tier that a request of so many input tokens reaches; None if it has the first prices."""
    found = None
    for tier in tiers:
        if tokens <= tier.above:
            break
        found = tier
    return found
