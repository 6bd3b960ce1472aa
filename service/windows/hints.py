"""A window's hints for the provider's prompt cache, with ``cache=auto``."""

from contextlib import suppress
from typing import NamedTuple

import msgspec

from service.core.caching import Caching, caching_of
from service.core.documents import Documents
from service.core.expected import Expected, before_reply, expect, places_of
from service.core.families import DEVELOPER
from service.core.hints import Places
from service.core.view import History
from service.core.window import NeedOlder, Window
from service.problems import WindowDoesNotFit
from service.windows.asked import Asked, build


class Hints(NamedTuple):
    """Additions of ``cache=auto``: the cache's rules, the places of the hints, the cache key, and the expected result."""

    rules: Caching | None
    places: Places
    key: str
    expected: Expected


def hints_of(asked: Asked, history: History, window: Window, documents: Documents) -> Hints | NeedOlder:
    """The hints of a window; NeedOlder if the window before it needs older messages."""
    query, model = asked.query, asked.limits.model
    stable, rules = bool(query.stable), caching_of(model)
    places = places_of(window, history.question, stable=stable)
    if rules is None or (rules.kind == "cache_control" and query.format != "anthropic"):  # no mark can be sent
        return Hints(None, places, "", Expected(0, 0))
    earlier, before = before_reply(history), None
    if isinstance(earlier, NeedOlder):
        return earlier
    if earlier is not None:
        with suppress(WindowDoesNotFit):
            before = build(asked, earlier, _documents_before(asked, earlier, documents))
    if isinstance(before, NeedOlder):
        return before
    # The window before is made without what it recalled.
    stayed = places_of(before, earlier.question, stable=stable) if before and earlier else None
    if stayed is not None and places.recalled:
        stayed = msgspec.structs.replace(stayed, newest=False)
    question = earlier.question if earlier and earlier.question != history.question else 0
    differs_at = question if places.recalled else 0
    if earlier and question and before and before.dropped["messages"] and query.recall_max_tokens and not stable:
        # The previous question had other recalled messages, between the system messages and the tail.
        roles = ((seq, earlier.record(seq).measure.role) for seq in before.seqs)
        differs_at = next((seq for seq, role in roles if role > DEVELOPER), 0)
    expected = expect(
        rules,
        model,
        history,
        (before, stayed) if before and stayed else None,
        (window, places),
        documents=documents,
        differs_at=differs_at,
    )
    return Hints(rules, places, asked.cache_key, expected)


def _documents_before(asked: Asked, earlier: History, documents: Documents) -> Documents:
    """The documents of the window before, with those of its question, which need not have been read."""
    if asked.query.grounding != "latest" or not earlier.question:
        return documents
    return msgspec.structs.replace(documents, unread={earlier.question: earlier.record(earlier.question)})
