"""Windows of stored conversations."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Unpack

import msgspec

from sash.core.counts.families import TOOL
from sash.core.counts.models import Model
from sash.core.law.caching import settled
from sash.core.law.conversation_settings import ConversationSettings, decode_settings
from sash.core.law.hints import cache_key
from sash.core.law.parameters import WindowQuery
from sash.core.law.records import StoredGrounding
from sash.core.law.window import NeedOlder, Window
from sash.problems import Internal, Problem, StoreUnavailable, WindowDoesNotFit
from sash.store.data.conversations import Conversations, Writing
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import HistoryEdited, State, Tail
from sash.store.data.scripts import AppendReply, Known, Reach
from sash.store.data.stored_messages import NewEntry
from sash.store.data.usage import Calibrations
from sash.windows.answer import Made, make_if_read
from sash.windows.asked import Asked, Limits, limits_of
from sash.windows.recaller import Recaller
from sash.windows.recalling import NOTHING
from sash.windows.tail import GrowingTail
from sash.windows.vocabulary_counts import Counts

_ATTEMPTS = 8


class Plan(NamedTuple):
    """What follows from a window's query alone."""

    reach: Reach
    """What the first read asks for."""
    follows: bool
    """Whether the window depends on the conversation alone, and not on reported bills (estimated models) or on an index."""


class Windows:
    """Makes windows of stored conversations. ``models`` are the deployment's own models, by name."""

    def __init__(
        self,
        conversations: Conversations,
        calibrations: Calibrations,
        counts: Counts,
        models: Mapping[str, Model],
        recaller: Recaller,
    ) -> None:
        self._conversations = conversations
        self._recaller = recaller
        self._reader: Reader = conversations.reader
        self._calibrations = calibrations
        self._counts = counts
        self.models = models
        self.plan = lru_cache(maxsize=1024)(self._plan)
        """The plan of a query; cached, as every turn has the same query. Raises UnknownModel, Unprocessable."""

    def _plan(self, query: WindowQuery) -> Plan:
        if query.model is None:  # then it depends on the conversation's settings
            return Plan(Reach(query.max_tokens or 0, limit=query.limit or 0), follows=False)
        limits = limits_of(query, ConversationSettings(reserve=0), self.models)
        return Plan(reach_of(query, limits), follows=limits.model.exact and not query.recall_max_tokens)

    async def read(self, target: Target, query: WindowQuery, known: Sequence[str] = ()) -> tuple[Made, State] | Known:
        """The window and the conversation's state; or Known if the state has one of the ETags ``known``; ``*`` is any.

        Raises NotFound, ConversationDamaged, UnknownModel, WindowDoesNotFit, FormatCannotCarry, Unprocessable.
        """
        plan = self.plan(query)
        tail = await self._reader.window(target, plan.reach, known if plan.follows else ())
        if isinstance(tail, Known):
            return tail
        state = tail.state
        if not known or (state.etag not in known and "*" not in known) or not self._follows(query, state):
            return await self.of_tail(target, query, tail)
        return Known(state.etag)

    def _follows(self, query: WindowQuery, state: State) -> bool:
        """Whether the window depends on the conversation alone. Its settings name the model if the query does not."""
        model = query.model or decode_settings(state.settings)[0].model
        return model is not None and self.plan(msgspec.structs.replace(query, model=model)).follows

    async def append(
        self,
        target: Target,
        query: WindowQuery,
        entries: Sequence[NewEntry],
        **writing: Unpack[Writing],
    ) -> tuple[AppendReply, Tail | Problem]:
        """Append, and read the tail for a window, in one round trip. If the tail cannot be read, its Problem is returned."""
        reach = self.plan(query).reach
        return await self._conversations.append_and_read(target, entries, reach, **writing)

    async def of_tail(self, target: Target, query: WindowQuery, tail: Tail) -> tuple[Made, State]:
        """The window of a tail. If the history was edited meanwhile, the tail is read again."""
        for _ in range(_ATTEMPTS):
            settings, parts = decode_settings(tail.state.settings)
            limits = limits_of(query, settings, self.models)
            if not limits.model.exact:
                models = await self._calibrations.correct(target.tenant, self.models, limits.model.id)
                limits = limits_of(query, settings, models)
            wanted = settled(query, limits.model, limits.budget) if query.stable == "auto" else query
            key = cache_key(target.name, tail.state.life) if query.cache == "auto" else ""
            asked = Asked(wanted, limits, parts, target.id, tail.state.version, settings.recall, cache_key=key)
            try:
                return await self._make(target, asked, tail), tail.state
            except HistoryEdited:
                tail = await self._read_again(target, asked)
        raise StoreUnavailable("The history is edited faster than it can be read; try again.")

    async def _read_again(self, target: Target, asked: Asked) -> Tail:
        tail = await self._reader.window(target, reach_of(asked.query, asked.limits))
        if isinstance(tail, Known):
            raise Internal("The store answered 'unchanged', which was not asked.")
        return tail

    async def _make(self, target: Target, asked: Asked, tail: Tail) -> Made:
        """Make the window of one state. Raises HistoryEdited, WindowDoesNotFit, FormatCannotCarry."""
        read = GrowingTail(self._reader, target, tail)
        if asked.query.recall_max_tokens:
            asked = await self._recall(asked, read)
        try:
            made = await self._decided(asked, read)
        except WindowDoesNotFit:
            if asked.recollection is None or not asked.recollection.lines:
                raise
            # A recalled message may bring words with it, such as a turn of the user before the assistant.
            asked = msgspec.structs.replace(asked, recollection=NOTHING)
            made = await self._decided(asked, GrowingTail(self._reader, target, tail))
        assert isinstance(made, Made)  # noqa: S101 - drafts alone give a Window
        return made

    async def _recall(self, asked: Asked, read: GrowingTail) -> Asked:
        """The request with the messages to recall. Raises HistoryEdited, WindowDoesNotFit."""
        replace, aside = msgspec.structs.replace, asked.query.recall_max_tokens
        draft = await self._drafted(asked, read)
        if draft.dropped["messages"] == 0:
            return replace(asked, recollection=NOTHING)
        draft = await self._drafted(replace(asked, aside=aside), read)
        recollection = await self._recaller.recollect(asked, read, draft)
        return replace(asked, recollection=recollection, aside=aside if asked.query.stable else 0)

    async def _drafted(self, asked: Asked, read: GrowingTail) -> Window:
        """The choice of messages, without reading their bodies. Raises HistoryEdited, WindowDoesNotFit."""
        draft = await self._decided(msgspec.structs.replace(asked, draft=True), read)
        assert isinstance(draft, Window)  # noqa: S101 - a draft never gives Made
        return draft

    async def _decided(self, asked: Asked, read: GrowingTail) -> Made | Window:
        """The window; for a draft, the choice of messages. Raises HistoryEdited, WindowDoesNotFit, FormatCannotCarry."""
        chosen: Window | None = None
        while True:
            if chosen is None:
                grounding = await self._counted(asked, read)
                history = read.history(asked.limits.model.column)
            # A summary and results that are cut are counted in the model's own vocabulary.
            may_count = TOOL in read.records.roles or history.summary is not None
            may_count = may_count and asked.limits.model.vocabulary is not None
            if read.is_short and not grounding and not may_count:
                found = make_if_read(asked, history, read.bodies, grounding, chosen)
            else:
                found = await asyncio.to_thread(make_if_read, asked, history, read.bodies, grounding, chosen)
            match found:
                case Made():
                    return found
                case NeedOlder(first_seq=first_seq):
                    await read.read_older(first_seq)
                    chosen = None
                case Window() if asked.draft:
                    return found
                case Window(seqs=seqs) as chosen:
                    await read.read_bodies(seqs)

    async def _counted(self, asked: Asked, read: GrowingTail) -> Mapping[int, StoredGrounding]:
        """Count all messages read, for the model. Returns the documents that the window may send. Raises HistoryEdited."""
        vocabulary = asked.limits.model.vocabulary
        if vocabulary is not None and len(read.said) < len(read.records):
            read.said = await self._counts.of(read, vocabulary)
        if vocabulary is not None and (uncounted := read.uncounted()):
            read.count(await self._counts.each(read, vocabulary, uncounted))
        grounding = await read.grounding(asked.query.grounding) if read.state.grounding_messages else {}
        if grounding:
            await read.read_bodies(sorted(grounding))
        return grounding


def reach_of(query: WindowQuery, limits: Limits) -> Reach:
    """The tail that the query's window likely needs."""
    model = limits.model
    return Reach(limits.budget, model.column, query.limit or 0, scripts=model.ratios is not None)
