"""Large answers: what they may hold of the memory, and of everybody's time.

A client that reads slowly holds its answer's bytes for as long as the deadline lets it. So all that are being sent share
a budget, and when a new one does not fit, the slowest is cut, the one that took the fewest bytes a second. Making them is
bounded too: where answers can be large (pages of a history), those that are made at one time are charged what the latest
were like, so that small ones hardly ever wait and large ones do not come all at once.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from service.api.edge import App, Message, Receive, Scope, Send

_WHOLE_BYTES = 64 * 1024
"""Largest answer that is handed over in one."""
_PIECE_BYTES = 32 * 1024
"""Of larger ones. The server holds up to five for a client that does not read, until the kernel gives the client up."""
_HELD_BYTES = 32 * 1024 * 1024
_MAKING_BYTES = 2 * 1024 * 1024
_LEAST_BYTES = 64 * 1024
_FORGET = 0.9
_PATIENCE_SECONDS = 0.25
"""How long an answer is sent before it can be the slowest."""
_LOOK_SECONDS = 0.02
_HEAVY = re.compile(r"/conversations/[^/]+/messages")


class Large:
    """The wrapper: an ASGI application around another."""

    def __init__(self, app: App, *, held_bytes: int = _HELD_BYTES, making_bytes: int = _MAKING_BYTES) -> None:
        self._app = app
        self._sending = _Sending(held_bytes)
        self._making = _Making(making_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        charge = 0
        if scope["method"] == "GET" and _HEAVY.fullmatch(scope["path"]):
            charge = await self._making.take()

        def made(size_bytes: int | None) -> None:
            nonlocal charge
            if charge:
                self._making.give(charge, size_bytes)
                charge = 0

        async def pass_on(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= _WHOLE_BYTES:
                if body:
                    made(len(body))
                await send(message)
            else:
                await self._sending.send(message, send, _cutter(scope), made)

        try:
            await self._app(scope, receive, pass_on)
        finally:
            made(None)


def _cutter(scope: Scope) -> Callable[[], None]:
    """What ends the request as its deadline would."""
    deadline: asyncio.Timeout = scope["sash.deadline"][0]

    def cut() -> None:
        if not deadline.expired():
            deadline.reschedule(asyncio.get_running_loop().time())

    return cut


class _Making:
    """What is being made, charged what the latest came to."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._left = most_bytes
        self._like = float(most_bytes // 8)
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> int:
        """Wait for room; what was charged."""
        while self._left < self._charge:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                self._next()  # a turn that was given to who is gone is the next one's
                raise
        charge = self._charge
        self._left -= charge
        self._next()
        return charge

    @property
    def _charge(self) -> int:
        return int(min(self._most, max(_LEAST_BYTES, self._like)))

    def give(self, charge: int, size_bytes: int | None) -> None:
        """It is made, and has so many bytes; None where it never came to be, which says nothing of the next ones."""
        self._left += charge
        if size_bytes is not None:
            self._like = max(float(size_bytes), self._like * _FORGET)
        self._next()

    def _next(self) -> None:
        while self._waiting and self._left >= self._charge:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class _Held:
    """One answer on its way."""

    __slots__ = ("began", "cut", "gone", "sent", "size")

    def __init__(self, size: int, cut: Callable[[], None]) -> None:
        self.size = size
        self.sent = 0
        self.began = time.monotonic()
        self.cut = cut
        self.gone = False

    def rate(self, now: float) -> float:
        return self.sent / (now - self.began)


class _Sending:
    """What is being sent, in pieces, within a budget."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: set[_Held] = set()
        self._total = 0
        self._turn = asyncio.Lock()

    async def send(self, message: Message, send: Send, cut: Callable[[], None], made: Callable[[int], None]) -> None:
        """Send a body in pieces, each when the client took the ones before, so that the deadline can end the wait.

        Handed over whole, it would be the server's for as long as a client cares not to read.
        """
        body: bytes = message["body"]
        try:
            async with self._turn:  # the first one looks for room, not all who wait for it
                await self._room(len(body))
                held = _Held(len(body), cut)
                self._held.add(held)
                self._total += held.size
        finally:
            made(len(body))
        more = message.get("more_body", False)
        try:
            await _in_pieces(body, send, held, more=more)
        finally:
            self._held.discard(held)
            self._total -= held.size

    async def _room(self, size: int) -> None:
        while self._total and self._total + size > self._most:
            now = time.monotonic()
            going = sum(each.size for each in self._held if each.gone)
            slow = [each for each in self._held if not each.gone and now - each.began > _PATIENCE_SECONDS]
            if slow and self._total - going + size > self._most:
                slowest = min(slow, key=lambda each: each.rate(now))
                slowest.gone = True
                slowest.cut()
            await asyncio.sleep(_LOOK_SECONDS)


async def _in_pieces(body: bytes, send: Callable[[Any], Awaitable[None]], held: _Held, *, more: bool) -> None:
    for start in range(0, len(body), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        await send({"type": "http.response.body", "body": body[start:end], "more_body": more or end < len(body)})
        held.sent = end
