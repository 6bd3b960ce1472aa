"""Large answers: what they may hold of the memory, and of everybody's time.

A client that reads slowly holds its answer's bytes for as long as the deadline lets it. So all that are being sent share
a budget, and when a new one does not fit, the slowest is cut, the one that took the fewest bytes a second. Making them is
bounded too: where answers can be large (pages of a history), those that are made at one time are charged what the latest
were like, so that small ones hardly ever wait and large ones do not come all at once.
"""

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.api.ring import Exchange

WHOLE_BYTES = 64 * 1024
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


class Making:
    """What is being made, charged what the latest came to."""

    def __init__(self, most_bytes: int = _MAKING_BYTES) -> None:
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


class Sending:
    """What is being sent, in pieces, within a budget."""

    def __init__(self, most_bytes: int = _HELD_BYTES) -> None:
        self._most = most_bytes
        self._held: dict[Exchange, tuple[int, float]] = {}  # with their bytes, and when they began to be sent
        self._total = 0
        self._turn = asyncio.Lock()

    async def send(self, exchange: "Exchange", body: bytes, *, more: bool) -> None:
        """Send a body in pieces, each when the client took the ones before, so that the deadline can end the wait.

        Handed over whole, it would be the server's for as long as a client cares not to read.
        """
        size = len(body)
        try:
            async with self._turn:  # the first one looks for room, not all who wait for it
                await self._room(size)
                self._held[exchange] = size, time.monotonic()
                self._total += size
        finally:
            exchange.made(size)
        try:
            for start in range(0, size, _PIECE_BYTES):
                end = start + _PIECE_BYTES
                piece = {"type": "http.response.body", "body": body[start:end], "more_body": more or end < size}
                await exchange.send(piece)
        finally:
            del self._held[exchange]
            self._total -= size

    async def _room(self, size: int) -> None:
        while self._total and self._total + size > self._most:
            now = time.monotonic()
            going = sum(held for each, (held, _) in self._held.items() if each.was_cut)
            rates = {
                each: each.size_bytes / (now - began)
                for each, (_, began) in self._held.items()
                if not each.was_cut and now - began > _PATIENCE_SECONDS
            }
            if rates and self._total - going + size > self._most:
                min(rates, key=rates.__getitem__).cut()
            await asyncio.sleep(_LOOK_SECONDS)
