"""The rules of a model's prompt cache, a conversation's key in it, and the stable cut that is cheapest under the rules.

Each provider's rules stand in its file. Others with a price for cached tokens are assumed implicit, in steps of 64
(api-docs.deepseek.com/guides/kv_cache).
"""

from functools import lru_cache
from hashlib import blake2b

import msgspec

from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.plan import below_a_tier
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers import PROVIDERS
from sash.core.providers.form.cache_marks import CachePrices, Caching


@lru_cache(maxsize=1024)
def caching_of(model: Model) -> Caching | None:
    """The rules of a model's prompt cache; None if no cache is documented, or the model refuses hints.

    They are those of the maker's form, or of its first one if the model is asked in another's.
    """
    uncached, read, long = model.input_price, model.cached_input_price, model.long_cache_write_price
    if not uncached or read is None:
        return None
    prices = CachePrices(read / uncached, (model.cache_write_price or uncached) / uncached, long and long / uncached)
    forms = (PROVIDERS[model.format], *PROVIDERS.values())
    form = next((each for each in forms if each.maker == model.provider), None)
    if form is None:
        return Caching(kind="implicit", minimum_tokens=64, step_tokens=64, lifetime_seconds=300, read_price=prices.read)
    return form.caching(model.id.rsplit("/", 1)[-1].lower(), prices)


def cache_key(name: str, life: str) -> str:
    """A conversation's ``prompt_cache_key``: a digest keyed by its random life, from which no id can be derived."""
    return blake2b(name.encode(), key=life.encode()[:64], digest_size=16).hexdigest()


_STEPS = (0.1, 0.25, 0.5)
_TURNS_A_BUDGET = 64
"""About the number of turns that fill a budget. The size of a turn decides how often a cut moves."""


def settled(query: WindowQuery, model: Model, budget: int) -> WindowQuery:
    """The query with ``stable=auto`` decided: the model's cheapest step, or no stable cut without a prompt cache."""
    if query.stable != "auto":
        return query
    rules = caching_of(model)
    if rules is None:
        return msgspec.structs.replace(query, stable=False)
    below = below_a_tier(query, model, budget)
    step = min(_STEPS, key=lambda step: _turn_cost(rules, below, step))
    return msgspec.structs.replace(query, stable=True, stable_step=step)


def _turn_cost(rules: Caching, budget: int, step: float) -> float:
    """The average cost of a turn, in uncached tokens, while a window grows by ``step`` and is cut again.

    The window is read from the cache, or at full price below the minimum. The turn's tokens are written. After a cut, the
    kept tokens are written again.
    """
    turn, least = budget / _TURNS_A_BUDGET, (1 - step) * budget
    short = min(1.0, max(0.0, (rules.minimum_tokens - least) / (budget - least)))
    held = (least + budget) / 2
    read = held * (short + (1 - short) * rules.read_price)
    moved = least / (step * budget / turn) * (rules.write_price - rules.read_price)
    return read + turn * rules.write_price + moved
