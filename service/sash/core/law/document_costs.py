"""Costs of documents: the tokens that they add to their message, for one model.

For most models they follow from the tokens of the encoding. Where scripts, numbers or parts matter, the message is measured
with its documents and without.
"""

import math
from collections.abc import Sequence

import msgspec

from sash.core.counts.counting import message_tokens
from sash.core.counts.estimates import estimate_factor
from sash.core.counts.measures import Extra, Measure, mixes
from sash.core.counts.models import Model
from sash.core.counts.text import both
from sash.core.counts.unicode_scripts import RATIOS, mix_of
from sash.core.law.costs import record_cost
from sash.core.law.grounding import Grounded, content_texts
from sash.core.law.records import Record, StoredGrounding
from sash.core.providers import PROVIDERS


class Source(msgspec.Struct, frozen=True):
    """A message's documents as stored, with the JSON value of its content and its record."""

    grounding: StoredGrounding
    content: bytes
    record: Record


def factor_of(record: Record, texts: Sequence[str], model: Model) -> float | None:
    """The model's tokens for one token of the documents, if their cost depends on scripts, numbers or parts; else None."""
    if (ratios := model.ratios) is None:
        return 1.0 if PROVIDERS[model.format].fills else None
    extra = record.measure.extra
    is_mixed = RATIOS[ratios]["latin"][1] or (extra is not None and bool(extra.mix or extra.parts))
    if is_mixed or any(mix_of(text, *both(text)) is not None for text in texts):
        return max(estimate_factor(text, ratios) for text in texts)
    return None


def joined_cost(source: Source, grounded: Grounded, model: Model) -> int:
    """The tokens that documents add if scripts, numbers or parts matter: the message is measured with and without them.

    If the message is counted in the model's own vocabulary, so is the text with its documents.
    """
    record, texts = source.record, content_texts(source.content)
    parts = [grounded.before, *texts, grounded.after]
    extra = record.measure.extra or Extra()
    # The content of a message in a provider's own form may be a string or a list, whatever it is in chat form.
    ways = [parts] if source.content[:1] == b"[" or extra.beside is not None else []
    ways += [["".join(parts)]] if source.content[:1] != b"[" else []
    return max(_cost_of(each, texts, record, model) for each in ways) - record_cost(record, model)


def _cost_of(parts: Sequence[str], texts: Sequence[str], record: Record, model: Model) -> int:
    """The tokens of a message with ``parts`` in place of its ``texts``."""
    plain, said = record.measure, record.said
    if said is not None and model.vocabulary is not None:
        said += sum(map(model.vocabulary.count, parts)) - sum(map(model.vocabulary.count, texts))
        return message_tokens(plain, model, said=said)
    joined = "".join(parts)
    counted = both(joined)
    unmixed = msgspec.structs.replace(plain.extra or Extra(), mix=None, parts=())
    mixed = msgspec.structs.replace(unmixed, **mixes(parts, joined, counted))
    return message_tokens(Measure(plain.role, *counted, mixed), model)


def added_cost(record: Record, tokens: int, model: Model, factor: float | None) -> int:
    """What ``tokens`` of the encoding add to a message, in the model's tokens."""
    if factor is not None:
        return math.ceil(tokens * factor * model.margin)
    plain = record.measure
    larger = Measure(plain.role, plain.o200k + tokens, plain.cl100k + tokens, plain.extra)
    return message_tokens(larger, model) - message_tokens(plain, model)


def reference_room(record: Record, room: int, model: Model, factor: float | None) -> int:
    """The largest number of reference tokens that add at most ``room`` of the model's tokens to this message."""
    tokens = int(room / (model.scale if factor is None else model.margin * factor)) + 1
    while tokens > 0 and added_cost(record, tokens, model, factor) > room:
        tokens -= 1
    return tokens
