"""What a window is asked for: its parameters, model, budget and settings."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from sash.core.counts.models.models import NO_WINDOW, Model, find_model, unknown_model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings
from sash.core.law.fixed_parts.fixed import FixedParts, at_destination
from sash.core.law.fixed_parts.history_tools import with_history_tools
from sash.core.law.fixed_parts.plan import Plan
from sash.core.law.limits.fitting import check_tools
from sash.core.law.recall import Recollection
from sash.core.law.records.figures import Dropped, WindowTokens
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.caching import settled
from sash.core.law.selection.choice import BLOCK
from sash.core.law.selection.sending import decided_reasoning
from sash.core.providers import PROVIDERS
from sash.core.providers.form.provider import Provider
from sash.problems import Pointer, UnknownModel, Unprocessable
from sash.windows.head import NO_DOCUMENTS, Kept, WindowHead
from sash.windows.request import HistoryRequest

_DEFAULT_RESERVE = 1024


class Limits(msgspec.Struct, frozen=True):
    """A window's model, and its reserve and budget in tokens."""

    model: Model
    reserve: int
    budget: int


class WindowPlan(Plan, frozen=True, dict=True, eq=False):
    """A plan, and what follows from it for the answer."""

    told: tuple[Any, ...] = ()
    """What the receipts of stored conversations' windows say of it (``receipts.told_of``)."""

    @cached_property
    def form(self) -> Provider:
        """The form of the request."""
        return PROVIDERS[self.query.format]

    @cached_property
    def is_estimate(self) -> bool:
        """Whether tokens are estimated, which reported bills may correct."""
        return not self.model.exact or self.model.vocabulary is not None

    @cached_property
    def is_woken(self) -> bool:
        """Whether of texts alone, too, more may be sent than these as they are stored, or more be told."""
        query, parts = self.query, self.parts
        is_asked = query.explain or query.view is not None or query.recall_max_tokens > 0 or query.history_tools
        are_mended = parts.mends or parts.odd_shots
        has_turns = self.is_opened or self.going_on or (parts.few_shots and self.opening)
        is_written = not self.form.is_chat_form or self.is_recounted or self.refused or query.cache != "none"
        return bool(is_asked or are_mended or has_turns or is_written)

    @cached_property
    def head(self) -> WindowHead:
        """The answer's head without a conversation, of a window without a message."""
        model, is_known = self.model, self.model.context_window < NO_WINDOW
        return WindowHead(
            conversation_id=None,
            version=None,
            etag=None,
            model=model.id,
            encoding=model.counted_with,
            exact=self.text_is_exact,
            context_window=model.context_window if is_known else None,
            max_input_tokens=model.max_input_tokens if is_known else None,
            reserve=self.reserve,
            budget=self.budget,
            format=self.query.format,
            tokens=WindowTokens(*[0] * len(WindowTokens.__struct_fields__)),
            kept=Kept(0, None, None),
            dropped=Dropped(*[0] * len(Dropped.__struct_fields__)),
            grounding=NO_DOCUMENTS,
            stop_reason="",
            summary_used=False,
            note=0,
            names={sent: own for own, sent in self.parts.names.items()},
            correction=model.correction,
            model_assumed=model.assumed,
        )


class Asked(msgspec.Struct, frozen=True):
    """A request for a window: its plan, and what is the conversation's own."""

    plan: WindowPlan
    conversation: str | None = None
    """The conversation, to which the texts of shortened results refer."""
    version: int | None = None
    """The version of the stored conversation; None for a history in the request, which is not stored."""
    etag: str | None = None
    """The entity tag of the stored conversation, with its quotes."""
    receipt: Callable[[bytes, int], bytes] | None = None
    """Names the window of a stored conversation, from the answer's bytes and its tokens."""
    recall: str | None = None
    """The stored conversation's recall mode, if messages may be recalled."""
    recall_reserve: int = 0
    """Tokens of the budget that are reserved for recall."""
    recollection: Recollection | None = None
    cache_key: str = ""
    """The conversation's ``prompt_cache_key``, with ``cache=auto``."""
    is_unknown_view: bool = False
    """Whether the query's view is none of the conversation's agents."""

    @property
    def block(self) -> int:
        """The reference tokens of a stable cut's block."""
        return BLOCK * self.plan.below_a_tier

    def with_tools(self, first_seen: int, length: int) -> "Asked":
        """The request with the tools that read its history, which tell the first message that its window has."""
        parts = with_history_tools(self.plan.parts, first_seen, length)
        return msgspec.structs.replace(self, plan=msgspec.structs.replace(self.plan, parts=parts))


def plan_of(query: WindowQuery, parts: FixedParts, limits: Limits, told: tuple[Any, ...] = ()) -> WindowPlan:
    """The plan of a window with these fixed parts and limits."""
    model, reserve, budget = limits.model, limits.reserve, limits.budget
    query = decided_reasoning(settled(query, model, budget), model)
    return WindowPlan(query, at_destination(parts, model), model, reserve, budget, told)


def limits_of(query: WindowQuery, settings: ConversationSettings, models: Mapping[str, Model]) -> Limits:
    """The model that the query or the conversation names, and the window's reserve and budget.

    Raises:
        UnknownModel: the name is unknown, and the query has no ``max_tokens``.
        Unprocessable: no model is named, or the reserve leaves no tokens.
    """
    place = "#" if isinstance(query, HistoryRequest) else "#/query"
    name = query.model or settings.model
    if name is None:
        where = "in the body" if place == "#" else "in the address, as in ?model=gpt-4o-mini"
        raise Unprocessable.at(f"{place}/model", f"Name the model {where}, or in the conversation's settings")
    try:
        model = find_model(name, models)
    except UnknownModel as unknown:
        if query.max_tokens is None:
            unknown.detail += " With max_tokens any name is taken, and its tokens are estimated."
            raise named(unknown, f"{place}/model") from None
        model = unknown_model(name)
    if query.format != model.format:
        model = model.sent_as(query.format)
    reserve = query.reserve if query.reserve is not None else settings.reserve
    reserve = _DEFAULT_RESERVE if reserve is None else reserve
    budget = min(model.max_input_tokens, model.context_window - reserve, query.max_tokens or model.context_window)
    if budget <= 0:
        detail = f"The reserve of {reserve} tokens leaves no room in {name}'s context window of {model.context_window}"
        members = {"reserve": reserve, "context_window": model.context_window}
        raise Unprocessable.at(f"{place}/reserve", detail, members)
    return Limits(model, reserve, budget)


def check_tools_of(settings: ConversationSettings, models: Mapping[str, Model]) -> None:
    """Raise WindowDoesNotFit if the conversation's model does not take so many tools, or their names.

    Without a known model, they are checked when a window is asked for.
    """
    if not (settings.tools and settings.model):
        return
    with suppress(UnknownModel):
        check_tools(settings.tools, find_model(settings.model, models), "#/tools")


def named_model(
    name: str, models: Mapping[str, Model], find: Callable[[str, Mapping[str, Model]], Model] = find_model
) -> Model:
    """The model that the member ``model`` of a body names. Raises UnknownModel.

    ``find`` is ``countable_model`` where the model only counts: then a bound stands for an unknown maker's.
    """
    try:
        return find(name, models)
    except UnknownModel as unknown:
        raise named(unknown, "#/model") from None


def named(unknown: UnknownModel, pointer: str) -> UnknownModel:
    """The problem with ``pointer``, the name's place in the request."""
    detail = "No model has this name"
    return UnknownModel(unknown.detail, errors=[Pointer(pointer, detail)], members=unknown.members)
