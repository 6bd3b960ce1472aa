"""Clients that send or read as slowly as can be, in a process of their own, so that they keep nobody waiting but the
service: ``python -m faults.dawdlers PORT NUMBER DEADLINE`` prints how many of them the service got rid of, as far as
they can tell, and holds on to its ends of the connections until its input ends.

Of ten, eight send a body of which a byte comes now and then; one reads a large answer byte by byte; one never reads. One
loop goes round them all and waits for none: what a thousand of them cost the machine is to be what they cost the service.
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
"""Part of the deadline, over which they come: all at one instant would be another test, of how fast connections are made."""
_LONGER_SECONDS = 4
"""Than the service lets them, they go on."""
_BETWEEN_SECONDS = 0.2
_ROUND_SECONDS = 0.01
_HEAD = "POST /conversations/slow/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
_SEND = f"{_HEAD}\r\nContent-Length: 9999\r\n\r\n".encode()
_READ = f"GET /conversations/{LARGE}/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


class _Dawdler:
    """One of them."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.cut = kind == 0  # who never reads cannot tell: the service's own connections do
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.setblocking(False)  # noqa: FBT003 - its only form

    async def come(self, port: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_connect(self.socket, ("127.0.0.1", port))
        await loop.sock_sendall(self.socket, _SEND if self.kind > 1 else _READ)

    def crumb(self) -> None:
        """Take a byte, or send one unless the end came, or 408 before the request was whole."""
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
        """What was on its way may come, and then the end: the whole is more than anything holds for a slow reader."""
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
