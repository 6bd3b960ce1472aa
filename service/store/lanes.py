"""One connection to one server, owned by a task; and the few of them that make a node.

Commands that arrive in one event-loop tick leave as one write; replies are matched in order. A request never touches the
socket: when it is cancelled its future is dropped, and the reply is read and thrown away, so that no later request can be
handed it (redis-py issues 2624, 2641, 2665: in March 2023 people were shown other people's chats).

Every command that Sash sends may be sent twice: scripts are idempotent by entry id or token. So a lane that loses its
connection asks again what was not answered, in order, until the deadline. In a cluster it hands the commands back
instead, because by then another node may be the one to ask.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from redis.asyncio import Connection
from redis.exceptions import RedisError, ResponseError

from service.problems import StoreUnavailable

Connect = Callable[[], Connection]

_BACKOFF_SECONDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_QUEUE_LONG = 64  # commands: a batch beyond this gains little, and another connection may be idle
_CONNECT_SECONDS = 2.0  # a host that does not even answer the handshake; the next attempt may find another


class NodeLost(Exception):  # noqa: N818 - it reads as what happened
    """The connection to a node of a cluster is gone: ask the cluster who serves the slot now, and there again."""


class Barrier(msgspec.Struct, frozen=True):
    """Commands after each write that wait until it is safe, and the least that each must count (WAIT, WAITAOF)."""

    words: tuple[tuple[Any, ...], ...]
    least: tuple[int, ...]

    def reached(self, replies: Sequence[Any]) -> bool:
        """Whether enough servers said yes: on disk here for WAITAOF, replicas for WAIT."""
        counts = [reply[0] if isinstance(reply, list) else reply for reply in replies]
        return all(count >= least for count, least in zip(counts, self.least, strict=True))


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
    """One connection: a queue before it, and the commands that wait for replies behind it.

    ``prepare`` are commands for each new connection. With ``hands_back``, a lost connection fails what waits with
    NodeLost. With a ``barrier``, replies are given out when the barrier behind them is reached; commands that come
    meanwhile share the next one, so that a slow disk costs a wait for each batch and not for each turn.
    """

    def __init__(
        self,
        connect: Connect,
        prepare: Iterable[Sequence[Any]],
        *,
        hands_back: bool = False,
        barrier: Barrier | None = None,
    ) -> None:
        self._make = connect
        self._prepare = tuple(prepare)
        self._hands_back = hands_back
        self._barrier = barrier
        self._queue: deque[Command] = deque()
        self._sent: deque[Command] = deque()
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        self._idle = asyncio.Event()
        self._connection: Connection | None = None
        self._task = asyncio.create_task(self._run())
        self.reconnects = 0

    @property
    def load(self) -> int:
        """Commands that wait, sent or not."""
        return len(self._queue) + len(self._sent)

    @property
    def filling(self) -> bool:
        """Whether commands of this tick are already in the queue, and there is room for more beside them."""
        return 0 < len(self._queue) < _QUEUE_LONG and self._connection is not None

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

    async def close(self, why: Exception | None = None) -> None:
        """Stop, and tell whoever still waits."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for command in (*self._sent, *self._queue):
            command.fail(why or StoreUnavailable("The service is stopping."))

    async def _run(self) -> None:
        failures, lost = 0, Exception()
        while True:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self._connect()
                failures = 0
                await self._serve()
            except (RedisError, OSError, asyncio.IncompleteReadError) as error:  # TimeoutError is an OSError
                failures += 1
                self.reconnects += 1
                lost = error
            finally:
                await self._disconnect()
            self._requeue(lost)
            await asyncio.sleep(_BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1])
            while self._hands_back and not self._queue:  # a dead node is not knocked at for nobody
                self._wake.clear()
                await self._wake.wait()

    def _requeue(self, error: Exception) -> None:
        """Put what was not answered before what was not sent; or hand all of it back."""
        self._queue.extendleft(reversed([command for command in self._sent if not command.future.done()]))
        self._sent.clear()
        self.expire(time.monotonic())
        if self._hands_back:
            for command in self._queue:
                command.fail(NodeLost(str(error)))
            self._queue.clear()

    async def _connect(self) -> None:
        connection = self._make()
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
        reader = asyncio.create_task(self._read() if self._barrier is None else self._read_to_barrier(self._barrier))
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
        behind = self._barrier.words if self._barrier is not None else ()
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
            batch = [command for command in self._queue if not command.future.done()]
            self._queue.clear()
            if not batch:
                continue
            self._sent.extend(batch)
            self._idle.clear()
            self._arrived.set()
            words = [command.words for command in batch]
            await connection.send_packed_command(connection.pack_commands([*words, *behind]), check_health=False)
            if behind:
                await self._idle.wait()

    async def _read(self) -> None:
        while True:
            if not self._sent:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            reply = await self._reply()
            command = self._sent.popleft()
            if isinstance(reply, ResponseError):
                command.fail(reply)
            else:
                command.resolve(reply)

    async def _read_to_barrier(self, barrier: Barrier) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            replies = [await self._reply() for _ in self._sent]
            safe = [await self._reply() for _ in barrier.words]
            refused = next((reply for reply in safe if isinstance(reply, ResponseError)), None)
            reached = refused is None and barrier.reached(safe)
            for command, reply in zip(self._sent, replies, strict=True):
                if isinstance(reply, ResponseError):
                    command.fail(reply)
                elif reached:
                    command.resolve(reply)
                else:
                    command.fail(refused or _not_safe())
            self._sent.clear()
            self._idle.set()

    async def _reply(self) -> Any:
        """The next reply; an error that the server answered with is given, not raised."""
        connection = self._connection
        assert connection is not None  # noqa: S101 - _connect came before
        try:
            return await connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError as error:
            return error


def _not_safe() -> StoreUnavailable:
    return StoreUnavailable(
        "The turn is stored, but not as safely as it must be yet: send it again with the same ids to be sure."
    )


class Node:
    """The lanes to one server. With a barrier, what writes has lanes of its own, so that no read waits for a disk."""

    def __init__(
        self,
        connect: Connect,
        prepare: Iterable[Sequence[Any]],
        *,
        connections: int,
        hands_back: bool = False,
        barrier: Barrier | None = None,
    ) -> None:
        prepare = tuple(prepare)

        def lanes(number: int, behind: Barrier | None) -> list[Lane]:
            return [Lane(connect, prepare, hands_back=hands_back, barrier=behind) for _ in range(number)]

        self._reading = lanes(connections if barrier is None else max(1, connections // 2), None)
        self._writing = self._reading if barrier is None else lanes(max(1, connections // 2), barrier)

    @property
    def lanes(self) -> list[Lane]:
        return self._reading if self._writing is self._reading else [*self._reading, *self._writing]

    async def send(self, words: Sequence[Sequence[Any]], deadline: float, *, writes: bool) -> list[Any]:
        """Replies to commands that run in order on one connection; an error among them is raised after all came."""
        loop = asyncio.get_running_loop()
        commands = [Command(each, loop.create_future(), deadline) for each in words]
        lanes = self._writing if writes else self._reading
        filling = next((lane for lane in lanes if lane.filling), None)
        (filling or min(lanes, key=lambda lane: lane.load)).submit(commands)
        if len(commands) == 1:
            return [await commands[0].future]
        replies = await asyncio.gather(*(command.future for command in commands), return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return replies

    def expire(self, now: float) -> None:
        for lane in self.lanes:
            lane.expire(now)

    async def close(self, why: Exception | None = None) -> None:
        await asyncio.gather(*(lane.close(why) for lane in self.lanes))
