"""The store behind one small interface, whatever its deployment: one server, Sentinel or Cluster.

The client finds the slot of what it is asked, the deployment (``single.py``, ``cluster.py``) the node, and the node's
lanes (``lanes.py``) carry the commands. A call goes to one slot, because a conversation's keys share a hash tag.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)

from service.problems import StoreFull, StoreUnavailable
from service.store import datafiles
from service.store.addresses import read_url
from service.store.cluster import Cluster
from service.store.commands import NOBODY, NodeLost, Observer
from service.store.durability import Durability, Found, Level
from service.store.nodes import Node
from service.store.permissions import denied_call, is_denial
from service.store.scripts import SCRIPTS, Call
from service.store.single import Single

T = TypeVar("T")

_RETRY_SECONDS = 0.1
_SCANNED = 1000  # keys that are gone through in one step, in well under a millisecond
_WAIT_SHARE = 0.4  # of the deadline: a batch may have to wait behind another, and then for itself
_TRY_LATER = ("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY")
_LATER_ERRORS = (ReadOnlyError, BusyLoadingError, ClusterDownError, TryAgainError)
_READING = frozenset(
    {
        "GET",
        "GETRANGE",
        "STRLEN",
        "HGET",
        "HMGET",
        "HGETALL",
        "HLEN",
        "HEXISTS",
        "HSCAN",
        "LLEN",
        "LRANGE",
        "LINDEX",
        "EXISTS",
        "PTTL",
    }
    | {"PEXPIRETIME", "ZRANGE", "ZCARD", "ZSCORE", "SCARD", "SMEMBERS", "TIME", "PING", "INFO", "CONFIG", "ROLE"}
)
_READING_SCRIPTS = frozenset(script.sha for script in SCRIPTS.values() if not script.writes)
_KEYLESS = frozenset({"PING", "SCRIPT", "INFO", "CONFIG", "TIME", "ROLE", "COMMAND"})


class Load(NamedTuple):
    """Commands that wait for the store, sent or not; connections without any, with some, and lost or not yet had."""

    waiting: int
    idle: int
    busy: int
    down: int


class Client:
    """The store as Sash sees it: call a script, or plain commands, about one conversation."""

    def __init__(
        self,
        url: str,
        *,
        timeout_seconds: float = 5.0,
        connections: int = 2,
        durability: Level = "fast",
        data_files: str = "",
        observer: Observer = NOBODY,
    ) -> None:
        address = read_url(url)
        self._clustered = address.kind == "cluster"
        self._deployment: Cluster | Single = (Cluster if self._clustered else Single)(address, timeout_seconds)
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._observer = observer
        self._data_files = data_files
        self._durability = Durability(durability, wait_seconds=timeout_seconds * _WAIT_SHARE, data_files=data_files)
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the lanes. Does not wait for the store: it may come later, and readiness says so."""
        loads = [("SCRIPT", "LOAD", script.source) for script in SCRIPTS.values()]
        self._deployment.open(loads, self._connections, self._durability, self._observer)
        self._watch = asyncio.create_task(self._watch_deadlines())

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        await self._deployment.close()

    @property
    def load(self) -> Load:
        """What the store has to do for this process, and by how many connections."""
        lanes = [lane for node in self._deployment.nodes for lane in node.lanes]
        states = [lane.state for lane in lanes]
        return Load(sum(lane.load for lane in lanes), *(states.count(state) for state in ("idle", "busy", "down")))

    @property
    def lost_files(self) -> str:
        """What is wrong with the embedded store's files; empty when nothing is, or the store is another."""
        return datafiles.missing(self._data_files)

    @property
    def servers(self) -> list[Found]:
        """What was found of each server that is connected to."""
        return [node.found for node in self._deployment.nodes if node.found is not None]

    async def run(self, call: Call[T]) -> T:
        """A script's result. Raises StoreUnavailable, StoreFull, and what the call raises."""
        (reply,) = await self.replies(call)
        return call.read(reply)

    async def replies(self, *calls: Call[Any]) -> list[Any]:
        """Replies of several scripts that run in order, in one round trip, as they come; their keys share one slot."""
        return await self._observed("+".join([call.script.name for call in calls]), self._replies(calls))

    async def _replies(self, calls: Sequence[Call[Any]]) -> list[Any]:
        words = [("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.arguments) for call in calls]
        try:
            return await self._commands(words)
        except NoScriptError:
            # Somebody flushed the scripts. What ran may run again, so the whole batch does, sources and all: a load
            # and a call by hash could have the next flush between them.
            return await self._commands(
                [("EVAL", call.script.source, *each[2:]) for call, each in zip(calls, words, strict=True)]
            )

    async def commands(self, words: Sequence[Sequence[Any]]) -> list[Any]:
        """Replies to plain commands. Those of one slot leave together, and run in order on one connection.

        Raises:
            StoreUnavailable: no answer before the deadline, or the server says that it cannot serve now.
            StorePermissionDenied: the store's user may not run a command.
            StoreFull: the server is at its memory limit.
        """
        return await self._observed("commands", self._commands(words))

    async def scan(self, pattern: str) -> AsyncIterator[bytes]:
        """Every key like ``pattern``, on every node; some may come twice. It goes through all keys that there are.

        Raises:
            StoreUnavailable: no answer before the deadline, or a user that may not ask.
        """
        for node in await self._deployment.primaries():
            cursor = b"0"
            while True:
                words = ("SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED)
                try:
                    ((cursor, keys),) = await node.send([words], time.monotonic() + self._timeout_seconds, writes=False)
                except NoPermissionError:
                    raise StoreUnavailable(
                        "The store's user may not look for keys: ACL SETUSER it with +scan."
                    ) from None
                except (NodeLost, ResponseError) as error:
                    raise StoreUnavailable("The store cannot serve now; try again.") from error
                for key in keys:
                    yield key
                if int(cursor) == 0:
                    break

    async def _observed(self, call: str, answer: Coroutine[Any, Any, list[Any]]) -> list[Any]:
        started, failed = time.perf_counter(), True
        try:
            replies = await answer
            failed = False
        finally:
            self._observer.answered(call, time.perf_counter() - started, failed=failed)
        return replies

    async def _commands(self, words: Sequence[Sequence[Any]]) -> list[Any]:
        if not self._clustered:
            return await self._send(None, words)
        slots = _slots(words)
        groups = {slot: [i for i, each in enumerate(slots) if each == slot] for slot in slots}
        if len(groups) == 1:
            return await self._send(slots[0], words)
        parts = [self._send(slot, [words[i] for i in places]) for slot, places in groups.items()]
        replies: list[Any] = [None] * len(words)
        for places, part in zip(groups.values(), await asyncio.gather(*parts), strict=True):
            for place, reply in zip(places, part, strict=True):
                replies[place] = reply
        return replies

    async def _send(self, slot: int | None, words: Sequence[Sequence[Any]]) -> list[Any]:
        """Ask until there is an answer or the deadline."""
        deadline = time.monotonic() + self._timeout_seconds
        writes = not all(self._only_reads(each) for each in words)
        asked: Node | None = None
        while True:
            try:
                if asked is not None:
                    return await _ask(asked, words, deadline, writes=writes)
                node = await self._deployment.node(slot)
                return await node.send(words, deadline, writes=writes)
            except (MovedError, AskError, NodeLost) as error:
                asked, pause = await self._deployment.redirect(error)
            except ResponseError as error:
                _raise_unless_later(error)
                asked, pause = None, _RETRY_SECONDS
            if time.monotonic() + pause >= deadline:
                raise StoreUnavailable("The store cannot serve now; try again.")
            await asyncio.sleep(pause)

    def _only_reads(self, words: Sequence[Any]) -> bool:
        return words[1] in _READING_SCRIPTS if words[0] == "EVALSHA" else words[0] in _READING

    async def _watch_deadlines(self) -> None:
        while True:
            await asyncio.sleep(min(0.25, self._timeout_seconds / 4))
            now = time.monotonic()
            for node in self._deployment.nodes:
                node.expire(now)
                node.inspect_when_due(now, self._timeout_seconds)


def _raise_unless_later(error: ResponseError) -> None:
    """Raise what asking again does not heal."""
    if isinstance(error, OutOfMemoryError) or str(error).startswith("OOM"):
        raise StoreFull("The store is at its memory limit: reading and erasing still work.") from None
    if is_denial(error):
        raise denied_call(error) from None
    if not isinstance(error, _LATER_ERRORS) and not str(error).startswith(_TRY_LATER):
        raise error


def _slots(words: Sequence[Sequence[Any]]) -> list[int]:
    """The slot of each command; one without a key goes where the first with a key goes."""
    keys = [None if each[0] in _KEYLESS else each[3] if each[0] in {"EVALSHA", "EVAL"} else each[1] for each in words]
    found = [None if key is None else key_slot(key.encode() if isinstance(key, str) else key) for key in keys]
    first = next((slot for slot in found if slot is not None), 0)
    return [first if slot is None else slot for slot in found]


async def _ask(node: Node, words: Sequence[Sequence[Any]], deadline: float, *, writes: bool) -> list[Any]:
    """Ask a node that is taking the slot over: each command says that it knows."""
    replies = await node.send([part for each in words for part in (("ASKING",), each)], deadline, writes=writes)
    return replies[1::2]
