"""One Redis or Valkey behind one small interface, which batches what one tick asks.

A ``Lane`` owns a connection. Commands that arrive in one event-loop tick leave as one write; replies are matched in
order by a task of the lane's own. A request never touches the socket: when it is cancelled its future is dropped and the
reply is read and thrown away, so that no later request can be handed it (redis-py issues 2624, 2641, 2665: in March 2023
people were shown other people's chats).

Every command that Sash sends may be sent twice: scripts are idempotent by entry id or token. So a lane that loses its
connection asks again what was not answered, in order, until the deadline; only then does a caller hear of it.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any, Self

import msgspec
from redis.asyncio import Connection, ConnectionPool
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)

from service.problems import StoreFull, StoreUnavailable

_BACKOFF_SECONDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_TRY_LATER = ("LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY")


class Script(msgspec.Struct, frozen=True):
    """A Lua script of ``scripts/``, called by its hash."""

    name: str
    source: bytes
    sha: str

    @classmethod
    def load(cls, name: str) -> Self:
        source = (files("service.store") / "scripts" / f"{name}.lua").read_bytes()
        return cls(name=name, source=source, sha=sha1(source, usedforsecurity=False).hexdigest())


class Command:
    """One command on its way: its words, the future of its reply, and when to give up (monotonic seconds)."""

    __slots__ = ("deadline", "future", "words")

    def __init__(self, words: Sequence[Any], future: "asyncio.Future[Any]", deadline: float) -> None:
        self.words = words
        self.future = future
        self.deadline = deadline

    def resolve(self, reply: Any) -> None:
        if not self.future.done():
            self.future.set_result(reply)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Lane:
    """One connection: a queue before it, and the commands that wait for replies behind it."""

    def __init__(self, pool: ConnectionPool, prepare: Iterable[Sequence[Any]]) -> None:
        self._pool = pool
        self._prepare = tuple(prepare)
        self._queue: deque[Command] = deque()
        self._sent: deque[Command] = deque()
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self._connection: Connection | None = None
        self._task = asyncio.create_task(self._run())
        self.reconnects = 0

    @property
    def load(self) -> int:
        """Commands that wait, sent or not."""
        return len(self._queue) + len(self._sent)

    def submit(self, commands: Iterable[Command]) -> None:
        """Queue commands; they leave together, in order, before anything submitted later."""
        self._queue.extend(commands)
        self._wake.set()

    def expire(self, now: float) -> None:
        """Give up what is past its deadline. A reply that is overdue makes the connection untrustworthy: close it."""
        for command in self._queue:
            if command.deadline <= now:
                command.fail(
                    StoreUnavailable("The store did not answer in time; nothing is known to be lost, try again.")
                )
        while self._queue and self._queue[0].future.done():
            self._queue.popleft()
        if self._sent and self._sent[0].deadline <= now:
            self._abort()

    def _abort(self) -> None:
        writer = self._connection._writer if self._connection else None  # noqa: SLF001 - a polite close may wait forever
        if writer is not None:
            writer.transport.abort()

    async def close(self) -> None:
        """Stop, and tell whoever still waits."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for command in (*self._sent, *self._queue):
            command.fail(StoreUnavailable("The service is stopping."))

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._connect()
                failures = 0
                await self._serve()
            except (RedisError, OSError, asyncio.IncompleteReadError):
                failures += 1
                self.reconnects += 1
            finally:
                await self._disconnect()
            self._queue.extendleft(reversed([command for command in self._sent if not command.future.done()]))
            self._sent.clear()
            self.expire(time.monotonic())
            await asyncio.sleep(_BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1])

    async def _connect(self) -> None:
        connection: Connection = self._pool.make_connection()  # type: ignore[no-untyped-call]
        self._connection = connection
        await connection.connect()  # type: ignore[no-untyped-call]
        if self._prepare:
            await connection.send_packed_command(connection.pack_commands(self._prepare))
            for _ in self._prepare:
                await connection.read_response(disable_decoding=True)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _serve(self) -> None:
        writer = asyncio.create_task(self._write())
        reader = asyncio.create_task(self._read())
        try:
            done, _ = await asyncio.wait((writer, reader), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            writer.cancel()
            reader.cancel()
            await asyncio.gather(writer, reader, return_exceptions=True)

    async def _write(self) -> None:
        connection = self._connection
        assert connection is not None  # noqa: S101 - _connect came before
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
            batch = [command for command in self._queue if not command.future.done()]
            self._queue.clear()
            if not batch:
                continue
            self._sent.extend(batch)
            self._arrived.set()
            await connection.send_packed_command(
                connection.pack_commands([command.words for command in batch]), check_health=False
            )

    async def _read(self) -> None:
        connection = self._connection
        assert connection is not None  # noqa: S101 - _connect came before
        while True:
            if not self._sent:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            try:
                reply = await connection.read_response(disable_decoding=True, timeout=math.inf)
            except ResponseError as error:
                self._sent.popleft().fail(error)
            else:
                self._sent.popleft().resolve(reply)


class Client:
    """The store as Sash sees it: call a script, or plain commands, about one conversation."""

    def __init__(
        self, url: str, *, scripts: Iterable[Script] = (), timeout_seconds: float = 5.0, connections: int = 2
    ) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._scripts = {script.name: script for script in scripts}
        self._lanes: list[Lane] = []
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start the lanes. Does not wait for the store: it may come later, and readiness says so."""
        pool = ConnectionPool.from_url(
            self._url,
            socket_connect_timeout=self._timeout_seconds,
            socket_timeout=None,  # deadlines are the commands' own
            retry=None,  # repeating is ours: a lane knows what was answered
            decode_responses=False,
            protocol=2,
        )
        loads = [("SCRIPT", "LOAD", script.source) for script in self._scripts.values()]
        self._lanes = [Lane(pool, loads) for _ in range(self._connections)]
        self._watch = asyncio.create_task(self._watch_deadlines())

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        for lane in self._lanes:
            await lane.close()
        self._lanes = []

    async def call(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """A script's reply. Raises StoreUnavailable or StoreFull."""
        return (await self.calls(((script, keys, arguments),)))[0]

    async def calls(self, calls: Sequence[tuple[str, Sequence[str], Sequence[Any]]]) -> list[Any]:
        """Several scripts' replies, run in order in one round trip; their keys share one slot."""
        words = [
            ("EVALSHA", self._scripts[script].sha, len(keys), *keys, *arguments) for script, keys, arguments in calls
        ]
        try:
            return await self.commands(words)
        except NoScriptError:
            # Somebody flushed the scripts. What ran may run again, so the whole batch does.
            loads = [("SCRIPT", "LOAD", self._scripts[name].source) for name in {call[0] for call in calls}]
            return (await self.commands([*loads, *words]))[len(loads) :]

    async def commands(self, words: Sequence[Sequence[Any]]) -> list[Any]:
        """Replies to plain commands, sent together in order on one connection.

        Raises:
            StoreUnavailable: no answer before the deadline, or the server says that it cannot serve now.
            StoreFull: the server is at its memory limit.
        """
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            try:
                return await self._send(words, deadline)
            except (NoScriptError, StoreUnavailable):
                raise
            except OutOfMemoryError:
                raise StoreFull("The store is at its memory limit: reading and erasing still work.") from None
            except ResponseError as error:
                if str(error).startswith("OOM"):
                    raise StoreFull("The store is at its memory limit: reading and erasing still work.") from None
                later = isinstance(error, ReadOnlyError | BusyLoadingError) or str(error).startswith(_TRY_LATER)
                if not later:
                    raise
                if time.monotonic() + 0.1 >= deadline:
                    raise StoreUnavailable("The store cannot serve now; try again.") from None
                await asyncio.sleep(0.1)
            except (AuthenticationError, RedisConnectionError):
                raise StoreUnavailable("The store refuses the connection.") from None

    async def _send(self, words: Sequence[Sequence[Any]], deadline: float) -> list[Any]:
        loop = asyncio.get_running_loop()
        commands = [Command(each, loop.create_future(), deadline) for each in words]
        min(self._lanes, key=lambda lane: lane.load).submit(commands)
        if len(commands) == 1:
            return [await commands[0].future]
        replies = await asyncio.gather(*(command.future for command in commands), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return replies

    async def _watch_deadlines(self) -> None:
        while True:
            await asyncio.sleep(min(0.25, self._timeout_seconds / 4))
            now = time.monotonic()
            for lane in self._lanes:
                lane.expire(now)
