"""Chooses the documents of a message that a window sends, and counts the tokens that they add.

Documents are taken in their order, most relevant first: whole ones within their own budget (``grounding_max_tokens``),
then as many as the window has room for.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from sash.core.counts.counting import message_tokens
from sash.core.counts.estimates import estimate_factor
from sash.core.counts.measures import Extra, Measure, mixes
from sash.core.counts.models import Model
from sash.core.counts.prices import beside_text
from sash.core.counts.text import both
from sash.core.counts.unicode_scripts import RATIOS, SINGLE_DIGITS, mix_of
from sash.core.law.costs import record_cost
from sash.core.law.grounding import (
    Grounded,
    Template,
    added_tokens,
    content_text,
    content_texts,
    document_key,
    everything,
    take_whole,
    trim,
)
from sash.core.law.reasons import CUT, EARLIER, NO_ROOM, OVER_LIMIT, SENT, SENT_LATER, TWICE, UNASKED, Fate
from sash.core.law.records import Record, StoredGrounding
from sash.core.providers import PROVIDERS


class Source(msgspec.Struct, frozen=True):
    """A message's documents as stored, with the JSON value of its content and its record."""

    grounding: StoredGrounding
    content: bytes
    record: Record


class Documents(msgspec.Struct, frozen=True):
    """The documents that a window may send, by the seq of their message."""

    sources: Mapping[int, Source]
    template: Template
    max_tokens: int | None = None
    overflow: Literal["trim", "drop", "error"] = "trim"
    dedupe: bool = True
    unread: Mapping[int, Record] = {}
    """Messages whose documents were not read, by seq. Their documents take the tokens that were counted, without a text."""

    def choose(
        self, seq: int, model: Model, room: int, seen: AbstractSet[str] = frozenset(), *, spent: int = 0
    ) -> Grounded | None:
        """The documents of message ``seq`` that add at most ``room`` of the model's tokens; None if none fits.

        Documents in ``seen`` are left out. ``spent`` are the tokens of ``max_tokens`` that other messages' documents took.
        With ``overflow=error`` the documents are not trimmed and may add more than ``room``; the caller must check.
        """
        source = self.sources.get(seq)
        if source is None:
            return self._unread(seq, model, room)
        keys = keys_of(source)
        fresh: Sequence[int] = range(len(keys))
        if self.dedupe:
            fresh = [index for index in first_places(keys) if keys[index] not in seen]
        texts: Sequence[str] = [source.grounding.documents[index][1] for index in fresh]
        if not texts:
            return None
        factor = _factor(source.record, texts, model)
        left = None if self.max_tokens is None else max(0, self.max_tokens - spent)
        if left is not None and factor is not None:
            texts, left = self._within(source, texts, model, left), None
        if not texts:
            return None
        most = None if left is None else _reference(source.record, left, model, factor)
        tokens = _reference(source.record, room, model, factor)
        complete = len(texts) == len(keys)
        chosen = self._fit(source, texts, model, tokens, most, complete=complete)
        cost = _joined_cost(source, chosen, model) if chosen is not None and factor is not None else None
        while chosen is not None and cost is not None and cost > room and self.overflow == "trim":
            most_tokens = min(tokens, chosen.tokens)
            tokens = min(most_tokens - 1, most_tokens * room // cost)
            chosen = self._fit(source, texts, model, tokens, most, complete=complete)
            cost = _joined_cost(source, chosen, model) if chosen is not None else None
        if chosen is None or (cost is not None and cost > room and self.overflow == "drop"):
            return None
        sent = tuple(keys[index] for index in fresh[: chosen.kept])
        needed = _added_cost(source.record, chosen.tokens, model, factor)
        return msgspec.structs.replace(chosen, keys=sent, cost=cost, room=max(needed, cost or 0))

    def fates(self, seq: int, sent: Mapping[int, Grounded], mode: str, *, is_asked: bool) -> list[Fate]:
        """What became of each document of message ``seq`` in a window that ``sent`` these.

        ``mode`` is the window's ``grounding``, and ``is_asked`` tells whether the message is the newest question.
        """
        keys, chosen = keys_of(self.sources[seq]), sent.get(seq)
        if mode != "all" and not (mode == "latest" and is_asked):
            return [EARLIER if mode == "latest" else UNASKED] * len(keys)
        found = [TWICE] * len(keys)
        later = {key for at, each in sent.items() if at > seq for key in each.keys} if self.dedupe else set()
        places = first_places(keys) if self.dedupe else range(len(keys))
        fresh = [place for place in places if keys[place] not in later]
        for place in places:
            found[place] = SENT_LATER if keys[place] in later else NO_ROOM
        if chosen is None:
            return found
        for number, place in enumerate(fresh):
            if number < chosen.kept:
                found[place] = CUT if chosen.cut and number == chosen.kept - 1 else SENT
            elif number >= chosen.allowed:
                found[place] = OVER_LIMIT
        return found

    def _unread(self, seq: int, model: Model, room: int) -> Grounded | None:
        """The tokens of documents that were not read; None if there are none, or they do not fit and may not be trimmed."""
        tokens = self.most_tokens(self.unread[seq], model) if seq in self.unread else 0
        if not tokens or (tokens > room and self.overflow == "drop"):
            return None
        cost = min(tokens, room) if self.overflow == "trim" else tokens
        return Grounded(before="", after="", kept=0, tokens=0, cost=cost)

    def most_tokens(self, record: Record, model: Model) -> int:
        """The most tokens that a message's documents add, in the model's tokens, as if they had its text's scripts."""
        if record.grounding is None:
            return 0
        counted, extra = record.grounding[model.column], record.measure.extra
        if model.ratios is not None:
            counted = beside_text(*record.grounding, extra.mix if extra else None, model.ratios)
            counted += record.digits if model.ratios in SINGLE_DIGITS else 0
        tokens = math.ceil(counted * model.margin)
        return tokens if self.max_tokens is None else min(tokens, self.max_tokens)

    def _within(self, source: Source, texts: Sequence[str], model: Model, left: int) -> Sequence[str]:
        """The first documents that cost at most ``left`` together, where their cost depends on scripts or numbers."""

        def cost(kept: int) -> int:
            return _joined_cost(source, everything(self.template, texts[:kept], 0), model)

        return texts[: bisect_right(range(1, len(texts) + 1), left, key=cost)]

    def _fit(
        self, source: Source, texts: Sequence[str], model: Model, tokens: int, most: int | None, *, complete: bool
    ) -> Grounded | None:
        """``tokens`` and ``most`` are the window's room and the documents' own budget, in tokens of the encoding."""
        known = source.record.grounding
        if known is not None and complete and source.grounding.template == self.template.digest:
            stored = known[model.column]
            if stored <= (tokens if most is None else min(tokens, most)):
                return everything(self.template, texts, stored)
        text = content_text(source.content)
        if most is None:
            wanted = everything(self.template, texts, added_tokens(self.template, text, texts, model.encoding))
        elif whole := take_whole(self.template, text, texts, model.encoding, most):
            wanted = whole
        else:
            return None
        if wanted.tokens <= tokens or self.overflow == "error":
            return wanted
        if self.overflow == "drop":
            return None
        return trim(self.template, text, texts[: wanted.kept], model.encoding, tokens)

    def cost(self, record: Record, grounded: Grounded, model: Model) -> int:
        """The tokens that the documents add to the message's cost, in the model's tokens."""
        return _added_cost(record, grounded.tokens, model, None) if grounded.cost is None else grounded.cost


def keys_of(source: Source) -> list[str]:
    """Return the key of each of a message's documents."""
    return [document_key(identity, text) for identity, text in source.grounding.documents]


def first_places(keys: Sequence[str]) -> list[int]:
    """Return the place of each key's first occurrence, ascending."""
    return sorted({key: place for place, key in reversed(list(enumerate(keys)))}.values())


def _factor(record: Record, texts: Sequence[str], model: Model) -> float | None:
    """The model's tokens for one token of the documents, if their cost depends on scripts, numbers or parts; else None."""
    if (ratios := model.ratios) is None:
        return 1.0 if PROVIDERS[model.format].fills else None
    extra = record.measure.extra
    is_mixed = RATIOS[ratios]["latin"][1] or (extra is not None and bool(extra.mix or extra.parts))
    if is_mixed or any(mix_of(text, *both(text)) is not None for text in texts):
        return max(estimate_factor(text, ratios) for text in texts)
    return None


def _joined_cost(source: Source, grounded: Grounded, model: Model) -> int:
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


def _added_cost(record: Record, tokens: int, model: Model, factor: float | None) -> int:
    if factor is not None:
        return math.ceil(tokens * factor * model.margin)
    plain = record.measure
    larger = Measure(plain.role, plain.o200k + tokens, plain.cl100k + tokens, plain.extra)
    return message_tokens(larger, model) - message_tokens(plain, model)


def _reference(record: Record, room: int, model: Model, factor: float | None) -> int:
    """The largest number of reference tokens that add at most ``room`` of the model's tokens to this message."""
    tokens = int(room / (model.scale if factor is None else model.margin * factor)) + 1
    while tokens > 0 and _added_cost(record, tokens, model, factor) > room:
        tokens -= 1
    return tokens
