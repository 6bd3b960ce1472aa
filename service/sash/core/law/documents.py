"""Chooses the documents of a message that a window sends, and counts the tokens that they add.

Documents are taken in their order, most relevant first: whole ones within their own budget (``grounding_max_tokens``),
then as many as the window has room for. Documents with shorter texts are chosen by ``levels.py``.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from sash.core.counts.models import Model
from sash.core.counts.prices import beside_text
from sash.core.counts.unicode_scripts import SINGLE_DIGITS
from sash.core.law.document_costs import Source, added_cost, factor_of, joined_cost, reference_room
from sash.core.law.grounding import (
    Grounded,
    Template,
    added_tokens,
    content_text,
    document_key,
    everything,
    take_whole,
    trim,
)
from sash.core.law.levels import Leveled, highest, last_step, step_at
from sash.core.law.reasons import CUT, EARLIER, NO_ROOM, OVER_LIMIT, SENT, SENT_LATER, TWICE, UNASKED, Fate, at_level
from sash.core.law.records import Record


class Documents(msgspec.Struct, frozen=True):
    """The documents that a window may send, by the seq of their message."""

    sources: Mapping[int, Source]
    template: Template
    max_tokens: int | None = None
    overflow: Literal["trim", "whole", "drop", "error"] = "trim"
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
        if self.overflow == "whole" or source.grounding.shorter:
            return self._by_steps(source, fresh, model, room, spent)
        factor = factor_of(source.record, texts, model)
        left = None if self.max_tokens is None else max(0, self.max_tokens - spent)
        if left is not None and factor is not None:
            texts, left = self._within(source, texts, model, left), None
        if not texts:
            return None
        most = None if left is None else reference_room(source.record, left, model, factor)
        tokens = reference_room(source.record, room, model, factor)
        complete = len(texts) == len(keys)
        chosen = self._fit(source, texts, model, tokens, most, complete=complete)
        cost = joined_cost(source, chosen, model) if chosen is not None and factor is not None else None
        while chosen is not None and cost is not None and cost > room and self.overflow == "trim":
            most_tokens = min(tokens, chosen.tokens)
            tokens = min(most_tokens - 1, most_tokens * room // cost)
            chosen = self._fit(source, texts, model, tokens, most, complete=complete)
            cost = joined_cost(source, chosen, model) if chosen is not None else None
        if chosen is None or (cost is not None and cost > room and self.overflow == "drop"):
            return None
        return _priced(chosen, source, [keys[index] for index in fresh], model, factor, cost)

    def _by_steps(self, source: Source, fresh: Sequence[int], model: Model, room: int, spent: int) -> Grounded | None:
        """The same where documents are sent whole, or have shorter levels (``levels.py``)."""
        given: Leveled = [source.grounding.levels(index) for index in fresh]
        factor = factor_of(source.record, [text for texts in given for text in texts], model)

        def cost(texts: Sequence[str]) -> int:
            if factor is not None:
                return joined_cost(source, everything(self.template, texts, 0), model)
            return added_cost(source.record, self._tokens(source, texts, model), model, None)

        if self.max_tokens is not None:
            left = max(0, self.max_tokens - spent)
            given, room = given[: highest(given, left, cost, last=len(given))], min(room, left)
        chosen = self._at_step(source, given, self._step(given, room, cost), model, room, factor) if given else None
        if chosen is None:
            return None
        chosen = msgspec.structs.replace(chosen, allowed=len(given))
        joined = None if factor is None else joined_cost(source, chosen, model)
        return _priced(chosen, source, [keys_of(source)[index] for index in fresh], model, factor, joined)

    def _step(self, given: Leveled, room: int, cost: Callable[[Sequence[str]], int]) -> int:
        """The number of the step that is sent; with ``overflow=error`` it may cost more than ``room``."""
        last = last_step(given)
        number = last if cost(step_at(given, last).texts) <= room else highest(given, room, cost, last=last - 1)
        if number < len(given) and self.overflow in ("drop", "error"):
            return len(given) if self.overflow == "error" else 0
        return number

    def _at_step(
        self, source: Source, given: Leveled, number: int, model: Model, room: int, factor: float | None
    ) -> Grounded | None:
        """The documents of a step; where it lacks some, the first of these is cut to what fits."""
        step = step_at(given, number)
        if number < len(given) and self.overflow == "trim":
            cut = self._cut(source, [*step.texts, given[number][-1]], model, room, factor)
            if cut is not None and cut.kept > number:
                levels = (*step.levels, len(given[number]) - 1)
                return msgspec.structs.replace(cut, levels=levels if any(levels) else ())
        if not step.texts:
            return None
        return everything(self.template, step.texts, self._tokens(source, step.texts, model), step.levels)

    def _tokens(self, source: Source, texts: Sequence[str], model: Model) -> int:
        """The tokens of the encoding that these texts add. Those of all whole documents were counted at the append."""
        known, stored = source.record.grounding, source.grounding
        if (
            known is not None
            and stored.template == self.template.digest
            and [*texts] == [d for _, d in stored.documents]
        ):
            return known[model.column]
        return added_tokens(self.template, content_text(source.content), texts, model.encoding)

    def _cut(
        self, source: Source, texts: Sequence[str], model: Model, room: int, factor: float | None
    ) -> Grounded | None:
        """The documents, the last of them cut so that they add at most ``room`` of the model's tokens."""
        content, tokens = content_text(source.content), reference_room(source.record, room, model, factor)
        chosen = trim(self.template, content, texts, model.encoding, tokens)
        while chosen is not None and factor is not None and (cost := joined_cost(source, chosen, model)) > room:
            most = min(tokens, chosen.tokens)
            tokens = min(most - 1, most * room // cost)
            chosen = trim(self.template, content, texts, model.encoding, tokens)
        return chosen

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
                level = chosen.levels[number] if chosen.levels else 0
                found[place] = at_level(level, len(self.sources[seq].grounding.levels(place))) if level else SENT
                if chosen.cut and number == chosen.kept - 1:
                    found[place] = CUT
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
            return joined_cost(source, everything(self.template, texts[:kept], 0), model)

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
        return added_cost(record, grounded.tokens, model, None) if grounded.cost is None else grounded.cost


def _priced(
    chosen: Grounded, source: Source, keys: Sequence[str], model: Model, factor: float | None, cost: int | None
) -> Grounded:
    """The chosen documents with the keys of those that are sent, what they cost, and the room that they need."""
    needed = added_cost(source.record, chosen.tokens, model, factor)
    sent = tuple(keys[: chosen.kept])
    return msgspec.structs.replace(chosen, keys=sent, cost=cost, room=max(needed, cost or 0))


def keys_of(source: Source) -> list[str]:
    """Return the key of each of a message's documents."""
    return [document_key(identity, text) for identity, text in source.grounding.documents]


def first_places(keys: Sequence[str]) -> list[int]:
    """Return the place of each key's first occurrence, ascending."""
    return sorted({key: place for place, key in reversed(list(enumerate(keys)))}.values())
