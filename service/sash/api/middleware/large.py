"""Limits on the memory of large answers, while they are made and while they are sent.

A slow reader keeps its answer's bytes in memory until the deadline. So all answers being sent share a budget in bytes.
When a new answer does not fit, the slowest one is cut: the one whose client took the fewest bytes a second.

Making answers has a budget too, for pages of a history, and for the pictures and files in answers. A page's size is not
known beforehand, so each is charged the size of the latest pages. Small pages hardly ever wait, and few large answers are
made at the same time.
"""

import asyncio
import time
from collections import deque
from typing import Protocol

WHOLE_BYTES = 64 * 1024
"""The largest answer that is sent in one piece."""
_PIECE_BYTES = 32 * 1024
"""The smallest piece of a larger answer. The server holds up to five pieces until the kernel drops a client that does not
read. Few large pieces are faster, because each piece is a trip between threads."""
_PIECES = 400
"""A piece is the budget's free bytes divided by this: large while few answers are sent, small while many are."""
_HELD_BYTES = 32 * 1024 * 1024
_MAKING_BYTES = 2 * 1024 * 1024
_LEAST_BYTES = 64 * 1024
_FORGET = 0.9
_PATIENCE_SECONDS = 0.25
"""An answer can be cut as the slowest only after it was sent for this long."""
_LOOK_SECONDS = 0.02
_SLOWEST = "Too many large answers are being read, and this one was read the slowest; try again."


class LargeAnswer(Protocol):
    """An answer in pieces; ``size_bytes`` were sent so far."""

    size_bytes: int
    was_cut: bool

    def cut(self, why: str = "") -> None:
        """End the answer before its end, for a reason, which is a sentence."""

    def extend(self) -> None:
        """Move the deadline: the reader has taken a piece of a stream."""

    def made(self, size_bytes: int | None) -> None:
        """Note that the whole answer is in memory."""

    async def send_piece(self, body: bytes, *, more: bool) -> None:
        """Send the next piece."""


class Making:
    """The budget of answers being made. Each is charged its size, where that is known, or that of the latest ones."""

    def __init__(self, limit_bytes: int = _MAKING_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._left = limit_bytes
        self._like = float(limit_bytes // 8)
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, size_bytes: int = 0) -> int:
        """Wait until the budget has room for an answer of this size; 0 if it is not known.

        Returns the bytes that are charged: the whole budget for an answer that is larger, which is then made alone.
        """
        turn: asyncio.Future[None] | None = None
        # Behind those that wait already: an answer with many pictures would otherwise wait for as long as others come.
        while (self._waiting and turn is None) or self._left < self._charge(size_bytes):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, size_bytes))
            try:
                await turn
            except asyncio.CancelledError:
                self._next()  # this request is cancelled, and may have been given a turn: pass the turn on
                raise
        charge = self._charge(size_bytes)
        self._left -= charge
        self._next()
        return charge

    def _charge(self, size_bytes: int) -> int:
        return int(min(self._limit_bytes, size_bytes or max(_LEAST_BYTES, self._like)))

    def give(self, charge: int, size_bytes: int | None) -> None:
        """Give a charge back. ``size_bytes`` is the size of the answer, and None if none was made."""
        self._left += charge
        if size_bytes is not None:
            self._like = max(float(size_bytes), self._like * _FORGET)
        self._next()

    def _next(self) -> None:
        while self._waiting and self._left >= self._charge(self._waiting[0][1]):
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class Sending:
    """The budget of answers being sent in pieces."""

    def __init__(self, limit_bytes: int = _HELD_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._held: dict[LargeAnswer, tuple[int, float]] = {}  # bytes, and when the sending began
        self._total = 0
        self._turn = asyncio.Lock()

    async def send(self, answer: LargeAnswer, body: bytes, *, more: bool) -> None:
        """Send a body in pieces, each after the client took the one before, so that the deadline can end the wait.

        A whole body would stay in the server's memory for as long as the client does not read.
        """
        size = len(body)
        try:
            async with self._turn:  # only the first in the queue looks for room
                await self._room(size)
                self._held[answer] = size, time.monotonic()
                self._total += size
        finally:
            answer.made(size)
        end = 0
        try:
            while end < size:
                start, end = end, end + max(_PIECE_BYTES, (self._limit_bytes - self._total) // _PIECES)
                await answer.send_piece(body[start:end], more=more or end < size)
                if more:  # an export goes on for as long as it is read
                    answer.extend()
        finally:
            del self._held[answer]
            self._total -= size

    async def _room(self, size: int) -> None:
        while self._total and self._total + size > self._limit_bytes:
            now = time.monotonic()
            going = sum(held for each, (held, _) in self._held.items() if each.was_cut)
            rates = {
                each: each.size_bytes / (now - began)
                for each, (_, began) in self._held.items()
                if not each.was_cut and now - began > _PATIENCE_SECONDS
            }
            if rates and self._total - going + size > self._limit_bytes:
                min(rates, key=rates.__getitem__).cut(_SLOWEST)
            await asyncio.sleep(_LOOK_SECONDS)
