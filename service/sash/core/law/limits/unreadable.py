"""Pictures and files of which a message has only an address or a name that the window's model cannot read."""

from collections.abc import Iterator

from sash.core.counts.measures.media_facts import Medium
from sash.core.counts.models.models import Model
from sash.core.law.history.view import History
from sash.core.law.selection.window import Window
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.mends import ENDED_REFERENCE, FOREIGN_REFERENCE, Mend
from sash.core.providers.messages.references import is_readable


def why_unreadable(medium: Medium, model: Model, now: int) -> Mend | None:
    """The mend of a medium that is a line in every window of this model; None if it can be read.

    ``now`` is the window's time in seconds since 1970; 0 if it is not known.
    """
    if not (medium.issuer or medium.until):
        return None
    if not is_readable(medium.issuer, PROVIDERS[model.format].maker, model.provider, model.id):
        return FOREIGN_REFERENCE
    return ENDED_REFERENCE if 0 < medium.until < now else None


def has_unreadable(history: History, model: Model) -> bool:
    """Whether a message that was read has such a medium."""
    records = history.records
    if not records.details:
        return False
    return any(why_unreadable(medium, model, history.now) for media in records.media.values() for medium in media)


def unreadable_in(window: Window, history: History, model: Model) -> Iterator[tuple[int, Mend]]:
    """Yield the mends of media that are lines because they cannot be read, each with its message's seq."""
    for seq in window.lined:
        media = history.records[window.row_of[seq]].enclosed
        for number in window.edits[seq].media:
            if mend := why_unreadable(media[number], model, history.now):
                yield seq, mend
