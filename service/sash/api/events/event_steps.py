"""Steps along a conversation's events."""

from typing import Literal, Protocol

import msgspec

from sash.store.data.layout import Target

EventType = Literal["appended", "replaced", "rewound", "redacted", "amended", "settings", "summary", "reset", "erased"]


class Event(msgspec.Struct, frozen=True):
    """An event as text, with messages' names alone and with messages whole; ``version`` is 0 of one that is erased."""

    type: EventType
    version: int
    named: bytes
    whole: bytes

    def text(self, *, whole: bool) -> bytes:
        """The event for a reader."""
        return self.whole if whole else self.named


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


class EventMaker(Protocol):
    """Makes conversations' events."""

    async def head(self, target: Target) -> ReaderPlace | None:
        """How far a conversation is; None where there is none."""

    async def after(self, target: Target, place: ReaderPlace, *, whole: bool) -> EventStep:
        """The events after a place. ``whole``: they are needed with whole messages too."""

    async def reset(self, target: Target) -> EventStep:
        """The event that says to read all anew, with the state. Raises NotFound."""
