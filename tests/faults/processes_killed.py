"""Test processes that are killed or replaced, and connections that are cut between them."""

import asyncio
import random
from pathlib import Path

from faults.ledger import Ledger
from faults.processes import Fleet, Service
from faults.proxy import Proxy
from faults.runs import Row, Scale, judge, running
from faults.writers import Writers
from rigs.servers import Server


async def store_killed(folder: Path, scale: Scale) -> Row:
    """Kill the store with SIGKILL while writers append, and start it again each time."""
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
    """Kill the service with SIGKILL while writers append; they send the same ids again."""
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
    """Replace one replica after the other by SIGTERM, behind a balancer that checks readiness; no request may fail."""
    store = Server(scale.binary, folder / "store")
    async with running(store, folder) as first:
        second = await Service(store.url, folder / "second.log").start()
        fleet = Fleet(first, second)
        try:
            writers = Writers(
                Ledger(), fleet.port, number=scale.writers, conversations=8, pause_seconds=scale.pause_seconds
            ).start()
            for _ in range(scale.rollings):
                await fleet.roll()
            await asyncio.sleep(0.3)
            await writers.stop()
            failed = sum(writers.ledger.failures.values())
            broken = (
                f"{failed} requests failed" if failed else "" if fleet.slowest_seconds < 10 else "drained too slowly"
            )
            note = f"{fleet.replaced} replaced, nothing asked again, drained in {fleet.slowest_seconds:.1f} s"
            return await judge("rolling SIGTERM", writers, second.port, note, broken)
        finally:
            await second.kill()


async def cancelled(folder: Path, scale: Scale) -> Row:
    """Cancel a fifth of the requests at random points; a proxy to the store delays, and cuts at random bytes."""
    store = Server(scale.binary, folder / "store")
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
    """The store runs commands whose replies never arrive at the service."""
    store = Server(scale.binary, folder / "store")
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
    """Run SCRIPT FLUSH again and again; no request may fail."""
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
