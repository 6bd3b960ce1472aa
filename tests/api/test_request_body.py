"""How a request's body is received, piece by piece."""

import asyncio
import sys
from types import FrameType
from typing import Any

from sash.api.middleware.request_body import RequestBody, read_whole

MOST_PAUSES = 20
"""A hundredth of the pieces: a machine that stands still may look like a client that does."""


def test_pieces_that_come_at_once_are_read_without_pauses() -> None:
    """A body of two thousand bytes that has arrived is read byte by byte, next to never with a pause."""
    asyncio.run(read_byte_by_byte())  # a loop of its own: other tasks start timers, too


async def read_byte_by_byte() -> None:
    left = 2000
    timers: list[str] = []

    async def receive() -> dict[str, Any]:
        nonlocal left
        await asyncio.sleep(0)
        left -= 1
        return {"type": "http.request", "body": b"x", "more_body": left > 0}

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "call_later":
            timers.append(called.__name__)
        elif event == "call" and frame.f_code.co_name == "call_later":
            timers.append(frame.f_code.co_name)

    body = RequestBody(receive, 10.0, 10_000, b"")
    sys.setprofile(profile)
    try:
        while not body.ended:
            await body.receive()
    finally:
        sys.setprofile(None)
    assert left == 0
    assert len(timers) < MOST_PAUSES


def test_chunks_that_come_slowly_are_read_without_pauses() -> None:
    """A pause does not join chunks, so a chunked body is read as it comes, however slow the machine makes it look."""
    assert not asyncio.run(pauses_among_slow_pieces(b""))


def test_a_body_of_known_length_that_comes_slowly_is_read_with_pauses() -> None:
    """Pieces of a body with a Content-Length join while a slow client is left alone, so it is read less often."""
    assert asyncio.run(pauses_among_slow_pieces(b"120"))


async def pauses_among_slow_pieces(length: bytes) -> bool:
    """Read 120 single bytes, 5 ms apart, and return whether the reader slept of its own will."""
    left = 120
    paused = False

    async def receive() -> dict[str, Any]:
        nonlocal left
        await asyncio.sleep(0.005)
        left -= 1
        return {"type": "http.request", "body": b"x", "more_body": left > 0}

    def profile(frame: FrameType, event: str, _called: Any) -> None:
        nonlocal paused
        caller = frame.f_back
        if event == "call" and frame.f_code is asyncio.sleep.__code__ and caller is not None:
            paused |= caller.f_code is RequestBody.receive.__code__

    body = RequestBody(receive, 10.0, 10_000, length)
    sys.setprofile(profile)
    try:
        while not (paused or body.ended):
            await body.receive()
    finally:
        sys.setprofile(None)
    return paused


def test_a_body_of_known_length_ends_with_its_last_byte() -> None:
    """The server is not asked for the empty message that it ends a body with, which would be a trip between threads."""
    assert asyncio.run(read_of_known_length()) == 2


async def read_of_known_length() -> int:
    asked = 0

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"12345", "more_body": True}

    body = RequestBody(receive, 10.0, 10_000, b"10")
    assert await read_whole(body.receive) == b"1234512345"
    assert body.ended
    return asked
