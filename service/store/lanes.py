"""One connection to one server, owned by a task.

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
from typing import Any, Literal

from hiredis import pack_command
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.asyncio import Connection
from redis.exceptions import ConnectionError, NoPermissionError, ResponseError  # noqa: A004 - redis' own

from service.problems import StoreUnavailable
from service.store.barriers import Wait, waits_behind
from service.store.commands import NOBODY, Command, NodeLost, Observer
from service.store.durability import INSPECT, Durability, Found
from service.store.permissions import denied_call

Connect = Callable[[], Connection]
State = Literal["idle", "busy", "down"]

_BACKOFF_SECONDS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
_QUEUE_LONG = 64  # commands: a batch beyond this gains little, and another connection may be idle
_CONNECT_SECONDS = 2.0  # a host that does not even answer the handshake; the next attempt may find another


class Lane:
    """One connection: a queue before it, and the commands that wait for replies behind it.

    ``prepare`` are commands for each new connection. With ``hands_back``, a lost connection fails what waits with
    NodeLost. What the server must do before a write is acknowledged, ``durability`` finds out at each connection: where
    there is a barrier, the replies to writes are held until it is reached, and what comes meanwhile shares the next one,
    so that a slow disk costs a wait for each batch and not for each turn.
    """

    def __init__(
        self,
        connect: Connect,
        prepare: Iterable[Sequence[Any]],
        durability: Durability,
        *,
        hands_back: bool = False,
        observer: Observer = NOBODY,
    ) -> None:
        self._observer = observer
        self._make = connect
        self._prepare = tuple(prepare)
        self._durability = durability
        self._hands_back = hands_back
        self._queue: deque[Command] = deque()
        self._sent: deque[Command] = deque()
        self._held: list[tuple[Command, Any]] = []
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._scheduled = False
        self._barred = False  # writes wait for the barrier of the batch before
        self._choked = False  # the server does not take what was written already
        self._found: Found | None = None
        self._task = asyncio.create_task(self._run())
        self.reconnects = 0

    @property
    def load(self) -> int:
        """Commands that wait, sent or not."""
        return len(self._queue) + len(self._sent)

    @property
    def state(self) -> State:
        """What the connection is doing."""
        return "down" if self._transport is None else "busy" if self.load else "idle"

    @property
    def filling(self) -> bool:
        """Whether commands of this tick are already in the queue, and there is room for more beside them."""
        return 0 < len(self._queue) < _QUEUE_LONG and self._connection is not None

    @property
    def waits(self) -> bool:
        """Whether writes wait for a barrier here."""
        return self._found is not None and self._found.barrier is not None

    def submit(self, commands: Iterable[Command]) -> None:
        """Queue commands; they leave together, in order, before anything submitted later."""
        self._queue.extend(commands)
        self._wake.set()
        self._schedule()

    def _schedule(self) -> None:
        """Write at the end of this tick: what is asked meanwhile goes with it."""
        if not self._scheduled and self._transport is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def revise(self, found: Found) -> None:
        """Take a later judgement of the server. Another barrier needs a new connection: replies may wait for the old one."""
        if self._transport is not None and self._found is not None and self._found.barrier != found.barrier:
            self._abort()
        else:
            self._found = found

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
        for command in self._waiting():
            command.fail(why or StoreUnavailable("The service is stopping."))

    def _waiting(self) -> list[Command]:
        """What has no answer yet, in the order of its coming."""
        sent = [command for command in self._sent if not isinstance(command, Wait)]
        held = [command for command, _ in self._held]
        return [command for command in (*held, *sent, *self._queue) if not command.future.done()]

    async def _run(self) -> None:
        failures, lost = 0, Exception()
        while True:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    await self._connect()
                failures = 0
                await self._serve()
            except Exception as error:  # noqa: BLE001 - whatever it was: a lane that ended would hold its callers for ever
                failures += 1
                self.reconnects += 1
                self._observer.reconnected()
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
        self._queue = deque(self._waiting())
        self._sent.clear()
        self._held.clear()
        self.expire(time.monotonic())
        denied = isinstance(error, NoPermissionError)
        if denied or self._hands_back:
            for command in self._queue:
                command.fail(denied_call(error) if denied else NodeLost(str(error)))
            self._queue.clear()

    async def _connect(self) -> None:
        connection = self._connection = self._make()
        await connection.connect()  # type: ignore[no-untyped-call]
        await connection.send_packed_command(connection.pack_commands([*INSPECT, *self._prepare]))
        self._found = self._durability.judge([await self._reply() for _ in INSPECT])
        for reply in [await self._reply() for _ in self._prepare]:
            if isinstance(reply, ResponseError) and not isinstance(reply, NoPermissionError):  # judged by then
                raise reply

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _serve(self) -> None:
        """Write and read until the connection is lost."""
        connection = self._connection
        assert connection is not None  # noqa: S101 - _connect came before
        replies = _Replies(self, connection)
        self._barred = self._choked = False
        self._transport = replies.transport
        try:
            self._schedule()
            await replies.lost
        finally:
            self._transport = None

    def _flush(self) -> None:
        """Send what waits, unless what was sent before must be safe first."""
        self._scheduled = False
        found, transport = self._found, self._transport
        if transport is None or found is None or self._barred or self._choked:
            return
        if found.refused:
            self._refuse(found)
        batch = [command for command in self._queue if not command.future.done()]
        self._queue.clear()
        if not batch:
            return
        behind = waits_behind(batch, found.barrier)
        try:
            packed = b"".join([pack_command(tuple(command.words)) for command in (*batch, *behind)])
        except (UnicodeError, TypeError):
            self._queue.extend(_sendable(batch))
            self._schedule()
            return
        self._sent.extend([*batch, *behind])
        self._observer.sent(len(batch))
        self._barred = bool(behind)
        transport.write(packed)

    def choke(self, *, choked: bool) -> None:
        """The transport holds too much that the server has not taken, or has room again."""
        self._choked = choked
        self._schedule()

    def _refuse(self, found: Found) -> None:
        for command in self._queue:
            if command.writes:
                command.fail(found.problem("Writes are refused"))

    def replied(self, reply: Any) -> None:
        """The reply to the oldest command that has none. Raises LookupError when nobody asked."""
        if not self._sent:
            raise LookupError("a reply to nothing")
        command = self._sent.popleft()
        if isinstance(command, Wait):
            command.reply = reply
            if command.last:
                self._release(command)
        elif isinstance(reply, ResponseError):
            command.fail(reply)
        elif command.writes and self.waits:
            self._held.append((command, reply))
        else:
            command.resolve(reply)

    def _release(self, last: "Wait") -> None:
        """Give out the replies that a barrier held, or say that they are not safe."""
        failure = last.failure()
        for command, reply in self._held:
            if failure is None:
                command.resolve(reply)
            else:
                command.fail(failure)
        self._held.clear()
        self._barred = False
        self._schedule()

    async def _reply(self) -> Any:
        """The next reply; an error that the server answered with is given, not raised."""
        connection = self._connection
        assert connection is not None  # noqa: S101 - _connect came before
        try:
            return await connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError as error:
            return error


class _Replies(asyncio.Protocol):
    """Takes a connection's socket over from redis-py, once it has shaken hands: replies go to the lane as they come.

    redis-py reads through a stream, a task and a timeout for each reply; here a reply is a function call.
    """

    def __init__(self, lane: Lane, connection: Connection) -> None:
        self._lane = lane
        self._reader: Any = connection._parser._reader  # type: ignore[attr-defined] # noqa: SLF001 - it knows the errors
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writer = connection._writer  # noqa: SLF001
        assert writer is not None  # noqa: S101 - it is connected
        self.transport = writer.transport
        self.transport.set_protocol(self)
        self.transport.resume_reading()  # type: ignore[attr-defined] # a stream may have had enough

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
        try:
            while (reply := reader.gets(False)) is not NOT_ENOUGH_DATA:  # noqa: FBT003 - bytes stay bytes
                if isinstance(reply, ConnectionError):
                    raise reply  # noqa: TRY301 - the server says that it cannot serve this connection
                self._lane.replied(reply)
        except Exception as error:  # noqa: BLE001 - no reply after one that cannot be read is anybody's
            self._end(error)
            self.transport.abort()

    def pause_writing(self) -> None:
        self._lane.choke(choked=True)

    def resume_writing(self) -> None:
        self._lane.choke(choked=False)

    def eof_received(self) -> None:
        self._end(ConnectionResetError("the server closed the connection"))

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error or ConnectionResetError("the connection was closed"))

    def _end(self, error: Exception) -> None:
        if not self.lost.done():
            self.lost.set_exception(error)


def _sendable(commands: Iterable[Command]) -> list[Command]:
    """Those that can be written; the others fail, each by itself."""
    good = []
    for command in commands:
        try:
            pack_command(tuple(command.words))
        except (UnicodeError, TypeError) as error:
            command.fail(error)
        else:
            good.append(command)
    return good
