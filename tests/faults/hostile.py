"""Slow clients and a full disk."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path

from faults.ledger import Ledger, Verdict
from faults.processes import Service
from faults.runs import Row, Scale, judge, running
from faults.wire import Wire
from faults.writers import Writers
from store.servers import Server


async def slow_clients(folder: Path, scale: Scale) -> Row:
    """Clients that send or read a byte now and then: cut at the deadline, and nobody else waits for them."""
    store = Server(scale.binary, folder / "store")
    async with running(store, folder, SASH_REQUEST_TIMEOUT_SECONDS="2", SASH_STORE_TIMEOUT_SECONDS="2") as service:
        large = json.dumps({"messages": [{"message": {"role": "user", "content": "large " * 300_000}}]}).encode()
        wire = Wire(service.port)
        for _ in range(3):
            assert (await wire.ask("POST", "/conversations/large/messages", large)).status == 201
        writers = Writers(Ledger(), lambda _: service.port, number=4, conversations=4, pause_seconds=0.02).start()
        before, memory = await _p99(service.port), _memory(service)
        slow = [asyncio.ensure_future(_dawdle(service.port, reads=i % 10 == 0)) for i in range(scale.slow)]
        await asyncio.sleep(1)
        meanwhile, most = await _p99(service.port), _memory(service)
        done, pending = await asyncio.wait(slow, timeout=12)
        for task in pending:
            task.cancel()
        await writers.stop()
        cut = sum(task.result() for task in done)
        wrong = []
        if pending or cut < scale.slow:
            wrong.append(f"{scale.slow - cut} of {scale.slow} were not cut")
        if meanwhile > max(2 * before, before + 0.05):
            wrong.append("others waited")
        note = (
            f"{scale.slow} clients, {cut} cut; p99 {before * 1000:.0f} ms alone, {meanwhile * 1000:.0f} ms beside them; "
            f"memory {memory:.0f} MB, then {most:.0f} MB"
        )
        return await judge("slow senders and readers", writers, service.port, note, "; ".join(wrong))


_LARGE_BYTES = 5_400_000


async def _dawdle(port: int, *, reads: bool) -> bool:
    """Send the request, or read the answer, as slowly as can be; whether the service ended the connection."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)  # noqa: FBT003 - its only form
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
    try:
        if reads:
            writer.write(b"GET /conversations/large/messages HTTP/1.1\r\nHost: sash\r\nConnection: close\r\n\r\n")
        else:
            head = "POST /conversations/slow/messages HTTP/1.1\r\nHost: sash\r\nContent-Type: application/json"
            writer.write(f"{head}\r\nContent-Length: 9999\r\n\r\n".encode())
        for _ in range(30):
            await asyncio.sleep(0.1)
            if not reads:
                writer.write(b" ")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    if not await reader.read(1) or not reads:
                        return True  # the end, or an answer before the request was whole: 408
        rest = 0
        while piece := await reader.read(1 << 20):
            rest += len(piece)
    except OSError:
        return True
    finally:
        writer.transport.abort()
    return reads and rest < _LARGE_BYTES  # what was under way when it was cut, and not the whole
    return False


async def _p99(port: int) -> float:
    """Seconds below which 99 of 100 requests stay."""
    wire, taken = Wire(port), []
    for _ in range(200):
        started = time.monotonic()
        await wire.ask("GET", "/conversations/f-0/window?model=gpt-4o-mini&limit=5")
        taken.append(time.monotonic() - started)
    wire.close()
    return sorted(taken)[197]


def _memory(service: Service) -> float:
    """Resident memory of the service's processes, in MB."""
    assert service.process is not None
    group, total = service.process.pid, 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getpgid(int(folder.name)) == group:
                total += int((folder / "statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


async def disk_full(folder: Path, scale: Scale) -> Row:
    """The store's disk is full: appends are problems, what was acknowledged is there when there is room again."""
    disk = folder / "disk"
    disk.mkdir()
    if await _run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)):
        return Row("disk full", 0, 0, Verdict(), "", "not run: mounting a small disk is not allowed here")
    try:
        store = Server(scale.binary, disk / "store")
        ballast = disk / "ballast"
        async with running(store, folder) as service:
            writers = Writers(Ledger(), lambda _: service.port, number=8, conversations=8, pause_seconds=0.005).start()
            await asyncio.sleep(0.5)
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            await asyncio.sleep(2)
            assert store.process is not None
            ended = store.process.poll() is not None
            ballast.unlink()
            if ended:
                await asyncio.to_thread(store.start)
            await asyncio.sleep(1)
            await writers.stop()
            broken = "" if ended or writers.ledger.failures else "the disk was never full"
            note = f"the store {'ended and was started again' if ended else 'refused writes'}"
            return await judge("disk full", writers, service.port, note, broken)
    finally:
        await _run("umount", "-l", str(disk))


async def _run(*words: str) -> int:
    """Run a command; its exit status."""
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, check=False)
    return done.returncode
