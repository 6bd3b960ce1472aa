"""The sockets below: ending a connection whose client does not read, and what the kernel may hold for one.

An ASGI application can stop sending, but the server keeps the connection for as long as the client leaves bytes unread,
which may be for ever, and a server has only so many connections. So it is ended from below, found by its addresses among
this process's sockets. That takes a look at every one of them: those of one moment are found in one look, beside the loop.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, MutableMapping
from typing import Any

_FOLDER = "/dev/fd"
_TOGETHER_SECONDS = 0.25
_SENDING_BYTES = 256 * 1024
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: what was not read is dropped, not kept for the client


class Connections:
    """The connections of this process's clients."""

    def __init__(self) -> None:
        self._ending: set[tuple[str, int]] = set()
        self._task: asyncio.Task[None] | None = None

    def end(self, scope: MutableMapping[str, Any]) -> None:
        """End the connection of a request, soon. One of HTTP/2 carries other requests too: it stays."""
        if scope.get("http_version", "").startswith("1") and scope.get("client"):
            host, port = scope["client"]
            self._ending.add((host, int(port)))  # which granian gives as a string
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._end())

    async def spoil(self, scope: MutableMapping[str, Any]) -> None:
        """See to it that the server, which ends the connection of an answer that is not whole, does so with a reset.

        Who asked by HTTP/1.0, as some proxies do, knows an answer's end by nothing but the connection's.
        """
        if scope.get("http_version") in {"1", "1.0"} and scope.get("client"):
            host, port = scope["client"]
            await asyncio.to_thread(_each, {(host, int(port))}, _drop_unread)

    async def _end(self) -> None:
        while self._ending:
            await asyncio.sleep(_TOGETHER_SECONDS)
            ending, self._ending = self._ending, set()
            await asyncio.to_thread(_each, ending, _shut)


def _drop_unread(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)


def _shut(connection: socket.socket) -> None:
    _drop_unread(connection)
    connection.shutdown(socket.SHUT_RDWR)


def _each(clients: set[tuple[str, int]], do: Callable[[socket.socket], None]) -> None:
    for number in _numbers():
        if _peer(number) not in clients:
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
            if found.getpeername()[:2] in clients:  # still: the number may have been closed and given to another
                do(found)


def _peer(number: int) -> Any:
    """Who is at the other end of a file by its number; None where nobody is. Quick, as there may be thousands."""
    found = None
    try:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=number)
        return found.getpeername()[:2]
    except OSError:
        return None
    finally:
        if found is not None:
            found.detach()


def bound_listeners(patience_seconds: float) -> None:
    """Bound what the kernel does for the clients that come from now on, who inherit it from what they connect to.

    How much it holds of an answer that is not read, where it would take megabytes; and how long it waits for one who
    takes nothing at all, or is gone without a word, where it would wait for ever.
    """
    for number in _numbers():
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
            if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENDING_BYTES)
                if hasattr(socket, "TCP_USER_TIMEOUT"):
                    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience_seconds * 1000))


def _numbers() -> list[int]:
    """The numbers of this process's open files."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir(_FOLDER)]  # noqa: PTH208 - numbers, not paths
    return []
