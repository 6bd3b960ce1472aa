"""Recall in stored conversations: reads the index and the messages."""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from sash.core.counts.models import Model
from sash.core.law.conversation_settings import ConversationSettings, recall_of
from sash.core.law.recall import Searched, bound
from sash.core.law.records import Flags, Record
from sash.core.law.runs import runs
from sash.problems import RecallIsOff, StoreUnavailable
from sash.processor import PROCESSOR
from sash.store.data.indexing import Index
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import State
from sash.store.data.scripts import HistoryEdited
from sash.windows.needs import Searchable
from sash.windows.recalling import Old, Question, found
from sash.windows.tail import GrowingTail
from sash.windows.vocabulary_counts import Counts

T = TypeVar("T")

_ATTEMPTS = 8
_IN_PLACE = 2000
"""Messages that are ranked in a millisecond."""


class Embeddings(NamedTuple):
    """The embedding model's name, and a function that gives a text's vector, empty if that fails or takes too long."""

    model: str
    vector_of: Callable[[str], Awaitable[bytes]]


class Recaller:
    """Finds older messages of stored conversations. ``default`` is the recall mode of conversations without one."""

    def __init__(
        self,
        reader: Reader,
        index: Index,
        counts: Counts,
        *,
        default: str = "off",
        embeddings: Embeddings | None = None,
    ) -> None:
        self._reader = reader
        self._index = index
        self._counts = counts
        self._default = default
        self._embeddings = embeddings

    def mode(self, settings: ConversationSettings) -> str:
        """A conversation's recall mode."""
        return settings.recall or self._default

    async def read(self, target: Target, text: str, mode: str, last_seq: int, state: State) -> Searchable:
        """The indexed messages up to ``last_seq`` to search, and the text as a Question. Raises HistoryEdited."""
        first, by_vectors = bound(state.length), self._embeddings if mode == "semantic" else None
        words = await self._index.numbers(target, text)
        vector = await by_vectors.vector_of(text) if by_vectors and text else b""
        model = by_vectors.model if by_vectors and vector else ""
        found = await self._index.read(target, first, last_seq, state=state, model=model)
        return Searchable(Old(first, found.records, found.words, found.vectors), Question(words, vector))

    async def search(self, target: Target, text: str, limit: int) -> tuple[list[tuple[int, float]], Searched, State]:
        """The seqs and scores of messages relevant to a text, best first, the searched range, and the state that was read.

        Raises NotFound, RecallIsOff, StoreUnavailable.
        """
        for _ in range(_ATTEMPTS):
            state = await self._reader.get(target)
            mode = recall_of(state.settings) or self._default
            if mode == "off":
                raise RecallIsOff('Recall is off for this conversation: PATCH it with {"recall": "lexical"} first.')
            with contextlib.suppress(HistoryEdited):
                old, question = await self.read(target, text, mode, state.length, state)
                ranking = partial(found, old, question, limit)
                places = await PROCESSOR.run(ranking) if is_long(old) else ranking()
                return [(old.first_seq + place, score) for place, score in places], old.searched, state
        raise StoreUnavailable("The history is edited faster than it can be read; try again.")

    async def whole(self, model: Model, read: GrowingTail, old: Old, seqs: Sequence[int]) -> dict[int, Record]:
        """Records of ``seqs``, which are ascending, with the details that the model needs. Raises HistoryEdited."""
        records, first_seq = old.records, old.first_seq
        needed = Flags.RICH | Flags.LATE | (Flags.MIXED if model.ratios is not None else 0)
        whole: dict[int, Record] = {}
        wanted: list[tuple[int, int]] = []
        for first, last in runs(seqs):
            run = range(first, last + 1)
            # Read a run as a whole: the cost of one of several tool results depends on its neighbours.
            if any(records.flags[seq - first_seq] & needed for seq in run):
                wanted.append((first, last))
            else:
                whole |= {seq: records[seq - first_seq] for seq in run}
        if wanted:
            found = await self._reader.stretches(read.target, wanted, state=read.state)
            for (first, last), stretch in zip(wanted, found, strict=True):
                whole |= zip(range(first, last + 1), stretch, strict=True)
        vocabulary = model.vocabulary
        return whole if vocabulary is None else await self._counts.each(read, vocabulary, whole)


def is_long(old: Old) -> bool:
    """Whether ranking these messages takes more than a millisecond, and so is done in a thread."""
    return len(old.words) > _IN_PLACE
