"""A chat in a request as a history: measured from its newest message on, as far as a window needs it.

::

    entries ── texts ── counted at once, in one encoding ── the history's tokens, because the answer has those left out
        └──── from first_seq on, and system messages before it ── measured and encoded ── SeenHistory

A chat is a history of texts alone. One with calls, documents or other parts is measured whole (``stateless.py``).
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import repeat
from operator import itemgetter, mul
from typing import Any

import msgspec

from sash.core.chat.messages import Entry, is_text_alone
from sash.core.counts.costs.counting import REFERENCE_MODELS
from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.measures.measures import Measure, measure
from sash.core.counts.models.families import DEVELOPER, ROLE_INDEX, SYSTEM, USER
from sash.core.counts.models.models import Model
from sash.core.counts.text import ENCODINGS, count_texts
from sash.core.law.history.view import History
from sash.core.law.records.records import Records, plain_records
from sash.core.law.render import Bodies
from sash.core.measured_entries import content_digest
from sash.core.stored.record import Record
from sash.windows.needs import SeenHistory
from sash.windows.request import Text

_role_of, _content_of = itemgetter("role"), itemgetter("content")
_encode = msgspec.json.Encoder().encode
_LEADING = (SYSTEM, DEVELOPER)


def texts_of(entries: Sequence[Entry]) -> list[Text] | None:
    """The entries' messages, if these are texts alone, each once, and no window must have a certain one; else None."""
    texts: list[Any] = []
    ids: list[str] = []
    for entry in entries:
        message = entry.message
        if (
            not is_text_alone(message)
            or entry.pinned
            or not entry.sent
            or entry.grounding
            or entry.status
            or entry.image_sizes
            or entry.author
            or entry.audience
        ):
            return None
        texts.append(message)
        if entry.id is not None:
            ids.append(entry.id)
    return texts if len(set(ids)) == len(ids) else None


class SentChat:
    """A request's chat, for one model. ``digests`` tells whether the window looks for repeated messages."""

    def __init__(self, messages: Sequence[Text], model: Model, *, digests: bool) -> None:
        self._messages = messages
        self._model = model
        self._digests = digests
        self._roles = bytes(map(ROLE_INDEX.__getitem__, map(_role_of, messages)))
        self._counts = count_texts(list(map(_content_of, messages)), ENCODINGS[model.column])
        self._made: dict[int, tuple[Record, bytes]] = {}

    @cached_property
    def _leading(self) -> list[int]:
        """The seqs of system and developer messages."""
        if not any(role in self._roles for role in _LEADING):  # as nearly always
            return []
        return [seq for seq, role in enumerate(self._roles, 1) if role in _LEADING]

    @cached_property
    def _costs(self) -> dict[int, int]:
        """The tokens of each leading message in the history's total, by seq."""
        return {seq: self._measured(seq)[0].reference_tokens[self._model.column] for seq in self._leading}

    @cached_property
    def _around(self) -> Sequence[int]:
        """The tokens that a message of each role costs beside its text."""
        return REFERENCE_MODELS[self._model.column].rules.role_costs

    def _tokens(self) -> int:
        """The history's total."""
        around, counts, roles = self._around, self._counts, self._roles
        total: int = sum(counts) + sum(map(mul, around, map(roles.count, range(len(around)))))
        return total + sum(cost - counts[seq - 1] - around[roles[seq - 1]] for seq, cost in self._costs.items())

    def filling(self, budget: int, limit: int | None) -> int:
        """The seq from which on the messages are more than a window of ``budget`` tokens, and of ``limit`` messages, has."""
        first, tokens = len(self._roles), 0
        least = max(1, first - limit) if limit else 1
        while first > least and tokens <= budget:
            cost = self._costs.get(first)
            first -= 1
            tokens += cost if cost is not None else self._around[self._roles[first]] + self._counts[first]
        return max(1, first)

    def seen(self, first_seq: int) -> SeenHistory:
        """The history from ``first_seq`` on."""
        length, column, question = len(self._roles), self._model.column, self._roles.rfind(USER) + 1
        records, tail = self._tail(first_seq)
        seqs: Sequence[int] = range(first_seq, length + 1)
        required = {seq: self._measured(seq) for seq in sorted({*self._leading, question}) if 0 < seq < first_seq}
        if required:
            front = Records.lone([record for record, _ in required.values()])
            records, seqs = front.before(records, front=len(front)), [*required, *seqs]
        history = History(
            first_seq=first_seq,
            records=records,
            length=length,
            column=column,
            tokens=self._tokens(),
            grounding_messages=0,
            grounding_tokens=0,
            seqs=seqs,
            asked=seqs.index(question) if question else -1,
        )
        bodies = Bodies(first_seq, tail, {seq: body for seq, (_, body) in required.items()})
        return SeenHistory(history, bodies, {})

    def _tail(self, first_seq: int) -> tuple[Records, list[bytes]]:
        """The records of the messages from ``first_seq`` on, and their bodies."""
        has_leading = bool(self._leading) and self._leading[-1] >= first_seq
        if has_leading or not self._model.counts_o200k_alone or self._model.vocabulary is not None:
            measured = [self._measured(seq) for seq in range(first_seq, len(self._roles) + 1)]
            return Records.lone([record for record, _ in measured]), [body for _, body in measured]
        given, place = self._messages[first_seq - 1 :], first_seq - 1
        bodies = list(map(_encode, given))
        digests = [content_digest(each, "") for each in given] if self._digests else repeat(b"")
        return plain_records(self._roles[place:], self._counts[place:], map(len, bodies), digests), bodies

    def _measured(self, seq: int) -> tuple[Record, bytes]:
        """A message's record and its body."""
        if seq not in self._made:
            message, role = self._messages[seq - 1], self._roles[seq - 1]
            alone, vocabulary = self._model.counts_o200k_alone, self._model.vocabulary
            measured = (
                Measure(role, self._counts[seq - 1], 0)
                if alone and role > DEVELOPER
                else measure(message, o200k_alone=alone)
            )
            body = _encode(message)
            digest = content_digest(message, "") if self._digests else b""
            own_tokens = None if vocabulary is None else spoken_tokens(message, vocabulary)
            self._made[seq] = Record(0, measured, len(body), 0, digest, own_tokens=own_tokens), body
        return self._made[seq]
