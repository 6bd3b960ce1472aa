"""One reader of a conversation: it pulls the events that it lacks, page by page, and then takes each new one."""

from sash.api.events.event_steps import End, Event, ReaderPlace
from sash.api.events.event_stream import EventStream
from sash.api.events.feed import Feed


class ConversationReader:
    """A reader with a place, and its stream. A reader without a place gets the state first."""

    def __init__(self, feed: Feed, stream: EventStream, place: ReaderPlace | None) -> None:
        self.form = stream.form
        self.stream = stream
        self._feed = feed
        self._place = place
        self._resets = feed.resets

    async def pull(self) -> None:
        """Put the next events after the reader's place; where there are no more, take the live ones from now on.

        Raises NotFound, StoreUnavailable and what reading messages raises.
        """
        if self._resets != self._feed.resets:
            self._place, self._resets = None, self._feed.resets
        step = await self._feed.step(self.form, self._place)
        if self._resets != self._feed.resets:
            return  # versions of the step may be others now
        for event in step.events:
            self.stream.events += 1
            self.stream.put(event.text(self.form))
            self._feed.note(event, self.form)
        self._place = step.place
        if step.place is None:
            self.stream.end("erased")
        elif self._feed.admit(self, step):
            self.stream.is_behind = False

    def take(self, event: Event) -> int:
        """Send a live event, unless the reader has it; returns whether it was sent. If too much waits, pull it later."""
        place = self._place
        if event.type not in ("reset", "erased") and place is not None and event.version <= place.version:
            return False
        if not self.stream.has_room:
            self._feed.readers.discard(self)
            self.stream.is_behind = True
            return False
        self._place = ReaderPlace(event.version, event.life, None, event.change)
        if event.type == "reset":
            self._resets = self._feed.resets
        self.stream.events += 1
        self.stream.push(event.text(self.form))
        return True

    def end(self, why: End) -> None:
        """Take no more."""
        self.stream.end(why)
