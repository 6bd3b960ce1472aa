"""The processor's work in turns: long jobs one at a time beside the event loop, and shorter ones in ticks of it.

Python's threads share one interpreter. So several jobs at once end no sooner than one after the other, and each of them
makes the event loop wait for the interpreter. One thread runs all jobs of a process. The next job is of the tenant that
has used the least time lately, so nobody waits for all the work of another.

What takes a millisecond or two stays on the event loop, because a thread costs more than it. Only as much of it as
``Turns`` allows is done in one tick of the loop, so what is short is done between.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar

from sash.problems import DeadlineExceeded

T = TypeVar("T")

TENANT: ContextVar[str] = ContextVar("tenant", default="")
"""The tenant whose request runs; empty for work that no request waits for."""
_MOST = 1000
"""Jobs that may wait: more would not be reached before their requests' deadlines."""
NO_TURN = 100
"""Work that takes no turn, in messages of a plain chat that a window is chosen from: a tenth of a millisecond."""
_A_TICK = 500
"""Work of one tick of the event loop, or one piece of work."""
_BETWEEN = 2
"""Ticks without a turn between two with one: a request that came meanwhile is read in the first, and asks the store in the
second."""


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class Processor:
    """Runs jobs in one thread, in turns of the tenants."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[_Job]] = {}
        self.waiting = 0
        """The number of jobs that wait."""
        self._used: dict[str, float] = {}
        """Seconds that each tenant has used, on a line where a tenant that was idle begins at ``_now``."""
        self._now = 0.0
        self._thread: threading.Thread | None = None

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the function's result, once its turn has come. A cancelled job is left out.

        Raises DeadlineExceeded where too many jobs wait, and what the function raises.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(TENANT.get(), _Job(partial(copy_context().run, function, *arguments), future, loop))
        return await future

    def _put(self, tenant: str, job: _Job) -> None:
        with self._changed:
            if self.waiting >= _MOST:
                raise DeadlineExceeded("More work waits than can be done in time: nothing was done, try again.")
            if tenant not in self._waiting:
                self._waiting[tenant] = deque()
                self._used[tenant] = max(self._used.get(tenant, 0.0), self._now)
            self._waiting[tenant].append(job)
            self.waiting += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sash-processor", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _work(self) -> None:
        while True:
            tenant, job = self._next()
            if job.future.cancelled():
                continue
            began, result, error = time.perf_counter(), None, None
            try:
                result = job.work()
            except BaseException as raised:  # noqa: BLE001 - it belongs to the caller
                error = raised
            with self._changed:
                self._used[tenant] += time.perf_counter() - began
            with contextlib.suppress(RuntimeError):  # the caller's loop has ended
                job.loop.call_soon_threadsafe(_deliver, job.future, result, error)
            del job, result, error

    def _next(self) -> tuple[str, _Job]:
        """Take the next job out of the queue; waits for one."""
        with self._changed:
            while not self._waiting:
                self._used.clear()
                self._changed.wait()
            tenant = min(self._waiting, key=self._used.__getitem__)
            self._now = self._used[tenant]
            jobs = self._waiting[tenant]
            job = jobs.popleft()
            self.waiting -= 1
            if not jobs:
                del self._waiting[tenant]
            return tenant, job


def _deliver(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


class Turns:
    """Turns of work on one event loop, first come, first served. Work of up to ``NO_TURN`` asks for none."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._taken = 0
        """The work of this tick."""

    async def take(self, work: int) -> None:
        """Return once there is room for this work in a tick; it is to be done without waiting for anything.

        ``work`` is in messages of a plain chat that a window is chosen from.
        """
        loop = asyncio.get_running_loop()
        if self._taken == 0:
            loop.call_soon(self._tick, loop)
        elif self._waiting or self._taken + work > _A_TICK:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append((work, turn))
            await turn
            return
        self._taken += work

    def _tick(self, loop: asyncio.AbstractEventLoop, ticks: int = _BETWEEN) -> None:
        """Give the turns of the next tick."""
        if ticks:
            loop.call_soon(self._tick, loop, ticks - 1)
            return
        self._taken = 0
        while self._waiting and (self._taken == 0 or self._taken + self._waiting[0][0] <= _A_TICK):
            work, turn = self._waiting.popleft()
            if not turn.done():
                self._taken += work
                turn.set_result(None)
        if self._taken:
            loop.call_soon(self._tick, loop)


PROCESSOR = Processor()
"""The processor's queue of this process."""
