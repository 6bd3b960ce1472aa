"""A closed-loop HTTP load: each connection sends its next request when the last is answered.

It is a protocol on plain sockets, because a full client costs more than the server that it measures. It ends after a given
number of requests.
"""

import asyncio
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Load:
    """The results of a run: requests a second, every latency in seconds, and errors."""

    requests_per_second: float
    latencies: list[float]
    errors: int

    def latency(self, quantile: float) -> float:
        """Return the latency in seconds at this quantile."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """Return the bytes of one request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


@dataclass
class _Connection(asyncio.Protocol):
    """A connection that sends the requests of ``take`` until it returns None."""

    take: "_Source"
    done: asyncio.Future[None]
    latencies: list[float] = field(default_factory=list)
    errors: int = 0
    _buffer: bytearray = field(default_factory=bytearray)
    _missing: int = -1
    _chunked: bool = False
    _started: float = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        following = self.take()
        if following is None:
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self._started = time.perf_counter()
        self._transport.write(following)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._missing < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            self.errors += not head.startswith((b"http/1.1 2", b"http/1.1 3"))
            self._missing = end + 4 + length
            self._chunked = b"transfer-encoding: chunked" in head
        is_whole = self._buffer.endswith(b"\r\n0\r\n\r\n") if self._chunked else len(self._buffer) >= self._missing
        if is_whole:
            self.latencies.append(time.perf_counter() - self._started)
            self._buffer.clear()
            self._missing = -1
            self._next()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self.errors += 1
            self.done.set_result(None)


class _Source:
    """Gives out requests in turn, ``count`` in all."""

    def __init__(self, requests: list[bytes], count: int) -> None:
        self._requests = requests
        self._left = count
        self._at = 0

    def __call__(self) -> bytes | None:
        if self._left <= 0:
            return None
        self._left -= 1
        self._at += 1
        return self._requests[(self._at - 1) % len(self._requests)]


async def load(port: int, requests: list[bytes], *, count: int, connections: int) -> Load:
    """Send ``count`` requests, taken from ``requests`` in turn, over ``connections`` connections."""
    loop = asyncio.get_running_loop()
    source = _Source(requests, count)
    protocols = [_Connection(source, loop.create_future()) for _ in range(connections)]
    started = time.perf_counter()
    for protocol in protocols:
        await loop.create_connection(lambda protocol=protocol: protocol, "127.0.0.1", port)
    await asyncio.wait_for(asyncio.gather(*(protocol.done for protocol in protocols)), timeout=600)
    seconds = time.perf_counter() - started
    latencies = [each for protocol in protocols for each in protocol.latencies]
    return Load(len(latencies) / seconds, latencies, sum(protocol.errors for protocol in protocols))
