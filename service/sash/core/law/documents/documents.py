"""Documents: those of a message that a window sends, and the tokens that they add.

* What it is for: documents stand apart from their question, and are sent with it as far as there is room.
* When it can matter: in every window but with ``grounding=none``.
* What wakes it: a message with documents: the newest question, or any with ``grounding=all``.
* What it does: takes documents in their order, most relevant first: whole ones within their own budget
  (``grounding_max_tokens``), then as many as the window has room for. Those with shorter texts are chosen by ``levels.py``.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from sash.core.counts.costs.message_cost import beside_text
from sash.core.counts.models.models import Model
from sash.core.counts.text.unicode_scripts import CAPITALS_APART, SINGLE_DIGITS, most_family_tokens
from sash.core.law.documents.document_costs import Joining, Source
from sash.core.law.documents.grounding import Grounded, Template
from sash.core.law.documents.levels import Leveled, highest, step_at
from sash.core.law.records.reasons import (
    CUT,
    EARLIER,
    EMPTY,
    NO_ROOM,
    OVER_LIMIT,
    SENT_LATER,
    TWICE,
    UNASKED,
    Fate,
    at_level,
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
        *,
        spent: int = 0,
    ) -> Grounded | None:
        """The documents of message ``seq`` that add at most ``room`` of the model's tokens; None if none fits.

        ``record`` is the message's as it is sent without documents. Documents in ``seen`` are left out. ``spent`` are the
        tokens of ``max_tokens`` that other messages' documents took.
        With ``overflow=error`` the documents are not trimmed and may add more than ``room``; the caller must check.
        """
        source = self.sources.get(seq)
        fresh = self._fresh(source.grounding.documents, seen) if source is not None else []
        if source is None or not fresh:
            return None
        given: Leveled = [source.grounding.levels(place) for place in fresh]
        message = Joining(record, source.content, model, self.template, source.grounding)
        left = room
        if self.max_tokens is not None:
            left = max(0, self.max_tokens - spent)
            given = given[: highest(given, left, message.cost, last=len(given))]
        if not given:
            return None
        if self.overflow == "whole" or source.grounding.shorter:
            chosen = self._by_steps(message, given, min(room, left))
        else:
            chosen = self._whole_or_cut(message, [text for text, *_ in given], room)
        if chosen is None:
            return None
        places = tuple(fresh[: chosen.kept])
        sent = tuple(source.grounding.documents[place] for place in places)
        return msgspec.structs.replace(chosen, documents=sent, places=places, allowed=len(given))

    def _whole_or_cut(self, message: Joining, texts: Sequence[str], room: int) -> Grounded | None:
        """All of them if they fit; else what ``overflow`` says: cut to what fits, none, or all the same."""
        if self.overflow == "error" or message.cost(texts) <= room:
            return message.whole(texts, (0,) * len(texts))
        return message.cut(texts, room) if self.overflow == "trim" else None

    def _by_steps(self, message: Joining, given: Leveled, room: int) -> Grounded | None:
        """The same where documents are sent whole, or have shorter levels: the highest step (``levels.py``) that fits.

        Where it lacks some documents, the first of these is cut to what fits. With ``overflow=error`` none is lacking.
        """
        number = highest(given, room, message.cost)
        if number < len(given) and self.overflow in ("drop", "error"):
            number = len(given) if self.overflow == "error" else 0
        step = step_at(given, number)
        if number < len(given) and self.overflow == "trim":
            cut = message.cut([*step.texts, given[number][-1]], room)
            if cut is not None and cut.kept > number:
                return msgspec.structs.replace(cut, levels=(*step.levels, len(given[number]) - 1))
        return message.whole(step.texts, step.levels) if step.texts else None

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
        fresh = self._fresh(stored.documents, later)
        for number, place in enumerate(fresh):
            found[place] = OVER_LIMIT if chosen and number >= chosen.allowed else NO_ROOM
        for place, level in zip(fresh, chosen.levels if chosen else (), strict=False):
            found[place] = at_level(level, len(stored.levels(place)))
        if chosen and chosen.cut:
            found[fresh[chosen.kept - 1]] = CUT
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
