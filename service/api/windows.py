"""From a stored tail, or a history in a body, to the window's JSON."""

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from service.api.body import worker
from service.api.budgets import Limits, limits_of
from service.api.context import Context
from service.api.observed import Observed
from service.api.schemas import Dropped, Kept, WindowGrounding, WindowHead, WindowQuery, WindowTokens
from service.core.costs import column_of
from service.core.counting import is_estimate
from service.core.documents import Documents, Source
from service.core.models import Model, find_model
from service.core.records import Records, StoredGrounding
from service.core.render import Bodies, render_openai, render_other
from service.core.runs import runs
from service.core.settings import FixedParts, decode_settings
from service.core.view import History
from service.core.window import NeedOlder, Options, Window, build_window
from service.problems import Internal, StoreUnavailable, UnknownModel, WindowDoesNotFit
from service.store.messages import STEP_BYTES
from service.store.replies import HistoryEdited, State, Tail
from service.store.scripts import Known

_UNKNOWN_WINDOW = 100_000_000
_ATTEMPTS = 8
_head = msgspec.json.Encoder()


class Stored:
    """A conversation's tail, growing as a window asks for more."""

    def __init__(self, context: Context, tenant: str, conversation: str, tail: Tail) -> None:
        self._context = context
        self._tenant = tenant
        self._id = conversation
        self.state = tail.state
        self.first_seq = tail.first_seq
        self.records = tail.records
        self._bodies_seq = tail.bodies_seq
        self._bodies = tail.bodies
        self.outside = {message.seq: message for message in tail.outside}
        self._apart = {message.seq: message.body for message in tail.outside if message.body}
        self._documents = tail.documents

    async def read_older(self, first_seq: int) -> None:
        """Put records from ``first_seq`` on before the tail."""
        older = await self._context.reader.records(
            self._tenant, self._id, first_seq, self.first_seq - 1, state=self.state
        )
        self.records = older.before(self.records)
        self.first_seq = first_seq
        self.outside = {seq: message for seq, message in self.outside.items() if seq < first_seq}

    async def bodies(self, seqs: Sequence[int]) -> Bodies:
        """The bodies that were read, with those of ``seqs``, ascending, among them."""
        oldest = self.oldest(seqs)
        if oldest < self._bodies_seq:
            records = self.records[oldest - self.first_seq : self._bodies_seq - self.first_seq]
            if sum(records.sizes()) <= STEP_BYTES:
                self._bodies = [*await self._read([(oldest, records)]), *self._bodies]
                self._bodies_seq = oldest
        missing = [seq for seq in seqs[: bisect_left(seqs, self._bodies_seq)] if seq not in self._apart]
        if missing:
            # Among them may be more than fits in memory, which no window wants: only what this one does is read.
            found = await self._read([*self._stretches(missing)])
            self._apart.update(zip(missing, found, strict=True))
        return Bodies(self._bodies_seq, self._bodies, self._apart)

    def _stretches(self, seqs: Sequence[int]) -> Iterator[tuple[int, Records]]:
        """Records of ``seqs``, neighbours together."""
        before = bisect_left(seqs, self.first_seq)
        for first, last in runs(seqs, 0, before):
            yield first, Records.of([self.outside[seq].record for seq in range(first, last + 1)])
        for first, last in runs(seqs, before):
            yield first, self.records[first - self.first_seq : last - self.first_seq + 1]

    async def _read(self, stretches: Sequence[tuple[int, Records]]) -> list[bytes]:
        return await self._context.reader.bodies(self._tenant, self._id, stretches, state=self.state)

    def oldest(self, seqs: Sequence[int]) -> int:
        """The first of ``seqs`` that is of the tail; the seq after the newest message when none is."""
        index = bisect_left(seqs, self.first_seq)
        return seqs[index] if index < len(seqs) else self.state.length + 1

    async def grounding(self, mode: str) -> dict[int, StoredGrounding]:
        """Documents that the window may send: the newest question's, or all of the tail's."""
        if mode == "none" or not self.state.grounding_messages:
            return {}
        if mode == "latest":
            return {self.state.question: self._documents} if self._documents else {}
        records = {self.first_seq + i: self.records[i] for i in self.records.rich()}
        records |= {seq: message.record for seq, message in self.outside.items()}
        grounded = {seq: record for seq, record in records.items() if record.grounding is not None}
        return await self._context.reader.grounding(self._tenant, self._id, grounded, state=self.state)

    def history(self, column: int) -> History:
        """The tail as the core sees it."""
        state = self.state
        return History(
            first_seq=self.first_seq,
            records=self.records,
            outside={seq: message.record for seq, message in self.outside.items()},
            length=state.length,
            column=column,
            tokens=state.tokens[column],
            grounding_messages=state.grounding_messages,
            grounding_tokens=state.grounding_tokens[column],
            question=state.question,
            summary=state.summary,
        )


class Built(NamedTuple):
    """A window's JSON, and what is told of it whenever it is sent."""

    body: bytes
    seen: Observed
    state: State
    window: Window
    model: Model
    parts: FixedParts


async def stored_window(
    context: Context, tenant: str, conversation: str, tail: Tail, query: WindowQuery
) -> tuple[bytes, State]:
    """The window of a stored conversation, as JSON, and the state that it is of.

    That is the tail's, or a later one when the history was edited before all of it was read.
    """
    started = time.perf_counter()
    try:
        built = await _built(context, tenant, conversation, tail, query)
    except WindowDoesNotFit as problem:
        if not query.explain:
            context.metrics.does_not_fit(problem.model)
        raise
    if context.summarizer is not None:
        context.summarizer.notice(tenant, conversation, built.state, built.window, built.model)
    key, seconds = (tenant, conversation, built.model.id), time.perf_counter() - started
    built.seen.tell(context.metrics, seconds, key=key, fixed=id(built.parts))
    return built.body, built.state


def is_exact(query: WindowQuery, models: Mapping[str, Model]) -> bool:
    """Whether the window follows from the conversation alone; an estimated model's changes with what was billed."""
    try:
        return query.model is not None and find_model(query.model, models).exact
    except UnknownModel:
        return False


async def _built(context: Context, tenant: str, conversation: str, tail: Tail, query: WindowQuery) -> Built:
    for _ in range(_ATTEMPTS):
        settings, parts = decode_settings(tail.state.settings)
        models = await context.calibrations.correct(tenant, context.models, query.model or settings.model)
        limits = limits_of(query, settings, models)
        try:
            return await _window_of(context, tenant, conversation, tail, query, limits, parts)
        except HistoryEdited:
            tail = await _read_again(context, tenant, conversation, query, limits)
    raise StoreUnavailable("The history is edited faster than it can be read; try again.")


async def _read_again(context: Context, tenant: str, conversation: str, query: WindowQuery, limits: Limits) -> Tail:
    tail = await context.reader.window(
        tenant, conversation, budget=limits.budget, column=column_of(limits.model), limit=query.limit or 0
    )
    if isinstance(tail, Known):
        raise Internal("The store answered as if we had named a state.")
    return tail


async def _window_of(
    context: Context,
    tenant: str,
    conversation: str,
    tail: Tail,
    query: WindowQuery,
    limits: Limits,
    parts: FixedParts,
) -> Built:
    stored = Stored(context, tenant, conversation, tail)
    while True:
        grounding = await stored.grounding(query.grounding)
        history, bodies = stored.history(column_of(limits.model)), await stored.bodies(sorted(grounding))
        size = sum(len(text) for each in grounding.values() for _, text in each.documents)
        documents = documents_of(query, parts, history, bodies, grounding)
        try:
            window = await worker(size, build, history, limits, parts, query, documents)
        except WindowDoesNotFit as problem:
            problem.model = limits.model.id
            raise
        if isinstance(window, Window):
            break
        await stored.read_older(window.first_seq)
    bodies = await stored.bodies(window.seqs)
    identity = (conversation, tail.state.version)
    body, seen = answer(query, limits, parts, history, window, bodies, documents, identity)
    return Built(body, seen, tail.state, window, limits.model, parts)


def build(
    history: History, limits: Limits, parts: FixedParts, query: WindowQuery, documents: Documents
) -> Window | NeedOlder:
    """The window that a query asks for, or NeedOlder."""
    return build_window(
        history,
        model=limits.model,
        budget=limits.budget,
        fixed=parts.fixed,
        options=_options(query),
        documents=documents,
    )


def _options(query: WindowQuery) -> Options:
    return Options(
        limit=query.limit,
        overflow=query.overflow,
        grounding=query.grounding,
        dedupe=query.dedupe,
        stable=query.stable,
        stable_step=query.stable_step,
        start=query.start,
        summary=query.summary,
        note=query.note,
        explain=query.explain,
    )


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


def _window_head(
    query: WindowQuery,
    limits: Limits,
    window: Window,
    history: History,
    documents: Documents,
    identity: tuple[str | None, int | None],
) -> WindowHead:
    model = limits.model
    known = model.context_window < _UNKNOWN_WINDOW
    sources = documents.sources
    sent = [seq for seq in sources if seq in window.seqs or seq == history.question]
    given = sum(len(sources[seq].grounding.documents) for seq in sent)
    kept = sum(chosen.kept for chosen in window.grounding.values())
    cut = any(chosen.cut for chosen in window.grounding.values())
    return WindowHead(
        conversation_id=identity[0],
        version=identity[1],
        model=model.id,
        encoding=model.encoding,
        exact=model.exact and not _any_estimate(history, window, model),
        context_window=model.context_window if known else None,
        max_input_tokens=model.max_input_tokens if known else None,
        reserve=limits.reserve,
        budget=limits.budget,
        format=query.format,
        tokens=WindowTokens(**window.tokens),
        kept=Kept(len(window.seqs), window.seqs[0] if window.seqs else None, window.seqs[-1] if window.seqs else None),
        dropped=Dropped(**window.dropped),
        grounding=WindowGrounding(given, kept, kept < given or cut),
        stop_reason=window.stop_reason,
        correction=model.correction,
        summary_used=window.summary is not None,
        note=window.note,
        explain=window.explain,
    )


def _any_estimate(history: History, window: Window, model: Model) -> bool:
    rich = {history.first_seq + index for index in history.records.rich()} | history.outside.keys()
    return bool(rich) and any(is_estimate(history.record(seq).measure, model) for seq in rich.intersection(window.seqs))


def answer(
    query: WindowQuery,
    limits: Limits,
    parts: FixedParts,
    history: History,
    window: Window,
    bodies: Bodies,
    documents: Documents,
    identity: tuple[str | None, int | None],
) -> tuple[bytes, Observed]:
    """The window's JSON, and what may be told of it; ``identity`` is the conversation's id and version, if it has them."""
    head = _window_head(query, limits, window, history, documents, identity)
    grounding = {seq: source.grounding for seq, source in documents.sources.items()}
    before, after = _head.encode(head)[:-1] + b',"request":', b"}"
    if query.format == "openai":
        body = render_openai(parts, window, bodies, grounding, before=before, after=after)
    else:
        body = before + render_other(query.format, parts, window, bodies, grounding) + after
    return body, Observed(query, history, window, head)
