"""Windows of stored conversations."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from sash.core.counts.models.families import TOOL
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, FixedParts, decode_settings
from sash.core.law.fixed_parts.history_tools import check_names
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.history.compaction import readable
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.caching import below_a_tier, cache_key, cut_length
from sash.core.law.selection.choice import BLOCK
from sash.core.law.selection.walk import SKIP_HORIZON
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.members import NO_NAMES, Names
from sash.problems import GroundingDoesNotFit, WindowDoesNotFit, edited_too_fast
from sash.processor import PROCESSOR
from sash.store.data.conversations import Conversations
from sash.store.data.layout import Target
from sash.store.data.read_scripts import Known, Reach
from sash.store.data.reading import Reader
from sash.store.data.replies import State, Tail
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.usage import Calibrations
from sash.windows.answer import Made
from sash.windows.asked import Asked, limits_of, plan_of
from sash.windows.flow import advance, window
from sash.windows.model_rules import ModelRules
from sash.windows.needs import (
    DocumentsOf,
    FilledBodies,
    LongWork,
    Need,
    Older,
    Search,
    Searchable,
    SeenHistory,
    SingleBodies,
    Texts,
    WholeRecords,
    WithMedia,
    with_lost,
)
from sash.windows.recaller import Recaller, is_long, require_recall
from sash.windows.receipts import Stub, receipt_of, told_parameters
from sash.windows.tail import GrowingTail, Room, no_limit
from sash.windows.vocabulary_counts import Counts

_ATTEMPTS = 8
_OF_A_VIEW = 2
"""Budgets of messages that are read first for a view, which is enough where it sees half of them."""
_NO_RESERVE = ConversationSettings(reserve=0)
_PLANS: Final = 16
"""Plans that are kept for the same settings: as many queries and corrections as conversations are mostly asked with."""


class Asking(msgspec.Struct, frozen=True, eq=False):
    """What follows from a window's query alone. There is one for a query, so that plans are found by it."""

    reach: Reach
    """What the first read asks for."""
    follows: bool
    """Whether the window depends on the conversation alone, and not on reported bills (estimated models) or on an index."""
    told: msgspec.Raw
    """The parameters, as a receipt has them."""


class Windows:
    """Makes windows of stored conversations. ``models`` are the deployment's own models, by name; ``send`` names members
    of few-shots that are sent although no provider is known to take them."""

    def __init__(
        self,
        conversations: Conversations,
        calibrations: Calibrations,
        counts: Counts,
        models: Mapping[str, Model],
        recaller: Recaller,
        rules: ModelRules,
        send: Names = NO_NAMES,
    ) -> None:
        self._conversations = conversations
        self._recaller = recaller
        self._reader: Reader = conversations.reader
        self._calibrations = calibrations
        self._counts = counts
        self.models = models
        self._rules = rules
        self.send = send
        self.asking = lru_cache(maxsize=1024)(self._asking)
        """What follows from a query; cached, as every turn has the same query. Raises UnknownModel, Unprocessable."""

    def _asking(self, query: WindowQuery) -> Asking:
        reach, told = reach_of_query(query, self.models), told_parameters(query)
        if query.model is None:  # then it depends on the conversation's settings
            return Asking(reach, follows=False, told=told)
        model = limits_of(query, _NO_RESERVE, self.models).model
        return Asking(reach, follows=model.exact and not model.vocabulary and not query.recall_max_tokens, told=told)

    async def _plan(self, tenant: str, query: WindowQuery, settings: ConversationSettings, parts: FixedParts) -> Plan:
        """The plan of a window, with the model's estimate corrected by the tenant's bills."""
        plan = self._kept_plan(query, settings, parts, self.models, None)
        if plan.model.exact and plan.model.vocabulary is None:
            return plan
        models = await self._calibrations.correct(tenant, self.models, plan.model.id)
        if models is self.models:
            return plan
        found = models[plan.model.id]
        return self._kept_plan(query, settings, parts, models, (found.margin, found.constant))

    def _kept_plan(
        self,
        query: WindowQuery,
        settings: ConversationSettings,
        parts: FixedParts,
        models: Mapping[str, Model],
        correction: tuple[float, int] | None,
    ) -> Plan:
        """The plan by these models, which is kept with the fixed parts, as these are with the settings."""
        key = self.asking(query), correction
        plan: Plan | None = parts.plans.get(key)
        if plan is None:
            plan = plan_of(query, parts, limits_of(query, settings, models))
            if len(parts.plans) == _PLANS:
                parts.plans.clear()
            parts.plans[key] = plan
        return plan

    async def read(self, target: Target, query: WindowQuery, room: Room = no_limit) -> tuple[Made, State]:
        """The window and the conversation's state. ``room`` waits for the memory of pictures and files.

        Raises NotFound, ConversationDamaged, UnknownModel, WindowDoesNotFit, FormatCannotCarry, Unprocessable.
        """
        tail = await self._reader.window(target, self.asking(query).reach)
        return await self.of_tail(target, query, tail, room)

    async def read_unless(
        self, target: Target, query: WindowQuery, known: Sequence[str], room: Room
    ) -> tuple[Made, State] | Known:
        """The same, or Known if the state has one of the ETags ``known``; ``*`` is any."""
        asking = self.asking(query)
        tail = await self._reader.window_unless(target, asking.reach, known if asking.follows else ())
        if isinstance(tail, Known):
            return tail
        state = tail.state
        if not known or (state.etag not in known and "*" not in known) or not self._follows(query, state):
            return await self.of_tail(target, query, tail, room)
        return Known(state.etag)

    def _follows(self, query: WindowQuery, state: State) -> bool:
        """Whether the window depends on the conversation alone. Its settings name the model if the query does not."""
        model = query.model or decode_settings(state.settings, self.send)[0].model
        return model is not None and self.asking(msgspec.structs.replace(query, model=model)).follows

    async def of_tail(
        self, target: Target, query: WindowQuery, tail: Tail, room: Room = no_limit
    ) -> tuple[Made, State]:
        """The window of a tail. If the history was edited meanwhile, the tail is read again. ``room`` is as in ``read``."""
        for _ in range(_ATTEMPTS):
            settings, parts = decode_settings(tail.state.settings, self.send)
            plan = await self._plan(target.tenant, query, settings, parts)
            if query.history_tools:
                require_recall(self._recaller.mode(settings))
                check_names(parts)
            rules, told = self._rules.digest(plan.model.id), self.asking(query).told
            asked = self.asked(target, plan, tail.state, settings, rules, told)
            try:
                return await self.make(target, asked, tail, room), tail.state
            except WindowDoesNotFit as problem:
                problem.detail += _of_a_long_question(problem, tail.state)
                raise
            except HistoryEdited:
                tail = await self._reader.window(target, reach_of(plan.query, plan.model, plan.budget))
        raise edited_too_fast()

    def asked(
        self,
        target: Target,
        plan: Plan,
        state: State,
        settings: ConversationSettings,
        rules: bytes,
        told: msgspec.Raw,
    ) -> Asked:
        """What the window of one state is asked for; its receipt has ``rules``, the model's digest, and ``told``, the
        parameters."""
        query, model = plan.query, plan.model
        return Asked(
            plan,
            target.id,
            state.version,
            f'"{state.etag}"',
            self._recaller.mode(settings) if query.recall_max_tokens else None,
            cache_key=cache_key(target.name, state.life) if query.cache == "auto" else "",
            is_unknown_view=query.view is not None and _is_unknown(query.view, state),
            receipt=partial(
                receipt_of, Stub(target, state, model.column, rules, model.correction, told, model.constant)
            ),
        )

    async def make(self, target: Target, asked: Asked, tail: Tail, room: Room) -> Made:
        """Make the window of one state. Raises HistoryEdited, WindowDoesNotFit, FormatCannotCarry."""
        read = GrowingTail(self._reader, self._conversations.media, target, tail, room)
        seen = await self._seen(asked, read)
        flow, answer, quick = window(asked, seen), None, _is_quick(asked, read, seen)
        while True:
            found = advance(flow, answer) if quick else await PROCESSOR.run(advance, flow, answer)
            if isinstance(found, Made):
                return found
            if isinstance(found, Older):
                await read.read_older(found.first_seq)
                answer = seen = await self._seen(asked, read)
            else:
                answer = None if isinstance(found, LongWork) else await self._answer(found, asked, read)
            ranks = isinstance(answer, Searchable) and is_long(answer.old)
            quick = _is_quick(asked, read, seen) and not ranks and not isinstance(found, SingleBodies | LongWork)
            if quick:
                await self._reader.turns.take(read.work)

    async def _answer(self, need: Need, asked: Asked, read: GrowingTail) -> Any:
        """Read what a flow needs. Raises HistoryEdited."""
        match need:
            case Texts(seqs, history):
                await read.read_bodies(seqs, history)
                return read.bodies
            case WithMedia(seqs, filled, lined, history):
                await read.read_bodies(seqs, history)
                front = range(history.records.front)
                await read.fill(filled, lined, {history.seqs[row]: history.records[row] for row in front})
                return FilledBodies(read.bodies, {**read.lost})
            case Search(text, last_seq):
                mode = asked.recall or ""
                return await self._recaller.read(read.target, text, mode, last_seq, read.state, ahead=read.indexed)
            case WholeRecords(seqs, old):
                names = asked.plan.query.view is not None
                return await self._recaller.whole(asked.plan.model, read, old, seqs, names=names)
            case DocumentsOf(records):
                return await self._reader.grounding(read.target, records, state=read.state)
            case SingleBodies(records):
                return await read.apart(records)

    async def _seen(self, asked: Asked, read: GrowingTail) -> SeenHistory:
        """What was read, with all messages counted for the model. Raises HistoryEdited."""
        vocabulary = asked.plan.model.vocabulary
        if vocabulary is not None and len(read.own_tokens) < len(read.records):
            read.own_tokens = await self._counts.of(read, vocabulary)
        if vocabulary is not None and (uncounted := read.uncounted()):
            read.count(await self._counts.each(read, vocabulary, uncounted))
        mode = "all" if asked.plan.query.explain else asked.plan.query.grounding  # each document has a line
        grounding = await read.grounding(mode, asked.plan.query.view) if read.state.grounding_messages else {}
        history = read.history(asked.plan.model, asked.plan.query.view)
        if grounding:
            await read.read_bodies(sorted(grounding), history)
        has_media = bool(read.records.details or read.outside) and read.has_media
        if has_media and grounding:
            await read.fill(grounding)  # their documents' places are those in the whole message
            history = with_lost(history, read.lost)
        return SeenHistory(history, read.bodies, grounding, has_media)


def _is_quick(asked: Asked, read: GrowingTail, seen: SeenHistory) -> bool:
    """Whether choosing and writing takes a few milliseconds at most, and so needs no thread."""
    if seen.grounding or not read.is_short:
        return False
    if not PROVIDERS[asked.plan.query.format].is_chat_form and read.is_large:
        return False  # the whole messages are decoded, and encoded in another form
    # A summary and results that are cut are counted in the model's own vocabulary.
    may_count = TOOL in read.records.roles or seen.history.summary is not None
    return not (may_count and asked.plan.model.vocabulary is not None)


def reach_of_query(query: WindowQuery, models: Mapping[str, Model]) -> Reach:
    """What the first read asks for, before the conversation's settings are known. Raises UnknownModel, Unprocessable."""
    if query.model is not None:
        limits = limits_of(query, _NO_RESERVE, models)
        return reach_of(query, limits.model, limits.budget)
    return Reach(
        query.max_tokens or 0,
        limit=query.limit or 0,
        compactions=_compactions(query),
        words=int(query.recall_max_tokens > 0),
        agents=int(query.view is not None),
    )


def reach_of(query: WindowQuery, model: Model, budget: int) -> Reach:
    """The tail that the query's window likely needs."""
    block = BLOCK * cut_length(query, model, budget) if query.stable else 0
    budget = below_a_tier(query, model, budget)
    if query.view is not None:
        budget *= _OF_A_VIEW
    more = SKIP_HORIZON if query.overflow == "skip" else 0
    limit, whole = query.limit or 0, query.tool_results_kept is not None
    scripts = model.ratios is not None or query.view is not None  # author and audience are in the details, too
    return Reach(
        budget,
        model.column,
        limit,
        int(scripts),
        block,
        more,
        int(whole),
        _compactions(query),
        int(query.recall_max_tokens > 0),
        int(query.view is not None),
    )


def _is_unknown(view: str, state: State) -> bool:
    """Whether a view is none of the agents of a state, which are all known."""
    return state.agents.is_all and view not in state.agents.before(state.version)


def _compactions(query: WindowQuery) -> str:
    """The forms of compactions that the query's window can have."""
    return readable(query.format) if query.summary != "never" else ""


def _of_a_long_question(problem: WindowDoesNotFit, state: State) -> str:
    """What to do about a stored question that costs most of what does not fit; empty where another part does."""
    costs: Mapping[str, int] = problem.members["costs"]
    is_of_documents = isinstance(problem, GroundingDoesNotFit)
    if is_of_documents or not state.question or costs.get("question", 0) < max(costs.values()):
        return ""
    return (
        f" The question is stored, as message {state.question}. Append a shorter one in its place, with "
        f"after_seq={state.question - 1}. As it is, windows of later questions end at it and have nothing from before, "
        "unless they ask for overflow=skip."
    )
