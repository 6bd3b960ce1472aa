"""A window's hints for the provider's prompt cache, with ``cache=auto``."""

from contextlib import suppress
from typing import NamedTuple

import msgspec

from sash.core.counts.families import DEVELOPER
from sash.core.law.caching import caching_of
from sash.core.law.documents import Documents
from sash.core.law.expected import CachedWindow, Expected, before_reply, began_alike, expect, places_of
from sash.core.law.parameters import WindowQuery
from sash.core.law.rhythm import Asks, asks_of
from sash.core.law.view import History
from sash.core.law.window import NeedOlder, Window
from sash.core.providers import PROVIDERS
from sash.core.providers.cache_marks import Caching, Lifetime, Places
from sash.problems import WindowDoesNotFit
from sash.windows.asked import Asked, build
from sash.windows.recalling import first_seen, last_left_out


class Hints(NamedTuple):
    """Additions of ``cache=auto``: the cache's rules, the places of the hints, the cache key, and the expected result."""

    rules: Caching | None
    places: Places
    key: str
    expected: Expected
    lifetime: Lifetime | None = None
    """The longer lifetime that is asked for."""


def hints_of(asked: Asked, history: History, window: Window, documents: Documents) -> Hints | NeedOlder:
    """The hints of a window; NeedOlder if the window before it needs older messages."""
    query, model, form = asked.query, asked.limits.model, PROVIDERS[asked.query.format]
    rules = caching_of(model)
    if rules is None or not form.takes_marks(rules.kind):
        return Hints(None, places_of(window, history.question, stable=bool(query.stable)), "", Expected(0, 0))
    places, asks = _asking(query, window, history, rules)
    earlier = before_reply(history)
    if isinstance(earlier, NeedOlder):
        return earlier
    before = _window_before(asked, window, history, earlier, documents) if earlier is not None else None
    if isinstance(before, NeedOlder):
        return before
    if query.history_tools and before and earlier and first_seen(before, earlier) != first_seen(window, history):
        before = None  # the tools, at the beginning of a request, name another message
    then, differs_at = None, 0
    if earlier is not None and before is not None:
        stayed, _ = _asking(query, before, earlier, rules)
        if places.recalled:  # the window before is made without what it recalled
            stayed = msgspec.structs.replace(stayed, newest=False)
        then = CachedWindow(before, history, model, stayed)
        recalls = query.recall_max_tokens and before.dropped["messages"]
        if recalls and not _recalls_alike(asked, window, history, before, earlier):
            # Other recalled messages: in a block before the question, or between the system messages and the tail.
            roles = ((seq, earlier.role(seq)) for seq in before.seqs)
            told = next((seq for seq, role in roles if role > DEVELOPER), 0)
            differs_at = (query.stable and earlier.question) or told
    now = CachedWindow(window, history, model, places)
    expected = expect(rules, then, now, differs_at=differs_at)
    key = asked.cache_key if model.provider == form.maker else ""  # for the maker's own cache alone
    return Hints(rules, places, key, expected, asks.longer)


def _asking(query: WindowQuery, window: Window, history: History, rules: Caching) -> tuple[Places, Asks]:
    """The places of a window, and what is asked of the cache there by the conversation's pauses."""
    places = places_of(window, history.question, stable=bool(query.stable))
    asks = asks_of(history.tail, rules) if query.price == "auto" else Asks()
    if asks.nothing:
        places = msgspec.structs.replace(places, before_question=False, newest=False, alone=True)
    elif asks.longer:
        places = msgspec.structs.replace(places, lifetime=asks.longer.name)
    return places, asks


def _window_before(
    asked: Asked, window: Window, history: History, earlier: History, documents: Documents
) -> Window | NeedOlder | None:
    """The window before; None if there was none, because it did not fit. ``window`` is this one.

    As long as nothing is left out, no tokens are reserved for recall.
    """
    if asked.query.price != "auto" and (before := began_alike(window, history, earlier)) is not None:
        return before
    documents = _documents_before(asked, earlier, documents)
    with suppress(WindowDoesNotFit):
        found = build(msgspec.structs.replace(asked, aside=0), earlier, documents)
        is_whole = isinstance(found, NeedOlder) or not found.dropped["messages"]
        return found if is_whole or not asked.aside else build(asked, earlier, documents)
    return None


def _recalls_alike(asked: Asked, window: Window, history: History, before: Window, earlier: History) -> bool:
    """Whether the window before likely recalled the same messages: it had the same question, and left all of them out.

    A block had as much room, too.
    """
    recalled = window.recalled
    if earlier.question != history.question or recalled is None:
        return False
    if max(recalled.lines, default=0) > last_left_out(before.seqs, earlier.length):
        return False
    block = recalled.tokens if recalled.block else 0
    rooms = (asked.limits.budget - total for total in (before.tokens["total"], window.tokens["total"] - block))
    return not asked.query.stable or len({min(asked.query.recall_max_tokens, room) for room in rooms}) == 1


def _documents_before(asked: Asked, earlier: History, documents: Documents) -> Documents:
    """The documents of the window before, with those of its question, which need not have been read."""
    if asked.query.grounding != "latest" or not (earlier.question and earlier.grounding_messages):
        return documents
    return msgspec.structs.replace(documents, unread={earlier.question: earlier.record(earlier.question)})
