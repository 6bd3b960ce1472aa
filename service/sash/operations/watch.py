"""Watches the store's condition and readiness: sets gauges, logs changes, and has the latest condition for ``/status``.

::

    Client.health, INFO ──▶ conditions.condition ──▶ gauges, /status, /readyz, events: "store lost", "store found", …

A worse condition is logged at once, a better one when it has lasted two seconds, so that an outage is logged as two lines.
Only one worker of a machine logs.
"""

import asyncio
import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sash.operations.backwards import CLOCK, STORE, Backwards
from sash.operations.conditions import (
    NAMES,
    STARTING,
    WELL,
    Condition,
    Disk,
    Memory,
    Name,
    Observation,
    condition,
)
from sash.operations.logging import describe, get_logger
from sash.operations.media_watch import MediaWatch
from sash.operations.metrics import Metrics
from sash.operations.readiness import VERBS, Shard, shards_of
from sash.operations.registry import WORKER_VARIABLE, Registry
from sash.operations.requests import Pseudonyms
from sash.problems import Problem, StorePermissionDenied
from sash.store.data.layout import PARTS
from sash.store.redis.client import Client

LOOK_SECONDS = 0.25
_FIRST_SECONDS = 0.02

_ASK_SECONDS = 1.0
_SAMPLE_SECONDS = 30.0
_SAMPLED = 64
_BETTER_SECONDS = 2.0
_HELD_SECONDS = 1.5
_STARTING_SECONDS = 3.0
_SURE_SECONDS = 3.0
_LATELY_SECONDS = 5.0
_MILD: frozenset[Name] = frozenset({"nearly-full", "slow"})
"""Conditions that are logged when they have lasted ``_SURE_SECONDS``, because a store that hangs is slow first."""
_LOST: frozenset[Name] = frozenset({"down", "failing-over"})
_EVENTS: dict[Name, str] = {
    "nearly-full": "store nearly full",
    "slow": "store slow",
    "not-ready": "not ready",
    "failing-over": "store failing over",
    "read-only": "store read-only",
    "full": "store full",
    "down": "store lost",
}
_KIND = re.compile(rb"sash:\{[^}]*\}:(\w+)")
_SERVER = re.compile(r"its server is process (\d+)")
_log = get_logger()


class Watch:
    """The store's condition. ``closed`` says why nothing may be served; ``data_dir`` is the embedded store's folder."""

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        pseudonyms: Pseudonyms,
        *,
        closed: Callable[[], Awaitable[str]],
        media: MediaWatch,
        data_dir: Path | None,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._pseudonyms = pseudonyms
        self._read_closed = closed
        self.media = media
        self._data_dir = data_dir
        self._gauges = _Gauges(metrics.registry)
        self._leads = os.environ.get(WORKER_VARIABLE, "0") == "0"
        self._began = time.monotonic()
        self._slowest = (0.0, 0.0)
        self._told: str | None = None
        self._next_ask = 0.0
        self._asked: asyncio.Task[None] | None = None
        self._sampled = -_SAMPLE_SECONDS
        self._story = Story()
        self.backwards = Backwards(client, leads=self._leads)
        self.condition = STARTING
        self.shards: Sequence[Shard] = ()
        """What each server of the store serves."""
        self.memory = Memory()
        self.disk: Disk | None = None

    async def run(self) -> None:
        """Call ``look`` every LOOK_SECONDS until cancelled, more often until the store has answered."""
        self._began = time.monotonic()
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 - an unexpected answer must not stop the watch
                _log.error("watch failed", **describe(error))
            await asyncio.sleep(_FIRST_SECONDS if self.condition is STARTING else LOOK_SECONDS)

    def look(self) -> None:
        """Update the condition without calling the store. Once a second, also start a task for checks that call it."""
        is_due = time.monotonic() > self._next_ask and not self._client.is_down
        if (self._asked is None or self._asked.done()) and is_due:
            self._next_ask = time.monotonic() + (0.0 if self._told is None else _ASK_SECONDS)
            self._asked = asyncio.create_task(self._ask())
        self._metrics.present(**msgspec.structs.asdict(self._client.load))
        servers = self._client.health
        young = self.condition is STARTING and time.monotonic() < self._began + _STARTING_SECONDS
        if young and (self._told is None or not any(each.found for each in servers)):
            return
        self.disk = _disk(self._data_dir)
        seen = Observation(
            kind=self._client.kind,
            servers=servers,
            trouble=self._client.trouble,
            lost_files=self._client.lost_files,
            disk=self.disk,
            shortage=self._client.shortage,
            call_seconds=self._slowest_lately(max([0.0, *(each.delay_seconds for each in servers)])),
            refused_as_full=time.monotonic() < self._metrics.full_at + _LATELY_SECONDS,
            closed=self._closed,
            process_state=_process_state(self._data_dir) if any(each.is_silent for each in servers) else "",
        )
        if any(each.found for each in servers):  # else keep the last known figures
            self.memory = seen.memory
        self.condition, self.shards = condition(seen), shards_of(seen)
        self.media.look()
        self._gauges.set(self.condition, self.memory, self.disk)
        self._gauges.serve(self.shards, is_ready=self.is_ready)
        if self._leads:
            primaries = {each.found.info.get("run_id", "") for each in servers if each.found is not None}
            for event, level, fields in self._story.goes_on(self.condition, primaries, time.monotonic()):
                getattr(_log, level)(event, **fields)
                self._gauges.turns(event).inc()

    @property
    def _closed(self) -> str:
        """Why nothing may be served: the layout of the last inspection, or what the store told; empty where it may."""
        return self._client.closed or self._told or ""

    @property
    def is_ready(self) -> bool:
        """Whether any server of the store serves any verb."""
        return not self._closed and any(each.serves for each in self.shards)

    def _slowest_lately(self, probe_seconds: float) -> float:
        """Seconds of the slowest probe or the average call since the last look; a maximum is kept for _HELD_SECONDS."""
        calls, now = self._metrics.store_lately, time.monotonic()
        seconds = max(probe_seconds, sum(calls) / max(1, len(calls)))
        calls.clear()
        if seconds >= self._slowest[0] or now > self._slowest[1] + _HELD_SECONDS:
            self._slowest = seconds, now
        return self._slowest[0]

    async def _ask(self) -> None:
        """Checks that call the store: may its data be served, the key of pseudonyms, how far it is, a sample of keys."""
        try:
            told = await self._why_closed()
            with contextlib.suppress(Problem):
                await self._pseudonyms.read(self._client)
            self._told = told  # the service is ready from here on, so that no line of a window lacks its hash
            with contextlib.suppress(Problem):
                for event in await self.backwards.look():
                    self._gauges.turns(event).inc()
            if self._leads and time.monotonic() - self._sampled > _SAMPLE_SECONDS:
                self._sampled = time.monotonic()
                sampled = await self._client.sample(_SAMPLED)
                self._gauges.sample(self.memory.keys, [(_kind(key), size) for key, size in sampled])
        except Problem:  # the condition tells that the store does not answer
            pass

    async def _why_closed(self) -> str:
        try:
            return await self._read_closed()
        except StorePermissionDenied as problem:
            return problem.detail


class Story:
    """Changes of the condition as log events, each reported once."""

    def __init__(self) -> None:
        self._told = WELL
        self._since: float = 0.0
        self._better_since: float | None = None
        self._worse_since: float | None = None
        self._primaries: set[str] = set()

    def goes_on(self, now: Condition, primaries: set[str], at: float) -> list[tuple[str, str, dict[str, Any]]]:
        """The events to log for the condition ``now``: name, level and fields. ``at`` is in seconds."""
        if now.rank > self._told.rank:
            self._better_since = None
            self._worse_since = at if self._worse_since is None else self._worse_since
            sure = now.name not in _MILD or at - self._worse_since >= _SURE_SECONDS
            return [self._tell(now, at)] if sure else []
        self._worse_since = None
        if now.rank == self._told.rank:
            self._better_since = None
            if now is WELL or now.name not in _LOST:
                self._primaries = primaries
            return []
        self._better_since = at if self._better_since is None else self._better_since
        return self._recover(now, primaries, at) if at - self._better_since >= _BETTER_SECONDS else []

    def _recover(self, now: Condition, primaries: set[str], at: float) -> list[tuple[str, str, dict[str, Any]]]:
        before, seconds = self._told, round(at - self._since, 1)
        events: list[tuple[str, str, dict[str, Any]]] = []
        if before.name in _LOST:
            other = bool(self._primaries) and not primaries <= self._primaries
            name = "store failed over" if other and before.name == "failing-over" else "store found"
            events.append((name, "info", {"seconds": seconds, "restarted": other}))
        elif now is WELL:
            events.append((f"{_EVENTS[before.name]}: over", "info", {"seconds": seconds}))
        self._primaries, self._better_since = primaries, None
        self._told, self._since = now, at
        return [*events, *([self._tell(now, at)] if now is not WELL else [])]

    def _tell(self, now: Condition, at: float) -> tuple[str, str, dict[str, Any]]:
        if self._told is WELL:
            self._since = at
        self._told, self._worse_since = now, None
        level = "warning" if now.name in _MILD else "error"
        return _EVENTS[now.name], level, {"what": now.title, "look": now.look, "alert": now.alert}


class _Gauges:
    def __init__(self, registry: Registry) -> None:
        gauge = registry.gauge
        self._ready = gauge(
            "sash_ready",
            "Whether every worker may take traffic: 1 or 0.",
            workers="livemin",
        )
        self._serves = gauge(
            "sash_store_serves",
            "Whether a server of the store serves a verb: read, append or erase. 1 or 0.",
            *("shard", "verb"),
            workers="livemin",
        )
        self._shards: set[str] = set()
        self._condition = gauge(
            "sash_store_condition", "1 for the current condition, 0 for others.", "condition", workers="livemax"
        )
        self.turns = registry.counter("sash_store_turns_total", "Logged events of the store's condition.", "event")
        for event in (*_EVENTS.values(), STORE, CLOCK):
            self.turns(event)  # created at 0, so that a rate includes the first event
        self._memory = gauge(
            "sash_store_memory_bytes", "Memory of the store: used, and max (0: no limit).", "kind", workers="livemax"
        )
        self._disk = gauge(
            "sash_store_disk_bytes", "Disk of the embedded store: free, and total.", "kind", workers="livemax"
        )
        self._evicted = gauge(
            "sash_store_evicted_keys", "Keys that the store evicted since its start.", workers="livemax"
        )
        self._lag = gauge("sash_store_replication_lag_bytes", "The slowest replica's lag.", workers="livemax")
        self._keys = gauge("sash_store_keys", "Keys by kind, estimated from a sample.", "kind", workers="livemax")
        self._bytes = gauge(
            "sash_store_key_bytes", "Memory of keys by kind, estimated from a sample.", "kind", workers="livemax"
        )

    def set(self, now: Condition, memory: Memory, disk: Disk | None) -> None:
        for name in NAMES:
            self._condition(name).set(name == now.name)
        self._memory("used").set(memory.used)
        self._memory("max").set(memory.max)
        self._evicted.set(memory.evicted_keys)
        self._lag.set(memory.replication_lag_bytes or 0)
        if disk is not None:
            self._disk("free").set(disk.free)
            self._disk("total").set(disk.total)

    def serve(self, shards: Sequence[Shard], *, is_ready: bool) -> None:
        self._ready.set(is_ready)
        for name in self._shards - {each.name for each in shards}:  # another node has its slots
            for verb in VERBS:
                self._serves(name, verb).set(1)
        for each in shards:
            for verb in VERBS:
                self._serves(each.name, verb).set(verb in each.serves)
        self._shards = {each.name for each in shards}

    def sample(self, keys: int, found: list[tuple[str, int]]) -> None:
        number, size_bytes = Counter(kind for kind, _ in found), Counter[str]()
        for kind, size in found:
            size_bytes[kind] += size
        for kind in _KINDS:
            self._keys(kind).set(keys * number[kind] / len(found) if found else 0)
            self._bytes(kind).set(keys * size_bytes[kind] / len(found) if found else 0)


_KINDS = (*PARTS, "other")


def _kind(key: bytes) -> str:
    match = _KIND.fullmatch(key)
    kind = match[1].decode() if match else "other"
    return kind if kind in PARTS else "other"


def _process_state(data_dir: Path | None) -> str:
    """The state of the embedded store's process on Linux; empty where it is not known."""
    if data_dir is None:
        return ""
    try:
        named = _SERVER.search((data_dir / "sash.lock").read_text())
        said = Path(f"/proc/{named[1]}/stat").read_text() if named else ""
    except (OSError, UnicodeDecodeError):
        return ""
    return said.rpartition(") ")[2][:1]


def _disk(data_dir: Path | None) -> Disk | None:
    if data_dir is None:
        return None
    try:
        found = os.statvfs(data_dir)
    except OSError:
        return None
    return Disk(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)
