"""A body as it comes in: bounded in size, and in how slowly it may come.

It is judged by its bytes over the time that was waited for them, whatever their pieces: each byte makes up for a
millisecond. A body that is behind by as much as a request may last is refused.

Each look for bytes costs every other request the same, however few came. So a body that is behind, and kept the last two
looks waiting, is left alone for a moment in which more of it can come. One whose bytes are there is never held up.
"""

import asyncio
import time

from service.api.asgi import Message, Receive
from service.api.errors import too_large_body
from service.problems import RequestTimeout

_LEAST_BYTES_A_SECOND = 1000
_BEHIND_SECONDS = 0.25
_AT_ONCE_SECONDS = 0.002
_PAUSE_SECONDS = 1.0
_PAUSE_SHARE = 0.1  # of the patience with a body, where that is short


class Incoming:
    """A request's body: knows whether the application waits for more of it, and how far it is behind."""

    def __init__(self, receive: Receive, patience_seconds: float) -> None:
        self._receive = receive
        self.waiting = False
        self._patience_seconds = patience_seconds
        self._behind_seconds = 0.0
        self._waits = 0
        self._most_bytes: int | None = None
        self._came_bytes = 0

    def bound(self, most_bytes: int, length: bytes) -> None:
        """Let no longer body in. Raises TooLarge where its length is known and over that."""
        self._most_bytes = most_bytes
        if length.isdigit() and int(length[:20]) > most_bytes:
            raise too_large_body(most_bytes)

    async def receive(self) -> Message:
        """The next piece. Raises TooLarge, RequestTimeout."""
        self.waiting = True
        began = looked = time.monotonic()
        if self._waits > 1 and self._behind_seconds > _BEHIND_SECONDS:
            await asyncio.sleep(min(_PAUSE_SECONDS, self._patience_seconds * _PAUSE_SHARE))
            looked = time.monotonic()
        message = await self._receive()
        self.waiting = False
        size = len(message.get("body", b""))
        self._came_bytes += size
        if self._most_bytes is not None and self._came_bytes > self._most_bytes:
            raise too_large_body(self._most_bytes)
        if message.get("more_body"):
            now = time.monotonic()
            self._waits = self._waits + 1 if now - looked > _AT_ONCE_SECONDS else 0
            self._behind_seconds = max(0.0, self._behind_seconds + now - began - size / _LEAST_BYTES_A_SECOND)
            if self._behind_seconds > self._patience_seconds:
                raise RequestTimeout(f"The body comes slower than {_LEAST_BYTES_A_SECOND} bytes a second.")
        return message
