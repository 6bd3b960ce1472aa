"""Check a store with commands, for ``sash doctor``; not used while serving.

Each finding says what was found, and what to change where that is not good. Only one key is written, and it expires at once.
A store that denies a command, or does not answer within three seconds, is a finding.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AuthenticationError,
    MovedError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
)
from redis.retry import Retry
from redis.sentinel import Sentinel

from sash.store.redis import datafiles
from sash.store.redis.addresses import Address, read_url
from sash.store.redis.durability import Durability, Level, evicts
from sash.store.redis.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed, socket_url
from sash.store.redis.findings import Finding, Verdict, halves
from sash.store.redis.permissions import CHECK, denial, denial_behind, denied_call, denied_commands
from sash.store.redis.versions import LAYOUT, LAYOUT_KEY, too_new

T = TypeVar("T")
_OLDEST = {"redis": (7, 0), "valkey": (8, 0)}
_SKEW_SECONDS = 2.0
_LEAST_FREE_BYTES = 1 << 30
_TIMEOUT_SECONDS = 3


def check_store(redis_url: str | None, data_dir: Path, durability: Level) -> list[Finding]:
    """Look at the store of a deployment, the embedded one when there is no URL.

    Raises nothing: a store that cannot be reached is a finding.
    """
    if redis_url is None:
        return list(_check_embedded(data_dir, durability))
    return list(_check_at(redis_url, durability, "start it, or correct SASH_REDIS_URL"))


def _check_at(url: str, durability: Level, change: str) -> Iterator[Finding]:
    """Look at each server of a deployment; ``change`` says what to do when one does not answer."""
    try:
        with ExitStack() as stack:
            for client in clients_of(url, stack):
                yield from check_server(client, durability)
    except AuthenticationError as error:
        yield Finding("store", "problem", str(error), "put user and password into SASH_REDIS_URL")
    except (RedisError, RedisClusterException, OSError, ValueError) as error:
        denied = denial_behind(error)
        if denied is not None:
            yield Finding("store", "problem", *halves(denied_call(denied).detail))
        else:
            yield Finding("store", "problem", f"does not answer: {error or type(error).__name__}", change)


def clients_of(url: str, stack: ExitStack) -> Iterator["Redis"]:
    """Yield a connection to each server that keeps data."""
    address = read_url(url)
    timeouts: dict[str, Any] = {
        "socket_timeout": _TIMEOUT_SECONDS,
        "socket_connect_timeout": _TIMEOUT_SECONDS,
        "retry": Retry(NoBackoff(), 0),  # a store that answers only at the second try is worth a finding
    }
    if address.kind == "cluster":
        nodes = [ClusterNode(host, port) for host, port in address.hosts]  # type: ignore[no-untyped-call]
        cluster = RedisCluster(startup_nodes=nodes, ssl=address.tls, **_login(address), **timeouts)
        stack.callback(cluster.close)
        for node in cluster.get_primaries():  # type: ignore[no-untyped-call]
            yield cluster.get_redis_connection(node)
    elif address.kind == "sentinel":
        sentinels = {**timeouts, **address.sentinel_options, "ssl": address.tls}
        sentinel = Sentinel(address.hosts, sentinel_kwargs=sentinels, ssl=address.tls, **timeouts)  # type: ignore[no-untyped-call]
        login = {**_login(address), "db": address.options.get("db", 0)}
        yield stack.enter_context(sentinel.master_for(address.service, **login))  # type: ignore[no-untyped-call]
    else:
        yield stack.enter_context(Redis.from_url(url, **timeouts))


def _login(address: Address) -> dict[str, Any]:
    """Return user, password and TLS options."""
    wanted = ("username", "password")
    return {name: value for name, value in address.options.items() if name in wanted or name.startswith("ssl_")}


# ---- one server


def check_server(client: "Redis", durability: Level = "durable") -> list[Finding]:
    """Look at one server: age, role, permissions, persistence, memory, scripts, clock.

    Raises RedisError when it does not answer.
    """
    _unless_denied(client.ping)  # connects, so that the next call measures only a round trip
    findings = [_permissions(client, durability), *_times(client)]
    facts: dict[str, Any] | None = _unless_denied(client.info)
    if facts is not None:
        info, settings = {name: str(value) for name, value in facts.items()}, _configuration(client)
        findings += [_version(info), _role(info), _persistence(info, settings, durability), _memory(info)]
        if durability == "replicated":
            findings.append(_replicas(info, durability))
    return [*findings, _scripts(client), _layout(client)]


def _unless_denied(ask: Callable[[], T]) -> T | None:
    """Return a server's answer; None where the user may not ask, which ``_permissions`` reports."""
    try:
        return ask()
    except NoPermissionError:
        return None


def _permissions(client: "Redis", durability: Level) -> Finding:
    """Check that the user may run every command that the service sends."""
    try:
        reply: Any = client.eval(CHECK[1], 0, *CHECK[3:])
    except ResponseError as error:
        reply = error
    denied = denied_commands(reply, sometimes=("WAIT",) if durability == "replicated" else ())
    if denied:
        return Finding("store permissions", "problem", *halves(denial(denied).detail))
    return Finding("store permissions", "good", "every command that the service sends")


def _times(client: "Redis") -> list[Finding]:
    """Check how long an answer takes, and how far apart the clocks are."""
    before = time.time()
    answer = _unless_denied(client.time)
    if answer is None:
        return []
    seconds, microseconds = answer
    took = time.time() - before
    return [_speed(took), _clock(before + took / 2, seconds + microseconds / 1e6)]


def _configuration(client: "Redis") -> dict[str, str] | None:
    """Return the server's settings; None where it does not show them, as hosted servers do."""
    try:
        held = client.config_get("appendonly", "appendfsync")
    except ResponseError:
        return None
    return {_text(name): _text(value) for name, value in held.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _version(info: dict[str, str]) -> Finding:
    name = "valkey" if "valkey_version" in info else "redis"
    version = info.get("valkey_version") or info.get("redis_version") or "0"
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    oldest = _OLDEST[name]
    if numbers < oldest:
        wanted = ".".join(map(str, oldest))
        return Finding("store version", "problem", f"{name} {version}", f"run {name} {wanted} or later")
    return Finding("store version", "good", f"{name} {version}")


def _role(info: dict[str, str]) -> Finding:
    if info.get("role") != "master":
        return Finding(
            "store role", "problem", "a replica, which takes no writes", "name its primary in SASH_REDIS_URL"
        )
    return Finding("store role", "good", "primary")


def _speed(took: float) -> Finding:
    found = f"answers in {took * 1000:.1f} ms"
    if took > 0.02:
        return Finding("store distance", "advice", found, "every request waits that long: put the two closer together")
    return Finding("store distance", "good", found)


def _clock(ours: float, theirs: float) -> Finding:
    skew = ours - theirs
    if abs(skew) > _SKEW_SECONDS:
        way = "ahead of" if skew > 0 else "behind"
        return Finding(
            "store clock", "problem", f"{abs(skew):.1f} s {way} the store's", "keep both machines on time (NTP)"
        )
    return Finding("store clock", "good", f"within {_SKEW_SECONDS:.0f} s of the store's")


def _persistence(info: dict[str, str], held: dict[str, str] | None, durability: Level) -> Finding:
    """Check the settings for the disk, as the service judges them; ``fast`` needs the file, synced each second."""
    if info.get("aof_last_write_status", "ok") != "ok":
        return Finding(
            "store disk", "problem", "the last write to the append-only file failed", "make room on its disk"
        )
    is_fast = durability == "fast"
    judged = Durability("durable" if is_fast else durability, wait_seconds=_TIMEOUT_SECONDS).sync(held, info)
    if judged.refusal and not (is_fast and (judged.appendonly, judged.appendfsync) == ("yes", "everysec")):
        verdict: Verdict = "advice" if is_fast and judged.appendfsync == "unknown" else "problem"
        return Finding("store persistence", verdict, *halves(judged.refusal))
    return Finding("store persistence", "good", f"appendonly {judged.appendonly}, appendfsync {judged.appendfsync}")


def _memory(info: dict[str, str]) -> Finding:
    policy = info.get("maxmemory_policy") or "unknown"
    limit, used = int(info.get("maxmemory") or 0), int(info.get("used_memory") or 0)
    if evicts(info):
        found = f"maxmemory-policy {policy}: a full store forgets conversations in silence"
        return Finding("store memory", "problem", found, "maxmemory-policy noeviction")
    if policy not in {"noeviction", "unknown"}:
        found = f"maxmemory-policy {policy}, which does nothing while maxmemory is 0"
        return Finding("store memory", "advice", found, "maxmemory-policy noeviction, before anybody sets maxmemory")
    found = f"{used / 1e6:,.0f} MB used, {'no limit' if not limit else f'{limit / 1e6:,.0f} MB allowed'}, {policy}"
    if limit and used > 0.8 * limit:
        return Finding("store memory", "problem", found, "raise maxmemory, or set SASH_RETENTION_SECONDS")
    return Finding("store memory", "good", found)


def _replicas(info: dict[str, str], durability: Level) -> Finding:
    if refusal := Durability(durability, wait_seconds=_TIMEOUT_SECONDS).alone(info):
        return Finding("store replicas", "problem", *halves(refusal))
    return Finding("store replicas", "good", f"{info.get('connected_slaves', '0')} connected")


def _scripts(client: "Redis") -> Finding:
    """Run a script that writes, as every append does, on a key that expires at once."""
    try:
        client.eval("return redis.call('SET', KEYS[1], '1', 'PX', '1')", 1, "sash:{doctor}:check")
    except MovedError:
        return Finding("store scripts", "good", "another node of the cluster runs this one")
    except ResponseError as error:
        return Finding(
            "store scripts", "problem", str(error), "allow this user the commands above, and the server writes"
        )
    return Finding("store scripts", "good", "run and may write")


def _layout(client: "Redis") -> Finding:
    """Check that this version can read the stored data."""
    try:
        noted = client.get(LAYOUT_KEY)
    except MovedError:
        return Finding("store layout", "good", "another node of the cluster knows")
    except ResponseError as error:
        return Finding("store layout", "problem", str(error), "allow this user GET and SET on sash:*")
    layout = int(noted) if isinstance(noted, str | bytes) else LAYOUT
    newer = too_new(layout)
    if newer:
        return Finding("store layout", "problem", *halves(newer))
    return Finding("store layout", "good", f"layout {layout}, which this version reads")


# ---- the embedded store


def _check_embedded(data_dir: Path, durability: Level) -> Iterator[Finding]:
    """Check the server that runs on the directory; where none runs, try one in a temporary directory."""
    directory = data_dir.absolute()
    yield _room(directory)
    holder = _holder(directory)
    if holder is not None:
        yield from _check_running(directory, holder, durability)
        return
    yield Finding("embedded store", "good", "none runs here; one was tried in a temporary directory")
    with tempfile.TemporaryDirectory(prefix="sash-doctor-") as scratch:
        store = EmbeddedStore(Path(scratch), fsync="everysec" if durability == "fast" else "always")
        try:
            with store, Redis.from_url(store.url, socket_timeout=_TIMEOUT_SECONDS) as client:
                yield from check_server(client, durability)
        except (EmbeddedStoreFailed, DataDirectoryBusy, RedisError) as error:
            yield Finding(
                "embedded store", "problem", str(error), "set SASH_REDIS_URL to a Redis or Valkey of your own"
            )


def _holder(directory: Path) -> str | None:
    """Return the process that the locked lock file names; None when no store runs here, or the file cannot be read."""
    try:
        with (directory / "sash.lock").open("rb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return lock.read(100).decode(errors="replace").strip() or "an unknown process"
    except OSError:
        pass
    return None


def _check_running(directory: Path, holder: str, durability: Level) -> Iterator[Finding]:
    yield Finding("embedded store", "good", f"the one that runs here, of {holder}")
    try:
        lost = datafiles.missing(datafiles.identify(directory))
    except OSError:
        lost = f"the store's files in {directory} were deleted or moved: export what you need; start the service anew"
    if lost:
        yield Finding("store files", "problem", *halves(lost))
    url = socket_url(directory)
    if url is None:
        yield Finding("store", "problem", "its socket cannot be found", "ask the service itself: sash doctor --url")
        return
    yield from _check_at(url, durability, f"it hangs, or its disk does: look at {holder}, and start the service anew")


def _room(directory: Path) -> Finding:
    """Check that the data directory, or the nearest existing one above it, can be written and has room."""
    existing = next(parent for parent in (directory, *directory.parents) if os.access(parent, os.F_OK))
    if not existing.is_dir() or not _writable(existing):
        change = "choose another with SASH_DATA_DIR, or let this user write there"
        return Finding("data directory", "problem", f"{directory} cannot be written", change)
    free = shutil.disk_usage(existing).free
    found = f"{directory}, {free / 1e9:,.1f} GB free"
    if free < _LEAST_FREE_BYTES:
        return Finding("data directory", "problem", found, "make room: the store ends when a write to the disk fails")
    return Finding("data directory", "good", found)


def _writable(directory: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False
