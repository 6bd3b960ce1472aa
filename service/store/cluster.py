"""A cluster: which node serves a slot, and what to do when the answer was wrong.

redis-py's ``NodesManager`` keeps the map: it parses CLUSTER SLOTS, tries the nodes in turn, and moves a slot when a node
says MOVED. Connections and commands are our own lanes', for the reasons in ``lanes.py``.

The map is read again when a node is lost or a slot moved, by one task at a time and at most twice a second, however
many requests notice: a fail-over must not become a storm on the nodes that are left.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.asyncio.cluster import ClusterNode, NodesManager
from redis.cluster import PRIMARY
from redis.crc import REDIS_CLUSTER_HASH_SLOTS
from redis.exceptions import AskError, MovedError, NoPermissionError, RedisClusterException, RedisError

from service.problems import StoreUnavailable
from service.store.addresses import Address, connection_options
from service.store.commands import NOBODY, NodeLost, Observer
from service.store.durability import Durability
from service.store.nodes import Node
from service.store.permissions import denial_behind, denied_call

_REFRESH_SECONDS = 0.5
_LOST_SECONDS = 0.1
_MAP_SECONDS = 1.0  # CLUSTER SLOTS is a small answer out of memory; another node is asked when it does not come


class Cluster:
    """The deployment where each slot has its node."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self._address = address
        self._options = connection_options(address, timeout_seconds)
        self._map = self._new_map()
        self._nodes: dict[tuple[str, int], Node] = {}
        self._prepare: tuple[Sequence[Any], ...] = ()
        self._connections = 1
        self._durability = Durability("fast", wait_seconds=1)
        self._observer: Observer = NOBODY
        self._refreshing: asyncio.Task[None] | None = None
        self._refreshed = 0.0
        self._unread: NoPermissionError | None = None  # why the map could not be read
        self.refreshes = 0

    def open(
        self,
        prepare: Iterable[Sequence[Any]],
        connections: int,
        durability: Durability,
        observer: Observer = NOBODY,
    ) -> None:
        """Remember how to make lanes; nodes get theirs when the first command goes there."""
        self._prepare, self._connections, self._durability = tuple(prepare), connections, durability
        self._observer = observer
        self.refresh()

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    async def node(self, slot: int | None) -> Node:
        """Who serves the slot. Raises StoreUnavailable while nobody knows."""
        if not self._map.slots_cache:
            await asyncio.shield(self.refresh())
            if self._unread is not None:
                raise denied_call(self._unread)
        try:
            found = self._map.get_node_from_slot(slot or 0)
        except (KeyError, RedisClusterException):
            self.refresh()
            raise NodeLost("no node of the cluster serves the slot") from None
        return self._lanes((found.host, int(found.port)))

    async def primaries(self) -> list[Node]:
        """Those that have all keys between them. Raises StoreUnavailable while some slot has no node."""
        await asyncio.shield(self.refresh())
        if len(self._map.slots_cache) < REDIS_CLUSTER_HASH_SLOTS:
            raise StoreUnavailable("A part of the cluster has no node now; try again.")
        found = self._map.get_nodes_by_server_type(PRIMARY)
        return [self._lanes((node.host, int(node.port))) for node in found]

    async def redirect(self, error: Exception) -> tuple[Node | None, float]:
        """Who is to be asked next, if not the slot's own node, and after how many seconds.

        MOVED is believed at once, and the whole map is read soon, because slots rarely move alone. ASK names a node that
        is taking the slot over and may have the key already. A node that is lost needs a map without it.
        """
        match error:
            case MovedError():
                if self._map.slots_cache:
                    await self._map.move_slot(error)
                self.refresh()
                return None, 0.0
            case AskError():
                return self._lanes((error.host, int(error.port))), 0.0
            case _:
                self.refresh()
                return None, _LOST_SECONDS

    def refresh(self) -> "asyncio.Task[None]":
        """Read the map again, unless somebody does; the task that does it."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        await asyncio.sleep(max(0.0, self._refreshed + _REFRESH_SECONDS - time.monotonic()))
        self.refreshes += 1
        try:
            await self._map.initialize()
            self._unread = None
        except (RedisClusterException, RedisError, OSError) as error:
            self._unread = denial_behind(error)
            # Nobody answered whom we know: begin again from the addresses that the operator gave.
            old, self._map = self._map, self._new_map()
            self._map.slots_cache = old.slots_cache
            await _forget(old)
        self._refreshed = time.monotonic()
        for primary in self._map.get_nodes_by_server_type(PRIMARY):
            self._lanes((primary.host, int(primary.port)))  # each is judged before the first request comes to it
        known = {(node.host, int(node.port)) for node in self._map.nodes_cache.values()}
        if known:
            gone = [place for place in self._nodes if place not in known]
            leaving = [self._nodes.pop(place) for place in gone]
            await asyncio.gather(*(node.close(NodeLost("the node left the cluster")) for node in leaving))

    def _lanes(self, place: tuple[str, int]) -> Node:
        node = self._nodes.get(place)
        if node is None:
            known = ClusterNode(*place, **self._options)

            def connect() -> Any:
                return known.connection_class(**known.connection_kwargs)

            node = self._nodes[place] = Node(
                connect,
                self._prepare,
                self._durability,
                connections=self._connections,
                hands_back=True,
                observer=self._observer,
            )
        return node

    def _new_map(self) -> NodesManager:
        options = {**self._options, "socket_timeout": _MAP_SECONDS, "socket_connect_timeout": _MAP_SECONDS}
        seeds = [ClusterNode(host, port, **options) for host, port in self._address.hosts]
        return NodesManager(seeds, require_full_coverage=False, connection_kwargs=options)

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        why = StoreUnavailable("The service is stopping.")
        await asyncio.gather(*(node.close(why) for node in self._nodes.values()))
        self._nodes = {}
        await _forget(self._map)


async def _forget(nodes: NodesManager) -> None:
    for kept in ("nodes_cache", "startup_nodes"):
        await nodes.aclose(kept)
