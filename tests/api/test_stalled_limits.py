"""The rate limit beside an event loop that stands still."""

import asyncio
import time

import pytest
import redis

from sash.problems import TooManyRequests
from sash.store.data.limits import RateLimits
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

STALL_SECONDS = 0.4


@pytest.mark.parametrize("turns", [1, 2, 3, 5])
@pytest.mark.parametrize("store_seconds", [0.0, 0.12])
async def test_a_stall_of_the_loop_lets_no_crowd_through(
    store: EmbeddedStore, server: redis.Redis, turns: int, store_seconds: float
) -> None:
    """Requests that wait while the event loop stands still are counted when the store's answer is read, soon or later."""
    client = Client(store.url)
    await client.open()
    started = time.monotonic()
    if store_seconds:
        server.client_pause(int(1000 * (STALL_SECONDS + store_seconds)))
    try:
        limits = RateLimits(client, 1.0)
        asked = [asyncio.ensure_future(limits.take(f"stalled-{turns}-{store_seconds}")) for _ in range(60)]
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(STALL_SECONDS)  # noqa: ASYNC251 - the stall
        found = await asyncio.gather(*asked, return_exceptions=True)
    finally:
        await client.close()
    accepted = sum(each is None for each in found)
    assert all(each is None or isinstance(each, TooManyRequests) for each in found)
    assert 1 <= accepted <= 2 + (time.monotonic() - started)
