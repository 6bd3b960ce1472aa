"""Steps along a conversation's events."""

import random
import time
from typing import Final, Literal, Protocol

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
    "reset",
    "erased",
    "left",
    "listed",
]


End = Literal["gone", "slow", "drained", "revoked", "erased", "failed"]
"""Why a stream ended."""


class Event(msgspec.Struct, frozen=True):
    """An event: its data with messages' names alone, and with messages whole. ``version`` is 0 of one that is erased."""

    type: EventType
    version: int
    life: str
    named: bytes
    whole: bytes
    change: str = ""
    """The name of the write, where it is known; then the event's id is the ETag."""

    def text(self, *, whole: bool) -> bytes:
        """The event for a reader of its conversation. An event that ends it leaves no id behind."""
        parts = (str(self.version), self.life, self.change) if self.life else ()
        identity = "-".join(filter(None, parts))
        return event_text(self.type, identity, self.whole if whole else self.named)


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
    """Takes a conversation's events. ``whole`` says whether it needs messages whole."""

    whole: bool

    def take(self, event: Event) -> bool:
        """Take an event, unless it has it; returns whether it was new."""

    def end(self, why: End) -> None:
        """Take no more."""


class EventMaker(Protocol):
    """Makes conversations' events."""

    async def head(self, target: Target) -> ReaderPlace | None:
        """How far a conversation is; None where there is none."""

    async def after(self, target: Target, place: ReaderPlace, *, whole: bool) -> EventStep:
        """The events after a place. ``whole``: they are needed with whole messages too."""

    async def reset(self, target: Target) -> EventStep:
        """The event ``reset``: the present state, for a reader who must read everything again. Raises NotFound."""
