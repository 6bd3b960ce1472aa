"""Screens' forms of a history: what frontends' frameworks draw, and send back.

A provider's form is what a model is sent; a screen's is what a person sees of the same log. A form shows units: a user's
message, and a turn, which is all of the assistant's between two of them. It reads them as entries again. What is no part of
a model's message, such as a frontend's own data, is kept beside the entry, and given back to the screen alone.
"""

from collections.abc import Sequence
from typing import Any, Final

from sash.core.chat.messages import Entry
from sash.core.providers.reading.native_entries import ReadEntries
from sash.core.screens.ag_ui_messages import AG_UI
from sash.core.screens.screen_form import KEPT, ScreenForm
from sash.core.screens.ui_messages import UI

SCREENS: Final[dict[str, ScreenForm]] = {each.name: each for each in (UI, AG_UI)}
"""Every screen's form, by its name. To add one, write its file and name it here."""


def read_screen(form: str, values: Sequence[dict[str, Any]]) -> ReadEntries:
    """The entries of a request's ``values``, which are a screen's messages, or chat messages. Raises BadRequest."""
    entries: list[Entry] = []
    places: list[int] = []
    before: list[dict[str, Any]] = []
    for place, value in enumerate(values):
        if SCREENS[form].stands_before(value):
            before.append(value)
            continue
        found = SCREENS[form].read(value, f"/messages/{place}")
        if before and found:
            _keep(found[0], before)
            before = []
        entries += found
        places += [place] * len(found)
    return ReadEntries(entries, places, are_made=True)


def _keep(entry: Entry, before: list[dict[str, Any]]) -> None:
    """Keep messages that are none of a model's with the entry that stands behind them."""
    metadata = entry.metadata or {}
    entry.metadata = {**metadata, KEPT: {**metadata.get(KEPT, {}), "before": before}}
