"""What an acknowledged turn survives, found out at each connection, because a fail-over may bring another server.

======================  =============================================================================================
``fast``                acknowledged in the server's memory; the server's own settings say when it reaches the disk
``durable``             acknowledged when the server's disk has it
``replicated``          durable, and in a replica's memory besides
``assume``              as durable; a server that does not show its settings is believed to be set so
======================  =============================================================================================

A server with ``appendfsync always`` syncs before it answers, and nothing is to be done. Elsewhere WAITAOF follows the
writes of a batch, but only on Redis 8: from 7.4 on, and in Valkey to this day (9.1.2, seen with strace), WAITAOF under
``everysec`` answers before the disk has anything (redis/redis pull request 13793).

A server is refused for writes, and reads go on, where it can give no guarantee; where it would evict keys when its memory
is full, because a conversation that lost some of its keys is broken; where our user may not run every command that we send;
and where the files of the embedded store are gone. Settings and permissions change while a server runs, so each server is
judged again every second.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from redis.exceptions import ResponseError

from service.problems import StoreUnavailable
from service.store import datafiles
from service.store.permissions import CHECK, denial, denied_commands

Level = Literal["fast", "durable", "replicated", "assume"]

INSPECT: tuple[tuple[str, ...], ...] = (
    ("CONFIG", "GET", "append*"),
    ("INFO", "server", "persistence", "memory", "replication", "stats", "keyspace"),
    CHECK,
)
_TRUSTED_WAITAOF = 8  # major version of Redis; of Valkey none
_NO_FILE = (
    "the store keeps no append-only file: set appendonly yes and appendfsync always there, or SASH_DURABILITY=fast"
)
_NO_SYNC = (
    "the store syncs its append-only file every second at best: set appendfsync always there, or SASH_DURABILITY=fast"
)
_UNSEEN = (
    "the store does not show its settings, so it cannot be seen whether a turn is on its disk: allow the store's user "
    "+config|get, or set SASH_DURABILITY=assume if you know that it is, or SASH_DURABILITY=fast"
)


class Barrier(msgspec.Struct, frozen=True):
    """Commands behind a batch of writes that wait until it is safe, and the least that each must count."""

    words: tuple[tuple[Any, ...], ...]
    least: tuple[int, ...]

    def reached(self, replies: Sequence[Any]) -> bool:
        """Whether enough said yes, by the last replies: this server's disk for WAITAOF, replicas for WAIT."""
        counts = [reply[0] if isinstance(reply, list) else reply for reply in replies[-len(self.least) :]]
        return all(count >= least for count, least in zip(counts, self.least, strict=True))


class Inspection(msgspec.Struct, frozen=True):
    """One server as a connection found it."""

    appendonly: str
    """``yes``, ``no`` or ``unknown``."""
    appendfsync: str
    """``always``, ``everysec``, ``no`` or ``unknown``."""
    how: str
    """What makes a turn as safe as the level asks."""
    refusal: str = ""
    """Why the server cannot be written to; empty when it can, but for ``denied``."""
    barrier: Barrier | None = None
    denied: tuple[str, ...] = ()
    """Commands that the store's user may not run, and must."""
    info: dict[str, str] = {}
    """The fields of INFO."""

    @property
    def refused(self) -> bool:
        """Whether the server cannot be written to."""
        return bool(self.refusal or self.denied)

    def problem(self, what: str) -> StoreUnavailable:
        """Why the server is refused, beginning with ``what``."""
        return denial(self.denied, what) if self.denied else StoreUnavailable(f"{what}: {self.refusal}.")


class Durability:
    """A level, and what a server can do about it.

    ``data_files`` are the embedded store's own, as ``datafiles.identify`` names them; empty for any other store.
    """

    def __init__(self, level: Level, *, wait_seconds: float, data_files: str = "") -> None:
        self.level = level
        self._wait_ms = max(1, int(wait_seconds * 1000))
        self._data_files = data_files

    def judge(self, replies: Sequence[Any]) -> Inspection:
        """What a server's answers to INSPECT mean for the level; an answer may be the error that came instead."""
        config, answer, check = replies
        settings, info = None if isinstance(config, ResponseError) else _pairs(config), _lines(answer)
        found = self._sync(settings, info, trusted=waits_for_disk(info))
        refusal = evicts(info) or datafiles.missing(self._data_files) or found.refusal
        waits = {words[0] for words in found.barrier.words} if found.barrier else ()
        denied = denied_commands(check, sometimes=waits)
        return msgspec.structs.replace(found, refusal=refusal, denied=denied, info=info)

    def _sync(self, settings: dict[str, str] | None, info: dict[str, str], *, trusted: bool) -> Inspection:
        """What makes a turn as safe as the level asks."""
        held = settings or {}
        aof_enabled = {"0": "no", "1": "yes"}.get(info.get("aof_enabled", ""), "unknown")
        appendonly, appendfsync = held.get("appendonly") or aof_enabled, held.get("appendfsync", "unknown")
        if self.level == "fast":
            return Inspection(appendonly, appendfsync, "as the server is set")
        if self.level == "assume" and settings is None:
            return Inspection(appendonly, appendfsync, "assumed: the store does not show its settings")
        if appendonly == "no":
            return Inspection(appendonly, appendfsync, "", _NO_FILE)
        waits: list[tuple[str, tuple[Any, ...]]] = []
        if appendfsync == "always":
            how = "appendfsync always"
        elif trusted:
            how = "WAITAOF"
            waits.append(("WAITAOF", ("WAITAOF", 1, 0, self._wait_ms)))
        else:
            return Inspection(appendonly, appendfsync, "", _UNSEEN if appendfsync == "unknown" else _NO_SYNC)
        if self.level == "replicated":
            how += " and WAIT"
            waits.append(("WAIT", ("WAIT", 1, self._wait_ms)))
        barrier = Barrier(tuple(words for _, words in waits), (1,) * len(waits)) if waits else None
        return Inspection(appendonly, appendfsync, how, barrier=barrier)


def evicts(info: dict[str, str]) -> str:
    """Why a server with these fields of INFO would forget conversations; empty when it would not.

    Without a limit of memory nothing is ever evicted.
    """
    policy, limit = info.get("maxmemory_policy", "noeviction"), info.get("maxmemory", "0")
    if policy == "noeviction" or limit == "0":
        return ""
    return f"the store evicts keys when its memory is full (maxmemory-policy {policy}): set maxmemory-policy noeviction"


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    texts = [each.decode("utf-8", "replace") for each in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _lines(info: Any) -> dict[str, str]:
    """The fields of an INFO answer; none when it is an error."""
    if isinstance(info, ResponseError):
        return {}
    lines = [line.partition(":") for line in info.decode("utf-8", "replace").splitlines()]
    return {name: value for name, colon, value in lines if colon}


def waits_for_disk(info: Mapping[str, Any]) -> bool:
    """Whether the WAITAOF of a server with these fields of INFO may be believed."""
    if "valkey_version" in info:
        return False
    major = str(info.get("redis_version", "0")).partition(".")[0]
    return major.isdecimal() and int(major) >= _TRUSTED_WAITAOF
