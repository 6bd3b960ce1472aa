"""Ending an unfinished HTTP/1.0 answer with a reset, so that the client sees that it is incomplete.

A client of HTTP/1.0 (nginx's old default towards upstreams) knows the end of an export by the connection's end alone.
Granian closes the connection of an unfinished answer with a FIN, as after a whole answer. A client of HTTP/1.1 notices by
the framing; a client of HTTP/1.0 does not. Granian gives an application no access to the socket. So this module finds
the socket among the process's open files, by the client's address, and sets it to close with a reset.

Other bad connections need no work here: granian closes a slow reader's connection when its request ends, and the kernel
closes the connection of a client that reads nothing (TCP_USER_TIMEOUT, in ``listeners.py``).
"""

import asyncio
import contextlib
import os
import socket
import stat
import struct

from sash.api.middleware.asgi import Scope

_FOLDER = "/dev/fd"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER for 0 seconds


async def reset_when_closed(scope: Scope) -> None:
    """Make the connection of an HTTP/1.0 request close with a reset. Other connections are not changed."""
    if scope.get("http_version") in {"1", "1.0"} and scope.get("client"):
        host, port = scope["client"]
        await asyncio.to_thread(_find_and_set, (host, int(port)))  # in a thread: thousands of files may be open


def _find_and_set(client: tuple[str, int]) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(_FOLDER):  # noqa: PTH208 - numbers, not paths
            with contextlib.suppress(OSError):
                _set(os.dup(int(name)), client)


def _set(number: int, client: tuple[str, int]) -> None:
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        os.close(number)
        return
    with socket.socket(fileno=number) as found:
        if found.family != socket.AF_UNIX and found.getpeername()[:2] == client:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
