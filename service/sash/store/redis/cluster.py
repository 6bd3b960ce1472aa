"""A cluster: which node serves a slot, and what to do when a node was the wrong one.

The map of slots is read again when a slot moved, or its node is lost or has lost the others. One task at a time reads it, at
most twice a second, however many requests notice: a fail-over must not overload the remaining nodes.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import AskError, MovedError, NoPermissionError, RedisError, ResponseError

from sash.problems import StoreUnavailable
from sash.store.redis.addresses import Address
from sash.store.redis.permissions import denied_call
from sash.store.redis.redis_parts import ask, connect_to, reason_of
from sash.store.redis.servers import NodeLost, Server, Setup
from sash.tasks import end_tasks

Place = tuple[str, int]

SLOTS = 16384
_REFRESH_SECONDS = 0.5
_LOST_SECONDS = 0.1
_MAP_SECONDS = 1.0  # the answer to CLUSTER SLOTS is small; another node is asked when it does not come


class Cluster:
    """The nodes of a cluster, each with its connections, and the map of slots."""

    def __init__(self, address: Address, timeout_seconds: float, setup: Setup) -> None:
        self._address = address
        self._timeout_seconds = timeout_seconds
        self._setup = setup
        self._servers: dict[Place, Server] = {}
        self._slots: dict[int, Place] = {}
        self._known: set[Place] = set()
        self._refreshed = 0.0
        self._unread: NoPermissionError | None = None  # why the map could not be read
        self.trouble = ""
        """Why the latest node that was asked for the map gave none."""
        self.refreshes = 0
        self._refreshing = asyncio.create_task(self._refresh())

    @property
    def servers(self) -> list[Server]:
        """Return the servers that are known now."""
        return list(self._servers.values())

    def place_of(self, slot: int) -> Place | None:
        """Return the node that serves the slot; None while none does."""
        return self._slots.get(slot)

    def find(self, slot: int) -> Server:
        """Return the node that serves the slot. Raises NodeLost while none does."""
        place = self._slots.get(slot)
        if place is None:
            raise NodeLost("no node of the cluster serves the slot")
        return self._server(place)

    async def primaries(self) -> list[Server]:
        """Return the nodes that together have all keys.

        Raises StoreUnavailable while some slot has no node, StorePermissionDenied where the user may not read the map.
        """
        await asyncio.shield(self.refresh())
        if self._unread is not None and not self._slots:
            raise denied_call(self._unread)
        if len(self._slots) < SLOTS:
            raise StoreUnavailable("A part of the cluster has no node now; try again.")
        return [self._server(place) for place in sorted(set(self._slots.values()))]

    async def redirect(self, error: Exception) -> tuple[Server | None, float]:
        """Return the node to ask next, None for the slot's own node, and the seconds to wait before that.

        After MOVED, the slot's new node is used at once, and the whole map is read soon, because slots rarely move alone.
        ASK names a node that is taking the slot over and may have the key already. After a node is lost, or is cut off from
        the others and says CLUSTERDOWN, a new map is read.
        Raises StorePermissionDenied where the user may not read the map.
        """
        match error:
            case MovedError():
                self._slots[error.slot_id] = (error.host, error.port)
                self.refresh()
                return None, 0.0
            case AskError():
                return self._server((error.host, error.port)), 0.0
            case _:
                return None, await self._without_node()

    async def _without_node(self) -> float:
        """Return the seconds until the map may have the slot; where there is no map yet, it is read first."""
        known = bool(self._slots)
        refreshing = self.refresh()
        if known:
            return _LOST_SECONDS
        await asyncio.shield(refreshing)
        if self._unread is not None:
            raise denied_call(self._unread)
        return 0.0 if self._slots else _LOST_SECONDS

    def refresh(self) -> "asyncio.Task[None]":
        """Return the task that reads the map again: the running one, or a new one."""
        if self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        await asyncio.sleep(max(0.0, self._refreshed + _REFRESH_SECONDS - time.monotonic()))
        self.refreshes += 1
        ranges = await self._read()
        self._refreshed = time.monotonic()
        if ranges:
            self._slots = {slot: places[0] for first, last, places in ranges for slot in range(first, last + 1)}
            self._known = {place for _, _, places in ranges for place in places}
            primaries = set(self._slots.values())
            for place in primaries:
                self._server(place)  # a node is inspected before its first request
            gone = [self._servers.pop(place) for place in set(self._servers) - primaries]
            await asyncio.gather(*(server.close(NodeLost("the node serves no slot")) for server in gone))

    async def _read(self) -> list["Range"]:
        """Ask known nodes, then those in the store's URL, and return the map that covers the most slots."""
        widest: list[Range] = []
        self._unread = None
        for place in (*random.sample(sorted(self._known), len(self._known)), *self._address.hosts):
            try:
                async with asyncio.timeout(_MAP_SECONDS):
                    found = await self._ask(place)
            except NoPermissionError as error:
                self._unread, self.trouble = error, reason_of(error)
            except (RedisError, OSError) as error:
                self.trouble = reason_of(error)
            else:
                self.trouble = ""
                widest = max(widest, found, key=_width)
            if _width(widest) == SLOTS:
                break
        return widest

    async def _ask(self, place: Place) -> list["Range"]:
        connection = await connect_to(self._address, _MAP_SECONDS, place)()
        try:
            (reply,) = await ask(connection, [("CLUSTER", "SLOTS")])
        finally:
            await connection.disconnect(nowait=True)
        if isinstance(reply, ResponseError):
            raise reply
        return [_range(each, place[0]) for each in reply]

    def _server(self, place: Place) -> Server:
        server = self._servers.get(place)
        if server is None:
            connect = connect_to(self._address, self._timeout_seconds, place)
            server = self._servers[place] = Server(connect, self._setup, f"{place[0]}:{place[1]}")
        return server

    async def close(self, why: Exception) -> None:
        """Close every connection; calls that wait for an answer fail with ``why``."""
        await end_tasks(self._refreshing)
        await asyncio.gather(*(server.close(why) for server in self._servers.values()))
        self._servers = {}


Range = tuple[int, int, list[Place]]
"""First and last slot, and their nodes, the primary first."""


def _range(entry: Sequence[Any], asked: str) -> Range:
    """Read a line of CLUSTER SLOTS. A node without a host is the node that was asked."""
    first, last, *nodes = entry
    return first, last, [((host or b"").decode() or asked, int(port)) for host, port, *_ in nodes]


def _width(ranges: Sequence[Range]) -> int:
    return sum(last - first + 1 for first, last, _ in ranges)
