"""A TCP proxy between Sash and its store that delays, cuts at random bytes, and drops replies."""

import asyncio
import contextlib
import random


class Proxy:
    """A proxy on a port of its own; ``delay_seconds``, ``cut`` and ``swallow`` set its faults."""

    def __init__(self, target_port: int, *, seed: int = 1) -> None:
        self.target_port = target_port
        self.port = 0
        self.accepted = 0
        self.delay_seconds = 0.0
        self.cut = 0.0
        """The part of the chunks in whose middle both sides are cut."""
        self.swallow = 0.0
        """The part of the reply chunks that are dropped: the store has run the command, and the connection ends."""
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> "Proxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    @property
    def connections(self) -> int:
        """How many connections are open now; the two sides of one count once."""
        return len(self._open) // 2

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        for _ in range(500):
            if not self._open:
                return
            await asyncio.sleep(0.01)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        pipes = [
            asyncio.ensure_future(self._pipe(reader, far_writer, replies=False)),
            asyncio.ensure_future(self._pipe(far_reader, writer, replies=True)),
        ]
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        for each in (writer, far_writer):
            each.transport.abort()
        await asyncio.gather(*pipes, return_exceptions=True)
        self._open -= {writer, far_writer}

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                if self.delay_seconds:
                    await asyncio.sleep(self._random.random() * self.delay_seconds)
                if replies and self._random.random() < self.swallow:
                    return
                if self._random.random() < self.cut:
                    writer.write(chunk[: self._random.randrange(len(chunk))])
                    await asyncio.sleep(0)
                    return
                writer.write(chunk)
                await writer.drain()
