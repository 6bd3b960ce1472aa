"""What an acknowledged turn survives, found out at each connection, because a fail-over may bring another server.

======================  =============================================================================================
``fast``                acknowledged in the server's memory; the server's own settings say when it reaches the disk
``durable``             acknowledged when the server's disk has it
``replicated``          durable, and in a replica's memory besides
======================  =============================================================================================

A server with ``appendfsync always`` syncs before it answers, and nothing is to be done. Elsewhere WAITAOF follows the
writes of a batch, but only on Redis 8: from 7.4 on, and in Valkey to this day (9.1.2, seen with strace), WAITAOF under
``everysec`` answers before the disk has anything (redis/redis pull request 13793). A server that can give no guarantee
is refused for writes; reads go on.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from redis.exceptions import ResponseError

Level = Literal["fast", "durable", "replicated"]

INSPECT: tuple[tuple[str, ...], ...] = (("CONFIG", "GET", "append*"), ("INFO", "server"), ("INFO", "persistence"))
_TRUSTED_WAITAOF = 8  # major version of Redis; of Valkey none
_NO_FILE = (
    "the store keeps no append-only file: set appendonly yes and appendfsync always there, or SASH_DURABILITY=fast"
)
_NO_SYNC = (
    "the store syncs its append-only file every second at best: set appendfsync always there, or SASH_DURABILITY=fast"
)


class Barrier(msgspec.Struct, frozen=True):
    """Commands behind a batch of writes that wait until it is safe, and the least that each must count."""

    words: tuple[tuple[Any, ...], ...]
    least: tuple[int, ...]

    def reached(self, replies: Sequence[Any]) -> bool:
        """Whether enough said yes: this server's disk for WAITAOF, replicas for WAIT."""
        counts = [reply[0] if isinstance(reply, list) else reply for reply in replies]
        return all(count >= least for count, least in zip(counts, self.least, strict=True))


class Found(msgspec.Struct, frozen=True):
    """One server as a connection found it."""

    appendonly: str
    """``yes``, ``no`` or ``unknown``."""
    appendfsync: str
    """``always``, ``everysec``, ``no`` or ``unknown``."""
    how: str
    """What makes a turn as safe as the level asks."""
    refusal: str = ""
    """Why the server cannot be written to at this level; empty when it can."""
    barrier: Barrier | None = None


class Durability:
    """A level, and what the servers that were met so far can do about it."""

    def __init__(self, level: Level, *, wait_seconds: float) -> None:
        self.level = level
        self._wait_ms = max(1, int(wait_seconds * 1000))
        self._latest: Found | None = None

    @property
    def latest(self) -> Found | None:
        """The server that was met last; None before the first."""
        return self._latest

    def judge(self, replies: Sequence[Any]) -> Found:
        """What a server's answers to INSPECT mean for the level; an answer may be the error that came instead."""
        config, server, persistence = replies
        settings = {} if isinstance(config, ResponseError) else _pairs(config)
        appendonly = settings.get("appendonly") or _appendonly(persistence)
        appendfsync = settings.get("appendfsync", "unknown")
        self._latest = self._found(appendonly, appendfsync, trusted=_waits_for_disk(server))
        return self._latest

    def _found(self, appendonly: str, appendfsync: str, *, trusted: bool) -> Found:
        if self.level == "fast":
            return Found(appendonly, appendfsync, "as the server is set")
        if appendonly == "no":
            return Found(appendonly, appendfsync, "", _NO_FILE)
        waits: list[tuple[str, tuple[Any, ...]]] = []
        if appendfsync == "always":
            how = "appendfsync always"
        elif trusted:
            how = "WAITAOF"
            waits.append(("WAITAOF", ("WAITAOF", 1, 0, self._wait_ms)))
        elif appendfsync == "unknown":
            how = "unknown: CONFIG GET is not allowed"
        else:
            return Found(appendonly, appendfsync, "", _NO_SYNC)
        if self.level == "replicated":
            how += " and WAIT"
            waits.append(("WAIT", ("WAIT", 1, self._wait_ms)))
        barrier = Barrier(tuple(words for _, words in waits), (1,) * len(waits)) if waits else None
        return Found(appendonly, appendfsync, how, barrier=barrier)


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    texts = [each.decode("utf-8", "replace") for each in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _lines(info: Any) -> dict[str, str]:
    """The fields of an INFO answer; none when it is an error."""
    if isinstance(info, ResponseError):
        return {}
    lines = [line.partition(":") for line in info.decode("utf-8", "replace").splitlines()]
    return {name: value for name, colon, value in lines if colon}


def _appendonly(persistence: Any) -> str:
    return {"0": "no", "1": "yes"}.get(_lines(persistence).get("aof_enabled", ""), "unknown")


def _waits_for_disk(server: Any) -> bool:
    """Whether the server's WAITAOF may be believed."""
    fields = _lines(server)
    if "valkey_version" in fields:
        return False
    major = fields.get("redis_version", "0").partition(".")[0]
    return major.isdecimal() and int(major) >= _TRUSTED_WAITAOF
