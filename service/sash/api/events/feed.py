"""The events of one conversation: read once for all of its readers on this worker."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from sash.api.events.event_steps import (
    End,
    Event,
    EventMaker,
    EventReader,
    EventStep,
    EventType,
    ReaderPlace,
    looked_lately,
)
from sash.operations.logging import describe, get_logger
from sash.problems import NotFound, Problem, StoreFull, StoreUnavailable
from sash.store.data.following import Following
from sash.store.data.layout import Target
from sash.tasks import beside_requests

TEXT_SECONDS: Final = 0.25
"""Between two texts of a reply in progress."""
_AGAIN_SECONDS: Final = 0.25
_LOOK_SECONDS: Final = 0.02
_log = get_logger()


class Feed:
    """A conversation with its readers.

    ``sent`` is called for each event with the number of streams by the type that they got, and when it was written, in
    milliseconds.
    """

    def __init__(
        self,
        target: Target,
        following: Following,
        events: EventMaker,
        *,
        sent: Callable[[Mapping[EventType, int], int], None],
    ) -> None:
        self.target = target
        self.readers: set[EventReader] = set()
        self.users = 0
        """Requests that use the feed, whose readers are not all in place yet."""
        self.looked = looked_lately()
        self.renewed = 0.0
        self._following = following
        self._events = events
        self._sent = sent
        self._wake = asyncio.Event()
        self._text_due = 0.0
        self._later: asyncio.TimerHandle | None = None
        self._place: ReaderPlace | None = None
        self.is_doubted = False
        """Whether another server has the conversation, which may lack newest writes, and have others in their place."""
        self._is_reset = False
        self._is_urgent = False
        self._beginning: asyncio.Task[None] = beside_requests(self._begin())
        self._task: asyncio.Task[None] | None = None

    async def _begin(self) -> None:
        await self._following.begin(self.target)
        self.renewed = time.monotonic()
        self._place = await self._events.head(self.target)
        if self._place is not None:
            self._task = beside_requests(self._run())

    async def ready(self) -> None:
        """Return when the conversation is followed. Raises NotFound, StoreUnavailable."""
        await asyncio.shield(self._beginning)

    def told(self, what: bytes) -> None:
        """Take a wake-up. A longer text alone is read four times a second."""
        self._is_urgent |= what != b"text"
        self._wake.set()

    def _is_early(self) -> bool:
        """Whether the text may not be sent yet. It is read when it may."""
        left = self._text_due - time.monotonic()
        if self._is_urgent or left <= 0:
            return False
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(left, self._now)
        return True

    def _now(self) -> None:
        self._later = None
        self._wake.set()

    def reset(self) -> None:
        """Have all readers read anew: the store went back, and versions that they know may be others now."""
        self._is_reset = True
        self.told(b"")

    async def join(self, reader: EventReader, place: ReaderPlace | None) -> None:
        """Send a reader what came after its place, then each event. A reader without a place gets the state first.

        Raises NotFound, StoreUnavailable.
        """
        at = place
        while True:
            step = await (self._events.reset(self.target, {reader.form}) if at is None else self._missed(reader, at))
            for event in step.events:
                self._sent({event.told(reader.form).type: reader.take(event)}, 0)
            if step.place is None:
                reader.end("erased")
                return
            at = step.place
            if self._place is None:
                raise NotFound("There is no such conversation.")
            if not step.more and at.version >= self._place.version and at.life == self._place.life:
                self.readers.add(reader)
                return
            self.told(b"")
            await asyncio.sleep(0 if step.events else _LOOK_SECONDS)

    async def _missed(self, reader: EventReader, at: ReaderPlace) -> EventStep:
        """The events after a reader's place. Another life is another conversation: the reader reads it anew."""
        head = self._place
        if head is not None and at.life and at.life != head.life:
            return await self._events.reset(self.target, {reader.form})
        if head is not None and at.version == head.version and at.change in ("", head.change):
            return EventStep([], head)
        return await self._events.after(self.target, at, {reader.form})

    async def _run(self) -> None:
        while self._place is not None:
            await self._wake.wait()
            self._wake.clear()
            if self._is_early():
                continue
            self._is_urgent = False
            try:
                await self._step(self._place)
            except NotFound:
                self.end("erased")
                return
            except (StoreUnavailable, StoreFull):
                self.told(b"")
                await asyncio.sleep(_AGAIN_SECONDS)
            except Problem as problem:
                _log.error("events cannot be made", problem=problem.slug)
                self.end("failed")
                return
            except Exception as error:  # noqa: BLE001 - whatever it was: readers must not wait for ever
                _log.error("events failed", **describe(error))
                self.end("failed")
                return

    async def _step(self, place: ReaderPlace) -> None:
        is_reset, self._is_reset = self._is_reset, False
        try:
            if self.is_doubted:
                head = await self._events.head(self.target)
                is_reset |= head is not None and (head.version, head.change) != (place.version, place.change)
                self.is_doubted = False
            forms = {reader.form for reader in self.readers}
            step = await (
                self._events.reset(self.target, forms) if is_reset else self._events.after(self.target, place, forms)
            )
        except StoreUnavailable:
            self._is_reset = is_reset or self._is_reset
            raise
        if not forms.issuperset(reader.form for reader in self.readers):
            self._is_reset = is_reset or self._is_reset
            self.told(b"")  # one came meanwhile that needs another form
            return
        for event in step.events:
            if event.type == "replaced":
                self._text_due = time.monotonic() + TEXT_SECONDS
            self._deliver(event, step.updated_ms if event is step.events[-1] else 0)
        self._place = step.place
        if step.place is None:
            self.end("erased")
        elif step.more:
            self.told(b"")

    def _deliver(self, event: Event, written_ms: int) -> None:
        numbers: Counter[EventType] = Counter()
        for reader in list(self.readers):
            numbers[event.told(reader.form).type] += reader.take(event)
        self._sent(numbers, written_ms)

    def end(self, why: End) -> None:
        """End all readers."""
        for reader in list(self.readers):
            reader.end(why)

    def close(self) -> None:
        """Stop."""
        self._following.end(self.target)
        for task in (self._beginning, self._task):
            if task is not None:
                task.cancel()
        if self._later is not None:
            self._later.cancel()
