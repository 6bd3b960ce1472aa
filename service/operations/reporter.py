"""What a process does about its figures beside counting: shares them, adds them to the statistics, gives them out."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from service.operations.exposition import Gauges, expose
from service.operations.figures import unflatten
from service.operations.logging import describe, get_logger
from service.operations.metrics import Metrics
from service.operations.statistics import Statistics
from service.operations.workers import SHARE_SECONDS, Workers, resident_bytes
from service.store.client import Load

_log = get_logger()


class Reporter:
    """The figures of a process on their way out. ``load`` says what the store has to do for it."""

    def __init__(
        self,
        metrics: Metrics,
        statistics: Statistics,
        workers: Workers,
        load: Callable[[], Load],
    ) -> None:
        self._metrics = metrics
        self.statistics = statistics
        self._workers = workers
        self._load = load
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to share and to add up, beside the requests."""
        self._tasks = [asyncio.create_task(self._share()), asyncio.create_task(self.statistics.run())]

    async def stop(self) -> None:
        """Add and share what is left: nothing that a drained worker counted is lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.statistics.flush_or_later()
        with suppress(OSError):
            self._workers.share(self._metrics.flat(), Gauges(0, 0, 0, 0))

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All workers' figures as Prometheus asks for them, and the media type."""
        flat, gauges = self._workers.together(self._metrics.flat(), self._gauges())
        return expose(unflatten(flat), gauges, accept)

    def _gauges(self) -> Gauges:
        load, resident = self._load(), resident_bytes()
        pool = (load.idle, load.busy, load.down)
        return Gauges(1, len(self._metrics.running), load.waiting, resident, *pool)

    async def _share(self) -> None:
        while self._workers.shared:
            try:
                self._workers.share(self._metrics.flat(), self._gauges())
            except OSError as error:  # a full disk is no reason to stop serving
                _log.warning("figures not shared", **describe(error))
            await asyncio.sleep(SHARE_SECONDS)
