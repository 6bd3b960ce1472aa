"""Pictures, files and sounds that the window's model cannot read: by their type, their issuer, or their time."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sash.core.counts.measures.media_facts import AUDIO, FILE, Medium
from sash.core.counts.models.models import Model
from sash.core.law.history.enclosing import is_taken
from sash.core.law.history.view import History
from sash.core.law.selection.window import Window
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.mends import AS_TEXT, ENDED_REFERENCE, FOREIGN_REFERENCE, UNTAKEN_BY_MODEL, Mend
from sash.core.providers.messages.references import is_readable
from sash.core.providers.writing.media_types import UNTAKEN

_NAMES: Final = {FILE: "file", AUDIO: "audio"}
"""Kinds of media of which a type that is not taken is a line here. Pictures have their lines in their cost."""


def why_unreadable(medium: Medium, model: Model, now: int) -> Mend | None:
    """The mend of a medium that is a line in every window of this model; None if it can be read.

    ``now`` is the window's time in seconds since 1970; 0 if it is not known.
    """
    sent_in = PROVIDERS[model.format]
    if not is_readable(medium.issuer, sent_in.maker, model.provider, model.known_as):
        return FOREIGN_REFERENCE
    if 0 < medium.until < now:
        return ENDED_REFERENCE
    is_form_known = not sent_in.is_chat_form or model.provider == sent_in.maker
    if medium.kind in _NAMES and not medium.issuer and is_form_known:
        is_link = medium.is_linked and medium.size > 0
        if mend := sent_in.takes.mend_of(_NAMES[medium.kind], medium.media_type, is_link=is_link):
            return mend
    return None if is_taken(medium, model) else UNTAKEN_BY_MODEL


def told_among(media: Sequence[Medium], numbers: Iterable[int], model: Model, now: int) -> list[int]:
    """The numbers of those media whose line tells what they are, because their type or their address is not taken."""
    return [number for number in numbers if why_unreadable(media[number], model, now) in (UNTAKEN, AS_TEXT)]


def has_unreadable(history: History, model: Model) -> bool:
    """Whether a message that was read has such a medium. The details must have been read."""
    found = history.records.media.values()
    return any(why_unreadable(medium, model, history.now) for media in found for medium in media)


def unreadable_in(window: Window, history: History, model: Model) -> Iterator[tuple[int, Mend]]:
    """Yield the mends of media that are lines because they cannot be read, each with its message's seq."""
    for row in window.lined:
        media = history.records[row].enclosed
        for number in window.edits[row].media:
            if mend := why_unreadable(media[number], model, history.now):
                yield history.seqs[row], mend
