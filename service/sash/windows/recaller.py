"""Recall in stored conversations: reads the index and the messages."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, few_settings
from sash.core.law.recall import BOUND, Searched, bound
from sash.core.stored.record import Flags, Record
from sash.core.stored.runs import runs
from sash.problems import NotFound, RecallIsOff, edited_too_fast
from sash.processor import PROCESSOR
from sash.store.data.indexing import Index
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import Page, State
from sash.store.data.script_calls import HistoryEdited
from sash.windows.needs import Searchable
from sash.windows.recalling import Old, Question, found, joined
from sash.windows.tail import GrowingTail
from sash.windows.vocabulary_counts import Counts

T = TypeVar("T")

_ATTEMPTS = 8
_AT_ONCE = 16
WIDER = 4
"""Times as many messages that are found for a view, as it may not see them all."""
MOST_CONVERSATIONS = 200
"""The most conversations of an owner that one search looks at: those with the newest activity."""
_IN_PLACE = 2000
"""Messages that are ranked in a millisecond."""


class Embeddings(NamedTuple):
    """The embedding model's name, and a function that gives a text's vector, empty if that fails or takes too long."""

    model: str
    vector_of: Callable[[str, Target | None], Awaitable[bytes]]


Standing = tuple[Target, State]
"""A conversation and its state."""


class Hit(NamedTuple):
    """A message that is relevant to a text, with its conversation."""

    target: Target
    state: State
    seq: int
    score: float


def _nobody(_target: Target, _settings: bytes) -> None:
    """Nobody writes indexes."""


class Recaller:
    """Finds older messages of stored conversations. ``default`` is the recall mode of conversations without one.

    ``notice`` is called with a conversation whose index lacks messages, and with its settings. ``searched`` is called after
    a search, with the conversation, None for several, and its seconds.
    """

    def __init__(
        self,
        reader: Reader,
        index: Index,
        counts: Counts,
        *,
        default: str = "off",
        embeddings: Embeddings | None = None,
        notice: Callable[[Target, bytes], None] = _nobody,
        searched: Callable[[Target | None, float], None] = lambda _target, _seconds: None,
    ) -> None:
        self._reader = reader
        self._index = index
        self._counts = counts
        self._default = default
        self._embeddings = embeddings
        self._notice = notice
        self._searched = searched

    def mode(self, settings: ConversationSettings) -> str:
        """A conversation's recall mode."""
        return settings.recall or self._default

    async def read(
        self,
        target: Target,
        text: str,
        mode: str,
        last_seq: int,
        state: State,
        *,
        vector: bytes | None = None,
        ahead: Sequence[Any] = (),
    ) -> Searchable:
        """The indexed messages up to ``last_seq`` to search, and the text as a Question. Raises HistoryEdited.

        ``vector`` is the text's, if it is known already. ``ahead`` is as in ``Index.read``.
        """
        began, is_part = time.monotonic(), vector is not None
        first, by_vectors = bound(state.length), self._embeddings if mode == "semantic" else None
        words = await self._index.numbers(target, text)
        if vector is None or not by_vectors:
            vector = await by_vectors.vector_of(text, target) if by_vectors and text else b""
        model = by_vectors.model if by_vectors and vector else ""
        found = await self._index.read(target, first, last_seq, state=state, model=model, ahead=ahead)
        if found.lacks or (by_vectors and not model):  # without the question's vector, nothing is known of the others
            self._notice(target, state.settings)
        if not is_part:
            self._searched(target, time.monotonic() - began)
        return Searchable(Old(first, found.records, found.words, found.vectors), Question(words, vector))

    async def search(self, target: Target, text: str, limit: int) -> tuple[list[Hit], Searched]:
        """The messages of a conversation that are relevant to a text, best first, and the searched range.

        Raises NotFound, RecallIsOff, StoreUnavailable.
        """
        for _ in range(_ATTEMPTS):
            state = await self._reader.get(target)
            mode = few_settings(state.settings).recall or self._default
            require_recall(mode)
            with contextlib.suppress(HistoryEdited):
                old, question = await self.read(target, text, mode, state.length, state)
                places = await _found(old, question, limit)
                return [Hit(target, state, old.first_seq + place, score) for place, score in places], old.searched
        raise edited_too_fast()

    async def search_each(self, wanted: Sequence[Standing], text: str, limit: int) -> tuple[list[Hit], int, int]:
        """The messages of several conversations that are relevant to a text, best first; and the numbers of conversations
        and of messages that were searched.

        Conversations without recall are left out, and so are those after ``BOUND`` messages. Raises RecallIsOff if all are.
        """
        began = time.monotonic()
        modes = [few_settings(state.settings).recall or self._default for _, state in wanted]
        on = [(each, mode) for each, mode in zip(wanted, modes, strict=True) if mode != "off"]
        if wanted and not on:
            raise RecallIsOff('Recall is off in these conversations: PATCH them with {"recall": "lexical"} first.')
        needs_vector = self._embeddings is not None and any(mode == "semantic" for _, mode in on)
        vector = await self._embeddings.vector_of(text, None) if self._embeddings and needs_vector else b""
        parts: list[tuple[Standing, Searchable]] = []
        count = 0
        for start in range(0, len(on), _AT_ONCE):
            batch = on[start : start + _AT_ONCE]
            read = [self._read_one(target, state, text, mode, vector) for (target, state), mode in batch]
            for each, found_there in zip(batch, await asyncio.gather(*read), strict=True):
                if found_there is not None and count < BOUND:
                    parts.append((each[0], found_there))
                    count += len(found_there.old.words)
        together, question, places = joined([each for _, each in parts])
        hits = []
        for at, score in await _found(together, question, limit):
            if (place := places(at)) is not None:
                hits.append(Hit(*parts[place[0]][0], place[1], score))
        self._searched(None, time.monotonic() - began)
        return hits, len(parts), count

    async def pages(self, hits: Sequence[Hit]) -> list[tuple[Hit, Page]]:
        """Each hit with its message as a page, all read at once, without those that were erased or redacted since."""
        reading = (self._reader.page(hit.target, hit.seq, hit.seq) for hit in hits)
        read: list[tuple[Hit, Page]] = []
        for hit, page in zip(hits, await asyncio.gather(*reading, return_exceptions=True), strict=True):
            if isinstance(page, NotFound):
                continue
            if isinstance(page, BaseException):
                raise page
            if page.made == hit.state.made and page.messages:
                read.append((hit, page))
        return read

    async def _read_one(self, target: Target, state: State, text: str, mode: str, vector: bytes) -> Searchable | None:
        """What is known of one conversation; None if it was edited or erased since ``state``."""
        with contextlib.suppress(HistoryEdited, NotFound):
            return await self.read(target, text, mode, state.length, state, vector=vector)
        return None

    async def whole(
        self, model: Model, read: GrowingTail, old: Old, seqs: Sequence[int], *, names: bool = False
    ) -> dict[int, Record]:
        """Records of ``seqs``, which are ascending, with the details that the model needs. Raises HistoryEdited.

        With ``names`` they have their authors and audiences.
        """
        records, first_seq = old.records, old.first_seq
        # A sealed body opens with the whole row, of which the details tell whether the message has an author.
        has_mixed = names or model.ratios is not None or read.tail.state.sealed
        needed = Flags.RICH | Flags.LATE | (Flags.MIXED if has_mixed else 0)
        rich = {seq for seq in seqs if records.flags[seq - first_seq] & needed}
        # Read a run as a whole: the cost of one of several tool results depends on its neighbours.
        wanted = [run for run in runs(seqs) if not rich.isdisjoint(range(run[0], run[1] + 1))] if rich else []
        apart = {seq for first, last in wanted for seq in range(first, last + 1)}
        whole = {seq: records[seq - first_seq] for seq in seqs if seq not in apart}
        if wanted:
            found = await self._reader.stretches(read.target, wanted, state=read.tail.state)
            for (first, last), stretch in zip(wanted, found, strict=True):
                whole |= zip(range(first, last + 1), stretch, strict=True)
        vocabulary = model.vocabulary
        return whole if vocabulary is None else await self._counts.each(read, vocabulary, whole)


async def _found(old: Old, question: Question, limit: int) -> list[tuple[int, float]]:
    return await PROCESSOR.run(found, old, question, limit) if is_long(old) else found(old, question, limit)


def require_recall(mode: str) -> None:
    """Raise RecallIsOff for a conversation whose messages are not indexed."""
    if mode == "off":
        raise RecallIsOff('Recall is off for this conversation: PATCH it with {"recall": "lexical"} first.')


def is_long(old: Old) -> bool:
    """Whether ranking these messages takes more than a millisecond, and so is done in a thread."""
    return len(old.words) > _IN_PLACE
