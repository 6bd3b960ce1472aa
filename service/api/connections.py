"""An answer of HTTP/1.0 that breaks off, made to look broken.

A client of HTTP/1.0, as nginx was by default towards what it proxies, knows the end of an export by the connection's end
alone. Granian closes the connection of an answer that the application did not finish, which a client of HTTP/1.1 sees in
the framing; but it closes with a FIN, as after a whole answer, and gives an application no way to the socket. So the
socket is found among this process's files, by the client's address, and set to end with a reset.

Nothing else is done from below: granian drops the connection of a slow reader when its request is over, the kernel that of
a client that takes nothing (TCP_USER_TIMEOUT, in ``listeners.py``). Until then it holds a few pieces of its answer.
"""

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import MutableMapping
from typing import Any

_FOLDER = "/dev/fd"
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER for 0 seconds


async def reset_when_closed(scope: MutableMapping[str, Any]) -> None:
    """Let the connection of an HTTP/1.0 request end with a reset; that of another is left alone."""
    if scope.get("http_version") in {"1", "1.0"} and scope.get("client"):
        host, port = scope["client"]
        await asyncio.to_thread(
            _find_and_set, (host, int(port))
        )  # the port is a string; there may be thousands of files


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
