"""Slow clients, in a process of their own so that they slow down only the service.

``python -m faults.dawdlers PORT NUMBER DEADLINE`` prints how many of its clients the service cut, as far as the clients can
see, and keeps its ends of the connections until its input ends.

Of ten clients, eight send a body byte by byte, one reads a large answer byte by byte, and one never reads. One loop serves
them all without waiting for any, so that a thousand clients load the service and hardly the machine.
"""

import asyncio
import contextlib
import socket
import sys
import time
from collections import deque

import uvloop

LARGE = "large"
"""The conversation whose history is a large answer."""
LARGE_BYTES = 1_200_000
_COMING = 0.5
"""Part of the deadline over which the clients connect; connecting all at once would test how fast connections are made."""
_LONGER_SECONDS = 4
"""Seconds that the clients go on after the service's deadline."""
_BETWEEN_SECONDS = 0.2
_ROUND_SECONDS = 0.01
_HEAD = "POST /conversations/slow/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
_SEND = f"{_HEAD}\r\nContent-Length: 9999\r\n\r\n".encode()
_READ = f"GET /conversations/{LARGE}/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


class _Dawdler:
    """A slow client: of ``kind`` 0 it never reads, of 1 it reads slowly, above 1 it sends slowly."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.cut = kind == 0  # a client that never reads cannot see it; the test counts the service's sockets
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setblocking(False)  # noqa: FBT003 - its only form

    async def come(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self.socket, ("127.0.0.1", port))
        await loop.sock_sendall(self.socket, _SEND if self.kind > 1 else _READ)

    def crumb(self) -> None:
        """Read one byte, or send one; a sender that gets an answer (408) or the end of the connection is cut."""
        try:
            if self.kind == 1:
                self.socket.recv(1)
            elif self.kind > 1 and not self.cut:
                with contextlib.suppress(BlockingIOError):
                    self.socket.recv(100)
                    self.cut = True
                    return
                self.socket.send(b" ")
        except BlockingIOError:
            pass
        except OSError:
            self.cut = True

    async def rest(self) -> None:
        """Read the rest of a large answer; an incomplete one means a cut, as it is larger than all buffers."""
        came = 0
        try:
            async with asyncio.timeout(5):
                while piece := await asyncio.get_running_loop().sock_recv(self.socket, 1 << 20):
                    came += len(piece)
        except TimeoutError:
            return
        except OSError:
            pass
        self.cut = came < LARGE_BYTES


async def _all(port: int, number: int, deadline_seconds: float) -> None:
    coming, seconds = _COMING * deadline_seconds, deadline_seconds + _LONGER_SECONDS
    waiting = deque((coming * place / number, _Dawdler(place % 10)) for place in range(number))
    everyone, here, started = [each for _, each in waiting], deque[tuple[float, _Dawdler]](), time.monotonic()
    while (now := time.monotonic() - started) < coming + seconds:
        while waiting and waiting[0][0] <= now:
            at, client = waiting.popleft()
            await client.come(port)
            here.append((at + _BETWEEN_SECONDS, client))
        while here and here[0][0] <= now:
            at, client = here.popleft()
            client.crumb()
            if at < coming + seconds:
                here.append((at + _BETWEEN_SECONDS, client))
        await asyncio.sleep(_ROUND_SECONDS)
    await asyncio.gather(*(each.rest() for each in everyone if each.kind == 1))
    print(sum(each.cut for each in everyone), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(_all(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
