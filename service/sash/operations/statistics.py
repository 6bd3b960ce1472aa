"""Statistics of the whole deployment, in the store that all replicas share.

::

    every 5 s, each worker:   its new figures ──add_figures──▶ sash:{stats}:minute:29384756   kept 2 hours
                                                               sash:{stats}:hour:489745      kept 26 hours
                                                               sash:{stats}:day:20406        kept 32 days
                                                               sash:{stats}:start            kept 400 days

Each hash has whole numbers by series (``Registry.flat``), and is under 50 kB. No request waits for a write. A worker that
crashes loses at most the figures of five seconds; a worker that is stopped writes them first. If the store fails, the
same numbers are sent again under the same token, so that nothing is added twice.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from sash.operations.lately import MINUTES
from sash.operations.metrics import Metrics
from sash.operations.registry import Flat
from sash.operations.requests import Requests
from sash.operations.series import added
from sash.operations.summary import Prices, RangeStats, Stats, moment, summarise
from sash.problems import Problem
from sash.store.data.entries import new_id, wall_ms
from sash.store.data.script_calls import script
from sash.store.redis.client import Client
from sash.store.redis.lua import ScriptCall

FLUSH_SECONDS = 5.0

_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
_KEPT_MS = (2 * _HOUR_MS, 26 * _HOUR_MS, 32 * _DAY_MS, 400 * _DAY_MS)
_ADDED = (
    "sash_request",
    "sash_refused",
    "sash_event",
    "sash_view",
    "sash_history_tool",
    "sash_followers_ended",
    "sash_window",
    "sash_document",
    "sash_prediction",
    "sash_billed",
    "sash_prompt",
    "sash_reasoning",
    "sash_input",
)
READ_SECONDS = 1.0
"""Time for which an answer is cached, so that many dashboards cost the store one read a second for each worker."""


class _AddFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker adds: each figure's path, then its amount. ``number`` counts the worker's additions, so that one that is
    sent again adds nothing. Each key is kept for a time."""

    worker: str
    number: int
    now_ms: int
    kept_ms: Sequence[int]
    amounts: Sequence[str | float]


_add_figures = script("add_figures", _AddFigures, int)


class Statistics:
    """Adds this worker's figures to the deployment's statistics, and reads the sums."""

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        requests: Requests,
        *,
        prices: Callable[[str], Prices],
        now_ms: Callable[[], int] = wall_ms,
        tag: str = "stats",
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._requests = requests
        self._prices = prices
        self._now_ms = now_ms
        self._prefix = f"sash:{{{tag}}}"
        self._worker = new_id()
        self._number = 0
        self._added: Flat = {}
        self._pending: ScriptCall[int] | None = None
        self._lock = asyncio.Lock()
        self._answer: tuple[float, Stats] | None = None

    async def flush(self) -> None:
        """Add the figures since the last flush. After StoreUnavailable or StoreFull the next flush adds them."""
        async with self._lock:
            if self._pending is not None:  # the same call again, as the store may have executed it
                await self._add(self._pending)
            now = await asyncio.to_thread(self._metrics.registry.flat, *_ADDED) | self._requests.by_tenant()
            delta = {path: number - self._added.get(path, 0) for path, number in now.items()}
            delta = {path: number for path, number in delta.items() if number}
            if not delta:
                return
            self._number += 1
            at = self._now_ms()
            keys = [
                f"{self._prefix}:minute:{at // _MINUTE_MS}",
                f"{self._prefix}:hour:{at // _HOUR_MS}",
                f"{self._prefix}:day:{at // _DAY_MS}",
                f"{self._prefix}:start",
            ]
            amounts = [word for pair in delta.items() for word in pair]
            self._pending = _add_figures(
                keys, worker=self._worker, number=self._number, now_ms=at, kept_ms=_KEPT_MS, amounts=amounts
            )
            self._added = now
            await self._add(self._pending)

    async def _add(self, pending: ScriptCall[int]) -> None:
        await self._client.run(pending)
        self._pending = None

    async def flush_or_later(self) -> None:
        """Flush without raising a Problem: a failure is counted in metrics."""
        try:
            await self.flush()
        except Problem:
            self._metrics.flush_failures.inc()

    async def run(self) -> None:
        """Flush every few seconds until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await self.flush_or_later()

    async def read(self) -> Stats:
        """The deployment's statistics. Other workers' figures are up to five seconds old. Raises StoreUnavailable."""
        if self._answer is not None and time.monotonic() - self._answer[0] < READ_SECONDS:
            return self._answer[1]
        await self.flush_or_later()
        at = self._now_ms()
        minutes = range(at // _MINUTE_MS - 60, at // _MINUTE_MS + 1)
        hours = range(at // _HOUR_MS - 24, at // _HOUR_MS + 1)
        days = range(at // _DAY_MS - 30, at // _DAY_MS + 1)
        periods = {"minute": minutes, "hour": hours, "day": days}
        names = [*(f"{period}:{n}" for period, numbers in periods.items() for n in numbers), "start"]
        replies = await self._client.commands([("HGETALL", f"{self._prefix}:{name}") for name in names])
        stats = await asyncio.to_thread(self._summarised, at, minutes, hours, days, replies)
        self._answer = time.monotonic(), stats
        return stats

    def _summarised(self, at: int, minutes: range, hours: range, days: range, replies: list[list[bytes]]) -> Stats:
        flats = [_flat(reply) for reply in replies]
        by_hour, by_day = flats[len(minutes) :], flats[len(minutes) + len(hours) :]
        started = int(dict(_pairs(replies[-1])).get(b"=started", at))
        by_minute = {n * _MINUTE_MS: flat for n, flat in zip(minutes, flats, strict=False)}
        return Stats(
            at=moment(at),
            flush_seconds=FLUSH_SECONDS,
            quarter=self._range(at, dict(list(by_minute.items())[-1 - MINUTES :])),
            hour=self._range(at, by_minute),
            day=self._range(at, {n * _HOUR_MS: flat for n, flat in zip(hours, by_hour, strict=False)}),
            month=self._range(at, {n * _DAY_MS: flat for n, flat in zip(days, by_day, strict=False)}),
            start=summarise(flats[-1], {}, since_ms=started, at_ms=at, prices=self._prices),
        )

    def _range(self, at: int, slices: Mapping[int, Flat]) -> RangeStats:
        return summarise(added(slices.values()), slices, since_ms=min(slices), at_ms=at, prices=self._prices)


def _pairs(reply: list[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(reply[::2], reply[1::2], strict=True))


def _flat(reply: list[bytes]) -> Flat:
    return {name.decode(): int(value) for name, value in _pairs(reply) if not name.startswith(b"=")}
