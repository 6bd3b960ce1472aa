"""A server: its connections, its latest inspection, and the connection for each batch.

The batches of one tick of the event loop go to one connection, which writes a few together. Once they are written, the next
go to a connection on which nothing waits. Where there is none, they go to the one whose oldest batch has the latest
deadline: all calls have the same time, so it has waited least, and none goes behind a slow call while others are answered.

Every command may be sent twice, because scripts are idempotent by entry id or token. So a lost connection is made again, and
sends the batches without an answer again, in order, until their deadline. In a cluster the batches return to their callers,
because another node may serve the slot by then.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec
from redis.exceptions import NoPermissionError, ResponseError

from sash.problems import StoreUnavailable
from sash.store.redis.durability import INSPECT, Durability, Inspection
from sash.store.redis.lua import Effect
from sash.store.redis.permissions import denied_call
from sash.store.redis.pipeline import Batch, Commands, Observer, Pipeline, Plain, as_sent, refuse
from sash.store.redis.redis_parts import Connect, ask, reason_of, take_over
from sash.tasks import end_tasks

State = Literal["idle", "busy", "down"]

_BACKOFF_SECONDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_CONNECT_SECONDS = 2.0  # for a host that does not answer the handshake; the next attempt may find another host
_LONG_QUEUE = 64  # batches: more in one write gains little, and another connection may be idle
_ENOUGH = 4  # batches: the store begins with these while the next are made; 8 and 16 gain less
_PROBE_SECONDS = 0.5  # between two probes, which cost a server some microseconds
_JUDGED_SECONDS = 1.0  # between inspections, each of which costs the server a tenth of a millisecond


ONLY = "store"
"""The name of a store's only server."""


class Health(NamedTuple):
    """A server as it was last seen."""

    found: Inspection | None
    """Its inspection; None while it is lost."""
    delay_seconds: float = 0.0
    """Seconds that the latest probe took, or has waited so far."""
    silent_seconds: float = 0.0
    """Seconds in which commands waited and not one byte came."""
    is_silent: bool = False
    """Whether the server has been silent for so long that a call will likely get no answer in time."""
    name: str = ONLY
    """``host:port`` of a cluster's node; ``ONLY`` where there is one server."""


class NodeLost(Exception):  # noqa: N818 - it reads as what happened
    """The connection to a node of a cluster is lost: find the slot's node again, and send the commands there."""


class Setup(NamedTuple):
    """Settings that all servers of a deployment share."""

    connections: int
    """Connections to each server."""
    prepare: Plain
    """Commands that are sent first on each connection."""
    durability: Durability
    observer: Observer
    hands_back: bool
    """Whether a lost connection fails its batches with NodeLost, and does not send them again."""


class Connection:
    """One connection of a server, with the batches that wait for it. It is made again when it is lost."""

    def __init__(self, connect: Connect, judge: Callable[[Sequence[Any]], Inspection], setup: Setup) -> None:
        self.queue: deque[Batch] = deque()
        self.pipeline: Pipeline | None = None
        self.trouble = ""
        """Why the latest attempt to connect failed; empty when it succeeded."""
        self._connect = connect
        self._judge = judge
        self._setup = setup
        self._task = asyncio.create_task(self._run())

    @property
    def waiting(self) -> int:
        """The number of commands that wait, sent or not."""
        sent = self.pipeline.sent if self.pipeline is not None else ()
        return sum(len(batch.commands) for batch in (*self.queue, *sent))

    @property
    def oldest_deadline(self) -> float:
        """The deadline of the batch that waits longest; without end where none waits, 0 while the connection is lost."""
        if self.pipeline is None:
            return 0.0
        waiting = self.pipeline.sent or self.queue
        return waiting[0].deadline if waiting else math.inf

    @property
    def state(self) -> State:
        """The state: down, busy with commands, or idle."""
        return "down" if self.pipeline is None else "busy" if self.waiting else "idle"

    def revise(self, found: Inspection) -> None:
        """Note an inspection. While there is no connection, only a full disk is a reason to refuse what waits."""
        if self.pipeline is not None:
            self.pipeline.revise(found)
        elif found.shortage:
            refuse(self.queue, found)

    def expire(self, now: float) -> None:
        """Fail the batches past their deadline. Where a sent one is overdue, the connection is closed."""
        for batch in self.queue:
            if batch.deadline <= now:
                batch.fail(
                    StoreUnavailable("The store did not answer in time; nothing is known to be lost, try again.")
                )
        while self.queue and self.queue[0].future.done():
            self.queue.popleft()
        if self.pipeline is not None and self.pipeline.sent and self.pipeline.sent[0].deadline <= now:
            self.pipeline.abort()

    async def close(self, why: Exception) -> None:
        """Stop, and fail the batches that wait."""
        await end_tasks(self._task)
        self._take_back()
        for batch in self.queue:
            batch.fail(why)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - whatever it was: a task that ended would hold its callers for ever
                failures = failures + 1 if self.pipeline is None else 1
                self.trouble = reason_of(error) if self.pipeline is None else ""
                self._setup.observer.reconnected()
                self._take_back()
                self._hand_back(error)
            await asyncio.sleep(_BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1])

    async def _serve(self) -> None:
        """Connect, and serve until the connection is lost. Raises the error that ended it."""
        async with asyncio.timeout(_CONNECT_SECONDS) as limit:
            connection = await self._connect()
            try:
                replies = await ask(connection, [*INSPECT, *self._setup.prepare])
                _raise_errors(replies[len(INSPECT) :])
                found = self._judge(replies[: len(INSPECT)])
                self.pipeline = Pipeline(take_over(connection), self.queue, found, self._setup.observer)
                limit.reschedule(None)
                self.trouble = ""
                await self.pipeline.lost
            finally:
                await connection.disconnect(nowait=True)

    def _take_back(self) -> None:
        """Put the unanswered batches before those that were not sent."""
        unanswered = self.pipeline.unanswered if self.pipeline is not None else []
        self.pipeline = None
        for batch in reversed(unanswered):
            batch.again()
            self.queue.appendleft(batch)
        self.expire(time.monotonic())

    def _hand_back(self, error: Exception) -> None:
        """Fail the waiting batches, where the caller must send again, or sending again is of no use."""
        denied = isinstance(error, NoPermissionError)
        if denied or self._setup.hands_back:
            for batch in self.queue:
                batch.fail(denied_call(error) if denied else NodeLost(str(error)))
            self.queue.clear()


def _raise_errors(replies: Sequence[Any]) -> None:
    for reply in replies:
        if isinstance(reply, ResponseError) and not isinstance(reply, NoPermissionError):  # the inspection reports it
            raise reply


class _Group:
    """Connections that take the same batches."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self.connections = connections
        self.current = connections[0]
        """The connection of this tick's batches."""

    def choose(self) -> Connection:
        """Return the connection whose batches have waited least, the first if all are lost: it is now the current one."""
        self.current = max(self.connections, key=attrgetter("oldest_deadline"))
        return self.current


class Server:
    """One server. Writes with a barrier use half of its connections, so that no read waits for a disk."""

    def __init__(self, connect: Connect, setup: Setup, name: str = ONLY) -> None:
        self._loop = asyncio.get_running_loop()
        self.name = name
        self._durability = setup.durability
        self._found: Inspection | None = None
        self._inspected = time.monotonic()
        self._inspecting: asyncio.Task[None] | None = None
        self._probe: Batch | None = None
        self._probed = time.monotonic()
        self._took_seconds = 0.0
        self.silent_seconds = 0.0
        """Seconds in which a command waited, or there was no connection, and not one byte came."""
        self.connections = [Connection(connect, self._judge, setup) for _ in range(setup.connections)]
        self._reads = self._writes = _Group(self.connections)

    def submit(self, commands: Commands, deadline: float, *, effect: Effect = "reads") -> Batch:
        """Send commands by the end of this tick. They run in order on one connection; their future gets the replies.

        They are sent at once where ``_ENOUGH`` batches wait. With a barrier, all wait for the end of the tick, because one
        barrier serves them all. Raises UnicodeError, TypeError where a command cannot be written.
        """
        batch = Batch(commands, b"".join(map(as_sent, commands)), self._loop.create_future(), deadline, effect)
        if self._found is not None and self._found.shortage is not None:
            if effect == "erases":
                self._durability.make_room()
            refuse([batch], self._found)
            if batch.future.done():
                return batch
        group = self._reads if effect == "reads" else self._writes
        connection = group.current
        queue, pipeline = connection.queue, connection.pipeline
        if pipeline is None or (len(queue) >= _LONG_QUEUE if queue else pipeline.sent):
            connection = group.choose()
            queue, pipeline = connection.queue, connection.pipeline
        queue.append(batch)
        if pipeline is not None:  # else a new one sends the queue
            if len(queue) == 1:
                self._loop.call_soon(pipeline.write)
            elif len(queue) >= _ENOUGH and pipeline.barrier is None:
                pipeline.write()
        return batch

    @property
    def found(self) -> Inspection | None:
        """The latest inspection; None without a connection."""
        return self._found if any(each.pipeline is not None for each in self.connections) else None

    @property
    def trouble(self) -> str:
        """Why no connection can be made; empty while there is one."""
        return "" if self.found else next((each.trouble for each in self.connections if each.trouble), "")

    @property
    def delay_seconds(self) -> float:
        """Seconds that the latest probe took, or has waited so far."""
        if self._probe is not None and not self._probe.future.done():
            return max(self._took_seconds, time.monotonic() - self._probed)
        return self._took_seconds

    def listen(self, seconds: float) -> None:
        """Note the last ``seconds``, as a part of a silence or as its end. A slow server still sends a byte now and then."""
        pipelines = [each.pipeline for each in self.connections if each.pipeline is not None]
        heard = [each for each in pipelines if each.heard]
        for each in heard:
            each.heard = False
        waits = not pipelines or any(each.sent for each in pipelines)
        self.silent_seconds = self.silent_seconds + seconds if waits and not heard else 0.0

    def probe_when_due(self, now: float, timeout_seconds: float) -> None:
        """Ask the server for the time twice a second, so that a server that hangs is noticed before requests wait for it."""
        if now < self._probed + _PROBE_SECONDS or self.found is None:
            return
        if self._probe is None or self._probe.future.done():
            self._probed = now
            self._probe = self.submit([("TIME",)], now + timeout_seconds)
            self._probe.future.add_done_callback(self._take_probe)

    def _take_probe(self, answer: "asyncio.Future[list[Any]]") -> None:
        self._took_seconds = time.monotonic() - self._probed
        if not answer.cancelled():
            answer.exception()  # retrieved, so that asyncio logs nothing; the connections handle errors

    def _judge(self, replies: Sequence[Any]) -> Inspection:
        """Return the inspection from the server's answers to INSPECT. It holds for all connections at once."""
        return self._take(self._durability.judge(replies))

    def _take(self, found: Inspection) -> Inspection:
        self._found = found
        half = len(self.connections) // 2 if found.barrier is not None else 0
        self._writes = _Group(self.connections[half:])
        self._reads = _Group(self.connections[:half]) if half else self._writes
        for connection in self.connections:
            connection.revise(found)
        return found

    def look_at_disk(self) -> None:
        """Begin or end refusing writes as the disk of the embedded store fills or gets room; nothing is sent."""
        if self._found is not None and self._found.shortage != (shortage := self._durability.shortage()):
            self._take(msgspec.structs.replace(self._found, shortage=shortage))

    def expire(self, now: float) -> None:
        """Fail the batches past their deadline at ``now``, in seconds of the monotonic clock."""
        for connection in self.connections:
            connection.expire(now)

    def inspect_when_due(self, now: float, timeout_seconds: float) -> None:
        """Inspect the server again, one second after the last inspection; nothing waits for it."""
        if now >= self._inspected + _JUDGED_SECONDS and (self._inspecting is None or self._inspecting.done()):
            self._inspected = now
            self._inspecting = asyncio.create_task(self._inspect(now + timeout_seconds))

    async def _inspect(self, deadline: float) -> None:
        if self.found is None:  # a new connection inspects it
            return
        batch = self.submit(INSPECT, deadline)
        answer: Any
        (answer,) = await asyncio.gather(batch.future, return_exceptions=True)
        if isinstance(answer, list | ResponseError) and not any(map(_is_busy, batch.replies)):
            self._judge(batch.replies)

    async def close(self, why: Exception) -> None:
        """Close every connection; calls that wait for an answer fail with ``why``."""
        if self._inspecting is not None:
            await end_tasks(self._inspecting)
        await asyncio.gather(*(connection.close(why) for connection in self.connections))


def _is_busy(reply: Any) -> bool:
    """Return whether a server answered that it is busy, which is no result of an inspection."""
    return isinstance(reply, ResponseError) and str(reply).startswith("BUSY")
