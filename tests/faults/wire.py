"""A small HTTP/1.1 client: one connection, one request at a time; every failure is an OSError."""

import asyncio
from typing import NamedTuple


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


_WORDS: dict[type[Exception], str] = {
    ConnectionRefusedError: "connection refused",
    ConnectionResetError: "connection reset",
    BrokenPipeError: "connection reset",
    asyncio.IncompleteReadError: "connection cut",
}
"""Names in the table for requests that had no answer."""


class Wire:
    """A kept-alive connection, opened when it is needed and closed when a request fails."""

    def __init__(self, port: int, *, timeout_seconds: float = 15.0) -> None:
        self.port = port
        self._timeout_seconds = timeout_seconds
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"") -> Reply:
        """Send a request and return the reply. Raises OSError when the connection breaks or the reply is late."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._ask(method, path, body)
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            self.close()
            raise ConnectionError(_WORDS.get(type(error)) or str(error) or type(error).__name__) from error
        except asyncio.CancelledError:
            self.close()
            raise

    async def _ask(self, method: str, path: str, body: bytes) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"\r\n" + body)
        await writer.drain()
        raw = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in raw[1:]) if name}
        content = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return Reply(int(raw[0].split(" ")[1]), headers, content)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    def __del__(self) -> None:
        """Close a connection that nobody asks any more."""
        self.close()
