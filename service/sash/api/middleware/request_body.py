"""The limits of a request's body: its size, and how slowly it may arrive.

The body must arrive at 1,000 bytes a second on average, whatever the size of its pieces: each second of waiting puts it
one second behind, and each byte takes one millisecond off. A body that is behind by the request's timeout is refused.

Each ``receive`` costs the same processor time, however few bytes it returns. So if a body with a Content-Length is behind,
and the last two calls had to wait, the next call waits for a moment first: what arrives meanwhile is one piece. A chunked
body never waits so, because each chunk stays a piece of its own.

The rest of a refused body is read after the answer, while it comes. Otherwise the server would reset the connection, and a
client that sends the whole body before it reads would never see why it was refused.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sash.api.middleware.asgi import Message, Receive
from sash.api.middleware.errors import too_large_body
from sash.problems import BadRequest, RequestTimeout

_LEAST_BYTES_A_SECOND = 1000
_BEHIND_SECONDS = 0.25
_AT_ONCE_SECONDS = 0.002
_PAUSE_SECONDS = 1.0
_PAUSE_SHARE = 0.1  # the longest pause, as a share of a short timeout
_REST_SECONDS = 1.0  # between two pieces of a rest that nobody uses


class RequestBody(msgspec.Struct, eq=False):
    """A request's body. ``waiting`` is true while the application waits for more of it, ``ended`` when all was read."""

    from_server: Receive
    """ASGI's ``receive``."""
    patience_seconds: float
    limit_bytes: int
    """The largest size."""
    length: bytes
    """The Content-Length, which may be empty."""
    waiting: bool = False
    ended: bool = False
    waits: int = 0
    """Calls in a row that had to wait."""
    behind_seconds: float = 0.0
    came_bytes: int = 0

    async def receive(self) -> Message:
        """The body's next piece. Raises TooLarge, at once if the announced body is over the limit, and RequestTimeout."""
        announced_bytes = int(self.length[:20]) if self.length.isdigit() else 0
        if announced_bytes > self.limit_bytes:
            raise too_large_body(self.limit_bytes)
        self.waiting = True
        began = looked = time.monotonic()
        if announced_bytes and self.waits > 1 and self.behind_seconds > _BEHIND_SECONDS:
            await asyncio.sleep(min(_PAUSE_SECONDS, self.patience_seconds * _PAUSE_SHARE))
            looked = time.monotonic()
        message = await self.from_server()
        self.waiting = False
        size, more = len(message.get("body", b"")), message.get("more_body", False)
        self.came_bytes = came_bytes = self.came_bytes + size
        if more and 0 < came_bytes == announced_bytes:
            message["more_body"] = more = False  # the server tells so in one more message, a trip between threads later
        self.ended = not more
        if came_bytes > self.limit_bytes:
            raise too_large_body(self.limit_bytes)
        if more:
            now = time.monotonic()
            self.waits = self.waits + 1 if now - looked > _AT_ONCE_SECONDS else 0
            self.behind_seconds = max(0.0, self.behind_seconds + now - began - size / _LEAST_BYTES_A_SECOND)
            if self.behind_seconds > self.patience_seconds:
                raise RequestTimeout(f"The body arrives at less than {_LEAST_BYTES_A_SECOND} bytes a second.")
        return message

    async def discard(self) -> None:
        """Read the rest of the body, until it does not come."""
        self.limit_bytes = sys.maxsize
        with contextlib.suppress(TimeoutError, RequestTimeout):
            async with asyncio.timeout(self.patience_seconds):
                while not self.ended:
                    async with asyncio.timeout(_REST_SECONDS):
                        await self.receive()


async def read_whole(receive: Callable[[], Awaitable[Any]]) -> bytes:
    """The whole body. Raises TooLarge, and BadRequest if it ends early."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("The body ended early.")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
