"""What a process does about its metrics beside counting: sets its gauges, adds to the statistics, exposes them."""

import asyncio
import os
from collections.abc import Callable

from service.operations.metrics import Metrics
from service.operations.registry import ended
from service.operations.statistics import Statistics
from service.operations.watch import Watch
from service.store.client import Load

SHARE_SECONDS = 1.0
"""How old the gauges may be that a worker sees of another."""


class Reporter:
    """The metrics of a process on their way out. ``load`` says what the store has to do for it."""

    def __init__(self, metrics: Metrics, statistics: Statistics, watch: Watch, load: Callable[[], Load]) -> None:
        self._metrics = metrics
        self.statistics = statistics
        self._watch = watch
        self._load = load
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to watch, to set gauges and to add to the statistics, beside the requests."""
        self._tasks = [asyncio.create_task(each) for each in (self._watch.run(), self._share(), self.statistics.run())]

    async def stop(self) -> None:
        """Add what is left: nothing that a drained worker counted is lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.statistics.flush_or_later()
        self._metrics.present(**self._load()._asdict())
        ended(os.getpid())

    async def exposition(self, accept: str) -> tuple[bytes, str]:
        """All workers' metrics as Prometheus asks for them, and the media type."""
        self._metrics.present(**self._load()._asdict())
        return await asyncio.to_thread(self._metrics.registry.exposition, accept)

    async def _share(self) -> None:
        while True:
            self._metrics.present(**self._load()._asdict())
            await asyncio.sleep(SHARE_SECONDS)
