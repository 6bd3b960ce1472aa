"""A window's hints for the provider's prompt cache, with ``cache=auto``."""

from contextlib import suppress
from typing import NamedTuple

import msgspec

from sash.core.counts.families import DEVELOPER
from sash.core.law.caching import caching_of
from sash.core.law.documents import Documents
from sash.core.law.expected import CachedWindow, Expected, before_reply, began_alike, expect, places_of
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
    query, model = asked.query, asked.limits.model
    stable, rules = bool(query.stable), caching_of(model)
    places = places_of(window, history.question, stable=stable)
    asks = Asks()
    if rules is None or (
        rules.kind == "cache_control" and not PROVIDERS[query.format].has_cache_control
    ):  # no mark can be sent
        return Hints(None, places, "", Expected(0, 0))
    if query.price == "auto":
        asks = asks_of(history.records, rules)
        places = _asking(places, asks, rules)
    earlier, before = before_reply(history), None
    if isinstance(earlier, NeedOlder):
        return earlier
    if earlier is not None:
        before = _window_before(asked, window, history, earlier, documents)
    if isinstance(before, NeedOlder):
        return before
    if before and earlier and query.history_tools and first_seen(before, earlier) != first_seen(window, history):
        before = None  # the tools, at the beginning of a request, name another message
    # The window before is made without what it recalled.
    stayed = places_of(before, earlier.question, stable=stable) if before and earlier else None
    if stayed is not None and earlier is not None and query.price == "auto":
        stayed = _asking(stayed, asks_of(earlier.records, rules), rules)
    if stayed is not None and places.recalled:
        stayed = msgspec.structs.replace(stayed, newest=False)
    differs_at = 0
    recalls = bool(query.recall_max_tokens and before and before.dropped["messages"])
    if earlier and before and recalls and not _recalls_alike(asked, window, history, before, earlier):
        # Other recalled messages: in a block before the question, or between the system messages and the tail.
        roles = ((seq, earlier.role(seq)) for seq in before.seqs)
        told = next((seq for seq, role in roles if role > DEVELOPER), 0)
        differs_at = (stable and earlier.question) or told
    now = CachedWindow(window, history, model, documents, places)
    then = CachedWindow(before, history, model, documents, stayed) if before and stayed else None
    expected = expect(rules, then, now, differs_at=differs_at)
    key = asked.cache_key if model.provider == PROVIDERS[query.format].maker else ""  # for the maker's own cache alone
    return Hints(rules, places, key, expected, rules.longer if asks.longer else None)


def _asking(places: Places, asks: Asks, rules: Caching) -> Places:
    """The places, with what is asked of the cache by the conversation's pauses."""
    if asks.nothing:
        return msgspec.structs.replace(places, before_question=False, newest=False, alone=True)
    return msgspec.structs.replace(places, lifetime=rules.longer.name) if asks.longer and rules.longer else places


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
