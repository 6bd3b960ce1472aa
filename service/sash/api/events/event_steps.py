"""Steps along a conversation's events."""

import random
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from sash.store.data.layout import Target

HEARTBEAT_SECONDS: Final = 15.0
"""From one look at a feed, and from one sign of life to a reader, to the next."""
EventType = Literal[
    "appended",
    "replaced",
    "rewound",
    "redacted",
    "amended",
    "settings",
    "summary",
    "branches",
    "unseen",
    "reset",
    "erased",
    "left",
    "listed",
]


End = Literal["gone", "slow", "drained", "revoked", "erased", "failed"]
"""Why a stream ended."""


class EventForm(NamedTuple):
    """What a reader gets: all messages, or those that the agent ``view`` sees; by their names, or ``whole``."""

    view: str | None = None
    whole: bool = False


NAMED: Final = EventForm()
"""All messages, by their names."""


class EventText(NamedTuple):
    """An event in one form. An agent may see less of it, and so another type."""

    type: EventType
    data: bytes


class Event(msgspec.Struct, frozen=True):
    """An event: its data in the form ``NAMED``. ``version`` is 0 of one that is erased."""

    type: EventType
    version: int
    life: str
    named: bytes
    forms: Mapping[EventForm, EventText] | None = None
    """All forms that its readers need; None where each reader gets the same."""
    change: str = ""
    """The name of the write, where it is known; then the event's id is the ETag."""

    def text(self, form: EventForm) -> bytes:
        """The event for a reader of its conversation. An event that ends it leaves no id behind."""
        parts = (str(self.version), self.life, self.change) if self.life else ()
        told = self.told(form)
        return event_text(told.type, "-".join(filter(None, parts)), told.data)

    def told(self, form: EventForm) -> EventText:
        """The event in a form."""
        return EventText(self.type, self.named) if self.forms is None else self.forms[form]


def looked_lately() -> float:
    """A moment of the last ``HEARTBEAT_SECONDS``, in monotonic seconds, so that what begins together is not due together."""
    return time.monotonic() - random.uniform(0, HEARTBEAT_SECONDS)  # noqa: S311 - it spreads work


def event_text(kind: str, identity: str, data: bytes) -> bytes:
    """An event in the form of server-sent events."""
    return b"event: %b\nid: %b\ndata: %b\n\n" % (kind.encode(), identity.encode(), data)


class ReaderPlace(msgspec.Struct, frozen=True):
    """How far a reader is: a version of a life, empty where it is not known; and the length and the name of the write
    then, where they are known."""

    version: int
    life: str
    length: int | None = None
    change: str = ""


class EventStep(msgspec.Struct, frozen=True):
    """The events after a place, oldest first, and the place behind them; None of a conversation that is gone."""

    events: list[Event]
    place: ReaderPlace | None
    more: bool = False
    updated_ms: int = 0


class EventReader(Protocol):
    """Takes a conversation's events in its form."""

    form: EventForm

    def take(self, event: Event) -> int:
        """Take an event, unless it has it; returns the number of streams that it was sent to."""

    def end(self, why: End) -> None:
        """Take no more."""


class EventMaker(Protocol):
    """Makes conversations' events."""

    async def head(self, target: Target) -> ReaderPlace | None:
        """How far a conversation is; None where there is none."""

    async def after(self, target: Target, place: ReaderPlace, forms: AbstractSet[EventForm]) -> EventStep:
        """The events after a place, in all forms that are needed."""

    async def reset(self, target: Target, forms: AbstractSet[EventForm]) -> EventStep:
        """The event ``reset``: the present state, for a reader who must read everything again. Raises NotFound."""
