"""Each message's cost in a model's tokens, from columns of records."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final

import numpy as np

from sash.core.counts.costs.counting import REFERENCE_MODELS, message_tokens, reference_tokens_in
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.costs.message_cost import message_cost, reasoning_of
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.families import TOOL
from sash.core.counts.models.models import Model
from sash.core.counts.text.numbers import MANY, Number
from sash.core.counts.text.unicode_scripts import family_tokens
from sash.core.law.records.records import Records
from sash.core.providers import PROVIDERS
from sash.core.providers.openai.server_mends import SILENT, refused_by
from sash.core.stored.record import Flags, Record

_OF_CALLS: Final = ("name", "single_call", "parallel_calls", "parallel_unknown")
"""Rules of a model for names and calls."""
_OF_ITS_MODEL: Final = frozenset({"unfitted0", "spoken0", "form", "plain0", "blocks0", "signatures0"})
"""Columns of what not every model is sent, or not in the message's own cost."""


def message_costs(records: Records, model: Model) -> Number:
    """Each message's cost in the model's tokens, without documents and reasoning. The array is kept: do not change it."""
    for priced, costs in records.costs:
        if priced is model:
            return costs
    if records.details:
        own_tokens = records.own_tokens if records.own_tokens is None else records.own_tokens - 1
        cost = message_cost(records.columns_for(model), model, MANY, parallel=records.parallel, own_tokens=own_tokens)
        found = _with_rare(records, cost, partial(record_cost, model=model))
    else:
        found = _plain_costs(records, model)
    records.costs = (*records.costs, (model, found))
    return found


def _with_rare(records: Records, cost: Number, of_one: Callable[[Record], int]) -> Number:
    """The costs of rows as an array, with those of the messages whose costs do not follow from a row."""
    costs = np.full(len(records), cost, np.int64)
    for index in records.rare:
        costs[index] = of_one(records[index])
    return costs


def text_costs(model: Model) -> bytes | None:
    """The tokens that a text costs beside its own, as a table from roles for ``bytes.translate``; None if its own may differ
    from those that were counted."""
    is_other = model.ratios is not None or model.margin != 1.0
    if is_other or _changes_empty(model.format, model.provider, model.known_as):
        return None
    return _around(model.rules.role_costs)


def _plain_costs(records: Records, model: Model) -> Number:
    """Each message's cost if it has text alone."""
    texts = records.tokens(model.column)
    if model.ratios is not None:  # as counted in the model's own vocabulary, else estimated
        texts = family_tokens(records.tokens(0), records.tokens(1), None, model.ratios, by=MANY).astype(np.int64)
        if records.own_tokens is not None:
            texts = np.where(records.own_tokens > 0, records.own_tokens - 1, texts)
    around = np.frombuffer(records.roles.translate(_around(model.rules.role_costs)), np.uint8)
    costs: Number = around + texts
    costs = costs if model.margin == 1.0 else np.ceil(costs * model.margin).astype(np.int64)
    if _changes_empty(model.format, model.provider, model.known_as):
        for index in np.flatnonzero(texts == 0).tolist():
            costs[index] = record_cost(records[index], model)
    return costs


@cache
def _changes_empty(form: str, provider: str, model: str) -> bool:
    """Whether some messages without text are left out, or filled."""
    return not PROVIDERS[form].is_chat_form or bool(refused_by(provider, model) & SILENT)


@cache
def _around(role_costs: tuple[int, ...]) -> bytes:
    """Tokens around a text, by role. A result's wrapping is counted with its call."""
    return bytes((*role_costs[:TOOL], 0, *role_costs[TOOL + 1 :])).ljust(256, b"\0")


def record_cost(record: Record, model: Model) -> int:
    """One message's cost in the model's tokens, without documents and reasoning."""
    return message_tokens(record.measure, model, parallel=record.parallel, own_tokens=record.own_tokens)


def written_cost(message: Mapping[str, Any], model: Model, *, parallel: int = 0) -> int:
    """The same of a message that is written for this window. ``parallel`` is as in ``message_tokens``."""
    own_tokens = None if model.vocabulary is None else spoken_tokens(message, model.vocabulary)
    return message_tokens(measure(message), model, parallel=parallel, own_tokens=own_tokens)


def reference_costs(records: Records, column: int) -> Number:
    """Each message's tokens in a conversation's totals (``Record.reference_tokens``), as an array."""
    model = REFERENCE_MODELS[column]
    if records.whole is not None:
        return reference_costs(records.whole, column)
    if not records.details:
        return message_costs(records, model)
    for priced, costs in records.costs:
        if priced is model or _costs_as_counted(records, priced, column):
            return costs
    parallel = records.parallel & Flags.PARALLEL
    cost = message_cost(records.columns, model, MANY, parallel=parallel) + reasoning_of(records.columns, column)
    costs = _with_rare(records, cost, lambda each: reference_tokens_in(column, each.measure, parallel=each.parallel))
    records.costs = (*records.costs, (model, costs))
    return costs


def _costs_as_counted(records: Records, model: Model, column: int) -> bool:
    """Whether these messages have the same costs for the model as in the conversation's totals."""
    reference = REFERENCE_MODELS[column]
    return (
        text_costs(model) == text_costs(reference)
        and not PROVIDERS[model.format].fills
        and all(getattr(model.rules, name) == getattr(reference.rules, name) for name in _OF_CALLS)
        and not records.rare
        and _OF_ITS_MODEL.isdisjoint(records.columns)
        and not records.parallel.any()
    )
