"""Slow clients and a full disk."""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

from faults.dawdlers import LARGE, LARGE_BYTES
from faults.disks import fill, mount, unmount
from faults.ledger import Ledger, Verdict
from faults.processes import Service
from faults.runs import FULL, Row, Scale, judge, running
from faults.wire import Wire
from faults.writers import Writers
from rigs.servers import Server

_MOST_MB = 64
"""Limit in MB of what the service may hold for the answers to all slow clients, beside their connections."""
_CONNECTION_MB = 0.08
_LEAST_SECONDS, _LEAST_SECONDS_SHORT = 0.01, 0.05
"""A p99 up to this passes in any case: in the full run, and in the short run on a CI machine with two cores."""


async def slow_clients(folder: Path, scale: Scale) -> Row:
    """Clients that send or read byte by byte are cut at the deadline; the p99 of other clients stays within a limit."""
    store = Server(scale.binary, folder / "store")
    deadline = scale.deadline_seconds  # the full run's ten seconds are the service's default
    patience = {"SASH_REQUEST_TIMEOUT_SECONDS": f"{deadline:g}", "SASH_STORE_TIMEOUT_SECONDS": f"{deadline / 2:g}"}
    async with running(store, folder, **patience) as service:
        await prepare(service.port)
        writers = Writers(Ledger(), lambda _: service.port, number=4, conversations=4, pause_seconds=0.02).start()
        await p99(service.port, 1)
        memory, sockets = memory_mb(processes_of(service)), _sockets(service)
        most, rounds, cut, left = [memory], [], 0, 0
        watching = asyncio.create_task(_watch(service, most))
        for _ in range(scale.slow_rounds):
            before = await p99(service.port)
            async with dawdling(service.port, scale.slow, deadline) as told:
                await asyncio.sleep(0.3)
                rounds.append((before, await p99(service.port, 1.2 * deadline)))
                cut += int(await told.readline())
                left = max(left, _sockets(service) - sockets)
        await writers.stop()
        watching.cancel()
        wrong, slow = [], scale.slow * scale.slow_rounds
        if cut < slow or left > 0:
            wrong.append(f"{slow - cut} of {slow} were not cut, {left} connections stayed")
        before, meanwhile = (median(each) for each in zip(*rounds, strict=True))
        least = _LEAST_SECONDS if scale.slow >= FULL["slow"] else _LEAST_SECONDS_SHORT
        if meanwhile > max(2 * before, least):
            wrong.append("others waited")
        if max(most) > memory + _MOST_MB + _CONNECTION_MB * scale.slow:
            wrong.append("memory grew")
        note = (
            f"{scale.slow_rounds} times {scale.slow} clients, {cut} cut; median p99 {before * 1000:.1f} ms alone, "
            f"{meanwhile * 1000:.1f} ms beside them; memory {memory:.0f} MB, at most {max(most):.0f} MB"
        )
        return await judge("slow senders and readers", writers, service.port, note, "; ".join(wrong))


async def prepare(port: int) -> None:
    """Store the large conversation that slow clients read, and read it ten times to warm the service up."""
    entries = [{"message": {"role": "user", "content": "large " * (LARGE_BYTES // 600)}}] * 100
    large, wire = json.dumps({"messages": entries}).encode(), Wire(port)
    assert (await wire.ask("POST", f"/conversations/{LARGE}/messages", large)).status == 201
    for _ in range(10):  # memory that serving large answers takes is then in use already
        assert (await wire.ask("GET", f"/conversations/{LARGE}/messages")).status == 200


@contextlib.asynccontextmanager
async def dawdling(port: int, number: int, deadline_seconds: float) -> AsyncIterator[asyncio.StreamReader]:
    """Run ``number`` slow clients past the deadline; yield a stream that gives, in a line, how many were cut.

    The clients keep their connections until the block ends.
    """
    slow = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "faults.dawdlers", str(port), str(number), str(deadline_seconds)),
        cwd=Path(__file__).parent.parent,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert slow.stdin is not None
    assert slow.stdout is not None
    yield slow.stdout
    slow.stdin.close()
    await slow.wait()


async def p99(port: int, seconds: float = 3) -> float:
    """Return the p99 in seconds of window requests, sent one after the other for ``seconds`` seconds."""
    wire, taken = Wire(port), []
    end = time.monotonic() + seconds
    while (started := time.monotonic()) < end:
        await wire.ask("GET", "/conversations/f-0/window?model=gpt-4o-mini&limit=5")
        taken.append(time.monotonic() - started)
    wire.close()
    return sorted(taken)[len(taken) * 99 // 100]


async def _watch(service: Service, seen: list[float]) -> None:
    group = processes_of(service)  # once: finding the processes takes longer than other clients may wait
    while True:
        await asyncio.sleep(0.1)
        seen.append(memory_mb(group))


def processes_of(service: Service) -> list[Path]:
    """Return the /proc folders of the service's processes."""
    assert service.process is not None
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(folder.name)) == service.process.pid:
                found.append(folder)
    return found


def _sockets(service: Service) -> int:
    """Return how many sockets the service's processes hold open."""
    total = 0
    for folder in processes_of(service):
        for link in (folder / "fd").iterdir():
            with contextlib.suppress(OSError):
                total += str(link.readlink()).startswith("socket:")
    return total


def memory_mb(group: list[Path]) -> float:
    """Return the memory of processes in MB. Shared pages count once, because vocabularies are loaded before workers fork."""
    kilobytes = 0
    for folder in group:
        with contextlib.suppress(OSError):
            told = (folder / "smaps_rollup").read_text().splitlines()
            kilobytes += next(int(line.split()[1]) for line in told if line.startswith("Pss:"))
    return kilobytes / 1000


async def disk_full(folder: Path, scale: Scale) -> Row:
    """Under ``always``, appends to a store with a full disk fail; acknowledged turns are there once there is room again."""
    return await _disk_full("disk full", "always", "durable", folder, scale)


async def disk_full_everysec(folder: Path, scale: Scale) -> Row:
    """Under ``everysec``, a store with a full disk goes on: appends answer 503, reads answer 200."""
    return await _disk_full("disk full, everysec", "everysec", "fast", folder, scale)


async def _disk_full(fault: str, fsync: str, durability: str, folder: Path, scale: Scale) -> Row:
    disk = folder / "disk"
    if not await asyncio.to_thread(mount, disk, megabytes=8):
        return Row(fault, 0, 0, Verdict(), "", "not run: mounting a small disk is not allowed here")
    try:
        store = Server(scale.binary, disk / "store", appendfsync=fsync)
        async with running(store, folder, SASH_DURABILITY=durability, SASH_STORE_TIMEOUT_SECONDS="1") as service:
            writers = Writers(Ledger(), lambda _: service.port, number=8, conversations=8, pause_seconds=0.005).start()
            await asyncio.sleep(0.5)
            ballast = await asyncio.to_thread(fill, disk)
            await asyncio.sleep(2)
            assert store.process is not None
            ended = store.process.poll() is not None
            read = (await Wire(service.port).ask("GET", "/conversations/f-0/window?model=gpt-4o-mini")).status
            ballast.unlink()
            if ended:
                await asyncio.to_thread(store.start)
            await asyncio.sleep(1)
            await writers.stop()
            broken = "" if ended or writers.ledger.failures else "the disk was never full"
            if fsync == "everysec" and (ended, read, writers.ledger.failures.keys()) != (False, 200, {"503"}):
                broken += f" it ended: {ended}; a read: {read}; appends: {dict(writers.ledger.failures)}"
            note = f"the store {'ended and was started again' if ended else 'refused writes'}"
            return await judge(fault, writers, service.port, note, broken)
    finally:
        await asyncio.to_thread(unmount, disk)
