"""Documents: those of a message that a window sends, and the tokens that they add.

* What it is for: documents stand apart from their question, and are sent with it as far as there is room.
* When it can matter: in every window but with ``grounding=none``.
* What wakes it: a message with documents: the newest question, or any with ``grounding=all``.
* What it does: takes documents in their order, most relevant first, within their own budget (``grounding_max_tokens``), then
  as many steps of these (``levels.py``) as the window has room for. Of the first document that has no room, the beginning.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from sash.core.counts.costs.message_cost import beside_text
from sash.core.counts.models.models import Model
from sash.core.counts.text import Encoding, count_text, cut_text
from sash.core.counts.text.unicode_scripts import CAPITALS_APART, SINGLE_DIGITS, most_family_tokens
from sash.core.law.documents.document_costs import Joining, Source
from sash.core.law.documents.grounding import Grounded, Template, sent_texts
from sash.core.law.documents.levels import Leveled, LevelStep, highest, step_at
from sash.core.law.records.reasons import (
    CUT,
    EARLIER,
    EMPTY,
    NO_ROOM,
    OVER_LIMIT,
    SENT,
    SENT_LATER,
    TWICE,
    UNASKED,
    Fate,
)
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredDocument


class Documents(msgspec.Struct, frozen=True):
    """The documents that a window may send, by the seq of their message."""

    sources: Mapping[int, Source]
    template: Template
    max_tokens: int | None = None
    overflow: Literal["trim", "whole", "drop", "error"] = "trim"
    dedupe: bool = True

    def choose(
        self,
        seq: int,
        record: Record,
        model: Model,
        room: int,
        seen: AbstractSet[StoredDocument] = frozenset(),
        spent: int = 0,
    ) -> Grounded | None:
        """The documents of message ``seq`` that add at most ``room`` of the model's tokens, except those ``seen``.

        ``record`` is the message's as it is sent without documents. ``spent`` are the tokens of ``max_tokens`` that other
        messages' documents took. With ``overflow=error`` they may add more than ``room``; the caller must check.
        """
        source = self.sources.get(seq)
        if source is None or not (fresh := self._fresh(source.grounding.documents, seen)):
            return None
        stored = source.grounding
        content = msgspec.json.decode(source.content) if source.content else None
        message = Joining(record, content, model)
        if record.grounding is not None and stored.template == self.template.digest:  # all were counted at the append
            message.known[self.template.around(sent_texts(stored))] = record.grounding

        def cost(texts: Sequence[str]) -> int:
            return message.cost(*self.template.around(texts))

        given = [stored.levels(place) for place in fresh]
        if self.max_tokens is not None:
            own_room = max(0, self.max_tokens - spent)
            given = given[: highest(len(given), own_room, lambda number: cost(step_at(given, number).texts))]
            room = min(room, own_room)
        step = self._fitting(given, room, cost, model.encoding)
        if not step.texts:
            return None
        before, after = self.template.around(step.texts)
        places = tuple(fresh[: len(step.texts)])
        return Grounded(
            before=before,
            after=after,
            tokens=message.added(before, after)[model.column],
            cost=message.cost(before, after),
            cut=step.cut,
            documents=tuple(stored.documents[place] for place in places),
            places=places,
            levels=step.levels,
            allowed=len(given),
        )

    def _fitting(
        self, given: Leveled, room: int, cost: Callable[[Sequence[str]], int], encoding: Encoding
    ) -> LevelStep:
        """The highest step that ``overflow`` allows in this room, with the beginning of the next document for ``trim``."""
        count = len(given)
        first = {"drop": count, "error": count + 1}.get(self.overflow, 1)
        number = highest(sum(map(len, given)), room, lambda number: cost(step_at(given, number).texts), first=first)
        step = step_at(given, 0 if number < count and self.overflow == "drop" else number)
        if number >= count or self.overflow != "trim":
            return step
        shortest = given[number][-1]

        def with_beginning(tokens: int) -> list[str]:
            return [*step.texts, cut_text(shortest, encoding, tokens)]

        most = highest(count_text(shortest, encoding), room, lambda tokens: cost(with_beginning(tokens)))
        sent = with_beginning(most)
        return LevelStep(sent, (*step.levels, len(given[number]) - 1), cut=True) if sent[-1] else step

    def fates(self, seq: int, sent: Mapping[int, Grounded], mode: str, *, is_asked: bool) -> list[Fate]:
        """What became of each document of message ``seq`` in a window that ``sent`` these.

        ``mode`` is the window's ``grounding``, and ``is_asked`` tells whether the message is the newest question.
        """
        stored, chosen = self.sources[seq].grounding, sent.get(seq)
        if mode != "all" and not (mode == "latest" and is_asked):
            return [EARLIER if mode == "latest" else UNASKED] * len(stored.documents)
        found = [TWICE if text.strip() else EMPTY for _, text in stored.documents]
        for place in self._fresh(stored.documents):
            found[place] = SENT_LATER
        later = {document for at, each in sent.items() if at > seq for document in each.documents}
        for number, place in enumerate(self._fresh(stored.documents, later)):
            found[place] = OVER_LIMIT if chosen and number >= chosen.allowed else NO_ROOM
        if chosen:
            for place, level in zip(chosen.places, chosen.levels, strict=True):
                shown = f"level {level + 1} of {len(stored.levels(place))} fits"
                found[place] = Fate("sent", shown) if level else SENT
            if chosen.cut:
                found[chosen.places[-1]] = CUT
        return found

    def _fresh(self, documents: Sequence[StoredDocument], sent: AbstractSet[StoredDocument] = frozenset()) -> list[int]:
        """The places of documents that may be sent: those with a text, each once, without those already ``sent``."""
        written = [(place, document) for place, document in enumerate(documents) if document[1].strip()]
        if not self.dedupe:
            return [place for place, _ in written]
        first = {document: place for place, document in reversed(written)}
        return sorted(place for document, place in first.items() if document not in sent)

    def most_tokens(self, record: Record, model: Model) -> int:
        """The most tokens that a message's documents add, in the model's tokens, whatever their scripts."""
        if record.grounding is None:
            return 0
        counted, extra = record.grounding[model.column], record.measure.extra
        if model.ratios is not None:
            counted = beside_text(*record.grounding, extra.mix if extra else None, model.ratios)
            counted = max(counted, most_family_tokens(*record.grounding, model.ratios))
            counted += record.digits if model.ratios in SINGLE_DIGITS | CAPITALS_APART else 0
        tokens = math.ceil(counted * model.margin)
        return tokens if self.max_tokens is None else min(tokens, self.max_tokens)
