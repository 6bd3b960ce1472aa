"""How a request's body is received, piece by piece."""

import asyncio
import sys
from types import FrameType
from typing import Any

from sash.api.ring.incoming import Incoming


async def test_pieces_that_come_at_once_start_no_timer() -> None:
    """A body of two thousand bytes that has arrived is read byte by byte without a pause."""
    left = 2000
    timers: list[str] = []

    async def receive() -> dict[str, Any]:
        nonlocal left
        await asyncio.sleep(0)
        left -= 1
        return {"type": "http.request", "body": b"x", "more_body": left > 0}

    def profile(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in {"call_later", "call_at"}:
            timers.append(called.__name__)
        elif event == "call" and frame.f_code.co_name in {"call_later", "call_at"}:
            timers.append(frame.f_code.co_name)

    body = Incoming(receive, 10.0, 10_000, b"")
    sys.setprofile(profile)
    try:
        while not body.ended:
            await body.receive()
    finally:
        sys.setprofile(None)
    assert (left, timers) == (0, [])
