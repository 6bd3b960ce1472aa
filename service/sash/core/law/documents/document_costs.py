"""Costs of documents: a message is priced once, as the text that is sent, with its documents in it.

::

    text before, content, text after ──measure──▶ Measure ──message_tokens──▶ tokens of the message with its documents

A window's sum has the message's own tokens already, so documents cost what is beyond these, and the sum is the price of
what is sent, whatever the documents would cost by themselves.
"""

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from typing import Any

import msgspec

from sash.core.counts.costs.counting import message_tokens
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.measures.measures import Extra, Measure, Part
from sash.core.counts.measures.without_media import joined_mix
from sash.core.counts.models.models import Model
from sash.core.counts.text import Pair, both
from sash.core.counts.text.unicode_scripts import Mix, mix_of
from sash.core.counts.text.vocabularies import Vocabulary
from sash.core.law.documents.grounding import Grounded, Template, content_texts, parse_template, sent_texts, trim
from sash.core.law.records.costs import record_cost
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredGrounding

_TEMPLATE = parse_template()


class Source(msgspec.Struct, frozen=True):
    """A message's documents as stored, with the JSON value of its content."""

    grounding: StoredGrounding
    content: bytes


class Joining:
    """A message and its documents, for one model. ``record`` is the message's as it is sent without documents, and ``value``
    the JSON of its content. ``template`` joins documents to it, and ``stored`` are its own."""

    def __init__(
        self,
        record: Record,
        value: bytes,
        model: Model,
        template: Template = _TEMPLATE,
        stored: StoredGrounding | None = None,
    ) -> None:
        self._record, self._value, self._model, self._template, self._stored = record, value, model, template, stored
        texts = content_texts(value)
        self._text = "".join(texts)
        self._texts = sum(map(bool, texts))
        extra = record.measure.extra
        self._is_own = extra is not None and extra.native_in(model.format) is not None
        self.more = cache(self._more)
        self._added = cache(self._counted)

    def cost(self, texts: Sequence[str]) -> int:
        """The tokens by which the message costs more with these documents than alone."""
        return self.more(*self._around(texts))

    def whole(self, texts: Sequence[str], levels: tuple[int, ...]) -> Grounded:
        """These documents, with their texts uncut. ``levels`` has the level of each text."""
        before, after = self._around(texts)
        tokens, cost = self._added(before, after)[self._model.column], self.more(before, after)
        return Grounded(before=before, after=after, kept=len(texts), tokens=tokens, cost=cost, levels=levels)

    def cut(self, texts: Sequence[str], room: int) -> Grounded | None:
        """The documents, the last of them cut so that they add at most ``room`` of the model's tokens; None if none fits."""
        tokens = self._most_tokens(texts, room)
        while (chosen := trim(self._template, self._text, texts, self._model.encoding, tokens)) is not None:
            cost = self.more(chosen.before, chosen.after)
            if cost <= room:
                return msgspec.structs.replace(chosen, cost=cost)
            most = min(tokens, chosen.tokens)
            tokens = min(most - 1, most * room // max(1, cost))
        return None

    def _most_tokens(self, texts: Sequence[str], room: int) -> int:
        """The tokens of the encoding that a cut is tried with first: it gets fewer until it fits the room."""
        if self._model.ratios is None:
            return room
        before, after = self._around(texts)
        of_a_token = self.more(before, after) / max(1, self._added(before, after)[self._model.column])
        return int(room / max(0.1, min(self._model.scale, of_a_token))) + 1

    def _around(self, texts: Sequence[str]) -> tuple[str, str]:
        return self._template.around(self._template.separator.join(texts))

    def _more(self, before: str, after: str) -> int:
        """The tokens by which the message costs more with texts before and after its own, as it is sent."""
        own_tokens = self._own_tokens(before, after)
        ways = self._ways(before, after, self._added(before, after))
        sent = max(message_tokens(each, self._model, own_tokens=own_tokens) for each in ways)
        return sent - record_cost(self._record, self._model)

    def _counted(self, before: str, after: str) -> Pair:
        """The tokens that texts add, in both encodings. Those of all whole documents were counted at the append."""
        known, stored = self._record.grounding, self._stored
        is_known = known is not None and stored is not None and stored.template == self._template.digest
        if known and stored and is_known and (before, after) == self._around(sent_texts(stored)):
            return known
        sent, own = both(before + self._text + after), self._pair
        return sent[0] - own[0], sent[1] - own[1]

    @cached_property
    def _pair(self) -> Pair:
        return both(self._text)

    def _ways(self, before: str, after: str, added: Pair) -> Iterator[Measure]:
        """The measures that the message may have as it is sent.

        In a provider's own form its content may be a string or a list, whatever it is in chat form.
        """
        measure, is_list = self._record.measure, self._value[:1] == b"["
        extra, pair = measure.extra or Extra(), (measure.o200k + added[0], measure.cl100k + added[1])
        own = extra.parts or (((measure.o200k, measure.cl100k, extra.mix),) if measure.o200k else ())
        mix = self._mix(before, after, pair, own[self._texts :]) if self._model.ratios is not None else None
        joined = Measure(measure.role, *pair, msgspec.structs.replace(extra, mix=mix, parts=()))
        if is_list or self._is_own:
            parts = (*_part(before), *own, *_part(after))
            more = msgspec.structs.replace(extra, mix=mix, parts=parts if len(parts) > 1 else ())
            yield msgspec.structs.replace(joined, extra=more)
        if not is_list or self._is_own:
            yield joined

    def _mix(self, before: str, after: str, pair: Pair, lines: Sequence[Part]) -> Mix | None:
        """The mix of the text that is sent, which has these tokens. ``lines`` stand in it for pictures and files."""
        pair = pair[0] - sum(line[0] for line in lines), pair[1] - sum(line[1] for line in lines)
        mix = mix_of(before + self._text + after, *pair)
        return joined_mix(mix, pair, lines) if lines else mix

    def _own_tokens(self, before: str, after: str) -> int | None:
        """The tokens of all that the message says, in the model's own vocabulary, if that counted it."""
        own_tokens, vocabulary = self._record.own_tokens, self._model.vocabulary
        if own_tokens is None or vocabulary is None:
            return None
        value = msgspec.json.decode(self._value) if self._value else None
        parts = value or [] if isinstance(value, list) else _text_part(self._text)
        if isinstance(value, list) or self._is_own:
            sent: str | list[Any] = [*_text_part(before), *parts, *_text_part(after)]
        else:
            sent = before + self._text + after
        return own_tokens + _spoken(sent, vocabulary) - _spoken(parts, vocabulary)


def _part(text: str) -> tuple[Part, ...]:
    if not text:
        return ()
    pair = both(text)
    return ((*pair, mix_of(text, *pair)),)


def _spoken(content: Any, vocabulary: Vocabulary) -> int:
    return spoken_tokens({"role": "user", "content": content}, vocabulary)


def _text_part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []
