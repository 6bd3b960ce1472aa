"""Computes each message's cost in a model's tokens, from columns of records."""

import math
from functools import lru_cache
from operator import add

from sash.core.counts.counting import REFERENCE_MODELS, message_tokens, reference_tokens_in
from sash.core.counts.families import TOOL
from sash.core.counts.models import Model
from sash.core.counts.unicode_scripts import RATIOS, family_tokens
from sash.core.law.records import Record, Records
from sash.core.providers import PROVIDERS


def message_costs(records: Records, model: Model) -> list[int]:
    """Each message's cost in the model's tokens, without documents and reasoning. The list is kept: do not change it."""
    known = records.costs.get(id(model))
    if known is not None:
        return known[1]
    costs = _plain_costs(records, model)
    for index in records.rich():
        costs[index] = record_cost(records[index], model)
    if not PROVIDERS[model.format].is_chat_form:
        for index in _empty(records):  # other forms leave some of these out
            costs[index] = record_cost(records[index], model)
    records.costs[id(model)] = model, costs
    return costs


def _plain_costs(records: Records, model: Model) -> list[int]:
    """Each message's cost as if it had text alone."""
    texts = records.tokens(model.column) if model.ratios is None else estimated_texts(records, model.ratios)
    costs = list(map(add, records.roles.translate(_around(model.rules.role_costs)), texts))
    if model.margin != 1.0:
        margin = model.margin
        costs = [math.ceil(cost * margin) for cost in costs]
    return costs


def _empty(records: Records) -> list[int]:
    """Indexes of messages without text."""
    texts = records.tokens(0)
    return [index for index, tokens in enumerate(texts) if not tokens] if 0 in texts else []


def estimated_texts(records: Records, ratios: str) -> list[int]:
    """Tokens of each message's text for a family of ``RATIOS``: as counted in its vocabulary, else estimated."""
    a, b = RATIOS[ratios]["latin"]
    newer, older, said = records.tokens(0), records.tokens(1), records.said
    texts = [math.ceil(a * o200k + b * cl100k) for o200k, cl100k in zip(newer, older, strict=True)]
    for index in records.mixed():
        texts[index] = family_tokens(newer[index], older[index], records.mix(index), ratios)
    return [counted - 1 if counted else text for counted, text in zip(said, texts, strict=True)] if said else texts


def record_cost(record: Record, model: Model) -> int:
    """One message's cost in the model's tokens, without documents and reasoning."""
    return message_tokens(record.measure, model, parallel=record.parallel, said=record.said)


def reference_cost(record: Record, column: int) -> int:
    """One message's tokens in a conversation's totals: with reasoning, without documents and its place among results."""
    return reference_tokens_in(column, record.measure, parallel=record.parallel)


def reference_costs(records: Records, column: int) -> list[int]:
    """Each message's tokens in a conversation's totals, as ``reference_cost`` counts them."""
    known = records.costs.get(column)
    if known is None:
        costs = _plain_costs(records, REFERENCE_MODELS[column])
        for index in records.rich():
            costs[index] = reference_cost(records[index], column)
        known = records.costs[column] = None, costs
    return known[1]


def costs_as_counted(records: Records, model: Model, column: int) -> bool:
    """Whether these messages have the same costs for the model as in the conversation's totals."""
    alike = model.rules.role_costs == REFERENCE_MODELS[column].rules.role_costs
    alike = alike and model.margin == 1.0 and model.ratios is None and next(records.rich(), None) is None
    sent_in = PROVIDERS[model.format]
    return alike and not sent_in.fills and (sent_in.is_chat_form or not _empty(records))


@lru_cache(maxsize=64)
def _around(role_costs: tuple[int, ...]) -> bytes:
    """Tokens around a plain message's text, by role, as a table for ``bytes.translate``."""
    table = bytearray(256)
    table[: len(role_costs)] = role_costs
    table[TOOL] = 0
    return bytes(table)
