"""The primary that sentinels name, asked again at every connect, and believed only when it says the same of itself."""

from typing import Any

from redis.asyncio import Connection
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.exceptions import ConnectionError as RedisConnectionError

from service.store.addresses import Address, connection_options
from service.store.lanes import Connect

_SENTINEL_SECONDS = 0.5  # a sentinel is near and does nothing else; the next one is asked when it does not answer


async def _check_role(connection: Connection) -> None:
    """Refuse a server that is not a primary: sentinels may name the old one for a while (redis-py issue 3874)."""
    await connection.on_connect()
    await connection.send_command("ROLE")
    role = await connection.read_response(disable_decoding=True)
    if role[0] != b"master":
        raise RedisConnectionError("the sentinels named a server that is not a primary")


def sentinel_connect(address: Address, timeout_seconds: float) -> tuple[Connect, Sentinel]:
    """What makes connections to the primary of the day, and what to close in the end."""
    ask: dict[str, Any] = {"socket_connect_timeout": _SENTINEL_SECONDS, "socket_timeout": _SENTINEL_SECONDS}
    options = {name: value for name, value in connection_options(address, timeout_seconds).items() if name != "path"}
    options.pop("connection_class", None)
    sentinel = Sentinel(  # type: ignore[no-untyped-call]
        address.hosts,
        sentinel_kwargs={**ask, **address.sentinel_options, "retry": None, "protocol": 2, "ssl": address.tls},
    )
    pool = SentinelConnectionPool(  # type: ignore[no-untyped-call]
        address.service,
        sentinel,
        connection_class=SentinelManagedSSLConnection if address.tls else SentinelManagedConnection,
        redis_connect_func=_check_role,
        **options,
    )

    def connect() -> Connection:
        connection: Connection = pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    return connect, sentinel
