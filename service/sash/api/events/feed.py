"""The events of one conversation: read once for all of its readers on this worker."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from sash.api.events.event_steps import (
    End,
    Event,
    EventForm,
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
AGAIN_SECONDS: Final = 0.25
LOOK_SECONDS: Final = 0.02
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
        self.resets = 0
        """How often all readers had to read anew."""
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
        self.resets += 1
        self._is_reset = True
        self.told(b"")

    async def join(self, reader: EventReader, place: ReaderPlace) -> None:
        """Give a reader at once what came after its place, then each event. Raises NotFound, StoreUnavailable."""
        while True:
            step = await self.step(reader.form, place)
            for event in step.events:
                self._sent({event.told(reader.form).type: reader.take(event)}, 0)
            if step.place is None:
                reader.end("erased")
                return
            place = step.place
            if self.admit(reader, step):
                return
            await asyncio.sleep(0 if step.events else LOOK_SECONDS)

    async def step(self, form: EventForm, place: ReaderPlace | None) -> EventStep:
        """The next events after a reader's place. Without one, and in another life, it is the state, to read all anew.

        Raises NotFound, StoreUnavailable and what reading messages raises.
        """
        head = self._place
        if place is None or (head is not None and place.life and place.life != head.life):
            return await self._events.reset(self.target, {form})
        if head is not None and place.version == head.version and place.change in ("", head.change):
            return EventStep([], head)
        return await self._events.after(self.target, place, {form})

    def admit(self, reader: EventReader, step: EventStep) -> bool:
        """Give a reader each event from now on, if a step has brought it to where the feed is. Raises NotFound."""
        if self._place is None:
            raise NotFound("There is no such conversation.")
        at = step.place
        if at is None or step.more or at.version < self._place.version or at.life != self._place.life:
            self.told(b"")
            return False
        self.readers.add(reader)
        return True

    def note(self, event: Event, form: EventForm) -> None:
        """Count an event that a reader pulled."""
        self._sent({event.told(form).type: 1}, 0)

    async def _run(self) -> None:
        while self._place is not None:
            await self._wake.wait()
            self._wake.clear()
            if self._is_early():
                continue
            self._is_urgent = False
            try:
                await self._step(self._place)
            except Exception as error:  # noqa: BLE001 - whatever it was: readers must not wait for ever
                if (why := ended_by(error)) is not None:
                    self.end(why)
                    return
                self.told(b"")
                await asyncio.sleep(AGAIN_SECONDS)

    async def _step(self, place: ReaderPlace) -> None:
        is_reset, self._is_reset = self._is_reset, False
        try:
            if self.is_doubted:
                head = await self._events.head(self.target)
                if head is not None and (head.version, head.change) != (place.version, place.change):
                    is_reset = True
                    self.resets += 1
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


def ended_by(error: Exception) -> End | None:
    """Why an error ends streams; None where the store is away, and it is tried again. Other errors are logged."""
    match error:
        case NotFound():
            return "erased"
        case StoreUnavailable() | StoreFull():
            return None
        case Problem():
            _log.error("events cannot be made", problem=error.slug)
        case _:
            _log.error("events failed", **describe(error))
    return "failed"
