"""The port: taken first, by the parent alone, before a store or a worker starts.

Each worker could bind a socket of its own with SO_REUSEPORT, as granian does; a second service would then share the
port unseen, and one conversation would live in two stores.
"""

import errno
import socket
import sys
import time

from service.settings import Settings, SettingsError

BACKLOG = 4096
"""Connections that wait to be accepted; the kernel's own limit, net.core.somaxconn, may be lower."""

_BIND_SECONDS = 2.0  # how long a port may still be held by the workers of a service that was killed
_LOOK_SECONDS = 0.02
_SENDING_BYTES = 256 * 1024  # of each connection, in the kernel, where it would hold megabytes


def listen(settings: Settings) -> list[socket.socket]:
    """A socket for each worker to accept from. Raises SettingsError when this machine does not give the port.

    The first is bound without SO_REUSEPORT, which fails where any other socket has the port. The workers share it then:
    with one socket for all of them, one worker was given all the connections.
    """
    host, port = settings.host, settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise SettingsError((f"SASH_HOST is {host!r}, which is no address: {error.strerror}",)) from None
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)  # localhost is 127.0.0.1 first
    give_up = time.monotonic() + _BIND_SECONDS
    while True:
        first = _client_socket(family, settings.request_timeout_seconds)
        try:
            first.bind(address)
            first.listen(BACKLOG)
            break
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > give_up:
                first.close()
                raise SettingsError((_not_bound(error, host, port),)) from None
        time.sleep(_LOOK_SECONDS)
        first.close()  # one that is bound and cannot listen is of no further use
    if sys.platform != "linux":  # elsewhere connections are not spread over sockets that share a port
        return [first] * settings.workers
    listeners = [first]
    for _ in range(1, settings.workers):
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        another = _client_socket(family, settings.request_timeout_seconds)
        another.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        another.bind(first.getsockname())
        another.listen(BACKLOG)
        listeners.append(another)
    return listeners


def _not_bound(error: OSError, host: str, port: int) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return (
                f"port {port} is in use on {host}: stop what listens there (ss -ltnp sport = :{port} names it), "
                "or choose another with --port or SASH_PORT"
            )
        case errno.EADDRNOTAVAIL:
            return f"SASH_HOST is {host!r}, which is no address of this machine: write 127.0.0.1, or 0.0.0.0 for all"
        case errno.EACCES:
            return f"port {port} needs privileges: choose one from 1024 on with --port or SASH_PORT"
        case _:
            return f"{host} port {port} cannot be listened on: {error.strerror}"


def _client_socket(family: int, patience_seconds: float) -> socket.socket:
    """A socket whose clients' connections inherit bounds on what the kernel does for them.

    How much it holds of an answer that is not read, and how long it waits for a client that takes nothing or is gone.
    """
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that ended lately do not count
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENDING_BYTES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience_seconds * 1000))
    return listener
