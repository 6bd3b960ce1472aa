"""Windows of stored conversations."""

from collections.abc import Mapping, Sequence

from service.core.costs import column_of
from service.core.documents import Documents, Source
from service.core.models import Model, find_model
from service.core.parameters import WindowQuery
from service.core.records import StoredGrounding
from service.core.render import Bodies
from service.core.settings import FixedParts, decode_settings
from service.core.view import History
from service.core.window import NeedOlder, Window, build_window
from service.problems import Internal, Problem, StoreUnavailable, UnknownModel, WindowDoesNotFit
from service.store.conversations import Conversations
from service.store.messages import NewEntry
from service.store.reading import Reader
from service.store.replies import HistoryEdited, State, Tail
from service.store.scripts import AppendReply, Known
from service.store.usage import Calibrations
from service.threads import run_in_thread_if_large
from service.windows.answer import Made, make
from service.windows.budgets import Limits, likely_budget, limits_of
from service.windows.tail import MESSAGE_WORK_BYTES, GrowingTail

_ATTEMPTS = 8


class Windows:
    """Windows of all conversations of a deployment; ``models`` are its own, by name."""

    def __init__(self, conversations: Conversations, calibrations: Calibrations, models: Mapping[str, Model]) -> None:
        self._conversations = conversations
        self._reader: Reader = conversations.reader
        self._calibrations = calibrations
        self.models = models

    async def read(
        self, tenant: str, conversation: str, query: WindowQuery, known: Sequence[str] = ()
    ) -> tuple[Made, State] | Known:
        """The window, and the state that it is of; or Known when that has one of the entity tags ``known``.

        Raises NotFound, ConversationDamaged, UnknownModel, WindowDoesNotFit, FormatCannotCarry, Unprocessable.
        """
        budget, column = likely_budget(query, self.models)
        tail = await self._reader.window(
            tenant, conversation, known=known, budget=budget, column=column, limit=query.limit or 0
        )
        return tail if isinstance(tail, Known) else await self.of_tail(tenant, conversation, query, tail)

    async def append(
        self,
        tenant: str,
        conversation: str,
        query: WindowQuery,
        entries: Sequence[NewEntry],
        *,
        settings: bytes,
        if_match: str,
        now_ms: int,
    ) -> tuple[AppendReply, Tail | Problem]:
        """Append, and read the tail for a window, in one round trip. A tail that could not be read is the problem why."""
        budget, column = likely_budget(query, self.models)
        return await self._conversations.append_and_read(
            tenant,
            conversation,
            entries,
            settings=settings,
            if_match=if_match,
            now_ms=now_ms,
            budget=budget,
            column=column,
            limit=query.limit or 0,
        )

    def follows(self, query: WindowQuery) -> bool:
        """Whether a window follows from the conversation alone; an estimated model's changes with what was billed."""
        try:
            return query.model is not None and find_model(query.model, self.models).exact
        except UnknownModel:
            return False

    async def of_tail(self, tenant: str, conversation: str, query: WindowQuery, tail: Tail) -> tuple[Made, State]:
        """The window of a tail, or of a newer one when the history was edited before all of it was read."""
        for _ in range(_ATTEMPTS):
            settings, parts = decode_settings(tail.state.settings)
            models = await self._calibrations.correct(tenant, self.models, query.model or settings.model)
            limits = limits_of(query, settings, models)
            try:
                made = await self._make(tenant, conversation, tail, query, limits, parts)
            except HistoryEdited:
                tail = await self._read_again(tenant, conversation, query, limits)
            else:
                return made, tail.state
        raise StoreUnavailable("The history is edited faster than it can be read; try again.")

    async def _read_again(self, tenant: str, conversation: str, query: WindowQuery, limits: Limits) -> Tail:
        tail = await self._reader.window(
            tenant, conversation, budget=limits.budget, column=column_of(limits.model), limit=query.limit or 0
        )
        if isinstance(tail, Known):
            raise Internal("The store answered as if we had named a state.")
        return tail

    async def _make(
        self, tenant: str, conversation: str, tail: Tail, query: WindowQuery, limits: Limits, parts: FixedParts
    ) -> Made:
        """Make the window of one state. Raises HistoryEdited, WindowDoesNotFit, FormatCannotCarry."""
        read = GrowingTail(self._reader, tenant, conversation, tail)
        while True:
            grounding = await read.grounding(query.grounding)
            history = read.history(column_of(limits.model))
            bodies = await read.bodies(sorted(grounding))
            size = MESSAGE_WORK_BYTES * len(history.records)
            if grounding:
                size += sum(len(text) for each in grounding.values() for _, text in each.documents)
            documents = await run_in_thread_if_large(size, documents_of, query, parts, history, bodies, grounding)
            window = await run_in_thread_if_large(size, build, history, limits, parts, query, documents)
            if isinstance(window, Window):
                break
            await read.read_older(window.first_seq)
        bodies = await read.bodies(window.seqs)
        identity = (conversation, tail.state.version)
        return await run_in_thread_if_large(
            size, make, query, limits, parts, history, window, bodies, documents, identity
        )


def build(
    history: History, limits: Limits, parts: FixedParts, query: WindowQuery, documents: Documents
) -> Window | NeedOlder:
    """The window that a query asks for, or NeedOlder. Raises WindowDoesNotFit, which says for which model."""
    try:
        return build_window(
            history,
            model=limits.model,
            budget=limits.budget,
            fixed=parts.fixed,
            options=query,
            documents=documents,
        )
    except WindowDoesNotFit as problem:
        problem.model = limits.model.id
        raise


def documents_of(
    query: WindowQuery,
    parts: FixedParts,
    history: History,
    bodies: Bodies,
    grounding: Mapping[int, StoredGrounding],
) -> Documents:
    """The documents that a window may send, closed over what was read."""
    return Documents(
        sources={
            seq: Source(stored, bodies.body(seq)[stored.start : stored.end], history.record(seq))
            for seq, stored in grounding.items()
        },
        template=parts.template,
        max_tokens=query.grounding_max_tokens,
        overflow=query.grounding_overflow,
        dedupe=query.dedupe != "none",
    )
