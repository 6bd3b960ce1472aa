"""A relay between a client and its server, which counts writes and connections and drops replies on request."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path


class Relay:
    """Forwards bytes both ways. ``lose_reply`` drops the next reply and its connection.

    ``lose_reply_to`` drops the reply to the first write that contains these bytes. ``meanwhile`` runs before the connection
    closes. With ``piece_bytes``, bytes reach the server in pieces of this size, as over a slow network.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self.writes = 0
        self.connections = 0
        self.lose_reply = False
        self.lose_reply_to: bytes | None = None
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.lost = 0
        self.piece_bytes = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one client's connection until either side closes it."""
        self.connections += 1
        back, forth = await asyncio.open_unix_connection(self._target)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        pumps = [asyncio.create_task(self._up(reader, forth)), asyncio.create_task(self._down(back, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            writer.close()  # before the next await, at which close() may cancel this task
            forth.close()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._tasks.discard(task)

    async def _up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            self.writes += 1
            if self.lose_reply_to is not None and self.lose_reply_to in data:
                self.lose_reply, self.lose_reply_to = True, None
            while len(data) > self.piece_bytes > 0:
                writer.write(data[: self.piece_bytes])
                data = data[self.piece_bytes :]
                await asyncio.sleep(0.001)
            writer.write(data)
            await writer.drain()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            if self.lose_reply:
                self.lose_reply = False
                self.lost += 1
                if self.meanwhile is not None:
                    await self.meanwhile()
                return
            writer.write(data)
            await writer.drain()

    async def close(self) -> None:
        """Cancel the tasks of all open connections."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def relayed(url: str, folder: Path) -> AsyncIterator[tuple[Relay, str]]:
    """Yield a relay in front of the server at the unix socket of ``url``, and the relay's own URL."""
    relay = Relay(url.removeprefix("unix://"))
    path = folder / "relay.sock"
    server = await asyncio.start_unix_server(relay.accept, path)
    try:
        yield relay, f"unix://{path}"
    finally:
        server.close()
        await relay.close()
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
