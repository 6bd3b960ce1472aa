"""A message's measure as a vocabulary that is not here would have it: each text's tokens by its scripts."""

import math

import msgspec

from service.core.measures import Extra, Measure, both
from service.core.scripts import Mix, mix_of, text_tokens
from service.core.strings import Pair
from service.core.text import count_text

# Every figure of a measure that is a text's tokens in both encodings.
_PAIRS = tuple(field.name for field in msgspec.structs.fields(Extra) if field.type in (Pair, Pair | None))

_OF_A_PART = 1.03
"""A part of a text may be a little dearer than the whole."""


def estimated(measure: Measure, ratios: str) -> Measure:
    """Return the measure with the tokens of a family of ``ratios.RATIOS`` in the place of both encodings'."""
    extra = measure.extra
    mix = extra.mix if extra is not None else None
    if extra is None:
        tokens = text_tokens(measure.o200k, measure.cl100k, None, ratios)
        return Measure(measure.role, tokens, tokens)
    whole = max(1, measure.o200k + extra.call_arguments[0])

    def of(pair: Pair) -> Pair:
        return (text_tokens(*pair, mix and _part(mix, pair[0] / whole), ratios),) * 2

    pairs = {name: of(pair) for name in _PAIRS if (pair := getattr(extra, name))}
    tokens, _ = of((measure.o200k, measure.cl100k))
    return Measure(measure.role, tokens, tokens, msgspec.structs.replace(extra, **pairs))


def estimate_text(text: str, ratios: str) -> int:
    """Return the tokens of a text for a family of ``ratios.RATIOS``."""
    o200k, cl100k = both(text)
    return text_tokens(o200k, cl100k, mix_of(text, o200k), ratios)


def estimate_factor(text: str, ratios: str) -> float:
    """Return how many tokens of a family of ``ratios.RATIOS`` one of o200k_base is, in any part of a text; at least 1."""
    return max(1.0, _OF_A_PART * estimate_text(text, ratios) / max(1, count_text(text, "o200k_base")))


def _part(mix: Mix, part: float) -> Mix:
    """Return the mix of a part of the text: numbers are taken to lie everywhere."""
    return msgspec.structs.replace(mix, digits=min(mix.digits, math.ceil(mix.digits * part))) if mix.digits else mix
