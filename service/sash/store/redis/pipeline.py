"""Batches of commands on one socket: written together, answered in order.

A request never touches the socket. When a request is cancelled, its future is dropped, and its replies are read and thrown
away, so that no later request can get them (redis-py issues 2624, 2641, 2665: in March 2023 people were shown other
people's chats).

Where writes must be safe before they are acknowledged, a barrier follows all batches of one write: commands that wait until
the writes are safe. The replies are held until then, and nothing is written meanwhile. Batches that come in share the next
barrier, so that a slow disk costs one wait for many batches, and not one for each turn.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import msgspec
from hiredis import pack_command
from redis.exceptions import AskError, ConnectionError, RedisError, TryAgainError  # noqa: A004 - redis' own

from sash.problems import StoreUnavailable
from sash.store.redis.durability import Barrier, Inspection
from sash.store.redis.lua import Effect, ScriptCall
from sash.store.redis.redis_parts import NOT_ENOUGH_DATA, Socket

Command = tuple[Any, ...] | ScriptCall[Any]
Commands = Sequence[Command]
Plain = Sequence[tuple[Any, ...]]

KEYLESS = frozenset({"PING", "SCRIPT", "INFO", "CONFIG", "TIME", "ROLE", "COMMAND", "ASKING", "RANDOMKEY"})
_TOUCH = "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], '', 'PX', 1)"  # an erasure is never refused


class Observer(Protocol):
    """Counts the calls of the store. It is called on the event loop, so it must be quick."""

    def sent(self, commands: int) -> None:
        """Count the commands of one write to the socket."""

    def answered(self, call: str, seconds: float, *, failed: bool) -> None:
        """Count a call, named by its scripts, that was answered or given up."""

    def reconnected(self) -> None:
        """Count a connection that was lost, or could not be made."""


class NoObserver:
    """Counts nothing."""

    def sent(self, commands: int) -> None:
        """Ignore it."""

    def answered(self, call: str, seconds: float, *, failed: bool) -> None:
        """Ignore it."""

    def reconnected(self) -> None:
        """Ignore it."""


class Batch(msgspec.Struct, eq=False):
    """The commands of one caller, which run in order on one connection, and their replies as they come.

    ``future`` gets the list of replies when all are here, or the first error among them.
    """

    commands: Commands
    packed: bytes
    """The commands as the socket takes them."""
    future: "asyncio.Future[list[Any]]"
    deadline: float
    """Monotonic seconds."""
    effect: Effect = "reads"
    replies: list[Any] = []
    error: Exception | None = None

    def fail(self, error: Exception) -> None:
        """Fail the future, unless it is done."""
        if not self.future.done():
            self.future.set_exception(error)

    def again(self) -> None:
        """Forget the replies: the batch is sent again, on another connection."""
        self.replies, self.error = [], None


def key_of(commands: Commands) -> Any:
    """Return the first key among commands; None when there is none."""
    for words in commands:
        if isinstance(words, ScriptCall):
            return words.key
        if words[0] not in KEYLESS:
            return words[3] if words[0] in {"EVALSHA", "EVAL"} else words[1]
    return None


def as_sent(command: Command) -> bytes:
    """Return a command as the socket takes it. Raises UnicodeError, TypeError where a word cannot be written.

    A script's call is written here, because hiredis takes a microsecond for five words, and most are keys.
    """
    if not isinstance(command, ScriptCall):
        return bytes(pack_command(command))
    (number, keys), script, arguments = command.keys, command.script, command.arguments
    called = _call(*(("EVAL", script.source) if command.by_source else ("EVALSHA", script.sha)), number, len(arguments))
    parts = [called, keys]
    for word in arguments:
        if isinstance(word, str):
            word = word.encode()  # noqa: PLW2901
        elif isinstance(word, int | float):
            word = b"%a" % word  # noqa: PLW2901
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


@lru_cache(maxsize=256)
def _call(command: str, script: str | bytes, keys: int, arguments: int) -> bytes:
    """Return what a call with so many keys and arguments begins with."""
    name: tuple[Any, ...] = (command, script, keys)
    _, _, words = pack_command(name).partition(b"\r\n")
    return b"*%d\r\n%b" % (3 + keys + arguments, words)


class Pipeline(asyncio.Protocol):
    """One open socket. It writes the batches of ``queue``; ``lost`` gets the error when it is closed."""

    def __init__(self, socket: Socket, queue: deque[Batch], found: Inspection, observer: Observer) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport, self._reader = socket
        self._queue = queue
        self.barrier = found.barrier
        self.sent: deque[Batch] = deque()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._observer = observer
        self._full = False
        """Whether the socket takes no more bytes now; nothing may be written."""
        self.heard = False
        """Whether bytes came since ``Server.listen`` looked."""
        self._guard: Batch | None = None
        """The barrier that was sent and is not answered; nothing may be written."""
        self._held: list[Batch] = []
        self._transport.set_protocol(self)
        self._transport.resume_reading()  # type: ignore[attr-defined] # the stream may have paused it
        self.revise(found)
        self._loop.call_soon(self.write)

    def revise(self, found: Inspection) -> None:
        """Note an inspection. Another barrier needs a new connection, because replies may wait for the old barrier."""
        self._refusing = found if found.refused or found.shortage else None
        if self.barrier != found.barrier:
            self.abort()

    @property
    def unanswered(self) -> list[Batch]:
        """Return the batches that are not answered, or not yet safe, in the order in which they were sent."""
        return [*self._held, *(batch for batch in self.sent if batch is not self._guard)]

    def write(self) -> None:
        """Send the queue in one write, without what failed or was cancelled, if the socket takes something now.

        A new connection sends what a closing one does not.
        """
        queue, transport = self._queue, self._transport
        if not queue or self._full or self._guard is not None or transport.is_closing():
            return
        if self._refusing is not None:
            refuse(queue, self._refusing)
        parts, commands, writing = [], 0, None
        while queue:
            batch = queue.popleft()
            if not batch.future.done():
                parts.append(batch.packed)
                commands += len(batch.commands)
                self.sent.append(batch)
                if batch.effect != "reads":
                    writing = batch
        if not parts:
            return
        self._observer.sent(commands)
        if writing is not None and self.barrier is not None:
            words = _barrier_behind(writing.commands, self.barrier)
            parts.append(b"".join(map(as_sent, words)))
            self._guard = Batch(words, parts[-1], self._loop.create_future(), self.sent[-1].deadline)
            self.sent.append(self._guard)
        transport.write(b"".join(parts))

    def data_received(self, data: bytes) -> None:
        """Give each complete reply to the batch that waits for it."""
        reader, sent = self._reader, self.sent
        self.heard = True
        try:
            reader.feed(data)
            while (reply := reader.gets()) is not NOT_ENOUGH_DATA:
                batch = sent[0]  # an IndexError means a reply without a request
                batch.replies.append(reply)
                if isinstance(reply, RedisError):
                    _note(batch, reply)
                if len(batch.replies) == len(batch.commands):
                    sent.popleft()
                    self._answered(batch)
        except Exception as error:  # noqa: BLE001 - no reply after one that cannot be read is anybody's
            self._end(error)

    def _answered(self, batch: Batch) -> None:
        """Complete the batch's future, unless its writes are not safe yet."""
        if batch is self._guard:
            self._release(batch)
        elif batch.error is not None:
            batch.fail(_split(batch) or batch.error)
        elif batch.effect != "reads" and self._guard is not None:
            self._held.append(batch)
        elif not batch.future.done():
            batch.future.set_result(batch.replies)

    def _release(self, waited: Batch) -> None:
        """Complete the batches that a barrier held, or fail them where it was not reached."""
        failure, held = waited.error, self._held
        if failure is None and self.barrier is not None and not self.barrier.reached(waited.replies):
            failure = StoreUnavailable(
                "It is stored, but not as safely as it must be yet: send it again to be sure, a turn with the same ids."
            )
        self._guard, self._held = None, []
        for batch in held:
            batch.error = failure
            self._answered(batch)
        self._loop.call_soon(self.write)  # so that what the callers send now shares the next barrier

    def pause_writing(self) -> None:
        """Hold back new commands: the kernel takes no more bytes."""
        self._full = True

    def resume_writing(self) -> None:
        """Send the commands that waited: the kernel takes bytes again."""
        self._full = False
        self._loop.call_soon(self.write)

    def eof_received(self) -> None:
        """Fail all batches: the server closed its side."""
        self._end(ConnectionResetError("the server closed the connection"))

    def connection_lost(self, error: Exception | None) -> None:
        """Fail all batches."""
        self._end(error or ConnectionResetError("the connection was closed"))

    def abort(self) -> None:
        """Close the socket at once: a normal close may wait for ever."""
        self._transport.abort()

    def _end(self, error: Exception) -> None:
        if not self.lost.done():
            self.lost.set_exception(error)
        self.abort()


def refuse(batches: Iterable[Batch], found: Inspection) -> None:
    """Fail the batches that a server with this inspection does not take."""
    for batch in batches:
        problem = found.problem_of(batch.effect)
        if problem is not None:
            batch.fail(problem)


def _note(batch: Batch, error: RedisError) -> None:
    """Keep the first error among a batch's replies. Raises ConnectionError, after which the connection is useless."""
    if isinstance(error, ConnectionError):
        raise error
    batch.error = batch.error or error


def _split(batch: Batch) -> TryAgainError | None:
    """Return an error for a batch whose slot is on its way to another node, with some of the keys here and some there.

    Neither node would answer for all of them: the other one takes a key that is still here for a missing one.
    """
    moved = [type(reply) is AskError for reply in batch.replies]  # MovedError is a subclass
    return TryAgainError("the keys are on two nodes") if any(moved) and not all(moved) else None


def _barrier_behind(written: Commands, barrier: Barrier) -> Commands:
    """Return the commands of a barrier, to be sent after the commands that write.

    The first is a small write of its own, because WAIT counts from the connection's last write. Without it, a turn that was
    stored over a lost connection and is sent again would be acknowledged, although no replica has it.
    """
    key = str(key_of(written))
    tag = key.partition("{")[2].partition("}")[0] or key  # without a tag the whole key decides the slot
    touch = ("EVAL", _TOUCH, 1, f"sash:{{{tag}}}:barrier")
    asking = [("ASKING",)] if written[0] == ("ASKING",) else []  # the slot is moving to another node
    return [*asking, touch, *barrier.words]
