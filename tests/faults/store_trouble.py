"""Test a store that is full or absent, and a cluster that loses a primary or moves slots."""

import asyncio
import json
import time
from pathlib import Path

from faults.ledger import Ledger
from faults.processes import Service
from faults.proxy import Proxy
from faults.runs import Row, Scale, judge, running
from faults.wire import Wire
from faults.writers import Writers
from redis.crc import key_slot
from rigs.servers import Cluster, Server


async def out_of_memory(folder: Path, scale: Scale) -> Row:
    """Without memory, appends answer 507 while reads and erasure go on; with memory again, appends work."""
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
    """Without a store, 503 with Retry-After comes within three seconds; with it again, the service is ready in a second."""
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


async def _back(service: Service) -> float:
    """Return the seconds until the service is ready."""
    started = time.monotonic()
    await service.ready()
    return time.monotonic() - started


async def served(wire: Wire, path: str) -> float:
    """Return the seconds until a read answers 200; it gives up after 600 tries."""
    started = time.monotonic()
    for _ in range(600):
        if (await wire.ask("GET", path)).status == 200:
            break
        await asyncio.sleep(0.05)
    return time.monotonic() - started


async def cluster_primary_killed(folder: Path, scale: Scale) -> Row:
    """After a primary of the cluster is killed, only requests to its slots fail, for at most eight seconds."""
    cluster = Cluster(scale.binary, folder / "cluster")
    service = Service(cluster.url, folder / "serve.log", SASH_DURABILITY="replicated", SASH_STORE_TIMEOUT_SECONDS="1")
    try:
        await asyncio.to_thread(cluster.start)
        await service.start()
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=12).start()
        await asyncio.sleep(1)
        victim = cluster.primary_of(key_slot(b"default/f-0"))
        its = {name for name in writers.conversations if _serves(cluster, victim, name)}
        await asyncio.to_thread(victim.kill)
        seconds = await served(Wire(service.port), "/conversations/f-0")
        await asyncio.to_thread(victim.start)
        await asyncio.to_thread(cluster.wait)
        await asyncio.sleep(0.5)
        await writers.stop()
        broken = "" if seconds <= 8 else f"{seconds:.1f} s"
        if others := writers.ledger.failed - its:
            broken += f" slots of other nodes failed: {sorted(others)}"
        note = f"its slots were served again after {seconds:.1f} s, those of others without an error"
        return await judge("cluster primary killed", writers, service.port, note, broken)
    finally:
        await service.kill()
        cluster.kill()


def _serves(cluster: Cluster, server: Server, conversation: str) -> bool:
    return cluster.primary_of(key_slot(f"default/{conversation}".encode())) is server


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
