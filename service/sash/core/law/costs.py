"""Each message's cost in a model's tokens, from columns of records."""

from functools import lru_cache

import numpy as np

from sash.core.counts.counting import REFERENCE_MODELS, message_tokens, reference_tokens_in
from sash.core.counts.families import TOOL
from sash.core.counts.models import Model
from sash.core.counts.numbers import MANY, Number
from sash.core.counts.prices import message_cost, thoughts_of
from sash.core.counts.unicode_scripts import RATIOS
from sash.core.law.records import Flags, Record, Records
from sash.core.providers import PROVIDERS


def message_costs(records: Records, model: Model) -> Number:
    """Each message's cost in the model's tokens, without documents and reasoning. The array is kept: do not change it."""
    for priced, costs in records.costs:
        if priced is model:
            return costs
    found = _costs_of_rows(records, model) if records.details else _plain_costs(records, model)
    records.costs.append((model, found))
    return found


def _costs_of_rows(records: Records, model: Model) -> Number:
    said = np.array(records.said, np.int64) - 1 if records.said else None
    costs = for_each(
        message_cost(records.columns_for(model), model, MANY, place=records.places, said=said), len(records)
    )
    for index in records.rare:
        costs[index] = record_cost(records[index], model)
    return costs


def for_each(numbers: Number, count: int) -> Number:
    """The numbers of ``count`` messages as an array of integers; a single number is that of each."""
    return np.broadcast_to(numbers, count).astype(np.int64)


def _plain_costs(records: Records, model: Model) -> Number:
    """Each message's cost if it has text alone."""
    texts = records.tokens(model.column) if model.ratios is None else _estimated(records, model.ratios)
    costs = _around(model.rules.role_costs)[np.frombuffer(records.roles, np.uint8)] + texts
    if model.margin != 1.0:
        costs = np.ceil(costs * model.margin).astype(np.int64)
    if not PROVIDERS[model.format].is_chat_form and 0 in texts:  # other forms leave some of these out
        for index in np.flatnonzero(texts == 0).tolist():
            costs[index] = record_cost(records[index], model)
    return costs


def _estimated(records: Records, ratios: str) -> Number:
    """Tokens of each message's text for a family of ``RATIOS``: as counted in its vocabulary, else estimated."""
    a, b = RATIOS[ratios]["latin"]
    texts = np.ceil(a * records.tokens(0) + b * records.tokens(1)).astype(np.int64)
    if not records.said:
        return texts
    said = np.array(records.said, np.int64)
    return np.where(said, said - 1, texts)


def record_cost(record: Record, model: Model) -> int:
    """One message's cost in the model's tokens, without documents and reasoning."""
    return message_tokens(record.measure, model, parallel=record.parallel, said=record.said)


def reference_cost(record: Record, column: int) -> int:
    """One message's tokens in a conversation's totals: with reasoning, without documents and its place among results."""
    return reference_tokens_in(column, record.measure, parallel=record.parallel)


def reference_costs(records: Records, column: int) -> Number:
    """Each message's tokens in a conversation's totals, as ``reference_cost`` counts them."""
    model = REFERENCE_MODELS[column]
    if not records.details:
        return message_costs(records, model)
    for priced, costs in records.costs:
        if priced is model:
            return costs
    place = records.places & Flags.PARALLEL
    cost = message_cost(records.columns, model, MANY, place=place) + thoughts_of(records.columns, column)
    costs = for_each(cost, len(records))
    for index in records.rare:
        costs[index] = reference_cost(records[index], column)
    records.costs.append((model, costs))
    return costs


def costs_as_counted(records: Records, model: Model, column: int) -> bool:
    """Whether these messages have the same costs for the model as in the conversation's totals."""
    alike = model.rules.role_costs == REFERENCE_MODELS[column].rules.role_costs
    alike = alike and model.margin == 1.0 and model.ratios is None and next(records.rich(), None) is None
    sent_in = PROVIDERS[model.format]
    return alike and not sent_in.fills and (sent_in.is_chat_form or 0 not in records.tokens(0))


@lru_cache(maxsize=64)
def _around(role_costs: tuple[int, ...]) -> Number:
    """Tokens around a plain message's text, by role."""
    table = np.zeros(256, np.int64)
    table[: len(role_costs)] = role_costs
    table[TOOL] = 0
    return table
