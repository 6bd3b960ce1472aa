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
from sash.core.law.documents.grounding import Grounded, Template, content_texts, sent_texts, trim
from sash.core.law.records.costs import record_cost
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredGrounding


class Source(msgspec.Struct, frozen=True):
    """A message's documents as stored, with the JSON value of its content."""

    grounding: StoredGrounding
    content: bytes


class DocumentedContent:
    """The content of one message, for one model. ``record`` is the message's as it is sent without documents, and
    ``value`` the content's JSON."""

    def __init__(self, record: Record, value: bytes, model: Model) -> None:
        self.record, self.model = record, model
        texts = content_texts(value)
        self.text = "".join(texts)
        self._texts = sum(map(bool, texts))
        self._value = value
        extra = record.measure.extra
        self._is_own = extra is not None and extra.native_in(model.format) is not None

    def cost(self, before: str, after: str, added: Pair | None = None) -> int:
        """The tokens of the message as it is sent, with texts before and after its own. ``added`` are as in ``added``."""
        own_tokens = self._own_tokens(before, after)
        ways = self._ways(before, after, added or self.added(before, after))
        return max(message_tokens(each, self.model, own_tokens=own_tokens) for each in ways)

    def added(self, before: str, after: str) -> Pair:
        """The tokens that these texts add to the content's, in both encodings."""
        sent, own = both(before + self.text + after), self._pair
        return sent[0] - own[0], sent[1] - own[1]

    @cached_property
    def _pair(self) -> Pair:
        return both(self.text)

    def _ways(self, before: str, after: str, added: Pair) -> Iterator[Measure]:
        """The measures that the message may have as it is sent.

        In a provider's own form its content may be a string or a list, whatever it is in chat form.
        """
        measure, is_list = self.record.measure, self._value[:1] == b"["
        extra, pair = measure.extra or Extra(), (measure.o200k + added[0], measure.cl100k + added[1])
        own = extra.parts or (((measure.o200k, measure.cl100k, extra.mix),) if measure.o200k else ())
        mix = self._mix(before, after, pair, own[self._texts :]) if self.model.ratios is not None else None
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
        mix = mix_of(before + self.text + after, *pair)
        return joined_mix(mix, pair, lines) if lines else mix

    def _own_tokens(self, before: str, after: str) -> int | None:
        """The tokens of all that the message says, in the model's own vocabulary, if that counted it."""
        own_tokens, vocabulary = self.record.own_tokens, self.model.vocabulary
        if own_tokens is None or vocabulary is None:
            return None
        value = msgspec.json.decode(self._value) if self._value else None
        parts = value or [] if isinstance(value, list) else _text_part(self.text)
        if isinstance(value, list) or self._is_own:
            sent: str | list[Any] = [*_text_part(before), *parts, *_text_part(after)]
        else:
            sent = before + self.text + after
        return own_tokens + _spoken(sent, vocabulary) - _spoken(parts, vocabulary)


class Joining:
    """A message and its documents, for one model."""

    def __init__(self, source: Source, record: Record, template: Template, model: Model) -> None:
        self.source, self.template, self.model = source, template, model
        self.content = DocumentedContent(record, source.content, model)
        self._own = record_cost(record, model)
        self._priced = cache(self._more)
        self._added = cache(self._counted)

    def cost(self, texts: Sequence[str]) -> int:
        """The tokens by which the message costs more with these documents than alone, in the model's tokens."""
        return self._priced(*self._around(texts))

    def whole(self, texts: Sequence[str], levels: tuple[int, ...]) -> Grounded:
        """These documents, with their texts uncut. ``levels`` has the level of each text."""
        before, after = self._around(texts)
        tokens, cost = self._added(before, after)[self.model.column], self._priced(before, after)
        return Grounded(before=before, after=after, kept=len(texts), tokens=tokens, cost=cost, levels=levels)

    def cut(self, texts: Sequence[str], room: int) -> Grounded | None:
        """The documents, the last of them cut so that they add at most ``room`` of the model's tokens; None if none fits."""
        tokens = self._most_tokens(texts, room)
        while (chosen := trim(self.template, self.content.text, texts, self.model.encoding, tokens)) is not None:
            cost = self._priced(chosen.before, chosen.after)
            if cost <= room:
                return msgspec.structs.replace(chosen, cost=cost)
            most = min(tokens, chosen.tokens)
            tokens = min(most - 1, most * room // max(1, cost))
        return None

    def _most_tokens(self, texts: Sequence[str], room: int) -> int:
        """The tokens of the encoding from which a cut goes down until it fits a room."""
        if self.model.ratios is None:
            return room
        before, after = self._around(texts)
        of_a_token = self._priced(before, after) / max(1, self._added(before, after)[self.model.column])
        return int(room / max(0.1, min(self.model.scale, of_a_token))) + 1

    def _around(self, texts: Sequence[str]) -> tuple[str, str]:
        return self.template.around(self.template.separator.join(texts))

    def _more(self, before: str, after: str) -> int:
        return self.content.cost(before, after, self._added(before, after)) - self._own

    def _counted(self, before: str, after: str) -> Pair:
        """The tokens that texts add, in both encodings. Those of all whole documents were counted at the append."""
        known, stored = self.content.record.grounding, self.source.grounding
        is_known = known is not None and stored.template == self.template.digest
        if known and is_known and (before, after) == self._around(sent_texts(stored)):
            return known
        return self.content.added(before, after)


def _part(text: str) -> tuple[Part, ...]:
    if not text:
        return ()
    pair = both(text)
    return ((*pair, mix_of(text, *pair)),)


def _spoken(content: Any, vocabulary: Vocabulary) -> int:
    return spoken_tokens({"role": "user", "content": content}, vocabulary)


def _text_part(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []
