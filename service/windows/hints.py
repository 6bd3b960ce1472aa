"""A window's hints for the provider's prompt cache, with ``cache=auto``."""

from service.core.caching import caching_of
from service.core.documents import Documents
from service.core.expected import Expected, before_reply, expect, places_of
from service.core.parameters import WindowQuery
from service.core.settings import FixedParts
from service.core.view import History
from service.core.window import NeedOlder, Window, build_window
from service.problems import WindowDoesNotFit
from service.windows.answer import Hints
from service.windows.budgets import Limits


def hints_of(
    query: WindowQuery,
    limits: Limits,
    parts: FixedParts,
    history: History,
    window: Window,
    documents: Documents,
    *,
    key: str = "",
    aside: int = 0,
) -> Hints | NeedOlder:
    """The hints of a window; NeedOlder if the window before it needs older messages.

    ``key`` names the conversation to the provider. ``aside`` are the tokens of the budget reserved for recall.
    """
    stable, rules = bool(query.stable), caching_of(limits.model)
    places = places_of(window, history.question, stable=stable)
    if rules is None:
        return Hints(None, places, "", Expected(0, 0))
    earlier = before_reply(history)
    if isinstance(earlier, NeedOlder):
        return earlier
    before = _window(query, limits, parts, earlier, documents, window.place, aside) if earlier is not None else None
    if isinstance(before, NeedOlder):
        return before
    asked = earlier.question if earlier and earlier.question != history.question else 0
    had_documents = query.grounding == "latest" and asked and history.record(asked).grounding is not None
    had_more = asked and (had_documents or places.recalled)
    expected = expect(
        rules,
        limits.model,
        history,
        (before, places_of(before, earlier.question, stable=stable)) if before and earlier else None,
        (window, places),
        differs_at=asked if had_more else 0,
    )
    return Hints(rules, places, key, expected)


def _window(
    query: WindowQuery,
    limits: Limits,
    parts: FixedParts,
    history: History,
    documents: Documents,
    place: str,
    aside: int,
) -> Window | NeedOlder | None:
    """The window of an earlier history, or NeedOlder; None if it does not fit."""
    try:
        return build_window(
            history,
            model=limits.model,
            budget=limits.budget,
            fixed=parts.fixed,
            options=query,
            documents=documents,
            place=place,
            aside=aside,
        )
    except WindowDoesNotFit:
        return None
