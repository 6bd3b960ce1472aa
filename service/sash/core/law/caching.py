"""The rules of providers' prompt caches: the smallest prefix, the places where an entry may end, lifetime and prices.

Every provider compares a request's beginning: tool definitions, system text, then messages. The differences, by the
providers' documents (read in November 2026):

- OpenAI before GPT-5.6: any prefix from 1,024 tokens on, in steps of 128. There are no marks, and writes cost nothing
  (developers.openai.com/api/docs/guides/prompt-caching: "gpt-4o and newer").
- GPT-5.6 and later: entries end at breakpoints, and only these are compared. The newest user or tool message is an
  implicit breakpoint; ``prompt_cache_breakpoint`` in a block makes others, four in all. Writes cost 1.25 (the same page).
- Claude: entries end at blocks with ``cache_control``, four at most, and each looks back over 20 blocks for an earlier
  entry. The minimum depends on the model. Writes cost 1.25 for five minutes
  (platform.claude.com/docs/en/build-with-claude/prompt-caching).
- Gemini: implicit, 2,048 tokens for 2.5 and 4,096 later; no lifetime is promised (ai.google.dev/gemini-api/docs/caching).
- Others with a price for cached tokens: assumed implicit, in steps of 64 (api-docs.deepseek.com/guides/kv_cache).
"""

import re
from typing import Final, Literal, TypeVar

import msgspec

from sash.core.counts.models import Model
from sash.core.law.parameters import WindowQuery

Q = TypeVar("Q", bound=WindowQuery)

BREAKPOINTS: Final = 4
"""The largest number of marks. Claude answers 400 to more."""
LOOKBACK_BLOCKS: Final = 20

_GPT_MARKED = re.compile(r"gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d)")
_CLAUDE_MINIMUMS = (
    (re.compile(r"claude-(opus|fable|mythos)-5"), 512),
    (re.compile(r"claude-(opus-4-7|3-5-haiku|3-haiku)"), 2048),
    (re.compile(r"claude-(opus-4-[56]|haiku-4-5)"), 4096),
)
_CLAUDE_UNCACHED = re.compile(r"claude-(v?[12]|instant|3-sonnet)")


class Caching(msgspec.Struct, frozen=True, kw_only=True):
    """One model's prompt cache. Prices are relative to an uncached input token."""

    kind: Literal["implicit", "breakpoints", "cache_control"]
    minimum_tokens: int
    step_tokens: int = 1
    lifetime_seconds: int
    read_price: float
    write_price: float = 1.0


def caching_of(model: Model) -> Caching | None:
    """The rules of a model's prompt cache; None if no cache is documented, or the model refuses hints."""
    name = model.id.rsplit("/", 1)[-1].lower()
    if not model.input_price or model.cached_input_price is None or _CLAUDE_UNCACHED.search(name):
        return None
    read = model.cached_input_price / model.input_price
    write = (model.cache_write_price or model.input_price) / model.input_price
    match model.provider:
        case "anthropic":
            minimum = next((tokens for pattern, tokens in _CLAUDE_MINIMUMS if pattern.search(name)), 1024)
            return Caching(
                kind="cache_control", minimum_tokens=minimum, lifetime_seconds=300, read_price=read, write_price=write
            )
        case "openai" if _GPT_MARKED.search(name):
            return Caching(
                kind="breakpoints", minimum_tokens=1024, lifetime_seconds=1800, read_price=read, write_price=write
            )
        case "openai":
            return Caching(kind="implicit", minimum_tokens=1024, step_tokens=128, lifetime_seconds=300, read_price=read)
        case "google":
            minimum = 2048 if "gemini-2" in name else 4096
            return Caching(kind="implicit", minimum_tokens=minimum, lifetime_seconds=300, read_price=read)
        case _:
            return Caching(kind="implicit", minimum_tokens=64, step_tokens=64, lifetime_seconds=300, read_price=read)


_STEPS = (0.1, 0.25, 0.5)
_TURNS_A_BUDGET = 64
"""About the number of turns that fill a budget. The size of a turn decides how often a cut moves."""


def settled(query: Q, model: Model, budget: int) -> Q:
    """The query with ``stable=auto`` decided: the model's cheapest step, or no stable cut without a prompt cache."""
    if query.stable != "auto":
        return query
    rules = caching_of(model)
    if rules is None:
        return msgspec.structs.replace(query, stable=False)
    step = min(_STEPS, key=lambda step: _turn_cost(rules, budget, step))
    return msgspec.structs.replace(query, stable=True, stable_step=step)


def _turn_cost(rules: Caching, budget: int, step: float) -> float:
    """The average cost of a turn, in uncached tokens, while a window grows by ``step`` and is cut again.

    The window is read from the cache, or at full price below the minimum. The turn's tokens are written. After a cut, the
    kept tokens are written again.
    """
    least, turn = (1 - step) * budget, budget / _TURNS_A_BUDGET
    short = min(1.0, max(0.0, (rules.minimum_tokens - least) / (budget - least)))
    held = (least + budget) / 2
    read = held * (short + (1 - short) * rules.read_price)
    moved = least / (step * budget / turn) * (rules.write_price - rules.read_price)
    return read + turn * rules.write_price + moved
