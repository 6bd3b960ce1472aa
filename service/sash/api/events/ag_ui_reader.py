"""Sends a conversation to one reader as AG-UI's events: first a snapshot, then what is new in its newest messages.

::

    RUN_STARTED  MESSAGES_SNAPSHOT  CUSTOM sash.version        TEXT_MESSAGE_CONTENT …  CUSTOM sash.version
                                    id: 7-…                                           id: 8-…

No event says all that a version did. So after each version the newest messages are read and compared with those that were
sent, and the difference is sent. A change for which AG-UI has no events, such as a deleted message, is a new snapshot.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from sash.api.cursors import cursor_of
from sash.api.events.event_steps import NAMED, End, Event, EventStep, ReaderPlace
from sash.api.events.event_stream import EventStream
from sash.api.events.feed import Feed
from sash.api.screen_pages import ScreenPage
from sash.core.screens.ag_ui_events import NoEvents, ended, events_between, open_after, opened

MESSAGES: Final = 1000
"""The largest number of users' messages and turns in a snapshot."""
_NEWEST: Final = 4
"""How many of these are read after each version. If more are new, a snapshot is sent."""

Object = dict[str, Any]
ReadNewest = Callable[[int], Awaitable[ScreenPage]]
"""Reads so many of the newest messages and turns."""


class _Changed(msgspec.Struct, frozen=True):
    """The members of an event that are needed here: its type, and which messages it changed."""

    type: str
    to_seq: int | None = None
    messages: Sequence["_Place"] = ()
    left_out: Sequence[int] = ()

    @property
    def first_seq(self) -> int | None:
        """The seq of the first message that was changed or added; None if there is none."""
        if self.type in ("reset", "branches"):
            return 0
        seqs = [each.seq for each in self.messages] + [*self.left_out]
        return min([*seqs, *([] if self.to_seq is None else [self.to_seq + 1])], default=None)


class _Place(msgspec.Struct, frozen=True):
    seq: int


_changed = msgspec.json.Decoder(_Changed)


class AgUiReader:
    """A reader with a place, and its stream. One that comes back to the state that it left gets no snapshot."""

    form = NAMED

    def __init__(
        self, feed: Feed, stream: EventStream, place: ReaderPlace | None, *, thread: str, read: ReadNewest
    ) -> None:
        self.stream = stream
        self._feed = feed
        self._place = place
        self._resets = feed.resets
        self._thread = thread
        self._read = read
        self._is_begun = False
        self._told: Sequence[Object] | None = None
        """The newest messages that were sent to it; None if that is not known."""
        self._open: dict[str, None] = {}
        """The ids of messages whose text was begun and not ended. They may be older than the newest."""

    async def pull(self) -> None:
        """Put what came after the reader's place. It is told of the next event from then on.

        Raises NotFound, StoreUnavailable and what reading messages raises.
        """
        if self._resets != self._feed.resets:
            self._place, self._told, self._resets = None, None, self._feed.resets
        step = await self._feed.step(NAMED, self._place)
        if self._resets != self._feed.resets:
            return  # versions of the step may be others now
        if step.place is None:
            self._put([*map(ended, self._open), _snapshot_of(()), {"type": "RUN_FINISHED", **self._run}])
            self.stream.end("erased")
            return
        events = await (self._begin(step) if self._told is None else self._go_on(step, self._told))
        self._put(events, step.place)
        for event in step.events:
            self._feed.note(event, NAMED)
        self._place = step.place
        if self._feed.admit(self, step):
            self.stream.is_behind = False

    async def _begin(self, step: EventStep) -> Sequence[Object]:
        """The first events. A reader that has the present state already needs no snapshot."""
        if self._place is None or step.events:
            return await self._snapshot()
        page = await self._read(_NEWEST)
        if step.place is None or page.state.version != step.place.version:
            return await self._snapshot()
        self._told = page.messages
        return opened(page.messages)

    async def _go_on(self, step: EventStep, told: Sequence[Object]) -> Sequence[Object]:
        """The difference between the newest messages and those that were sent."""
        seqs = [seq for each in step.events if (seq := _changed.decode(each.named).first_seq) is not None]
        if not seqs:
            return ()
        page = await self._read(_NEWEST)
        try:
            events = events_between(told, page.messages, min(seqs))
        except NoEvents:
            return await self._snapshot()
        self._told = page.messages
        return events

    async def _snapshot(self) -> Sequence[Object]:
        """A snapshot: all messages, or of a long chat the newest ones, with the cursor of the older ones."""
        page = await self._read(MESSAGES)
        ends = [*map(ended, self._open)]
        self._told = page.messages[page.begins[-_NEWEST:][0] if page.begins else 0 :]
        older: list[Object] = []
        if page.following is not None:
            cursor = cursor_of(f"D{page.following}:{page.state.life}")
            older = [{"type": "CUSTOM", "name": "sash.older", "value": {"next_cursor": cursor}}]
        return [*ends, _snapshot_of(page.messages), *opened(page.messages), *older]

    @property
    def _run(self) -> Object:
        return {"threadId": self._thread, "runId": f"{self._thread}-events"}

    def _put(self, events: Sequence[Object], place: ReaderPlace | None = None) -> None:
        """Put events; behind them how far the reader is."""
        self._open = open_after(self._open, events)
        if not self._is_begun:
            events, self._is_begun = [{"type": "RUN_STARTED", **self._run}, *events], True
        self.stream.events += len(events)
        told = b"".join(b"data: %b\n\n" % msgspec.json.encode(each) for each in events)
        if place is not None:
            identity = "-".join(filter(None, (str(place.version), place.life, place.change)))
            version = {"type": "CUSTOM", "name": "sash.version", "value": {"version": place.version}}
            told += b"id: %b\ndata: %b\n\n" % (identity.encode(), msgspec.json.encode(version))
        self.stream.put(told)

    def take(self, event: Event) -> int:
        """Look at the newest messages soon, unless the reader has the event; returns whether it does."""
        place = self._place
        if event.type not in ("reset", "erased") and place is not None and event.version <= place.version:
            return False
        self._feed.readers.discard(self)
        self.stream.fall_behind()
        return True

    def end(self, why: End) -> None:
        """Take no more."""
        self.stream.end(why)


def _snapshot_of(messages: Sequence[Object]) -> Object:
    return {"type": "MESSAGES_SNAPSHOT", "messages": messages}
