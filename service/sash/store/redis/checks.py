"""Check a store for ``sash doctor``, with the service's own client: its questions and its judgement of the answers.

Each finding says what was found, and what to change where that is not good. Only one key is written, and it expires at once.
A store that denies a command, or does not answer within three seconds, is a finding.
"""

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from redis.exceptions import MovedError, NoPermissionError, ResponseError

from sash.problems import StorePermissionDenied, StoreUnavailable
from sash.store.redis import datafiles
from sash.store.redis.client import Client
from sash.store.redis.durability import Durability, Inspection, Level, evicts
from sash.store.redis.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed, socket_url
from sash.store.redis.findings import Finding, Verdict, advice_on, halves
from sash.store.redis.permissions import denial
from sash.store.redis.redis_parts import NO_ANSWER
from sash.store.redis.servers import NodeLost, Server
from sash.store.redis.versions import LAYOUT, LAYOUT_KEY, WRITER_KEY, unreadable

_OLDEST = {"redis": (7, 0), "valkey": (8, 0)}
_SKEW_SECONDS = 2.0
_LEAST_FREE_BYTES = 1 << 30
_TIMEOUT_SECONDS = 3


async def check_store(redis_url: str | None, data_dir: Path, durability: Level) -> list[Finding]:
    """Look at the store of a deployment, the embedded one of ``data_dir``, an absolute path, when there is no URL.

    Raises nothing: a store that cannot be reached is a finding.
    """
    if redis_url is None:
        return await _check_embedded(data_dir, durability)
    return await check_at(redis_url, durability, "start it, or correct SASH_REDIS_URL")


async def check_at(url: str, durability: Level, change: str) -> list[Finding]:
    """Look at each server of a deployment that takes writes; ``change`` says what to do when one does not answer."""
    client = Client(url, timeout_seconds=_TIMEOUT_SECONDS, connections=1, durability=durability)
    await client.open()
    try:
        servers = await client.connected()
        return [finding for server in servers for finding in await _check_server(server, durability, change)]
    except StorePermissionDenied as denied:
        return [Finding("store", "problem", *halves(denied.detail))]
    except StoreUnavailable as lost:
        return [_lost(client.trouble or str(lost), change)]
    finally:
        await client.close()


def _lost(why: str, change: str) -> Finding:
    if advice := advice_on(why):
        return Finding("store", "problem", f"refuses: {why}", advice)
    return Finding("store", "problem", f"does not answer: {why}", change)


# ---- one server


async def _check_server(server: Server, durability: Level, change: str) -> list[Finding]:
    """Look at one server; ``change`` says what to do when it does not answer."""
    found = server.found
    if found is None:
        return [_lost(server.trouble or NO_ANSWER, change)]
    try:
        return await _findings(server, found, durability)
    except (NodeLost, ResponseError, StoreUnavailable, ValueError) as error:
        return [_lost(str(error), change)]


async def _findings(server: Server, found: Inspection, durability: Level) -> list[Finding]:
    """Look at permissions, clock, age, role, persistence, memory, scripts. Raises NodeLost, StoreUnavailable.

    An answer that cannot be understood raises ResponseError or ValueError.
    """
    findings = [_permissions(found), *await _times(server)]
    if info := found.info:  # the user may not ask otherwise, which ``_permissions`` reports
        findings += [_version(info), _role(info), _persistence(found, durability), _memory(info)]
        if durability == "replicated":
            findings.append(_replicas(info, durability))
    return [*findings, await _scripts(server), await _layout(server)]


async def _ask(server: Server, *words: str) -> Any:
    """Return a server's answer to a command. Raises NodeLost, ResponseError, StoreUnavailable."""
    (answer,) = await server.submit([words], time.monotonic() + _TIMEOUT_SECONDS).future
    return answer


def _permissions(found: Inspection) -> Finding:
    """Check that the user may run every command that the service sends."""
    if found.denied:
        return Finding("store permissions", "problem", *halves(denial(found.denied).detail))
    return Finding("store permissions", "good", "every command that the service sends")


async def _times(server: Server) -> list[Finding]:
    """Check how long an answer takes, and how far apart the clocks are."""
    before = time.time()
    try:
        seconds, microseconds = map(int, await _ask(server, "TIME"))
    except NoPermissionError:
        return []
    took = time.time() - before
    return [_speed(took), _clock(before + took / 2, seconds + microseconds / 1e6)]


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


def _persistence(found: Inspection, durability: Level) -> Finding:
    """Check the settings for the disk, as the service judges them; ``fast`` needs the file, synced each second."""
    if found.info.get("aof_last_write_status", "ok") != "ok":
        return Finding(
            "store disk", "problem", "the last write to the append-only file failed", "make room on its disk"
        )
    shown = {"appendonly": found.appendonly, "appendfsync": found.appendfsync}
    settings, is_fast = shown if found.appendfsync != "unknown" else None, durability == "fast"
    judged = Durability("durable" if is_fast else durability, wait_seconds=_TIMEOUT_SECONDS).sync(settings, found.info)
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


async def _scripts(server: Server) -> Finding:
    """Run a script that writes, as every append does, on a key that expires at once."""
    try:
        await _ask(server, "EVAL", "return redis.call('SET', KEYS[1], '1', 'PX', '1')", "1", "sash:{doctor}:check")
    except MovedError:
        return Finding("store scripts", "good", "another node of the cluster runs this one")
    except ResponseError as error:
        change = "mend what the lines above name first: permissions, role, persistence or memory"
        return Finding("store scripts", "problem", str(error), change)
    return Finding("store scripts", "good", "run and may write")


async def _layout(server: Server) -> Finding:
    """Check that this version can read the stored data."""
    try:
        noted, by = await _ask(server, "GET", LAYOUT_KEY), await _ask(server, "GET", WRITER_KEY)
    except MovedError:
        return Finding("store layout", "good", "another node of the cluster knows")
    except ResponseError as error:
        return Finding("store layout", "problem", str(error), "allow this user GET and SET on sash:*")
    if why := unreadable(noted, by):
        return Finding("store layout", "problem", *halves(why))
    wrote = f", written by Sash {by.decode()}" if by else ""
    return Finding("store layout", "good", f"layout {int(noted or LAYOUT)}, which this version reads{wrote}")


# ---- the embedded store


async def _check_embedded(directory: Path, durability: Level) -> list[Finding]:
    """Check the server that runs on the directory; where none runs, try one in a temporary directory."""
    room, holder = _room(directory), _holder(directory)
    if holder is not None:
        return [room, *await _check_running(directory, holder, durability)]
    tried = Finding("embedded store", "good", "none runs here; one was tried in a temporary directory")
    own = "set SASH_REDIS_URL to a Redis or Valkey of your own"
    with tempfile.TemporaryDirectory(prefix="sash-doctor-") as scratch:
        store = EmbeddedStore(Path(scratch), fsync="everysec" if durability == "fast" else "always")
        try:
            with store:
                return [room, tried, *await check_at(store.url, durability, own)]
        except (EmbeddedStoreFailed, DataDirectoryBusy) as error:
            return [room, tried, Finding("embedded store", "problem", str(error), own)]


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


async def _check_running(directory: Path, holder: str, durability: Level) -> list[Finding]:
    findings = [Finding("embedded store", "good", f"the one that runs here, of {holder}")]
    try:
        lost = datafiles.missing(datafiles.identify(directory))
    except OSError:
        lost = f"the store's files in {directory} were deleted or moved: export what you need; start the service anew"
    if lost:
        findings.append(Finding("store files", "problem", *halves(lost)))
    url = socket_url(directory)
    if url is None:
        unfound = Finding("store", "problem", "its socket cannot be found", "ask the service itself: sash doctor --url")
        return [*findings, unfound]
    change = f"it hangs, or its disk does: look at {holder}, and start the service anew"
    return [*findings, *await check_at(url, durability, change)]


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
