"""What names of tools may cost more in the alphabet of a window's destination."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sash.core.counts.costs.counting import plain_text_tokens
from sash.core.counts.models.models import Model
from sash.core.law.records.records import Records

_JOINT: Final = 2
"""Tokens by which a text around a name may differ with it."""


def bound_of(names: Mapping[str, str], model: Model) -> int:
    """Return the most tokens that a call and its result cost more with the name as it is sent."""
    return _extra(tuple(names.items()), model) if names else 0


def renamed_calls(records: Records, names: Mapping[str, str], model: Model) -> dict[int, int]:
    """Return the most tokens that each message with calls, and the results of these, cost more, by row."""
    each_call = bound_of(names, model)
    return {row: calls * each_call for row, calls in enumerate(records.calls) if calls}


@lru_cache(maxsize=256)
def _extra(names: tuple[tuple[str, str], ...], model: Model) -> int:
    more = (plain_text_tokens(sent, model) - plain_text_tokens(own, model) for own, sent in names)
    return 2 * (max(0, *more) + _JOINT)
