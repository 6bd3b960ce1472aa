"""The faults, one function each: what was done, and what the ledger says of it."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.ledger import Ledger, Verdict, read_history
from faults.processes import Service
from faults.proxy import Proxy
from faults.wire import Wire
from faults.writers import Writers
from redis.crc import key_slot
from store.servers import Cluster, Server, binaries


@dataclass(frozen=True)
class Scale:
    """How much of everything: the short run of CI, or the full one."""

    binary: Path
    store_kills: int = 3
    service_kills: int = 3
    rollings: int = 1
    writers: int = 16
    requests: int = 1_500
    absent_seconds: float = 2.0
    slow: int = 50
    seed: int = 1


FULL = {"store_kills": 20, "service_kills": 50, "rollings": 3, "writers": 64, "requests": 200_000}
FULL |= {"absent_seconds": 60.0, "slow": 1_000}


@dataclass
class Row:
    """One line of the table."""

    fault: str
    turns: int
    requests: int
    verdict: Verdict
    failures: str
    note: str = ""
    broken: str = ""
    """What else did not hold; empty when all did."""


Scenario = Callable[[Path, Scale], Awaitable[Row]]


@asynccontextmanager
async def running(store: Server, folder: Path, url: str = "", **environment: str) -> AsyncIterator[Service]:
    """A service on a store, both killed in the end."""
    service = Service(url or store.url, folder / "serve.log", **environment)
    try:
        store.start()
        yield await service.start()
    finally:
        await service.kill()
        store.kill()


async def judge(fault: str, writers: Writers, port: int, note: str = "", broken: str = "") -> Row:
    """Read every conversation back and compare."""
    ledger = writers.ledger
    histories = {name: await read_history(port, name) for name in writers.conversations}
    failures = ", ".join(f"{count}x {what}" for what, count in ledger.failures.most_common(4)) or "none"
    return Row(fault, len(ledger.acknowledged), ledger.requests, ledger.judge(histories), failures, note, broken)


async def store_killed(folder: Path, scale: Scale) -> Row:
    """kill -9 of the store under writers, started again each time."""
    store, chance = Server(scale.binary, folder / "store"), random.Random(scale.seed)
    async with running(store, folder) as service:
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=8).start()
        for _ in range(scale.store_kills):
            await asyncio.sleep(0.2 + chance.random() * 0.6)
            await asyncio.to_thread(store.kill)
            await asyncio.sleep(chance.random() * 0.3)
            await asyncio.to_thread(store.start)
        await asyncio.sleep(0.5)
        await writers.stop()
        note = f"{scale.store_kills} kills, {scale.writers} writers"
        return await judge("store killed (-9)", writers, service.port, note)


async def service_killed(folder: Path, scale: Scale) -> Row:
    """kill -9 of the service under writers that send the same ids again."""
    store, chance = Server(scale.binary, folder / "store"), random.Random(scale.seed)
    async with running(store, folder) as service:
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=8).start()
        for _ in range(scale.service_kills):
            await asyncio.sleep(0.2 + chance.random() * 0.5)
            await service.kill()
            await service.start()
        await writers.stop()
        note = f"{scale.service_kills} kills, {scale.writers} writers"
        return await judge("service killed (-9)", writers, service.port, note)


async def rolling(folder: Path, scale: Scale) -> Row:
    """SIGTERM of one replica after the other, each taken out of the rotation first; no request may fail."""
    store = Server(scale.binary, folder / "store")
    async with running(store, folder) as first:
        second = await Service(store.url, folder / "second.log").start()
        live = [first, second]

        def port(now: int) -> int:
            ports = [service.port for service in live]
            return now if now in ports else random.choice(ports)

        try:
            writers = Writers(Ledger(), port, number=scale.writers, conversations=8).start()
            slowest = 0.0
            for _ in range(scale.rollings):
                for service in (first, second):
                    await asyncio.sleep(0.5)
                    live.remove(service)
                    slowest = max(slowest, await service.stop())
                    await service.start()
                    live.append(service)
            await asyncio.sleep(0.3)
            await writers.stop()
            failed = sum(writers.ledger.failures.values())
            broken = f"{failed} requests failed" if failed else "" if slowest < 10 else "drained too slowly"
            note = f"{2 * scale.rollings} replaced, drained in {slowest:.1f} s"
            return await judge("rolling SIGTERM", writers, second.port, note, broken)
        finally:
            await second.kill()


async def cancelled(folder: Path, scale: Scale) -> Row:
    """A fifth of the requests cancelled at random points, through a proxy that delays and cuts at random bytes."""
    store = Server(scale.binary, folder / "store")
    store.start()
    proxy = await Proxy(store.port, seed=scale.seed).start()
    proxy.delay_seconds, proxy.cut = 0.004, 0.003
    limits = {"SASH_REQUEST_TIMEOUT_SECONDS": "0.3", "SASH_STORE_TIMEOUT_SECONDS": "0.3"}
    try:
        async with running(store, folder, f"redis://127.0.0.1:{proxy.port}", **limits) as service:
            ledger = Ledger()
            writers = Writers(ledger, lambda _: service.port, number=scale.writers, conversations=32, cancel=0.2)
            writers.start()
            for _ in range(6_000):
                await asyncio.sleep(0.1)
                if ledger.requests >= scale.requests:
                    break
            await writers.stop()
            proxy.delay_seconds = proxy.cut = 0.0
            await asyncio.sleep(0.5)
            broken = "" if proxy.connections <= 8 else f"{proxy.connections} connections to the store are open"
            note = f"20 % cancelled, {proxy.accepted} connections cut or made"
            return await judge("cancelled, delayed, cut", writers, service.port, note, broken)
    finally:
        await proxy.stop()


async def replies_dropped(folder: Path, scale: Scale) -> Row:
    """The store has done it, and the answer never arrives."""
    store = Server(scale.binary, folder / "store")
    store.start()
    proxy = await Proxy(store.port, seed=scale.seed).start()
    try:
        async with running(store, folder, f"redis://127.0.0.1:{proxy.port}") as service:
            proxy.swallow = 0.02
            writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=8).start()
            await asyncio.sleep(min(20.0, scale.requests / 500))
            proxy.swallow = 0.0
            await writers.stop()
            return await judge("replies dropped", writers, service.port, f"{proxy.accepted} connections ended")
    finally:
        await proxy.stop()


async def scripts_flushed(folder: Path, scale: Scale) -> Row:
    """SCRIPT FLUSH over and over; nobody may notice."""
    store = Server(scale.binary, folder / "store")
    async with running(store, folder) as service:
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=8).start()
        link, flushes = store.connect(), 60
        for _ in range(flushes):
            link.script_flush()
            await asyncio.sleep(0.03)
        await writers.stop()
        broken = "requests failed" if writers.ledger.failures else ""
        return await judge("SCRIPT FLUSH", writers, service.port, f"{flushes} flushes", broken)


async def out_of_memory(folder: Path, scale: Scale) -> Row:
    """Appends answer 507, reads and erasure go on, and memory that is given back heals it."""
    store = Server(scale.binary, folder / "store", maxmemory_policy="noeviction")
    async with running(store, folder) as service:
        writers = Writers(Ledger(), lambda _: service.port, number=8, conversations=8).start()
        wire, link = Wire(service.port), store.connect()
        await asyncio.sleep(0.5)
        link.config_set("maxmemory", "1mb")
        await asyncio.sleep(0.5)
        statuses = [
            (await wire.ask("GET", "/conversations/f-1/window?model=gpt-4o-mini")).status,
            (await wire.ask("POST", "/conversations/x/messages", _turn("x 0 0"))).status,
            (await wire.ask("DELETE", "/conversations/f-0")).status,
        ]
        writers.ledger.attempted = {turn for turn in writers.ledger.attempted if turn[0] != "f-0"}
        writers.ledger.acknowledged = {turn for turn in writers.ledger.acknowledged if turn[0] != "f-0"}
        writers.conversations = [name for name in writers.conversations if name != "f-0"]
        link.config_set("maxmemory", "0")
        await asyncio.sleep(0.5)
        healed = (await wire.ask("POST", "/conversations/x/messages", _turn("x 0 0"))).status
        await writers.stop()
        seen = [*statuses, healed]
        broken = "" if seen == [200, 507, 204, 201] else f"read, append, erase, append later: {seen}"
        writers.ledger.acknowledged = {turn for turn in writers.ledger.acknowledged if turn[0] != "f-0"}
        return await judge("out of memory", writers, service.port, "507, reads and erasure go on, heals", broken)


def _turn(text: str) -> bytes:
    return json.dumps({"messages": [{"message": {"role": "user", "content": text}}]}).encode()


async def store_absent(folder: Path, scale: Scale) -> Row:
    """Absent at the start and for a while: not ready, 503 with Retry-After in time, back within a second."""
    store, wrong = Server(scale.binary, folder / "store"), []
    proxy = await Proxy(store.port).start()
    service = Service(f"redis://127.0.0.1:{proxy.port}", folder / "serve.log", SASH_STORE_TIMEOUT_SECONDS="2")
    try:
        await service.start(wait=False)
        wire = Wire(service.port)
        await _listening(wire)
        for path in ("/readyz", "/conversations/c"):
            started = time.monotonic()
            reply = await wire.ask("GET", path)
            if reply.status != 503 or "retry-after" not in reply.headers or time.monotonic() - started > 3:
                wrong.append(f"{path} without a store: {reply.status}")
        store.start()
        back = await _back(service)
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=8).start()
        await asyncio.sleep(0.5)
        store.kill()
        before = proxy.accepted
        await asyncio.sleep(scale.absent_seconds)
        attempts = (proxy.accepted - before) / scale.absent_seconds
        store.start()
        back = max(back, await _back(service))
        await asyncio.sleep(0.3)
        await writers.stop()
        if back > 1:
            wrong.append(f"back after {back:.1f} s")
        if attempts > 100:
            wrong.append(f"{attempts:.0f} connections a second")
        note = f"absent {scale.absent_seconds:.0f} s, {attempts:.0f} connects/s, back in {back:.2f} s"
        return await judge("store absent", writers, service.port, note, "; ".join(wrong))
    finally:
        await service.kill()
        store.kill()
        await proxy.stop()


async def _listening(wire: Wire) -> None:
    for _ in range(300):
        try:
            await wire.ask("GET", "/livez")
        except OSError:
            await asyncio.sleep(0.1)
        else:
            return


async def _served(wire: Wire, path: str) -> float:
    """Seconds until a read is answered with 200."""
    started = time.monotonic()
    for _ in range(600):
        if (await wire.ask("GET", path)).status == 200:
            break
        await asyncio.sleep(0.05)
    return time.monotonic() - started


async def _back(service: Service) -> float:
    """Seconds until the service may take traffic."""
    started = time.monotonic()
    await service.ready()
    return time.monotonic() - started


async def cluster_primary_killed(folder: Path, scale: Scale) -> Row:
    """A primary of the cluster is killed: errors on its slots only, for at most eight seconds."""
    cluster = Cluster(scale.binary, folder / "cluster")
    service = Service(cluster.url, folder / "serve.log", SASH_DURABILITY="replicated", SASH_STORE_TIMEOUT_SECONDS="1")
    try:
        await asyncio.to_thread(cluster.start)
        await service.start()
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=8).start()
        await asyncio.sleep(1)
        victim = cluster.primary_of(key_slot(b"default/f-0"))
        await asyncio.to_thread(victim.kill)
        seconds = await _served(Wire(service.port), "/conversations/f-0")
        await asyncio.to_thread(victim.start)
        await asyncio.to_thread(cluster.wait)
        await asyncio.sleep(0.5)
        await writers.stop()
        broken = "" if seconds <= 8 else f"{seconds:.1f} s"
        note = f"its slots were served again after {seconds:.1f} s"
        return await judge("cluster primary killed", writers, service.port, note, broken)
    finally:
        await service.kill()
        cluster.kill()


async def slot_moved(folder: Path, scale: Scale) -> Row:
    """Slots move to other nodes under load; no request may fail."""
    cluster = Cluster(scale.binary, folder / "cluster")
    service = Service(cluster.url, folder / "serve.log")
    try:
        await asyncio.to_thread(cluster.start)
        await service.start()
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=8).start()
        await asyncio.sleep(0.5)
        for name in writers.conversations:
            await cluster.move(key_slot(f"default/{name}".encode()))
        await asyncio.sleep(0.5)
        await writers.stop()
        broken = "requests failed" if writers.ledger.failures else ""
        return await judge("slot moved", writers, service.port, f"{len(writers.conversations)} slots moved", broken)
    finally:
        await service.kill()
        cluster.kill()


SCENARIOS: dict[str, Scenario] = {
    "store-killed": store_killed,
    "service-killed": service_killed,
    "rolling": rolling,
    "cancelled": cancelled,
    "replies-dropped": replies_dropped,
    "scripts-flushed": scripts_flushed,
    "out-of-memory": out_of_memory,
    "store-absent": store_absent,
    "cluster-primary-killed": cluster_primary_killed,
    "slot-moved": slot_moved,
}


def default_binary() -> Path:
    """The server that everybody has."""
    found = binaries()["valkey-9"]
    assert found is not None
    return found
