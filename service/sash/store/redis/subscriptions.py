"""Messages that the store publishes, of any number of channels, on one connection to each server.

::

    Subscriptions ── channel → place ──▶ _Link (a task) ─── Listener (an open socket)

A channel is called like a key and is sharded (SSUBSCRIBE), so that in a cluster it is on the node that has the key. A
message may be lost with its connection, so whoever subscribes is told of each channel that was subscribed to again, and
looks there.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
from hiredis import pack_command
from redis.exceptions import RedisError

from sash.problems import Problem, StoreUnavailable
from sash.store.redis.permissions import denied_call, is_denial
from sash.store.redis.redis_parts import NOT_ENOUGH_DATA, Connect, Socket, take_over
from sash.tasks import beside_requests, end_tasks

Place = tuple[str, int] | None
"""A node of a cluster; None for the one server of another deployment."""

_CONNECT_SECONDS: Final = 2.0
_PING_SECONDS: Final = 2.0
_SILENT_SECONDS: Final = 6.0  # a server that does not answer pings for so long is lost
_AGAIN_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.1


class _Channel(msgspec.Struct, eq=False):
    """A channel: its place, whether the server confirmed the subscription, and whether it did so ever."""

    name: str
    place: Place = None
    is_placed: bool = False
    is_confirmed: bool = False
    was_confirmed: bool = False
    is_elsewhere: bool = False
    """Whether another server has it since it was confirmed: then newest writes may be lost."""
    waiting: "list[asyncio.Future[None]]" = []


class Subscriptions:
    """One worker's subscriptions.

    ``told`` is called with each message: its channel and its payload. ``gap`` is called with each channel that was
    subscribed to again, because messages may have been lost. ``find`` returns a channel's place, and False while it is
    unknown; ``moved`` asks for another map of a cluster; ``connect`` makes a connection to a place.
    """

    def __init__(
        self,
        *,
        told: Callable[[str, bytes], None],
        gap: Callable[[str, bool], None],
        find: "Callable[[str], Place | bool]",
        moved: Callable[[], object],
        connect: Callable[[Place], Connect],
    ) -> None:
        self._told = told
        self._gap = gap
        self._find = find
        self._moved = moved
        self._connect = connect
        self._channels: dict[str, _Channel] = {}
        self._links: dict[Place, _Link] = {}
        self._look: asyncio.Task[None] | None = None

    async def add(self, name: str, timeout_seconds: float) -> None:
        """Subscribe to a channel; returns when the server has confirmed it. Raises StoreUnavailable."""
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = _Channel(name)
            self._place(channel)
        if self._look is None or self._look.done():
            self._look = beside_requests(self._look_again())
        if channel.is_confirmed:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        channel.waiting.append(waiting)
        try:
            async with asyncio.timeout(timeout_seconds):
                await waiting
        except TimeoutError:
            raise StoreUnavailable("The store did not confirm a subscription in time; try again.") from None

    def remove(self, name: str) -> None:
        """Unsubscribe from a channel."""
        channel = self._channels.pop(name, None)
        if channel is not None and channel.is_placed:
            self._links[channel.place].remove(channel)

    async def close(self) -> None:
        """Close every connection."""
        await end_tasks(*(link.task for link in self._links.values()), *([self._look] if self._look else []))

    def _place(self, channel: _Channel) -> None:
        """Have the channel on the node that serves its slot now."""
        place = self._find(channel.name)
        if isinstance(place, bool) or (channel.is_placed and channel.place == place):
            return
        if channel.is_placed:
            self._links[channel.place].remove(channel)
        if place not in self._links:
            self._links[place] = _Link(self._connect(place), self)
        channel.place, channel.is_placed, channel.is_confirmed = place, True, False
        channel.is_elsewhere |= channel.was_confirmed
        self._links[place].add(channel)

    async def _look_again(self) -> None:
        """Move channels to where their slots have gone, and close connections to places without one."""
        while self._channels:
            await asyncio.sleep(_LOOK_SECONDS)
            for channel in list(self._channels.values()):
                self._place(channel)
            idle = {place: link for place, link in self._links.items() if not link.channels}
            for place in idle:
                del self._links[place]
            await end_tasks(*(link.task for link in idle.values()))

    # ---- what links report

    def confirmed(self, name: str) -> None:
        """Note that the server has confirmed a subscription."""
        channel = self._channels.get(name)
        if channel is None:
            return
        is_again, channel.was_confirmed, channel.is_confirmed = channel.was_confirmed, True, True
        is_elsewhere, channel.is_elsewhere = channel.is_elsewhere, False
        _settle(channel, None)
        if is_again:
            self._gap(name, is_elsewhere)

    def refused(self, name: str, error: Exception) -> None:
        """Note that a server does not have the channel, or not for this user."""
        channel = self._channels.get(name)
        if channel is None:
            return
        if channel.is_placed:
            self._links[channel.place].channels.pop(name, None)
        channel.is_placed = channel.is_confirmed = False
        if is_denial(error):
            _settle(channel, denied_call(error))
        self._moved()

    def lost(self, channels: "dict[str, _Channel]") -> None:
        """Note that a connection was lost."""
        for channel in channels.values():
            channel.is_confirmed = False
        self._moved()

    def message(self, name: str, payload: bytes) -> None:
        """Pass a message on."""
        if name in self._channels:
            self._told(name, payload)


def _settle(channel: _Channel, problem: Problem | None) -> None:
    """Let those go on who wait for the channel."""
    waiting, channel.waiting = channel.waiting, []
    for each in waiting:
        if not each.done():
            each.set_exception(problem) if problem else each.set_result(None)


class _Link:
    """The connection to one place, made again when it is lost."""

    def __init__(self, connect: Connect, owner: Subscriptions) -> None:
        self._connect = connect
        self._owner = owner
        self._listener: Listener | None = None
        self._server: tuple[object, object] | None = None
        self.channels: dict[str, _Channel] = {}
        self.task = beside_requests(self._run())

    def add(self, channel: _Channel) -> None:
        self.channels[channel.name] = channel
        if self._listener is not None:
            self._listener.subscribe(channel.name)

    def remove(self, channel: _Channel) -> None:
        if self.channels.pop(channel.name, None) is not None and self._listener is not None:
            self._listener.send("SUNSUBSCRIBE", channel.name)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(RedisError, OSError, TimeoutError, Problem):
                await self._serve()
            self._listener = None
            self._owner.lost(self.channels)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _serve(self) -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await self._connect()
        try:
            server = getattr(connection, "host", None), getattr(connection, "port", None)
            for channel in self.channels.values():
                channel.is_elsewhere |= channel.was_confirmed and self._server not in (None, server)
            self._server = server
            self._listener = listener = Listener(take_over(connection), self._owner)
            for name in list(self.channels):
                listener.subscribe(name)
            while listener.silent_seconds < _SILENT_SECONDS:
                listener.send("PING")
                done, _ = await asyncio.wait([listener.lost], timeout=_PING_SECONDS)
                if done:
                    return
        finally:
            await connection.disconnect(nowait=True)


class Listener(asyncio.Protocol):
    """An open socket with subscriptions. ``lost`` is done when it is closed."""

    def __init__(self, socket: Socket, owner: Subscriptions) -> None:
        self._transport, self._reader = socket
        self._owner = owner
        self._asked: deque[str] = deque()
        self._heard = time.monotonic()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport.set_protocol(self)
        self._transport.resume_reading()  # type: ignore[attr-defined] # the stream may have paused it

    @property
    def silent_seconds(self) -> float:
        """Seconds since the server sent anything."""
        return time.monotonic() - self._heard

    def send(self, *words: Any) -> None:
        """Send a command."""
        self._transport.write(pack_command(words))

    def subscribe(self, name: str) -> None:
        """Ask for a channel. Each is asked for by itself, because a cluster's command takes channels of one slot."""
        self._asked.append(name)
        self.send("SSUBSCRIBE", name)

    def data_received(self, data: bytes) -> None:
        """Report each message and each answer."""
        self._heard = time.monotonic()
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not NOT_ENOUGH_DATA:
                self._take(reply)
        except Exception as error:  # noqa: BLE001 - what follows cannot be read
            self.connection_lost(error)

    def _take(self, reply: Any) -> None:
        match reply:
            case [b"smessage", bytes(name), bytes(payload)]:
                self._owner.message(name.decode(), payload)
            case [b"ssubscribe", bytes(name), _]:
                if self._asked and self._asked[0] == name.decode():
                    self._asked.popleft()
                self._owner.confirmed(name.decode())
            case [b"sunsubscribe", bytes(name), _]:  # also when the slot moves to another node
                self._owner.refused(name.decode(), ConnectionError("the channel is elsewhere"))
            case RedisError() if self._asked:
                self._owner.refused(self._asked.popleft(), reply)
            case RedisError():
                raise reply

    def eof_received(self) -> None:
        """End: the server closed its side."""
        self.connection_lost(None)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """End: the socket is closed."""
        self._transport.abort()
        if not self.lost.done():
            self.lost.set_result(None)
