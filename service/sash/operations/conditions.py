"""The store's condition, from its servers' INFO: a name, a title, and a sentence that tells an operator what to do."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import msgspec

from sash.store.redis.findings import advice_on
from sash.store.redis.servers import Health

Name = Literal["well", "nearly-full", "slow", "not-ready", "failing-over", "read-only", "full", "down"]
"""From best to worst. If several apply, the worst is reported."""
NAMES: tuple[Name, ...] = Name.__args__  # type: ignore[attr-defined]

_SLOW_SECONDS = 0.2
_WAITS_SECONDS = 0.7  # of a silence that a busy machine may explain, so that the store is not called down
_NEARLY = 0.8
_LITTLE_FREE_SHARE, _LITTLE_FREE_BYTES = 0.1, 5 << 30


class Memory(msgspec.Struct, frozen=True):
    """Memory of all servers in bytes (``max`` is 0 without a limit), and the number of their keys."""

    used: int = 0
    max: int = 0
    keys: int = 0
    evicted_keys: int = 0
    replication_lag_bytes: int | None = None
    """The slowest replica's distance behind its primary; None without replicas."""


class Disk(msgspec.Struct, frozen=True):
    """The disk of the embedded store, in bytes."""

    free: int
    total: int


class Condition(msgspec.Struct, frozen=True):
    """The store's condition: a name for programs, a title, and a sentence that says where to look or what to do."""

    name: Name
    title: str
    look: str = ""
    alert: str = ""
    """The alert's name, which is also its heading in the runbook."""

    @property
    def rank(self) -> int:
        """The severity: 0 is well, and the largest is down."""
        return NAMES.index(self.name)


class Observation(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The observations that a condition follows from."""

    kind: str
    servers: Sequence[Health]
    trouble: str = ""
    """Why a server cannot be reached."""
    lost_files: str = ""
    disk: Disk | None = None
    shortage: str = ""
    """Why the disk of the embedded store refuses writes."""
    call_seconds: float = 0.0
    """The average duration of recent calls."""
    refused_as_full: bool = False
    """Whether the store refused a write as out of memory in the last seconds."""
    closed: str = ""
    """Why nothing may be served although the store answers."""
    process_state: str = ""
    """If the embedded store does not answer, the state of its process, as in ``proc(5)``: ``D`` waits for a disk, ``T`` is
    stopped."""

    @cached_property
    def memory(self) -> Memory:
        """The memory of all servers, from their INFO."""
        return _memory_of(self.servers)

    @property
    def is_memory_full(self) -> bool:
        """Whether the store is at its memory's limit, or said so in the last seconds."""
        return self.refused_as_full or bool(self.memory.max and self.memory.used >= self.memory.max)


WELL = Condition("well", "The store answers")
STARTING = Condition("not-ready", "Sash is connecting to the store", "Wait two seconds.")


def _memory_of(servers: Sequence[Health]) -> Memory:
    infos = [each.found.info for each in servers if each.found is not None]
    lags = [lag for info in infos if (lag := _lag(info)) is not None]
    limits = [_number(info, "maxmemory") for info in infos]
    return Memory(
        used=sum(_number(info, "used_memory") for info in infos),
        max=sum(limits) if all(limits) else 0,
        keys=sum(int(info["db0"].partition("keys=")[2].partition(",")[0]) for info in infos if "db0" in info),
        evicted_keys=sum(_number(info, "evicted_keys") for info in infos),
        replication_lag_bytes=max(lags) if lags else None,
    )


def condition(seen: Observation) -> Condition:
    """The worst condition that applies."""
    for each in (_lost, _hanging, _closed, _without_room, _read_only):
        found = each(seen)
        if found is not None:
            return found
    return _slow(seen) or _nearly_full(seen) or WELL


def _lost(seen: Observation) -> Condition | None:
    lost = sum(each.found is None for each in seen.servers)
    if seen.servers and not lost:
        return None
    if seen.shortage:
        look = f"{_sentence(seen.shortage)} The store is started again without that."
        return Condition("full", "The store's disk is full and the store has ended", look, "SashStoreFull")
    why = f"{_sentence(seen.trouble)} " if seen.trouble else ""
    if (advice := advice_on(seen.trouble)) and lost == len(seen.servers):
        return Condition("down", "The store refuses Sash", why + _sentence(advice), "SashStoreFailing")
    if seen.kind != "single" and (seen.kind == "sentinel" or lost < len(seen.servers)):
        who = "The primary" if seen.kind == "sentinel" else f"{lost} of {len(seen.servers)} primaries"
        look = (
            f"{who} cannot be reached. A replica should take over within seconds. "
            "If none has after half a minute, look at INFO replication of the others."
        )
        return Condition("failing-over", "The store is failing over", why + look, "SashStoreFailedOver")
    look = "Look at its process, its log, the network to it, and SASH_REDIS_URL; or run sash doctor."
    return Condition("down", "The store is down", why + look, "SashStoreFailing")


def _hanging(seen: Observation) -> Condition | None:
    hanging = sum(each.is_silent for each in seen.servers)
    if not hanging:
        return None
    if hanging < len(seen.servers):
        look = f"No answer from {hanging} of {len(seen.servers)} primaries: look at their machines and disks."
        return Condition("failing-over", "A part of the store does not answer", look, "SashStoreFailedOver")
    match seen.process_state:
        case "D":
            look = "Its process waits for the disk of the data directory: look at the disk, and at the machine's kernel log."
            return Condition("down", "The store's disk does not answer", look, "SashStoreFailing")
        case "T" | "t":
            look = "Its process is stopped: kill -CONT lets it go on."
        case _:
            look = (
                "It takes connections and does not reply: is its process stopped, swapping, or busy with one long command, "
                "or does its disk hang?"
            )
    return Condition("down", "The store does not answer", look, "SashStoreFailing")


def _closed(seen: Observation) -> Condition | None:
    if not seen.closed:
        return None
    return Condition("not-ready", "Sash is not ready", _sentence(seen.closed), "SashNotReady")


def _without_room(seen: Observation) -> Condition | None:
    if seen.shortage:
        look = f"{_sentence(seen.shortage)} Writes get 507; reads and erasure go on."
        return Condition("full", "The store's disk is full", look, "SashStoreFull")
    if seen.is_memory_full:
        look = (
            f"{_megabytes(seen.memory.used)} of {_megabytes(seen.memory.max)} are used: raise maxmemory, or shorten "
            "SASH_RETENTION_SECONDS and erase what nobody needs. Writes get 507; reads and erasure go on."
        )
        return Condition("full", "The store is full", look, "SashStoreFull")
    return None


def _read_only(seen: Observation) -> Condition | None:
    found = [each.found for each in seen.servers if each.found is not None]
    refused = next((each for each in found if each.refused), None)
    if any(each.info.get("loading") == "1" for each in found):
        return Condition(
            "down", "The store is loading its data", "Wait: it loads about 100 MB a second.", "SashStoreFailing"
        )
    if seen.kind != "single" and any(each.info.get("role") == "slave" for each in found):
        look = "A primary became a replica: look at INFO replication for the new primary."
        return Condition("failing-over", "The store is failing over", look, "SashStoreFailedOver")
    if any(each.info.get("aof_last_write_status", "ok") != "ok" for each in found):
        why = "Its last write to the append-only file failed: make room on its disk."
    elif seen.lost_files:
        why = _sentence(seen.lost_files)
    elif refused is not None:
        why = refused.problem("Writes are refused").detail
    else:
        return None
    return Condition("read-only", "The store is read-only", why, "SashStoreReadOnly")


def _slow(seen: Observation) -> Condition | None:
    silent = max(each.silent_seconds for each in seen.servers)
    if silent > _WAITS_SECONDS:
        look = f"It has sent nothing for {silent:.1f} s: is its machine busy, or its process stopped or swapping?"
        return Condition("slow", "The store does not answer", look, "SashStoreSlow")
    seconds = max(seen.call_seconds, *(each.delay_seconds for each in seen.servers))
    if seconds < _SLOW_SECONDS:
        return None
    look = f"A call takes {seconds * 1000:.0f} ms: look at the store's disk, AOF rewrites, processor and network."
    return Condition("slow", "The store is slow", look, "SashStoreSlow")


def _nearly_full(seen: Observation) -> Condition | None:
    memory, disk = seen.memory, seen.disk
    if memory.max and memory.used >= _NEARLY * memory.max:
        share = f"{100 * memory.used / memory.max:.0f} %"
        look = f"{share} of {_megabytes(memory.max)} are used: raise maxmemory, or shorten SASH_RETENTION_SECONDS."
        return Condition("nearly-full", "The store is nearly full", look, "SashStoreNearlyFull")
    if disk is not None and disk.free < min(_LITTLE_FREE_SHARE * disk.total, _LITTLE_FREE_BYTES):
        look = (
            f"{_megabytes(disk.free)} are free in its data directory: make room, or writes are refused when it is full."
        )
        return Condition("nearly-full", "The store's disk is nearly full", look, "SashStoreNearlyFull")
    return None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _lag(info: dict[str, str]) -> int | None:
    """The slowest replica's distance behind its primary in bytes, from lines such as ``slave0:ip=…,offset=1234,lag=0``."""
    offsets = [
        int(value.partition("offset=")[2].partition(",")[0])
        for name, value in info.items()
        if name.startswith("slave") and "offset=" in value
    ]
    return max(0, _number(info, "master_repl_offset") - min(offsets)) if offsets else None


def _number(info: dict[str, str], name: str) -> int:
    text = info.get(name, "")
    return int(text) if text.isdecimal() else 0


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.0f} MB" if size_bytes < 1e10 else f"{size_bytes / 1e9:,.0f} GB"
