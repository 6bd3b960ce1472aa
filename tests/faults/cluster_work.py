"""Test changes in a cluster of six nodes: nodes freeze, join and end, slots move, and the service is upgraded."""

import asyncio
import signal
from pathlib import Path

from faults.ledger import Ledger
from faults.processes import Fleet, Service
from faults.runs import Row, Scale, judge
from faults.store_trouble import served
from faults.wire import Wire
from faults.writers import Writers
from redis.crc import key_slot
from rigs.servers import Cluster

_FROZEN_SECONDS = 3.0
_LONGEST_SECONDS = 8.0


async def cluster_primary_frozen(folder: Path, scale: Scale) -> Row:
    """A primary freezes until its replica serves its slots, and later goes on; requests fail only with 503."""
    cluster = Cluster(scale.binary, folder / "cluster")
    service = Service(cluster.url, folder / "serve.log", SASH_DURABILITY="replicated", SASH_STORE_TIMEOUT_SECONDS="1")
    try:
        await asyncio.to_thread(cluster.start)
        await service.start()
        writers = Writers(Ledger(), lambda _: service.port, number=scale.writers, conversations=12).start()
        await asyncio.sleep(1)
        victim = cluster.primary_of(key_slot(b"default/f-0"))
        victim.signal(signal.SIGSTOP)
        seconds = await served(Wire(service.port), "/conversations/f-0")
        await asyncio.sleep(_FROZEN_SECONDS)
        victim.signal(signal.SIGCONT)
        await asyncio.to_thread(cluster.wait)
        await asyncio.sleep(1)
        await writers.stop()
        note = f"its slots were served again after {seconds:.1f} s; it thawed {_FROZEN_SECONDS:.0f} s later"
        broken = _broken(writers) or ("" if seconds <= _LONGEST_SECONDS else f"{seconds:.1f} s")
        return await judge("cluster primary frozen, thawed", writers, service.port, note, broken)
    finally:
        await service.kill()
        cluster.kill()


async def cluster_reshaped(folder: Path, scale: Scale) -> Row:
    """Slots move to a new node and back, a primary is drained and ended, the service is upgraded; no request may fail."""
    cluster = Cluster(scale.binary, folder / "cluster")
    services = [Service(cluster.url, folder / f"serve-{place}.log") for place in range(2)]
    fleet = Fleet(*services)
    try:
        await asyncio.to_thread(cluster.start)
        for service in services:
            await service.start()
        writers = Writers(
            Ledger(), fleet.port, number=scale.writers, conversations=12, pause_seconds=scale.pause_seconds
        ).start()
        await asyncio.sleep(0.5)
        upgrading = asyncio.create_task(fleet.roll())
        added = await asyncio.to_thread(cluster.add)
        slots = {key_slot(f"default/{name}".encode()) for name in writers.conversations}
        homes = {slot: cluster.primary_of(slot) for slot in slots}
        for slot, home in homes.items():
            await cluster.move(slot, home, added)
        for slot, home in homes.items():
            await cluster.move(slot, added, home)
        drained = cluster.primary_of(key_slot(b"default/f-0"))
        for slot in (slot for slot, home in homes.items() if home is drained):
            await cluster.move(slot, drained, added)
        await upgrading
        await asyncio.sleep(1)  # by then the service has the new slot map and sends nothing to the old node
        await asyncio.to_thread(drained.kill)
        await asyncio.sleep(1)
        await writers.stop()
        note = f"{len(slots)} slots moved to a new node and back, one drained and ended, {fleet.replaced} replicas replaced"
        broken = "requests failed" if writers.ledger.failures else ""
        return await judge("cluster reshaped, service upgraded", writers, services[0].port, note, broken)
    finally:
        for service in services:
            await service.kill()
        cluster.kill()


def _broken(writers: Writers) -> str:
    """Return the failures other than 503; a client may retry after a 503."""
    others = set(writers.ledger.failures) - {"503"}
    return f"refused by {sorted(others)}" if others else ""
