"""Two deployments that answer the same: an embedded Valkey with pictures as objects, a Redis 8 with pictures in it."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from faults.fuzz.scripts import body_of
from faults.processes import Service
from faults.wire import Reply, Wire
from rigs.servers import Server, binaries

_LATE = "TimeoutError"
_ALIVE_SECONDS = 3.0
"""Until an answer of ``/livez`` counts as missing."""
_PROBES = 8
"""Connections at once that ask for ``/livez``: each worker gets some of them."""
_PAUSE_SECONDS = 0.25


class HangError(Exception):
    """A request had no answer within its deadline."""


class RestartedError(Exception):
    """The connection broke: the service was restarted, because another request hung."""


class Place:
    """One deployment: a service on its store."""

    def __init__(self, name: str, service: Service, deadline_seconds: float) -> None:
        self.name = name
        self.service = service
        self.requests = 0
        self.restarts = 0
        self.slowest_livez = 0.0
        """Seconds of the longest answer of ``/livez`` while the service was asked for other things."""
        self._deadline_seconds = deadline_seconds
        self._idle: list[Wire] = []
        self._mending = asyncio.Lock()

    async def ask(self, method: str, path: str, body: Any = None) -> Reply:
        """Send one request. Raises HangError when there is no answer in time, RestartedError when the connection breaks."""
        wire = self._idle.pop() if self._idle else Wire(self.service.port, timeout_seconds=self._deadline_seconds)
        self.requests += 1
        try:
            reply = await wire.ask(method, path, b"" if body is None else body_of(body))
        except OSError as error:
            if str(error) == _LATE:
                raise HangError(f"{method} {path}") from error
            raise RestartedError(str(error)) from error
        self._idle.append(wire)
        return reply

    async def mend(self, restarts: int) -> bool:
        """Restart the service if one of its workers does not answer; return whether that was so, or was done since."""
        async with self._mending:
            if self.restarts != restarts:
                return True
            if all(await asyncio.gather(*(self._alive() for _ in range(_PROBES)))):
                return False
            await self.service.kill()
            for wire in self._idle:
                wire.close()
            self._idle.clear()
            await self.service.start()
            self.restarts += 1
            return True

    async def _alive(self) -> bool:
        wire = Wire(self.service.port, timeout_seconds=_ALIVE_SECONDS)
        try:
            return (await wire.ask("GET", "/livez")).status == 200
        except OSError:
            return False
        finally:
            wire.close()

    async def watch(self) -> None:
        """Ask ``/livez`` again and again, and keep the longest time that it took while the service ran."""
        while True:
            restarts, began = self.restarts, time.monotonic()
            if not self._mending.locked() and await self._alive() and restarts == self.restarts:
                self.slowest_livez = max(self.slowest_livez, time.monotonic() - began)
            await asyncio.sleep(_PAUSE_SECONDS)


@asynccontextmanager
async def staged(folder: Path, deadline_seconds: float) -> AsyncIterator[tuple[Place, Place]]:
    """Yield both deployments, running. Without a Redis 8 here, the second one runs on a Valkey, too."""
    found = binaries()
    binary = found["redis-8"] or found["valkey-9"]
    assert binary is not None
    store = Server(binary, folder / "store", appendfsync="no", appendonly="no")
    liked = {"SASH_DURABILITY": "fast", "SASH_RECALL": "lexical", "SASH_LOG_LEVEL": "error"}
    embedded = {"SASH_DATA_DIR": str(folder / "data"), "SASH_MEDIA_URL": "file:"}
    one = Service("", folder / "valkey.log", **liked, **embedded)
    other = Service(store.url, folder / "redis.log", **liked, SASH_WORKERS="2")
    places = Place("valkey", one, deadline_seconds), Place("redis", other, deadline_seconds)
    watching: list[asyncio.Task[None]] = []
    try:
        store.start()
        await asyncio.gather(one.start(), other.start())
        watching += [asyncio.create_task(place.watch()) for place in places]
        yield places
    finally:
        for task in watching:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await one.kill()
        await other.kill()
        store.kill()


def told(reply: Reply) -> Any:
    """Return an answer's JSON; None for one without a body."""
    return json.loads(reply.body) if reply.body else None
