"""Costs of documents: a message is priced once, as the text that is sent, with its documents in it.

::

    text before, content, text after ──_ways──▶ Measure ──message_tokens──▶ tokens of the message with its documents

A window's sum has the message's own tokens already, so documents cost what is beyond these, and the sum is the price of
what is sent, whatever the documents would cost by themselves.
"""

from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any

import msgspec

from sash.core.counts.costs.counting import message_tokens
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.measures.measures import Extra, Measure, Part
from sash.core.counts.measures.without_media import joined_mix
from sash.core.counts.models.models import Model
from sash.core.counts.text import Pair, both, mix_of
from sash.core.law.documents.grounding import content_texts
from sash.core.law.records.costs import record_cost
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredGrounding


class Source(msgspec.Struct, frozen=True):
    """A message's documents as stored, with the JSON value of its content."""

    grounding: StoredGrounding
    content: bytes


class Joining:
    """A message and its documents, for one model. ``record`` is the message's as it is sent without documents, with this
    ``content``. ``known`` are tokens that texts before and after it add, as far as they were counted."""

    def __init__(self, record: Record, content: Any, model: Model) -> None:
        self._record, self._model = record, model
        texts, extra = content_texts(content), record.measure.extra
        self._text, self._texts = "".join(texts), sum(map(bool, texts))
        # In a provider's own form its content may be a string or a list, whatever it is in chat form.
        is_own, is_list = extra is not None and extra.native_in(model.format) is not None, isinstance(content, list)
        self._has_parts, self._is_joined = is_own or is_list, is_own or not is_list
        self._parts: list[Any] = content if isinstance(content, list) else _text_part(self._text)
        self.cost = cache(self._cost)
        self.known: dict[tuple[str, str], Pair] = {}

    def _cost(self, before: str, after: str) -> int:
        """The tokens by which the message costs more with texts before and after its own, as it is sent."""
        own_tokens = self._own_tokens(before, after)
        ways = self._ways(before, after, self.added(before, after))
        cost = max(message_tokens(each, self._model, own_tokens=own_tokens) for each in ways)
        return cost - record_cost(self._record, self._model)

    def added(self, before: str, after: str) -> Pair:
        """The tokens that texts add, in both encodings."""
        if (before, after) not in self.known:
            sent, own = both(before + self._text + after), self._pair
            self.known[before, after] = sent[0] - own[0], sent[1] - own[1]
        return self.known[before, after]

    @cached_property
    def _pair(self) -> Pair:
        return both(self._text)

    def _ways(self, before: str, after: str, added: Pair) -> Iterator[Measure]:
        """The measures that the message may have as it is sent."""
        measure = self._record.measure
        extra, pair = measure.extra or Extra(), (measure.o200k + added[0], measure.cl100k + added[1])
        own = extra.parts or (((measure.o200k, measure.cl100k, extra.mix),) if measure.o200k else ())
        mix, lines = None, own[self._texts :]  # lines stand for pictures and files
        if self._model.ratios is not None:
            text = pair[0] - sum(line[0] for line in lines), pair[1] - sum(line[1] for line in lines)
            mix = mix_of(before + self._text + after, *text)
            mix = joined_mix(mix, text, lines) if lines else mix
        joined = Measure(measure.role, *pair, msgspec.structs.replace(extra, mix=mix, parts=()))
        if self._has_parts:
            parts = (*_part(before), *own, *_part(after))
            more = msgspec.structs.replace(extra, mix=mix, parts=parts if len(parts) > 1 else ())
            yield msgspec.structs.replace(joined, extra=more)
        if self._is_joined:
            yield joined

    def _own_tokens(self, before: str, after: str) -> int | None:
        """The tokens of all that the message says, in the model's own vocabulary, if that counted it."""
        own_tokens, vocabulary = self._record.own_tokens, self._model.vocabulary
        if own_tokens is None or vocabulary is None:
            return None
        parts = [*_text_part(before), *self._parts, *_text_part(after)]
        sent: Any = parts if self._has_parts else before + self._text + after
        said = ({"role": "user", "content": each} for each in (sent, self._parts))
        sent_tokens, own = (spoken_tokens(message, vocabulary) for message in said)
        return own_tokens + sent_tokens - own


def _part(text: str) -> tuple[Part, ...]:
    pair = both(text)
    return ((*pair, mix_of(text, *pair)),) if text else ()


def _text_part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []
