"""Tasks that run beside requests: their beginning and their end."""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

_AGAIN_SECONDS = 1.0


def beside_requests(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
    """Begin work that belongs to no request: its spans do not stand under those of the request that began it."""
    return asyncio.create_task(work, context=contextvars.Context())


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
