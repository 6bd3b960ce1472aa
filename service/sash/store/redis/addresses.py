"""Read a store's URL: the kind of deployment, its hosts, and how to connect."""

import os
from typing import Any, Literal, cast
from urllib.parse import parse_qsl, urlencode

import msgspec
from redis.asyncio.connection import Connection, parse_url
from redis.exceptions import RedisError

_DEFAULT_PORT = {"single": 6379, "cluster": 6379, "sentinel": 26379}
_SENTINEL = "sentinel_"  # parameters for the connections to the sentinels begin so, such as sentinel_password
_TLS_FILES = frozenset({"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"})
POOL_OPTIONS = frozenset({"connection_class", "max_connections", "timeout"})
"""Options of a URL that a connection does not take."""


class Address(msgspec.Struct, frozen=True):
    """A store's URL in parts. ``options`` are the arguments of redis-py's connections, with user and password."""

    kind: Literal["single", "sentinel", "cluster"]
    hosts: tuple[tuple[str, int], ...]
    options: dict[str, Any]
    tls: bool = False
    service: str = ""
    """The name of the primary that sentinels watch."""
    sentinel_options: dict[str, Any] = {}
    """Arguments of the sentinels' connections: TLS as for the servers, unless the URL has other values for sentinels."""


def read_url(url: str) -> Address:
    """Return the address in a URL that the settings have checked.

    >>> read_url("redis+sentinel://:pw@a,b:26380/main/2?sentinel_password=s").hosts
    (('a', 26379), ('b', 26380))
    """
    scheme, _, rest = url.partition("://")
    base, _, kind = scheme.partition("+")
    if not kind:
        return Address("single", (), _options(url), tls=base == "rediss")
    authority, _, path = rest.partition("?")[0].partition("/")
    user, at, hosts = authority.rpartition("@")
    service, _, database = path.partition("/") if kind == "sentinel" else ("", "", "0")
    given = parse_qsl(rest.partition("?")[2])
    own = {name: value for name, value in given if not name.startswith(_SENTINEL)}
    options = _options(f"{base}://{user}{at}host/{database or 0}?{urlencode(own)}")
    options.pop("host", None)
    trust = {name: value for name, value in options.items() if name.startswith("ssl_")}
    return Address(
        cast("Literal['sentinel', 'cluster']", kind),
        tuple(_endpoint(host, _DEFAULT_PORT[kind]) for host in hosts.split(",")),
        options,
        tls=base == "rediss",
        service=service,
        sentinel_options=trust
        | {name.removeprefix(_SENTINEL): value for name, value in given if name.startswith(_SENTINEL)},
    )


def _options(url: str) -> dict[str, Any]:
    return dict(parse_url(url))


def _endpoint(text: str, default_port: int) -> tuple[str, int]:
    if text.startswith("["):  # an IPv6 address
        host, _, rest = text[1:].partition("]")
        return host, int(rest[1:] or default_port)
    host, _, port = text.partition(":")
    return host, int(port or default_port)


def mistake_in(url: str) -> str:
    """Return why redis-py makes no connection of a URL's parameters; empty where it makes one. Nothing is connected.

    A file of TLS that cannot be read is a mistake too: redis-py's error would name the server in its place.

    >>> mistake_in("redis://host?colour=red")
    "a connection has no parameter 'colour'"
    """
    try:
        address = read_url(url)
        options = connection_options(address, 1)
        kind = options.get("connection_class", Connection)
        for given in (options, address.sentinel_options):
            kind(**{name: value for name, value in given.items() if name not in POOL_OPTIONS})
            for name in _TLS_FILES & given.keys():
                if not os.access(given[name], os.R_OK):
                    return f"{name} is {given[name]!r}, which cannot be read"
    except (TypeError, ValueError, RedisError) as error:
        text = str(error).rpartition("__init__() ")[2]
        return text.replace("got an unexpected keyword argument", "a connection has no parameter")
    return ""


def connection_options(address: Address, timeout_seconds: float) -> dict[str, Any]:
    """Return the arguments of each connection: no retry and no timeout of replies, because ``Client`` has both."""
    return {
        **address.options,
        "socket_connect_timeout": timeout_seconds,
        "socket_timeout": None,
        "retry": None,
        "decode_responses": False,
        "protocol": 2,
    }
