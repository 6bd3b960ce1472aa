"""Binding the port. The parent process does this first, before a store or a worker starts.

If each worker bound its own socket with SO_REUSEPORT, as granian does, a second service could share the port unnoticed,
and one conversation would be in two stores.
"""

import errno
import socket
import sys
import time

from sash.settings import Settings, SettingsError

BACKLOG = 4096
"""The largest number of connections that wait to be accepted; the kernel's net.core.somaxconn may be lower."""

_BIND_SECONDS = 2.0  # time for the workers of a killed service to release the port
_LOOK_SECONDS = 0.02
_SENDING_BYTES = 256 * 1024  # the kernel's send buffer for each connection; the default is megabytes


def listen(settings: Settings) -> list[socket.socket]:
    """A listening socket for each worker. Raises SettingsError if the port cannot be bound.

    The first socket is bound without SO_REUSEPORT, so that binding fails if any other socket has the port. The others
    then share the port with it. If all workers shared one socket, one worker would receive all connections.
    """
    host, port = settings.host, settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise SettingsError((f"SASH_HOST is {host!r}, which is no address: {error.strerror}",)) from None
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)  # IPv4 first: 127.0.0.1
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
        first.close()  # a socket that is bound but cannot listen cannot be used again
    if sys.platform != "linux":  # other systems do not distribute connections over sockets that share a port
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
    """A socket whose accepted connections inherit limits of the kernel.

    The limits are the bytes buffered for a client that does not read, and the time waited for it.
    """
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # recently closed connections do not block the port
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENDING_BYTES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(patience_seconds * 1000))
    return listener
