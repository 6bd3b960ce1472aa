"""Long work in a thread, so that the event loop stays free for others."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LONG_BYTES = 32 * 1024
"""Work on more than this is done in a thread."""


async def run_in_thread_if_large(size_bytes: int, function: Callable[..., T], *arguments: Any) -> T:
    """Call in place for small work, in a thread for large."""
    if size_bytes < LONG_BYTES:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)
