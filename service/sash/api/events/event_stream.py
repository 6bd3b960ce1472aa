"""One reader of events: what waits to be sent to it, and its end."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from sash.api.events.event_steps import End, EventForm, looked_lately
from sash.api.middleware.asgi import Receive, Send
from sash.api.middleware.exchange import Exchange

_WAITING_BYTES: Final = 256 * 1024
"""Bytes of live events that may wait for a reader, and one event more. A reader that is slower pulls the others."""
_STUCK_SECONDS: Final = 20.0
_SLOW_SECONDS: Final = 1.0
"""A reader that took nothing for so long, when its connection closed, was too slow, and did not just leave."""
_STUCK: Final = (
    f"The reader took nothing for {_STUCK_SECONDS:g} seconds. It may come back with the last id that it has."
)
HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
)


class KeyOwner(Protocol):
    """Whose a key is."""

    @property
    def tenant(self) -> str:
        """The tenant."""


class KeyChecks(Protocol):
    """Finds whose a key is."""

    async def caller(self, authorization: bytes) -> KeyOwner:
        """The owner of an Authorization header's key. Raises Unauthorized, StoreUnavailable."""


class EventStream:
    """An answer that goes on. ``ended`` is why it does not any more.

    Its reader pulls what it lacks, a page whenever the socket has taken the one before. Once it lacks nothing, live events
    are pushed to it, and wait for the socket. When too many wait, it pulls again.
    """

    def __init__(
        self, exchange: Exchange, *, keys: KeyChecks, authorization: bytes, tenant: str, form: EventForm
    ) -> None:
        self.keys = keys
        self.authorization = authorization
        self.tenant = tenant
        self.form = form
        self.is_behind = True
        """Whether the reader pulls. Nothing is pushed to it then."""
        self.events = 0
        self.ended: End | None = None
        self.beaten = looked_lately()
        """When a heartbeat was last sent to it."""
        self._exchange = exchange
        self._waiting: list[bytes] = []
        self._pushed_bytes = 0
        self._more: asyncio.Future[None] | None = None
        self._is_sending = False
        self._taken_bytes = -1
        self._taken_at = time.monotonic()
        """When it was last seen that the reader took something, or that there was nothing to take."""

    @property
    def has_room(self) -> bool:
        """Whether an event may be pushed."""
        return self._pushed_bytes < _WAITING_BYTES

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be sent."""
        return not self._waiting

    def push(self, text: bytes) -> None:
        """Send a live event after those that wait."""
        self._pushed_bytes += len(text)
        self.put(text)

    def put(self, text: bytes) -> None:
        """Send a text that was pulled, or a comment, after what waits."""
        if self.ended is None:
            self._waiting.append(text)
            self._go_on()

    def fall_behind(self) -> None:
        """Have the reader pull what comes next."""
        self.is_behind = True
        self._go_on()

    def look(self, now: float) -> None:
        """Cut a reader that takes nothing. ``now`` is in monotonic seconds."""
        taken = self._exchange.size_bytes
        if not self._is_sending or taken != self._taken_bytes:
            self._taken_bytes, self._taken_at = taken, now
        elif now - self._taken_at > _STUCK_SECONDS:
            self.end("slow")
            self._exchange.cut(_STUCK)

    def end(self, why: End, last: bytes = b"") -> None:
        """End the stream, after what waits and ``last``."""
        if self.ended is None:
            if last:
                self._waiting.append(last)
            self.ended = why
            self._go_on()

    def _go_on(self) -> None:
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def serve(
        self, receive: Receive, send: Send, *, begun: Callable[[], None], pull: Callable[[], Awaitable[None]]
    ) -> None:
        """Send what is put, until the end.

        ``begun`` is called when the head was sent. ``pull`` is called whenever the reader is behind and nothing waits; it
        puts what comes next.
        """
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        if self._exchange.method == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        begun()
        leaving = asyncio.create_task(self._watch(receive))
        try:
            while self._waiting or self.ended is None:
                if self._waiting:
                    await self._send(send)
                elif self.is_behind:
                    await pull()
                else:
                    self._more = asyncio.get_running_loop().create_future()
                    await self._more
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()

    async def _send(self, send: Send) -> None:
        body, self._waiting, self._pushed_bytes = b"".join(self._waiting), [], 0
        self._is_sending = True
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self._is_sending = False

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._waiting = []
        # the kernel closes the connection of a reader that takes nothing (listeners.py), and that of one that has left
        self.end("slow" if time.monotonic() - self._taken_at > _SLOW_SECONDS else "gone")
