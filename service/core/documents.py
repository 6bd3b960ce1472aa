"""Documents: which of a message's documents are sent, and what they add.

Taken in their order, most relevant first: whole ones within a budget of their own (``grounding_max_tokens``), then as far
as the window has room.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from service.core.counting import Measure, message_tokens
from service.core.grounding import Grounded, Template, added_tokens, content_text, everything, take_whole, trim
from service.core.models import Model
from service.core.records import Record, StoredGrounding
from service.problems import WindowDoesNotFit


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

    def choose(self, seq: int, model: Model, room: int, seen: set[str]) -> Grounded | None:
        """The documents of message ``seq`` that add at most ``room`` of the model's tokens; None when none does.

        A document in ``seen`` is left out; what is sent is put there. Raises WindowDoesNotFit with ``overflow=error``
        when the room is too small for them.
        """
        source = self.sources.get(seq)
        if source is None:
            return None
        keys = [key if key is not None else f"\0{text}" for key, text in source.grounding.documents]
        fresh = _fresh(keys, seen) if self.dedupe else list(range(len(keys)))
        texts = [source.grounding.documents[index][1] for index in fresh]
        if not texts:
            return None
        chosen = self._fit(source, texts, model, room, complete=len(texts) == len(keys))
        if chosen is not None:
            seen.update(keys[index] for index in fresh[: chosen.kept])
        return chosen

    def _fit(self, source: Source, texts: Sequence[str], model: Model, room: int, *, complete: bool) -> Grounded | None:
        column = 0 if model.encoding == "o200k_base" else 1
        tokens = int(room / model.margin)
        most = tokens if self.max_tokens is None else min(tokens, int(self.max_tokens / model.margin))
        known = complete and source.grounding.template == self.template.digest and source.record.grounding is not None
        if known and source.record.grounding is not None and source.record.grounding[column] <= most:
            return everything(self.template, texts, source.record.grounding[column])
        text = content_text(source.content)
        chosen = None
        if self.max_tokens is None:
            added = added_tokens(self.template, text, texts, model.encoding)
            if added <= tokens:
                return everything(self.template, texts, added)
        else:
            chosen = take_whole(self.template, text, texts, model.encoding, int(self.max_tokens / model.margin))
            if chosen is None or chosen.tokens <= tokens:
                return chosen
            texts = texts[: chosen.kept]
        match self.overflow:
            case "trim":
                return trim(self.template, text, texts, model.encoding, tokens)
            case "drop":
                return None
            case "error":
                needed = int((chosen.tokens if chosen else added) * model.margin) + 1
                raise WindowDoesNotFit(
                    f"The newest question's documents need about {needed} tokens, and {room} are free.",
                    members={"grounding": needed, "room": room, "shortfall": max(1, needed - room)},
                )

    def cost(self, record: Record, grounded: Grounded, model: Model) -> int:
        """What the documents add to the message's cost, in the model's tokens."""
        plain = record.measure
        larger = Measure(plain.role, plain.o200k + grounded.tokens, plain.cl100k + grounded.tokens, plain.extra)
        return message_tokens(larger, model) - message_tokens(plain, model)


def _fresh(keys: Sequence[str], seen: set[str]) -> list[int]:
    found: set[str] = set()
    fresh = []
    for index, key in enumerate(keys):
        if key not in seen and key not in found:
            found.add(key)
            fresh.append(index)
    return fresh
