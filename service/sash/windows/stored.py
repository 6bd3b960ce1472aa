"""Windows of stored conversations."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import msgspec

from sash.core.counts.models.families import TOOL
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, decoded_settings
from sash.core.law.fixed_parts.fixed import FixedParts
from sash.core.law.fixed_parts.history_tools import check_names
from sash.core.law.history.compaction import newest_summary
from sash.core.law.history.view import History
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.render import Bodies
from sash.core.law.selection.caching import cache_key
from sash.core.providers.messages.members import NO_NAMES, Names
from sash.problems import GroundingDoesNotFit, WindowDoesNotFit, edited_too_fast
from sash.processor import NO_TURN, PROCESSOR
from sash.store.data.conversations import Conversations
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import State, Tail
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.tails import Known
from sash.store.data.usage import Calibrations
from sash.windows.answer import Made
from sash.windows.asked import Asked, WindowPlan, limits_of, plan_of
from sash.windows.first_read import asking_of, reach_of
from sash.windows.flow import window
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
from sash.windows.receipts import receipt_of, told_of
from sash.windows.tail import SHORT, GrowingTail, Room, no_limit
from sash.windows.vocabulary_counts import Counts

_ATTEMPTS = 8
_PLANS: Final = 16
"""Plans that are kept for the same settings: as many queries and corrections as conversations are mostly asked with."""


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
        self._tails = conversations.reader.tails
        self._calibrations = calibrations
        self._counts = counts
        self.models = models
        self._rules = rules
        self.send = send
        self.asking = lru_cache(maxsize=1024)(partial(asking_of, models))
        """What follows from a query; cached, as every turn has the same query. Raises UnknownModel, Unprocessable."""

    def _planned(
        self,
        query: WindowQuery,
        settings: ConversationSettings,
        parts: FixedParts,
        models: Mapping[str, Model],
        correction: tuple[float, int] | None = None,
    ) -> WindowPlan:
        """The plan by these models, which is kept with the fixed parts, as these are with the settings.

        Raises UnknownModel, Unprocessable, RecallIsOff.
        """
        limits = limits_of(query, settings, models)
        plan = plan_of(query, parts, limits, told_of(query, limits.model))
        if query.history_tools:
            require_recall(self._recaller.mode(settings))
            check_names(parts)
        if len(parts.plans) == _PLANS:
            parts.plans.clear()
        parts.plans[query if correction is None else (query, correction)] = plan
        return plan

    async def _corrected(
        self, tenant: str, query: WindowQuery, settings: ConversationSettings, parts: FixedParts, plan: WindowPlan
    ) -> WindowPlan:
        """The plan with the model's estimate corrected by the tenant's bills."""
        models = await self._calibrations.correct(tenant, self.models, plan.model.id)
        if models is self.models:
            return plan
        found = models[plan.model.id]
        correction = found.margin, found.constant
        kept: WindowPlan | None = parts.plans.get((query, correction))
        return kept or self._planned(query, settings, parts, models, correction)

    async def read(self, target: Target, query: WindowQuery, room: Room = no_limit) -> tuple[Made, State]:
        """The window and the conversation's state. ``room`` waits for the memory of pictures and files.

        Raises NotFound, ConversationDamaged, UnknownModel, WindowDoesNotFit, FormatCannotCarry, Unprocessable.
        """
        tail = await self._tails.read(target, self.asking(query).reach)
        return await self.of_tail(target, query, tail, room)

    async def read_unless(
        self, target: Target, query: WindowQuery, known: Sequence[str], room: Room
    ) -> tuple[Made, State] | Known:
        """The same, or Known if the state has one of the ETags ``known``; ``*`` is any."""
        asking = self.asking(query)
        tail = await self._tails.read_unless(target, asking.reach, known if asking.follows else ())
        if not isinstance(tail, Tail):
            return tail
        state = tail.state
        if known and (state.etag in known or "*" in known) and self._follows(query, state):
            return Known(state.etag)
        return await self.of_tail(target, query, tail, room)

    def _follows(self, query: WindowQuery, state: State) -> bool:
        """Whether the window depends on the conversation alone. Its settings name the model if the query does not."""
        model = query.model or decoded_settings[state.settings, self.send][0].model
        return model is not None and self.asking(msgspec.structs.replace(query, model=model)).follows

    async def of_tail(
        self, target: Target, query: WindowQuery, tail: Tail, room: Room = no_limit
    ) -> tuple[Made, State]:
        """The window of a tail. If the history was edited meanwhile, the tail is read again. ``room`` is as in ``read``."""
        for _ in range(_ATTEMPTS):
            settings, parts = decoded_settings[tail.state.settings, self.send]
            plan: WindowPlan = parts.plans.get(query) or self._planned(query, settings, parts, self.models)
            if plan.is_estimate:
                plan = await self._corrected(target.tenant, query, settings, parts, plan)
            try:
                return await self.make(target, plan, settings, tail, room), tail.state
            except WindowDoesNotFit as problem:
                problem.detail += _of_a_long_question(problem, tail.state)
                raise
            except HistoryEdited:
                tail = await self._tails.read(target, reach_of(plan.query, plan.model, plan.budget))
        raise edited_too_fast()

    async def make(
        self,
        target: Target,
        plan: WindowPlan,
        settings: ConversationSettings,
        tail: Tail,
        room: Room,
        *,
        rules: bytes = b"",
        receipt: Callable[[bytes, int], bytes] | None = None,
    ) -> Made:
        """Make the window of one state. Raises HistoryEdited, WindowDoesNotFit, FormatCannotCarry.

        ``rules`` is the digest of the model's figures, if they are not those of now; ``receipt`` names the window, if it has
        a name already.
        """
        model, state = plan.model, tail.state
        if model.vocabulary is not None and model.waits:  # what a plan tells of itself is counted, too
            await PROCESSOR.run(model.load)
        if receipt is None:
            rules = rules or self._rules.digest(model.id)
            receipt = partial(receipt_of, target, state, model.column, rules, plan.told)
        asked = Asked(plan, target.id, state.version, f'"{state.etag}"', receipt)
        if plan.is_woken:  # as by recall, hints and views
            query = plan.query
            asked = msgspec.structs.replace(
                asked,
                recall=self._recaller.mode(settings) if query.recall_max_tokens else None,
                cache_key=cache_key(target.name, state.life) if query.cache == "auto" else "",
                is_unknown_view=query.view is not None and _is_unknown(query.view, state),
            )
        apart = {message.seq: message.body for message in tail.outside if message.body} if tail.outside else {}
        bodies = Bodies(tail.bodies_seq, tail.bodies, apart)
        read = GrowingTail(self._reader, self._conversations.media, target, room, tail, bodies)
        seen = await self._seen(plan, read)
        flow, answer, quick = window(asked, seen), None, _is_quick(plan, read, seen)
        while True:
            found = flow.send(answer) if quick else await PROCESSOR.run(flow.send, answer)
            if isinstance(found, Made):
                return found
            if isinstance(found, Older):
                await read.read_older(found.first_seq)
                answer = seen = await self._seen(plan, read)
            else:
                answer = None if isinstance(found, LongWork) else await self._answer(found, asked, read)
            ranks = isinstance(answer, Searchable) and is_long(answer.old)
            quick = _is_quick(plan, read, seen) and not ranks and not isinstance(found, SingleBodies | LongWork)
            if quick and read.work > NO_TURN:
                await self._tails.turns.take(read.work)

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
                return FilledBodies(read.bodies, read.lost)
            case Search(text, last_seq):
                mode = asked.recall or ""
                tail = read.tail
                return await self._recaller.read(read.target, text, mode, last_seq, tail.state, ahead=tail.indexed)
            case WholeRecords(seqs, old):
                names = asked.plan.query.view is not None
                return await self._recaller.whole(asked.plan.model, read, old, seqs, names=names)
            case DocumentsOf(records):
                return await self._reader.grounding(read.target, records, state=read.tail.state)
            case SingleBodies(records):
                return await read.apart(records)

    async def _seen(self, plan: WindowPlan, read: GrowingTail) -> SeenHistory:
        """What was read, with all messages counted for the model. Raises HistoryEdited."""
        query, model = plan.query, plan.model
        if model.vocabulary is not None:
            await self._counts.count(read, model.vocabulary)
        tail, column, grounding = read.tail, model.column, {}
        state, records, details = tail.state, tail.records, tail.records.details
        seqs: Sequence[int] = range(tail.first_seq, state.length + 1)
        if read.own_tokens or tail.outside:
            records = read.records
        if tail.outside:
            seqs = [*(each.seq for each in tail.outside), *seqs]
        summary = state.summary
        if tail.compaction is not None or summary is not None:
            summary = newest_summary(summary, tail.appended, model.format, query.view, model)
        history = History(
            first_seq=tail.first_seq,
            records=records,
            length=state.length,
            column=column,
            tokens=state.tokens[column],
            grounding_messages=state.grounding_messages,
            grounding_tokens=state.grounding_tokens[column],
            seqs=seqs,
            asked=seqs.index(state.question) if state.question else -1,
            summary=summary,
            lost=read.lost,
            now=details[-1].identity.created_ms // 1000 if details and len(tail.records) else 0,
        )
        if state.grounding_messages:  # to explain, each document has a line
            grounding = await read.grounding("all" if query.explain else query.grounding, query.view)
            await read.read_bodies(sorted(grounding), history)
        has_media = bool(details or tail.outside) and read.has_media
        if has_media and grounding:
            await read.fill(grounding)  # their documents' places are those in the whole message
            history = with_lost(history, read.lost)
        return SeenHistory(history, read.bodies, grounding, has_media)


def _is_quick(plan: WindowPlan, read: GrowingTail, seen: SeenHistory) -> bool:
    """Whether choosing and writing takes a few milliseconds at most, and so needs no thread."""
    records = read.tail.records
    calls = TOOL in records.roles
    if seen.grounding or len(records.flags) > SHORT or ((calls or records.details) and not read.is_short):
        return False
    if not plan.form.is_chat_form and read.is_large:
        return False  # the whole messages are decoded, and encoded in another form
    # A summary and results that are cut are counted in the model's own vocabulary.
    return not (calls or seen.history.summary is not None) or plan.model.vocabulary is None


def _is_unknown(view: str, state: State) -> bool:
    """Whether a view is none of the agents of a state, which are all known."""
    return state.agents.is_all and view not in state.agents.before(state.version)


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
