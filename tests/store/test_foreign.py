"""Lists of another application's Redis, which may go on writing while they are read."""

import asyncio
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import redis

from sash.store.redis.embedded import EmbeddedStore
from sash_tools.sources.foreign_redis import ForeignStoreFailed, read_lists


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)


@pytest.mark.parametrize("pushes", [1, 99])
async def test_a_list_that_grows_while_it_is_read(
    store: EmbeddedStore, server: redis.Redis, fresh: Callable[[], str], pushes: int
) -> None:
    """A message pushed on the left between two pages comes once; a list that never rests is an error that names it."""
    key, pushed = fresh(), 0
    server.rpush(key, *range(2500))

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal pushed
        back, forth = await asyncio.open_unix_connection(urlsplit(store.url).path)
        replies = asyncio.create_task(pump(back, writer))
        while data := await reader.read(1 << 16):
            if b"LRANGE" in data and b"\r\n1000\r\n" in data and pushed < pushes:  # the second page
                pushed += 1
                server.lpush(key, -pushed)
            forth.write(data)
        forth.close()
        await replies
        writer.close()

    def read() -> list[int]:
        (found,) = read_lists(f"redis://127.0.0.1:{port}", key)
        return [int(value) for value in found.values]

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as relay:
        port = relay.sockets[0].getsockname()[1]
        if pushes == 1:
            assert await asyncio.to_thread(read) == [-1, *range(2500)]
        else:
            with pytest.raises(ForeignStoreFailed, match=f"{key} keeps changing"):
                await asyncio.to_thread(read)
    server.delete(key)
