"""Ends the tasks that run beside requests."""

import asyncio
from typing import Any

_AGAIN_SECONDS = 1.0


async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks, and return when all have ended, with or without an error.

    A task that has not ended after a second is cancelled again. ``asyncio.wait_for`` of Python 3.11, with which
    redis-py sends, loses a cancellation that arrives together with its result (CPython issue 86296).
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
