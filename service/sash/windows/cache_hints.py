"""A window's hints for the provider's prompt cache, with ``cache=auto``."""

from typing import NamedTuple

from sash.core.law.selection.caching import caching_of
from sash.core.law.selection.window import Window
from sash.core.providers.form.cache_marks import CacheKind, Places
from sash.windows.asked import Asked


class Hints(NamedTuple):
    """Additions of ``cache=auto``: the kind of the cache, which is None if the request takes no hints, their places, and the
    cache key."""

    kind: CacheKind | None
    places: Places
    key: str


def hints_of(asked: Asked, window: Window) -> Hints:
    """The hints of a window."""
    query, model, form = asked.plan.query, asked.plan.model, asked.plan.form
    rules, places = caching_of(model), places_of(window, window.question, stable=bool(query.stable))
    if rules is None or not form.takes_marks(rules.kind):
        return Hints(None, places, "")
    key = asked.cache_key if model.provider == form.maker else ""  # for the maker's own cache alone
    return Hints(rules.kind, places, key)


def places_of(window: Window, question: int, *, stable: bool) -> Places:
    """The places up to which the next window begins like this one; ``question`` is the newest user message's seq.

    The end of the definitions and that of the system text always are such places. Among the messages these may be:

    - the message before the newest question, because the question's documents are not in the next window;
    - the newest message, unless it is a question with documents.

    They are not if history was left out without a stable cut, because the next window then begins at another message.
    """
    cut = _slides(window) or any(edit.limit is not None or edit.media for edit in window.edits.values())
    steady = bool(window.seqs) and (stable or not cut)
    recalled = window.recalled is not None and bool(window.recalled.block)
    return Places(
        before_question=steady and question in window.seqs[1:],
        newest=steady and not recalled and window.seqs[-1] not in window.grounding,
        recalled=recalled,
    )


def _slides(window: Window) -> bool:
    """Whether history begins later in each window; a summary stays where it is."""
    return window.dropped.messages > 0 and window.stop_reason != "summary"
