"""A model's prices and its prompt cache, as ``/models`` shows them."""

from sash.api.schemas import CacheLifetime, ModelCache, ModelPrices, TierPrices
from sash.core.counts.models.listings import LISTED
from sash.core.counts.models.models import Model
from sash.core.counts.models.price_tiers import PriceTier
from sash.core.law.selection.caching import caching_of
from sash.core.providers import PROVIDERS


def prices_of(model: Model) -> ModelPrices | None:
    """A model's list prices with their tiers, their source and their day; None if they are unknown."""
    first = model.input_price
    if not first:
        return None
    tiers = [
        TierPrices(**_prices(tier), above=tier.above, factor=round((tier.input_price or first) / first, 4))
        for tier in model.price_tiers
    ]
    version, day = LISTED
    source, as_of = ("operator", None) if model.own_prices else (f"genai-prices {version}", day.isoformat())
    return ModelPrices(**_prices(model), tiers=tiers, source=source, as_of=as_of)


def _prices(of: Model | PriceTier) -> dict[str, float | None]:
    return {"input": of.input_price, "cached_input": of.cached_input_price, "cache_write": of.cache_write_price}


def prompt_cache_of(model: Model) -> ModelCache | None:
    """A model's prompt cache; None without a documented one."""
    # Responses may ask for a longer lifetime than chat completions of the same model.
    forms = [each.name for each in PROVIDERS.values() if each.maker == model.provider] or [model.format]
    found = [rules for form in forms if (rules := caching_of(model.sent_as(form))) is not None]
    if not found or model.input_price is None:
        return None
    price = model.input_price
    lifetimes = {(rules.lifetime_seconds, rules.write_price) for rules in found}
    lifetimes |= {(rules.longer.seconds, rules.longer.write_price) for rules in found if rules.longer}
    told = [CacheLifetime(seconds, round(write * price, 6)) for seconds, write in sorted(lifetimes)]
    return ModelCache(found[0].kind, found[0].minimum_tokens, told)
