"""One reader of events: what waits to be sent to it, and its end."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from sash.api.events.event_steps import End, Event, EventForm, looked_lately
from sash.api.ring.asgi import Receive, Send
from sash.api.ring.exchange import Exchange

_WAITING_BYTES: Final = 256 * 1024
"""Bytes that may wait for a reader, besides what is being sent."""
_STUCK_SECONDS: Final = 20.0
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
    """An answer that goes on. ``ended`` is why it does not any more."""

    def __init__(
        self, exchange: Exchange, *, keys: KeyChecks, authorization: bytes, tenant: str, form: EventForm
    ) -> None:
        self.keys = keys
        self.authorization = authorization
        self.tenant = tenant
        self.form = form
        self.version = -1
        """The version after which events are sent."""
        self.events = 0
        self.ended: End | None = None
        self.beaten = looked_lately()
        """When a heartbeat was last sent to it."""
        self._exchange = exchange
        self._waiting: list[bytes] = []
        self._size_bytes = 0
        self._more: asyncio.Future[None] | None = None
        self._sending_since: float | None = None

    def take(self, event: Event) -> bool:
        """Send an event, unless the reader has it; returns whether it was sent."""
        is_new = event.type in ("reset", "erased") or event.version > self.version
        if is_new:
            self.version = event.version
            self.events += 1
            self.put(event.text(self.form))
        return is_new

    def put(self, text: bytes) -> None:
        """Send a text after those that wait. A reader that is too far behind is cut, and comes back for the rest."""
        if self.ended is not None:
            return
        if self._waiting and self._size_bytes + len(text) > _WAITING_BYTES:
            self.end("slow")
            self._exchange.cut()
            return
        self._waiting.append(text)
        self._size_bytes += len(text)
        self._go_on()

    def look(self) -> None:
        """Cut a reader that takes nothing."""
        since = self._sending_since
        if since is not None and time.monotonic() - since > _STUCK_SECONDS:
            self.end("slow")
            self._exchange.cut()

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

    async def serve(self, receive: Receive, send: Send, begun: Callable[[], None]) -> None:
        """Send what is put, until the end. ``begun`` is called when the head was sent."""
        await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
        if self._exchange.method == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        begun()
        leaving = asyncio.create_task(self._watch(receive))
        try:
            while self._waiting or self.ended is None:
                await self._send(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()

    async def _send(self, send: Send) -> None:
        if not self._waiting:
            self._more = asyncio.get_running_loop().create_future()
            await self._more
            return
        body, self._waiting, self._size_bytes = b"".join(self._waiting), [], 0
        self._sending_since = time.monotonic()
        await send({"type": "http.response.body", "body": body, "more_body": True})
        self._sending_since = None

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._waiting = []
        self.end("gone")
