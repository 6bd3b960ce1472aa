"""The parts of redis-py that the service uses: redis-py reads addresses, connects and logs in; then Sash uses the socket.

These parts are private or undocumented, so pyproject.toml pins redis-py exactly. They are used only here and in
``addresses.py`` (``parse_url``). A test uses each, so that it fails when an upgrade changes one.

=======================  ==========================================================================================
``NOT_ENOUGH_DATA``      the reader's result while the next reply is incomplete
``connection._parser``   holds the reader (``_reader``), which makes redis-py's exceptions of error replies
``connection._writer``   holds the transport; redis-py reads through a stream, a task and a timeout for each reply,
                         where ``pipeline.py`` takes many replies in one call
``redis.crc.key_slot``   the slot of a key in a cluster
=======================  ==========================================================================================
"""

from asyncio import WriteTransport
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple

from hiredis import Reader, pack_command
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.asyncio import Connection
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.crc import key_slot
from redis.exceptions import ConnectionError, RedisError, ResponseError  # noqa: A004 - redis' own

from sash.store.redis.addresses import POOL_OPTIONS, Address, connection_options
from sash.store.redis.permissions import denied_call, is_denial

__all__ = [
    "NOT_ENOUGH_DATA",
    "NO_ANSWER",
    "Connect",
    "Socket",
    "ask",
    "connect_to",
    "connect_to_primary",
    "key_slot",
    "primary_of",
    "reason_of",
    "take_over",
]

Connect = Callable[[], Awaitable[Connection]]
"""Connects to one server, and logs in. Raises RedisError, OSError."""

NO_ANSWER: Final = (
    "nothing answered a new connection in time; its name may be unknown, or only one end may speak TLS (rediss://)"
)
_SENTINEL_SECONDS = 0.5  # a sentinel answers fast; after this the next one is asked


class Socket(NamedTuple):
    """A connection's socket and the reader of its replies."""

    transport: WriteTransport
    reader: Reader


def take_over(connection: Connection) -> Socket:
    """Return the socket of a connection. From now on redis-py only closes it."""
    writer, parser = connection._writer, connection._parser  # noqa: SLF001 - see above
    if writer is None:
        raise ConnectionError("the connection was closed")
    return Socket(writer.transport, parser._reader)  # type: ignore[attr-defined] # noqa: SLF001 - see above


async def ask(connection: Connection, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the replies to commands on a connection that was not taken over; a server's error is a reply."""
    await connection.send_packed_command([pack_command(words) for words in commands])
    return [await _reply(connection) for _ in commands]


async def _reply(connection: Connection) -> Any:
    try:
        return await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        return error


def reason_of(error: Exception) -> str:
    """Return why a connection could not be made, in the words of the network, TLS or the server; or what to allow."""
    if is_denial(error):
        return denied_call(error).detail
    return str(error) or NO_ANSWER


def connect_to(address: Address, timeout_seconds: float, place: tuple[str, int] | None = None) -> Connect:
    """Return a function that connects to the address, or to ``place``."""
    return partial(_connect, connection_options(address, timeout_seconds), place)


async def _connect(options: dict[str, Any], place: tuple[str, int] | None) -> Connection:
    kind: type[Connection] = options.get("connection_class", Connection)
    wanted = {name: value for name, value in options.items() if name not in POOL_OPTIONS}
    if place is not None:
        wanted |= {"host": place[0], "port": place[1]}
    connection = kind(**wanted)
    try:
        await connection.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection


def primary_of(address: Address, timeout_seconds: float) -> tuple[Connect, Sentinel]:
    """Return a function that connects to the primary that sentinels name; and the sentinels, which the caller closes."""
    options: dict[str, Any] = {"socket_connect_timeout": _SENTINEL_SECONDS, "socket_timeout": _SENTINEL_SECONDS}
    options |= {**address.sentinel_options, "retry": None, "protocol": 2, "ssl": address.tls}
    sentinel = Sentinel(address.hosts, sentinel_kwargs=options)  # type: ignore[no-untyped-call]
    return connect_to_primary(sentinel, address, timeout_seconds), sentinel


def connect_to_primary(sentinel: Sentinel, address: Address, timeout_seconds: float) -> Connect:
    """Return a function that connects to the primary that these sentinels name."""
    return partial(_connect_to_primary, sentinel, address, timeout_seconds)


async def _connect_to_primary(sentinel: Sentinel, address: Address, timeout_seconds: float) -> Connection:
    """Connect to the primary; refuse another server, because sentinels may name the old one (redis-py issue 3874)."""
    # redis-py swaps the sentinel that answered to the front. Two calls that swap in one list at once lose a sentinel.
    asked = copy(sentinel)
    asked.sentinels = [*sentinel.sentinels]
    try:
        place = await asked.discover_master(address.service)
    except MasterNotFoundError:
        raise await _unfound(sentinel, address.service) from None
    sentinel.sentinels = asked.sentinels
    connection = await connect_to(address, timeout_seconds, place)()
    try:
        (role,) = await ask(connection, [("ROLE",)])
        _check_primary(role)
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection


async def _unfound(sentinel: Sentinel, service: str) -> Exception:
    """Return why the sentinels name no primary. redis-py's error has only the kind of their errors."""
    failure: Exception | None = None
    for each in sentinel.sentinels:
        try:
            await each.ping()
        except (RedisError, OSError) as error:
            failure = failure or error
        else:
            return ConnectionError(f"The sentinels know no primary called {service} that is up.")
    return failure or ConnectionError("No sentinel is named.")


def _check_primary(role: Any) -> None:
    if isinstance(role, ResponseError):
        raise role
    if role[0] != b"master":
        raise ConnectionError("the sentinels named a server that is not a primary")
