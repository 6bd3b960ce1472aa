"""Recall in stored conversations: reads the index and the messages."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec

from sash.core.law.conversation_settings import recall_of
from sash.core.law.recall import Recollection, Searched, bound
from sash.core.law.records import Flags, Record, Records
from sash.core.law.runs import runs
from sash.core.law.window import Window
from sash.core.law.words import said_in
from sash.problems import RecallIsOff, StoreUnavailable
from sash.store.data.indexing import Index
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import HistoryEdited, State
from sash.windows.asked import Asked
from sash.windows.recalling import (
    NOTHING,
    Old,
    Question,
    block_place,
    chosen,
    costs_of,
    found,
    in_block,
    in_places,
    last_left_out,
    shortlist,
)
from sash.windows.tail import GrowingTail
from sash.windows.vocabulary_counts import Counts

T = TypeVar("T")

_ATTEMPTS = 8
_IN_PLACE = 2000
"""Messages that are ranked in a millisecond; more are ranked in a thread."""


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

    async def recollect(self, asked: Asked, read: GrowingTail, draft: Window) -> Recollection:
        """The messages that the draft leaves out and that are recalled into its free tokens. Raises HistoryEdited."""
        query, model, state = asked.query, asked.limits.model, read.state
        room = min(query.recall_max_tokens, asked.limits.budget - draft.tokens["total"])
        mode = asked.recall or self._default
        if mode == "off" or room <= 0:
            return NOTHING
        text = query.recall_query if query.recall_query is not None else await self._question(read)
        old, question = await self._read(read.target, text, mode, last_left_out(draft.seqs, state.length), state)
        list_them = partial(shortlist, old, question, draft, room, model.column, user_first=query.start == "user")
        wanted = await self._in_thread_if_many(old, list_them)
        records = await self._records(asked, read, old, sorted({seq for each in wanted for seq in each.seqs}))
        costs = costs_of(records, model, query)
        taken = chosen(wanted, old, draft, room, costs)
        recalled = {seq: records[seq] for seq in sorted({seq for each in taken for seq in each.seqs})}
        if not query.stable:
            read.add(recalled)
            return in_places(taken, old, costs)
        stretches = [(seq, Records.of([record])) for seq, record in recalled.items()]
        bodies = await self._reader.bodies(read.target, stretches, state=state)
        by_seq = dict(zip(recalled, bodies, strict=True))
        before = block_place(state.question, read.records.roles, state.length)
        template = asked.parts.recall_template
        return await asyncio.to_thread(in_block, taken, old, costs, by_seq, template, model, room, before)

    async def _read(self, target: Target, text: str, mode: str, last_seq: int, state: State) -> tuple[Old, Question]:
        """The indexed messages up to ``last_seq`` to search, and the text as a Question. Raises HistoryEdited."""
        first, by_vectors = bound(state.length), self._embeddings if mode == "semantic" else None
        words = await self._index.numbers(target, text)
        vector = await by_vectors.vector_of(text) if by_vectors and text else b""
        model = by_vectors.model if by_vectors and vector else ""
        found = await self._index.read(target, first, last_seq, state=state, model=model)
        return Old(first, found.records, found.words, found.vectors), Question(words, vector)

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
                old, question = await self._read(target, text, mode, state.length, state)
                places = await self._in_thread_if_many(old, partial(found, old, question, limit))
                return [(old.first_seq + place, score) for place, score in places], old.searched, state
        raise StoreUnavailable("The history is edited faster than it can be read; try again.")

    async def _in_thread_if_many(self, old: Old, ranking: Callable[[], T]) -> T:
        return ranking() if len(old.words) <= _IN_PLACE else await asyncio.to_thread(ranking)

    async def _question(self, read: GrowingTail) -> str:
        """The newest user message's text. Raises HistoryEdited."""
        seq = read.state.question
        if not seq:
            return ""
        await read.read_bodies([seq])
        return said_in(msgspec.json.decode(read.bodies.body(seq)))

    async def _records(self, asked: Asked, read: GrowingTail, old: Old, seqs: Sequence[int]) -> dict[int, Record]:
        """Records of ``seqs``, which are ascending, with the details that the model needs. Raises HistoryEdited."""
        records, first_seq = old.records, old.first_seq
        needed = Flags.RICH | Flags.MIXED if asked.limits.model.ratios is not None else Flags.RICH
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
        vocabulary = asked.limits.model.vocabulary
        return whole if vocabulary is None else await self._counts.each(read, vocabulary, whole)
