"""One server, or the primary that sentinels name: every slot is served by the same lanes."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from redis.asyncio import Connection, ConnectionPool

from service.problems import StoreUnavailable
from service.store.addresses import Address, connection_options
from service.store.commands import NOBODY, Observer
from service.store.durability import Durability
from service.store.lanes import Connect
from service.store.nodes import Node
from service.store.sentinel import sentinel_connect


class Single:
    """The deployment with one address for everything."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._nodes: list[Node] = []
        self._close_sentinel: Callable[[], Awaitable[None]] | None = None
        if address.kind == "sentinel":
            self._connect, sentinel = sentinel_connect(address, timeout_seconds)
            self._close_sentinel = sentinel.aclose
        else:
            self._connect = _connect(address, timeout_seconds)

    def open(
        self,
        prepare: Iterable[Sequence[Any]],
        connections: int,
        durability: Durability,
        observer: Observer = NOBODY,
    ) -> None:
        """Start the lanes; they connect when the server is there."""
        self._nodes = [Node(self._connect, prepare, durability, connections=connections, observer=observer)]

    @property
    def nodes(self) -> list[Node]:
        return self._nodes

    async def node(self, slot: int | None) -> Node:  # noqa: ARG002 - as a cluster's
        """Who serves the slot."""
        return self._nodes[0]

    async def primaries(self) -> list[Node]:
        """The one that has every key."""
        return self._nodes

    async def redirect(self, error: Exception) -> tuple[Node | None, float]:
        """Nobody sends us elsewhere: it is a cluster's node that a plain URL names."""
        raise StoreUnavailable("The store is a cluster: write redis+cluster:// in SASH_REDIS_URL.") from error

    async def close(self) -> None:
        for node in self._nodes:
            await node.close()
        if self._close_sentinel is not None:
            await self._close_sentinel()


def _connect(address: Address, timeout_seconds: float) -> Connect:
    pool = ConnectionPool(**connection_options(address, timeout_seconds))

    def connect() -> Connection:
        connection: Connection = pool.make_connection()  # type: ignore[no-untyped-call]
        return connection

    return connect
