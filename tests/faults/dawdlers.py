"""Clients that send or read as slowly as can be, in a process of their own, so that they keep nobody waiting but the
service: ``python -m faults.dawdlers PORT NUMBER SECONDS`` prints how many of them the service got rid of, as far as
they can tell, and holds on to its ends of the connections until its input ends.

Of ten, eight send a body of which a byte comes now and then; one reads a large answer byte by byte; one never reads.
"""

import asyncio
import contextlib
import socket
import sys

LARGE = "large"
"""The conversation whose history is a large answer."""
LARGE_BYTES = 1_200_000
_COMING_SECONDS = 2
"""Over which they come: all at one instant would be another test, of how fast connections are made."""
_HEAD = "POST /conversations/slow/messages HTTP/1.1\r\nHost: sash\r\nContent-Type: application/json"
_SEND = f"{_HEAD}\r\nContent-Length: 9999\r\n\r\n".encode()
_READ = f"GET /conversations/{LARGE}/messages HTTP/1.1\r\nHost: sash\r\nConnection: close\r\n\r\n".encode()


async def _dawdle(port: int, kind: int, seconds: float, ends: list[socket.socket]) -> bool:
    """Whether the service ended the request before its time."""
    loop, plain = asyncio.get_running_loop(), socket.socket()
    ends.append(plain)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)  # noqa: FBT003 - its only form
    try:
        await loop.sock_connect(plain, ("127.0.0.1", port))
        await loop.sock_sendall(plain, _SEND if kind > 1 else _READ)
        match kind:
            case 0:
                await asyncio.sleep(seconds)
                return True  # the service's own connections tell
            case 1:
                return await _trickles(plain, seconds)
            case _:
                return await _sends(plain, seconds)
    except OSError:
        return True


async def _sends(plain: socket.socket, seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    answer = asyncio.ensure_future(loop.sock_recv(plain, 100))  # the end, or 408 before the request was whole
    for _ in range(int(seconds * 5)):
        done, _ = await asyncio.wait((answer,), timeout=0.2)
        if done:
            return True
        await loop.sock_sendall(plain, b" ")
    answer.cancel()
    return False


async def _trickles(plain: socket.socket, seconds: float) -> bool:
    """What was on its way may come, and then the end: the whole is more than anything holds for a slow reader."""
    loop = asyncio.get_running_loop()
    for _ in range(int(seconds * 5)):
        await asyncio.sleep(0.2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await loop.sock_recv(plain, 1)
    came = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            while piece := await loop.sock_recv(plain, 1 << 20):
                came += len(piece)
    return came < LARGE_BYTES


async def _all(port: int, number: int, seconds: float) -> None:
    ends: list[socket.socket] = []

    async def come(place: int) -> bool:
        await asyncio.sleep(_COMING_SECONDS * place / number)
        return await _dawdle(port, place % 10, seconds, ends)

    cut = await asyncio.gather(*(come(place) for place in range(number)))
    print(sum(cut), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_all(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
