"""A window's model and budget."""

from collections.abc import Mapping

import msgspec

from service.core.models import Model, find_model, unknown_model
from service.core.parameters import WindowQuery
from service.core.settings import ConversationSettings
from service.problems import Pointer, UnknownModel, Unprocessable
from service.windows.request import WindowRequest

_DEFAULT_RESERVE = 1024


class Limits(msgspec.Struct, frozen=True):
    """A window's model, and its reserve and budget in tokens."""

    model: Model
    reserve: int
    budget: int


def limits_of(query: WindowQuery, settings: ConversationSettings, models: Mapping[str, Model]) -> Limits:
    """The model that the query or the conversation names, and the window's reserve and budget.

    Raises:
        UnknownModel: the name is unknown, and the query has no ``max_tokens``.
        Unprocessable: no model is named, or the reserve leaves no tokens.
    """
    place = "#" if isinstance(query, WindowRequest) else "#/query"
    name = query.model or settings.model
    if name is None:
        detail = "Give a model here, or in the conversation's settings"
        raise Unprocessable(f"{detail}.", errors=[Pointer(f"{place}/model", detail)])
    try:
        model = find_model(name, models)
    except UnknownModel as unknown:
        if query.max_tokens is None:
            raise named(unknown, f"{place}/model") from None
        model = unknown_model(name)
    if query.format != model.format:
        model = model.sent_as(query.format)
    reserve = query.reserve if query.reserve is not None else settings.reserve
    reserve = _DEFAULT_RESERVE if reserve is None else reserve
    budget = min(model.max_input_tokens, model.context_window - reserve, query.max_tokens or model.context_window)
    if budget <= 0:
        detail = f"The reserve of {reserve} tokens leaves no room in {name}'s context window of {model.context_window}"
        raise Unprocessable(
            f"{detail}.",
            errors=[Pointer(f"{place}/reserve", detail)],
            members={"reserve": reserve, "context_window": model.context_window},
        )
    return Limits(model, reserve, budget)


def named_model(name: str, models: Mapping[str, Model], pointer: str) -> Model:
    """The model of this name. Raises UnknownModel with ``pointer``, the name's place in the request."""
    try:
        return find_model(name, models)
    except UnknownModel as unknown:
        raise named(unknown, pointer) from None


def named(unknown: UnknownModel, pointer: str) -> UnknownModel:
    """The problem with ``pointer``, the name's place in the request."""
    detail = "No model has this name"
    return UnknownModel(unknown.detail, errors=[Pointer(pointer, detail)], members=unknown.members)
