"""The store behind one small interface, whatever its deployment: one server, Sentinel or Cluster.

::

    Client ─┬──────────────────────── Server ─── Connection ─── Pipeline
            └─ Cluster (slot → node) ─┘ one a node  a few each     an open socket

A call is a batch of commands. The client finds the server (``cluster.py``), the server chooses a connection
(``servers.py``), and the batches of one tick of the event loop are sent in a few writes (``pipeline.py``). A call goes to
one slot, because a conversation's keys share a hash tag.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from sash.problems import StoreFull, StoreUnavailable
from sash.store.redis import datafiles
from sash.store.redis.addresses import read_url
from sash.store.redis.cluster import Cluster
from sash.store.redis.durability import Durability, Inspection, Level
from sash.store.redis.lua import SCRIPTS, Effect, ScriptCall
from sash.store.redis.permissions import denial, denied_call, is_denial
from sash.store.redis.pipeline import Commands, NoObserver, Observer, Plain, key_of
from sash.store.redis.redis_parts import Connect, connect_to, connect_to_primary, key_slot, primary_of
from sash.store.redis.servers import Health, NodeLost, Server, Setup
from sash.store.redis.subscriptions import Place, Subscriptions
from sash.tasks import end_tasks

T = TypeVar("T")

_DOWN_SECONDS = 1.0
"""The time without a connection after which calls fail at once; a restart takes less."""
_SILENT_SHARE = 0.5
"""Of the timeout: after so long a silence calls fail at once. A store on a busy machine may be silent for a second or two,
and then it answers all that wait."""
_RETRY_SECONDS = 0.1
_WATCH_SECONDS = 0.25
_SOON_SECONDS = 0.01
_SCANNED = 1000  # keys of one step of a scan, which takes well under a millisecond
_WAIT_SHARE = 0.4  # of the timeout, for one barrier: a batch may wait for an earlier barrier, and then for its own
_TRY_LATER = ("LOADING", "MASTERDOWN", "READONLY", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY")
_LATER_ERRORS = (ReadOnlyError, TryAgainError)
_READING = frozenset(
    {"GET", "GETRANGE", "STRLEN", "HGET", "HMGET", "HGETALL", "HLEN", "HEXISTS", "HSCAN", "LLEN", "LRANGE", "LINDEX"}
    | {"EXISTS", "PTTL", "PEXPIRETIME", "ZRANGE", "ZCARD", "ZSCORE", "SCARD", "SMEMBERS"}
    | {"TIME", "PING", "INFO", "CONFIG", "ROLE"}
)
_REMOVING = frozenset({"DEL", "UNLINK", "ZREM", "HDEL", "SREM", "LTRIM", "PEXPIRE", "PERSIST"})
_name = itemgetter(0)


class Connections(msgspec.Struct, frozen=True):
    """This worker's connections to the store, by state, and the number of commands that wait for the store."""

    waiting: int
    idle: int
    busy: int
    down: int


class Client:
    """Runs scripts and plain commands on the store."""

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 5.0,
        connections: int = 2,
        durability: Level = "fast",
        data_files: str = "",
        observer: Observer | None = None,
    ) -> None:
        self._address = read_url(url)
        self._timeout_seconds = timeout_seconds
        self._data_files = data_files
        self._observer = observer or NoObserver()
        clustered = self._address.kind == "cluster"
        loads = [("SCRIPT", "LOAD", script.source) for script in SCRIPTS.values()]
        level = Durability(
            durability,
            wait_seconds=timeout_seconds * _WAIT_SHARE,
            data_files=data_files,
            single=self._address.kind == "single",
        )
        self._setup = Setup(connections, loads, level, self._observer, hands_back=clustered)
        self._only: Server | None = None
        self._cluster: Cluster | None = None
        self._sentinel: Any = None
        self._watch: asyncio.Task[None] | None = None
        self._lost_since: float | None = None
        self._is_down = False
        self.writes = 0
        """Calls that added something; a store that went back is noticed by what followed them."""
        self._tries = False
        """Whether a call tries a store that is known to be down."""

    async def open(self) -> None:
        """Begin to connect. Does not wait for the store, which may start later: ``/readyz`` reports it."""
        address, seconds = self._address, self._timeout_seconds
        if address.kind == "cluster":
            self._cluster = Cluster(address, seconds, self._setup)
        elif address.kind == "sentinel":
            connect, self._sentinel = primary_of(address, seconds)
            self._only = Server(connect, self._setup)
        else:
            self._only = Server(connect_to(address, seconds), self._setup)
        self._watch = asyncio.create_task(self._watch_deadlines())

    async def close(self) -> None:
        """Close every connection. Calls that wait for an answer fail."""
        if self._watch is not None:
            await end_tasks(self._watch)
        for each in (self._only, self._cluster):
            if each is not None:
                await each.close(StoreUnavailable("The service is stopping."))
        if self._sentinel is not None:
            await self._sentinel.aclose()

    def subscriptions(self, told: Callable[[str, bytes], None], gap: Callable[[str, bool], None]) -> Subscriptions:
        """Return subscriptions to channels that are called like keys. ``told`` and ``gap`` are as there."""
        return Subscriptions(
            told=told, gap=gap, find=self._place_of, moved=self._look_for_nodes, connect=self._listening_to
        )

    def _place_of(self, channel: str) -> Place | bool:
        """Return the node that serves a channel's slot; False while it is unknown."""
        return None if self._cluster is None else self._cluster.place_of(_channel_slot(channel)) or False

    def _look_for_nodes(self) -> None:
        if self._cluster is not None:
            self._cluster.refresh()

    def _listening_to(self, place: Place) -> Connect:
        if self._sentinel is not None:
            return connect_to_primary(self._sentinel, self._address, self._timeout_seconds)
        return connect_to(self._address, self._timeout_seconds, place)

    @property
    def _servers(self) -> list[Server]:
        """Return the servers that are known now."""
        if self._cluster is not None:
            return self._cluster.servers
        return [] if self._only is None else [self._only]

    @property
    def load(self) -> Connections:
        """Return the commands of this process that wait for the store, and the state of its connections."""
        connections = [connection for server in self._servers for connection in server.connections]
        states = [connection.state for connection in connections]
        waiting = sum(connection.waiting for connection in connections)
        return Connections(waiting, *(states.count(state) for state in ("idle", "busy", "down")))

    @property
    def lost_files(self) -> str:
        """What is wrong with the embedded store's files; empty when they are in order, or the store is not embedded."""
        return datafiles.missing(self._data_files)

    @property
    def is_down(self) -> bool:
        """Whether the store is known to be down: the one try is then for a request, not for work in the background."""
        return self._is_down

    @property
    def closed(self) -> str:
        """Why nothing is read or written: the data has a layout that this version does not know; empty where it does."""
        return self._setup.durability.unreadable

    @property
    def shortage(self) -> str:
        """Why the disk of the embedded store refuses writes; empty when it has room, or the store is not embedded."""
        found = self._setup.durability.shortage()
        return found.why if found is not None else ""

    @property
    def kind(self) -> str:
        """``single``, ``sentinel`` or ``cluster``."""
        return self._address.kind

    @property
    def servers(self) -> list[Inspection]:
        """The inspection of each connected server."""
        return [server.found for server in self._servers if server.found is not None]

    @property
    def health(self) -> list[Health]:
        """Each server as it was last seen."""
        return [
            Health(server.found, server.delay_seconds, server.silent_seconds, self._is_silent(server), server.name)
            for server in self._servers
        ]

    def _is_silent(self, server: Server) -> bool:
        return server.silent_seconds > self._timeout_seconds * _SILENT_SHARE

    @property
    def trouble(self) -> str:
        """Why a server cannot be reached; empty when all can, or none was tried yet."""
        reasons = [server.trouble for server in self._servers] or [self._cluster.trouble if self._cluster else ""]
        return next(filter(None, reasons), "")

    async def sample(self, count: int) -> list[tuple[bytes, int]]:
        """Return ``count`` random keys of each server, with their memory in bytes; none where the user lacks permission."""
        deadline = time.monotonic() + self._timeout_seconds
        found: list[tuple[bytes, int]] = []
        for server in self._servers if count else ():
            keys = await _replies(server, [("RANDOMKEY",)] * count, deadline)
            named = [key for key in keys if isinstance(key, bytes)]
            sizes = await _replies(server, [("MEMORY", "USAGE", key) for key in named], deadline)
            found += [(key, size) for key, size in zip(named, sizes, strict=False) if isinstance(size, int)]
        return found

    async def run(self, call: ScriptCall[T]) -> T:
        """Run a script and return its result. Raises StoreUnavailable, StoreFull, and what the call raises."""
        (reply,) = await self._answer(call.script.name, (call,), call.script.effect)
        return call.read(reply)

    async def commands(self, words: Plain, *, erases: bool = False) -> list[Any]:
        """Return the replies to plain commands. Those of one slot are sent together, and run in order on one connection.

        A full disk refuses commands that write, unless all only remove, or they are what an erasure needs (``erases``).

        Raises:
            StoreUnavailable: no answer before the deadline, or the server says that it cannot serve now.
            StorePermissionDenied: the store's user may not run a command.
            StoreFull: the server is at its memory limit, or its disk is full.
        """
        if not words:
            return []
        effect = "erases" if erases else _effect(words)
        if self._cluster is None or len(set(slots := _slots(words))) == 1:
            return await self._answer("commands", words, effect)
        groups = {slot: [i for i, each in enumerate(slots) if each == slot] for slot in slots}
        parts = [self._answer("commands", [words[i] for i in places], effect) for places in groups.values()]
        replies: list[Any] = [None] * len(words)
        for places, part in zip(groups.values(), await asyncio.gather(*parts), strict=True):
            for place, reply in zip(places, part, strict=True):
                replies[place] = reply
        return replies

    async def scan(self, pattern: str) -> AsyncIterator[str]:
        """Yield what stands in place of ``*`` in each key that matches ``pattern``, on every node; some may come twice.

        Scans all keys of the store. Raises what ``scan_steps`` raises.
        """
        async for names in self.scan_steps(pattern):
            for name in names:
                yield name

    async def scan_steps(self, pattern: str) -> AsyncIterator[list[str]]:
        """Yield what each step of ``scan`` finds; most steps find nothing where few keys match.

        Raises:
            StoreUnavailable: no answer before the deadline.
            StorePermissionDenied: the store's user may not run SCAN.
        """
        begin, end = pattern.split("*")
        for server in await self._primaries():
            cursor = b"0"
            while True:
                cursor, keys = await self._scan(server, cursor, pattern)
                yield [key.decode(errors="replace").removeprefix(begin).removesuffix(end) for key in keys]
                if int(cursor) == 0:
                    break

    async def _scan(self, server: Server, cursor: bytes, pattern: str) -> tuple[bytes, list[bytes]]:
        deadline = time.monotonic() + self._timeout_seconds
        words = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED)
        try:
            ((cursor, keys),) = await server.submit([words], deadline).future
        except (NodeLost, ResponseError) as error:
            if is_denial(error):
                raise denial(("SCAN",)) from None
            raise StoreUnavailable("The store cannot serve now; try again.") from error
        return cursor, keys

    async def _primaries(self) -> list[Server]:
        """Return the servers that together have all keys."""
        return self._servers if self._cluster is None else await self._cluster.primaries()

    async def connected(self) -> list[Server]:
        """Return the servers that together have all keys, once each was inspected or cannot be reached.

        Raises StoreUnavailable, StorePermissionDenied.
        """
        servers, deadline = await self._primaries(), time.monotonic() + self._timeout_seconds
        while True:
            if all(server.found or server.trouble for server in servers) or time.monotonic() > deadline:
                return servers
            await asyncio.sleep(_SOON_SECONDS)

    async def attempt(self, words: Sequence[str]) -> str:
        """Return why the store refuses a command, in its own words; empty where it runs it. Raises StoreUnavailable."""
        try:
            server = self._only or self._find([tuple(words)])
            await server.submit([tuple(words)], time.monotonic() + self._timeout_seconds).future
        except ResponseError as error:
            return str(error)
        except NodeLost as error:
            raise StoreUnavailable(str(error)) from None
        return ""

    def _judge_down(self, now: float) -> None:
        """Note whether the one server of the store has been lost for longer than a restart takes, or is silent.

        A sentinel's primary and a cluster's nodes are replaced by others, for which calls wait.
        """
        server = self._only
        if server is None or self._address.kind != "single":
            return
        is_lost = server.found is None and bool(server.trouble)
        self._lost_since = (self._lost_since or now) if is_lost else None
        lost_seconds = now - self._lost_since if self._lost_since is not None else 0.0
        self._is_down = lost_seconds > _DOWN_SECONDS or self._is_silent(server)

    def _take_try(self, call: str) -> None:
        """Take the one try of a store that is known to be down. Raises StoreUnavailable if another call has it."""
        if self._tries:
            self._observer.answered(call, 0.0, failed=True)
            raise StoreUnavailable("The store is down, and nothing was sent to it: send the request again, later.")
        self._tries = True

    async def _answer(self, call: str, words: Commands, effect: Effect) -> list[Any]:
        """Return the replies to commands of one slot, which are sent again where that may help."""
        if is_try := self._is_down:
            self._take_try(call)
        started, failed = time.monotonic(), True
        deadline = started + self._timeout_seconds
        try:
            try:
                replies = await (self._only or self._find(words)).submit(words, deadline, effect=effect).future
            except (ResponseError, NodeLost) as error:
                replies = await self._again(words, deadline, effect, error)
            if self._setup.durability.unreadable:
                raise StoreUnavailable(f"Nothing is served: {self.closed}.")
            failed = False
            self.writes += effect == "adds"
        finally:
            self._observer.answered(call, time.monotonic() - started, failed=failed)
            if is_try:
                self._tries, self._is_down = False, self._is_down and failed
        return replies

    async def _again(self, words: Commands, deadline: float, effect: Effect, error: Exception) -> list[Any]:
        """Return the replies to commands that were answered with ``error``, sent again until the deadline has passed.

        Raises an error that another try would not solve.
        """
        while True:
            asked, pause = None, 0.0
            if isinstance(error, NoScriptError):
                words = _with_sources(words)
            elif isinstance(error, MovedError | AskError | ClusterDownError | NodeLost):
                asked, pause = await self._redirect(error)
            else:
                _raise_unless_later(error)
                pause = _RETRY_SECONDS
            if time.monotonic() + pause >= deadline:
                raise StoreUnavailable("The store cannot serve now; try again.")
            await asyncio.sleep(pause)
            try:
                if asked is not None:
                    return await _ask(asked, words, deadline, effect=effect)
                return await (self._only or self._find(words)).submit(words, deadline, effect=effect).future
            except (ResponseError, NodeLost) as found:
                error = found

    def _find(self, words: Commands) -> Server:
        """Return the server that serves the commands' slot."""
        if self._cluster is None:
            raise StoreUnavailable("The service is starting.")
        return self._cluster.find(_slot(words))

    async def _redirect(self, error: Exception) -> tuple[Server | None, float]:
        if self._cluster is None:
            raise StoreUnavailable("The store is a cluster: write redis+cluster:// in SASH_REDIS_URL.") from error
        return await self._cluster.redirect(error)

    async def _watch_deadlines(self) -> None:
        period, before = min(_WATCH_SECONDS, self._timeout_seconds / 4), time.monotonic()
        while True:
            await asyncio.sleep(period)
            now = time.monotonic()
            before, passed = now, min(now - before, 2 * period)  # longer, this process itself was kept from running
            for server in self._servers:
                server.listen(passed)
            self._judge_down(now)
            for server in self._servers:
                server.expire(now)
                server.look_at_disk()
                server.inspect_when_due(now, self._timeout_seconds)
                server.probe_when_due(now, self._timeout_seconds)


def _effect(words: Plain) -> Effect:
    """Return what plain commands do to the store."""
    adding = set(map(_name, words)) - _READING
    return "reads" if not adding else "erases" if adding <= _REMOVING else "adds"


async def _replies(server: Server, words: Commands, deadline: float) -> list[Any]:
    """Return a server's replies; none where it does not answer, or denies a command."""
    if not words or server.found is None:
        return []
    answer: Any
    (answer,) = await asyncio.gather(server.submit(words, deadline).future, return_exceptions=True)
    return answer if isinstance(answer, list) else []


def _with_sources(words: Commands) -> Commands:
    """Return the same calls with each script's source in place of its hash, because the server's scripts were flushed.

    The whole batch is sent again: a call that runs twice does no harm. Scripts are not loaded first: another flush could
    come between the load and the call.
    """
    return [msgspec.structs.replace(each, by_source=True) if isinstance(each, ScriptCall) else each for each in words]


def _raise_unless_later(error: Exception) -> None:
    """Raise an error that another try would not solve."""
    if isinstance(error, OutOfMemoryError) or str(error).startswith("OOM"):
        raise StoreFull("The store is at its memory limit: reading and erasing still work.") from None
    if is_denial(error):
        raise denied_call(error) from None
    if not isinstance(error, _LATER_ERRORS) and not str(error).startswith(_TRY_LATER):
        raise error


@lru_cache(maxsize=16_384)
def _channel_slot(channel: str) -> int:
    return int(key_slot(channel.encode()))


def _slots(words: Commands) -> list[int]:
    """Return the slot of each command; a command without a key gets the slot of the first command with a key."""
    first = _slot(words)
    return [first if key_of([each]) is None else _slot([each]) for each in words]


def _slot(words: Commands) -> int:
    """Return the slot of the first command with a key; 0 where no command has one."""
    key = key_of(words)
    return key_slot(key.encode() if isinstance(key, str) else key) if key is not None else 0


async def _ask(server: Server, words: Commands, deadline: float, *, effect: Effect) -> list[Any]:
    """Send commands to a node that is taking the slot over; ASKING goes before each."""
    asking = [part for each in words for part in (("ASKING",), each)]
    replies = await server.submit(asking, deadline, effect=effect).future
    return replies[1::2]
