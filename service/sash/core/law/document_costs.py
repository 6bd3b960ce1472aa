"""Costs of documents: the tokens that they add to their message, for one model.

For most models they follow from the tokens of the encoding. Where scripts, numbers or parts matter, the message is measured
with its documents and without.
"""

import math
from collections.abc import Sequence
from functools import cache

import msgspec

from sash.core.counts.counting import message_tokens
from sash.core.counts.estimates import estimate_factor
from sash.core.counts.measures import Extra, Measure, mixes
from sash.core.counts.models import Model
from sash.core.counts.text import both
from sash.core.counts.unicode_scripts import RATIOS, mix_of
from sash.core.law.costs import record_cost
from sash.core.law.grounding import Grounded, Template, added_tokens, content_text, content_texts, trim
from sash.core.law.levels import Leveled
from sash.core.law.records import Record, StoredGrounding
from sash.core.providers import PROVIDERS


class Source(msgspec.Struct, frozen=True):
    """A message's documents as stored, with the JSON value of its content and its record."""

    grounding: StoredGrounding
    content: bytes
    record: Record


class Joining:
    """What documents add to one message, for one model. ``documents`` are all that may be sent, with their levels."""

    def __init__(self, source: Source, template: Template, documents: Leveled, model: Model) -> None:
        self.source, self.template, self.model = source, template, model
        self.factor = _factor_of(source.record, [text for texts in documents for text in texts], model)
        self._joined_cost = cache(self._cost_beside)

    def cost(self, texts: Sequence[str]) -> int:
        """The tokens that these documents add, in the model's tokens."""
        if self.factor is not None:
            return self._joined_cost(*self.template.around(self.template.separator.join(texts)))
        return self._added_cost(self._counted(texts))

    def fits(self, texts: Sequence[str], room: int) -> bool:
        """Whether these documents fit a room by their tokens of the encoding, too, which is quicker to tell."""
        return self._added_cost(self._counted(texts)) <= room and (self.factor is None or self.cost(texts) <= room)

    def whole(self, texts: Sequence[str], levels: tuple[int, ...]) -> Grounded:
        """These documents, with their texts uncut. ``levels`` has the level of each text."""
        before, after = self.template.around(self.template.separator.join(texts))
        tokens = self._counted(texts)
        return self._priced(Grounded(before=before, after=after, kept=len(texts), tokens=tokens, levels=levels))

    def cut(self, texts: Sequence[str], room: int) -> Grounded | None:
        """The documents, the last of them cut so that they add at most ``room`` of the model's tokens; None if none fits."""
        content = content_text(self.source.content)
        tokens = int(room / (self.model.scale if self.factor is None else self.model.margin * self.factor)) + 1
        while tokens > 0 and self._added_cost(tokens) > room:
            tokens -= 1
        while (chosen := trim(self.template, content, texts, self.model.encoding, tokens)) is not None:
            chosen = self._priced(chosen)
            if chosen.cost <= room:
                break
            most = min(tokens, chosen.tokens)
            tokens = min(most - 1, most * room // chosen.cost)
        return chosen

    def _counted(self, texts: Sequence[str]) -> int:
        """The tokens of the encoding that these texts add. Those of all whole documents were counted at the append."""
        known, stored = self.source.record.grounding, self.source.grounding
        if known and stored.template == self.template.digest and [*texts] == [text for _, text in stored.documents]:
            return known[self.model.column]
        return added_tokens(self.template, content_text(self.source.content), texts, self.model.encoding)

    def _priced(self, chosen: Grounded) -> Grounded:
        needed = self._added_cost(chosen.tokens)
        cost = needed if self.factor is None else self._joined_cost(chosen.before, chosen.after)
        return msgspec.structs.replace(chosen, cost=cost, room=max(needed, cost))

    def _added_cost(self, tokens: int) -> int:
        """What ``tokens`` of the encoding add to the message, in the model's tokens."""
        if self.factor is not None:
            return math.ceil(tokens * self.factor * self.model.margin)
        plain = self.source.record.measure
        larger = Measure(plain.role, plain.o200k + tokens, plain.cl100k + tokens, plain.extra)
        return message_tokens(larger, self.model) - message_tokens(plain, self.model)

    def _cost_beside(self, before: str, after: str) -> int:
        """The tokens that texts add if scripts, numbers or parts matter: the message is measured with and without them.

        If the message is counted in the model's own vocabulary, so is the text with its documents.
        """
        record, content = self.source.record, self.source.content
        texts = content_texts(content)
        parts = [before, *texts, after]
        # The content of a message in a provider's own form may be a string or a list, whatever it is in chat form.
        is_list, extra = content[:1] == b"[", record.measure.extra
        ways = [parts] if is_list or (extra is not None and extra.beside is not None) else []
        ways += [] if is_list else [["".join(parts)]]
        return max(_cost_of(each, texts, record, self.model) for each in ways) - record_cost(record, self.model)


def _factor_of(record: Record, texts: Sequence[str], model: Model) -> float | None:
    """The model's tokens for one token of the documents, if their cost depends on scripts, numbers or parts; else None."""
    if (ratios := model.ratios) is None:
        return 1.0 if PROVIDERS[model.format].fills else None
    extra = record.measure.extra
    is_mixed = RATIOS[ratios]["latin"][1] or (extra is not None and bool(extra.mix or extra.parts))
    if is_mixed or any(mix_of(text, *both(text)) is not None for text in texts):
        return max(estimate_factor(text, ratios) for text in texts)
    return None


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
