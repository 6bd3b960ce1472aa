"""Find out, at each new connection, how safe an acknowledged turn is: a fail-over may bring another server.

======================  =============================================================================================
``fast``                acknowledged in the server's memory; the server's own settings say when it reaches the disk
``durable``             acknowledged when the server's disk has it
``replicated``          durable, and in a replica's memory besides
``assume``              as durable; a server that hides its settings is assumed to have the right ones
======================  =============================================================================================

A server with ``appendfsync always`` syncs before it answers, so nothing more is needed. With other settings, WAITAOF follows
the writes of a batch, but only on Redis 8. In Redis 7.4 and in Valkey (9.1.2, seen with strace), WAITAOF under ``everysec``
answers before the disk has anything (redis/redis pull request 13793).

Nothing is read or written where the data has a layout that this version does not know. Writes to a server are refused
while reads go on, in six cases: it is a replica, and no other server can take over; it can give no guarantee; the replica
that must confirm is not connected; it would evict keys when its memory is full, because a conversation without some keys is
broken; the store's user may not run every command that Sash sends; the files of the embedded store are gone. Settings and
permissions can change while a server runs, so each server is inspected again every second. A full disk of the embedded store
refuses writes too, except erasures (``reserve.py``).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from redis.exceptions import ResponseError

from sash.problems import Problem, StoreFull, StoreUnavailable
from sash.store.redis import datafiles
from sash.store.redis.lua import Effect
from sash.store.redis.permissions import CHECK, denial, denied_commands
from sash.store.redis.reserve import Shortage, make_room, shortage
from sash.store.redis.versions import LAYOUT_KEY, unreadable

Level = Literal["fast", "durable", "replicated", "assume"]

INSPECT: tuple[tuple[str, ...], ...] = (
    ("CONFIG", "GET", "append*"),
    ("INFO", "server", "persistence", "memory", "replication", "stats", "keyspace"),
    CHECK,
    ("GET", LAYOUT_KEY),
)
_TRUSTED_WAITAOF = 8  # major version of Redis; no version of Valkey
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
_REPLICA = "the store is a replica, which takes no writes: name its primary in SASH_REDIS_URL, or promote it"
_NO_REPLICA = "no replica is connected to the store: connect one, or set SASH_DURABILITY=durable"
_TOO_FEW = (
    "no replica keeps up with the store, and its min-replicas-to-write needs one: connect a replica, or set it to 0"
)


class Barrier(msgspec.Struct, frozen=True):
    """Commands that wait until the batch of writes before them is safe."""

    words: tuple[tuple[Any, ...], ...]

    def reached(self, replies: Sequence[Any]) -> bool:
        """Return whether the last replies count at least one: this server's disk (WAITAOF), or a replica (WAIT)."""
        counts = [reply[0] if isinstance(reply, list) else reply for reply in replies[-len(self.words) :]]
        return all(count >= 1 for count in counts)


class Inspection(msgspec.Struct, frozen=True):
    """The result of an inspection of one server."""

    appendonly: str
    """``yes``, ``no`` or ``unknown``."""
    appendfsync: str
    """``always``, ``everysec``, ``no`` or ``unknown``."""
    how: str
    """How a turn becomes as safe as the level asks."""
    refusal: str = ""
    """Why writes are refused, apart from ``denied``; empty when there is no such reason."""
    barrier: Barrier | None = None
    denied: tuple[str, ...] = ()
    """Needed commands that the store's user may not run."""
    info: dict[str, str] = {}
    """The fields of INFO."""
    shortage: Shortage | None = None
    """Why a full disk refuses writes, while reads go on."""

    @property
    def refused(self) -> bool:
        """Whether writes are refused."""
        return bool(self.refusal or self.denied)

    def problem_of(self, effect: Effect) -> Problem | None:
        """Return the problem of a call with this effect on a server that refuses writes; None where it takes the call."""
        if effect == "reads":
            return None
        if self.refused:
            return self.problem("Writes are refused")
        if self.shortage is None or (effect == "erases" and not self.shortage.erasures):
            return None
        going_on = "Reading" if self.shortage.erasures else "Reading and erasing"
        return StoreFull(
            f"Writes are refused: {self.shortage.why}. {going_on} still work{'s' * self.shortage.erasures}."
        )

    def problem(self, what: str) -> StoreUnavailable:
        """Return the problem of a refused server; its detail begins with ``what``."""
        return denial(self.denied, what) if self.denied else StoreUnavailable(f"{what}: {self.refusal}.")


class Durability:
    """A level of durability, and how each server reaches it.

    ``data_files`` is the result of ``datafiles.identify`` for the embedded store; empty for other stores. ``single`` is true
    where the deployment has one address, so that no other server takes over when this one is a replica.
    """

    def __init__(self, level: Level, *, wait_seconds: float, data_files: str = "", single: bool = False) -> None:
        self.level = level
        self._single = single
        self._wait_ms = max(1, int(wait_seconds * 1000))
        self._data_files = data_files
        self._data_dir = datafiles.folder_of(data_files)
        self.unreadable = ""
        """Why this version cannot read the data, as the last inspection found; empty where it can."""

    def shortage(self) -> Shortage | None:
        """Return why the disk of the embedded store refuses writes; None where it has room, and for other stores."""
        return shortage(self._data_dir)

    def make_room(self) -> None:
        """Make room for an erasure on the full disk of the embedded store."""
        make_room(self._data_dir)

    def judge(self, replies: Sequence[Any]) -> Inspection:
        """Return the inspection from a server's answers to INSPECT; an answer may be an error."""
        config, answer, check, layout = replies
        if not isinstance(layout, ResponseError):  # another node of a cluster has it
            self.unreadable = unreadable(layout)
        settings, info = None if isinstance(config, ResponseError) else _pairs(config), _lines(answer)
        found = self.sync(settings, info)
        replica = _REPLICA if self._single and info.get("role") == "slave" else ""
        lost = datafiles.missing(self._data_files)
        refusal = replica or self.unreadable or evicts(info) or lost or found.refusal or self.alone(info)
        waits = {words[0] for words in found.barrier.words} if found.barrier else ()
        denied = denied_commands(check, sometimes=waits)
        return msgspec.structs.replace(found, refusal=refusal, denied=denied, info=info, shortage=self.shortage())

    def alone(self, info: dict[str, str]) -> str:
        """Return why a primary with these fields of INFO acknowledges nothing without a replica; empty when it does."""
        if info.get("role") != "master":
            return ""
        if info.get("min_slaves_good_slaves") == "0":  # absent where min-replicas-to-write is 0
            return _TOO_FEW
        return _NO_REPLICA if self.level == "replicated" and info.get("connected_slaves") == "0" else ""

    def sync(self, settings: dict[str, str] | None, info: dict[str, str]) -> Inspection:
        """Return the inspection by the settings for the disk; ``settings`` are None where the server does not show them."""
        held = settings or {}
        aof_enabled = {"0": "no", "1": "yes"}.get(info.get("aof_enabled", ""), "unknown")
        appendonly, appendfsync = held.get("appendonly") or aof_enabled, held.get("appendfsync", "unknown")
        if self.level == "fast":
            return Inspection(appendonly, appendfsync, "as the server is set")
        if self.level == "assume" and settings is None:
            return Inspection(appendonly, appendfsync, "assumed: the store does not show its settings")
        if appendonly == "no":
            return Inspection(appendonly, appendfsync, "", _NO_FILE)
        waits: list[tuple[Any, ...]] = []
        if appendfsync == "always":
            how = "appendfsync always"
        elif _waits_for_disk(info):
            how = "WAITAOF"
            waits.append(("WAITAOF", 1, 0, self._wait_ms))
        else:
            return Inspection(appendonly, appendfsync, "", _UNSEEN if appendfsync == "unknown" else _NO_SYNC)
        if self.level == "replicated":
            how += " and WAIT"
            waits.append(("WAIT", 1, self._wait_ms))
        return Inspection(appendonly, appendfsync, how, barrier=Barrier(tuple(waits)) if waits else None)


def evicts(info: dict[str, str]) -> str:
    """Return why a server with these fields of INFO would evict conversations; empty when it would not.

    Without a memory limit nothing is evicted.
    """
    policy, limit = info.get("maxmemory_policy", "noeviction"), info.get("maxmemory", "0")
    if policy == "noeviction" or limit == "0":
        return ""
    return f"the store evicts keys when its memory is full (maxmemory-policy {policy}): set maxmemory-policy noeviction"


def _pairs(flat: Sequence[bytes]) -> dict[str, str]:
    texts = [each.decode("utf-8", "replace") for each in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _lines(info: Any) -> dict[str, str]:
    """Return the fields of an INFO answer; none when it is an error."""
    if isinstance(info, ResponseError):
        return {}
    lines = [line.partition(":") for line in info.decode("utf-8", "replace").splitlines()]
    return {name: value for name, colon, value in lines if colon}


def _waits_for_disk(info: Mapping[str, str]) -> bool:
    """Return whether WAITAOF waits for the disk on a server with these fields of INFO."""
    if "valkey_version" in info:
        return False
    major = info.get("redis_version", "0").partition(".")[0]
    return major.isdecimal() and int(major) >= _TRUSTED_WAITAOF
