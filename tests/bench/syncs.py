"""How long reads and appends wait where the store's disk syncs slowly: ``python -m tests.bench.syncs [--readme]``.

The servers of the store get a library that makes each sync slower (``slow_sync.c``; it needs a C compiler). Four clients
append to conversations of their own, and four read windows of others, for some seconds. Prints a row for each way to run it.
Where windows are read from a replica, a second service reads from it. ``WAIT`` is asked on a connection beside the service,
after a write: Sash does not offer it with ``everysec``.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import redis

from sash.store.redis.embedded import _bundled_binary
from tests.bench.rig import ROOT, machine, markdown, messages_of, serving
from tests.rigs.servers import Server, linked, wait_until

SYNCS_MS = (0, 100, 500)
SECONDS = 6.0
CLIENTS = 4
PAGE = ROOT / "deploy" / "durability.md"
Times = list[float]


@contextmanager
def slow_disk(folder: Path, milliseconds: int) -> Iterator[None]:
    """Have servers that are started in here sync slowly."""
    library = folder / "slow_sync.so"
    source = Path(__file__).with_name("slow_sync.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source)], check=True)
    os.environ |= {"LD_PRELOAD": str(library), "SLOW_SYNC_MS": str(milliseconds)}
    try:
        yield
    finally:
        del os.environ["LD_PRELOAD"], os.environ["SLOW_SYNC_MS"]


async def repeat(call: Callable[[], Awaitable[None]], until: float, times: Times) -> None:
    """Call again and again until then, and note how many milliseconds each call took."""
    while time.perf_counter() < until:
        started = time.perf_counter()
        await call()
        times.append(1000 * (time.perf_counter() - started))
        await asyncio.sleep(0.005)


async def talk(port: int, reads_at: int) -> tuple[Times, Times]:
    """Return the times of reads and of appends, in milliseconds, of clients that do both at once."""
    reads, appends = Times(), Times()
    async with (
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as writer,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{reads_at}", timeout=30) as reader,
    ):
        body = {"messages": messages_of(32, 400)}
        for number in range(CLIENTS):
            (await writer.post(f"/conversations/read-{number}/messages", json=body)).raise_for_status()

        async def append(number: int) -> None:
            told = {"messages": messages_of(1, 400)}
            (await writer.post(f"/conversations/written-{number}/messages", json=told)).raise_for_status()

        async def read(number: int) -> None:
            answer = await reader.get(
                f"/conversations/read-{number}/window?model=gpt-4o-mini&max_tokens={1000 + number}"
            )
            answer.raise_for_status()

        await asyncio.sleep(1)  # a replica has what was appended
        until = time.perf_counter() + SECONDS
        await asyncio.gather(
            *(repeat(lambda n=n: append(n), until, appends) for n in range(CLIENTS)),  # type: ignore[misc]
            *(repeat(lambda n=n: read(n), until, reads) for n in range(CLIENTS)),  # type: ignore[misc]
        )
    return reads, appends


def waits(store: redis.Redis) -> Times:
    """Return how long a write and ``WAIT 1`` take together, in milliseconds."""
    times, until = Times(), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        started = time.perf_counter()
        store.set("waited", "for")
        assert store.execute_command("WAIT", 1, 10_000) >= 1
        times.append(1000 * (time.perf_counter() - started))
        time.sleep(0.005)
    store.delete("waited")
    return times


def shown(times: Times) -> str:
    """Return the median and the slowest twentieth."""
    return f"{statistics.median(times):,.0f} / {statistics.quantiles(times, n=20)[-1]:,.0f}"


def measure(sync_ms: int, *, fsync: str, replica_fsync: str = "", waiting: bool = False) -> tuple[str, str]:
    """Return the times of reads and of appends on servers of their own; windows are read from a replica if there is one.

    ``waiting``: the appends' times are those of a write and ``WAIT`` on the primary, from which windows are read then.
    """
    durability = "durable" if fsync == "always" else "fast"
    with tempfile.TemporaryDirectory(prefix="sash-syncs-") as folder, ExitStack() as stack:
        primary = Server(_bundled_binary(), Path(folder) / "primary", appendfsync=fsync)
        after = f"127.0.0.1 {primary.port}"
        replica = Server(_bundled_binary(), Path(folder) / "replica", replicaof=after, appendfsync=replica_fsync)
        for each in (primary, replica)[: 1 + bool(replica_fsync)]:
            stack.callback(each.kill)
            with slow_disk(Path(folder), sync_ms):
                each.start()
        if replica_fsync:
            wait_until(lambda: linked(replica.connect()))
        service = stack.enter_context(serving(primary.url, SASH_DURABILITY=durability))
        reads_at = service
        if replica_fsync and not waiting:
            reads_at = stack.enter_context(serving(replica.url, SASH_DURABILITY="fast"))
        reads, appends = asyncio.run(talk(service.port, reads_at.port))
        if waiting:
            appends = waits(primary.connect(socket_timeout=15))
        return shown(reads), shown(appends)


WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("`always`", {"fsync": "always"}),
    ("`always`; windows from a replica with `always`", {"fsync": "always", "replica_fsync": "always"}),
    ("`always`; windows from a replica with `everysec`", {"fsync": "always", "replica_fsync": "everysec"}),
    ("`everysec`", {"fsync": "everysec"}),
    (
        "`everysec` on both; `WAIT 1` behind a write",
        {"fsync": "everysec", "replica_fsync": "everysec", "waiting": True},
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.syncs", description=__doc__)
    parser.add_argument("--readme", action="store_true", help="put the table into deploy/durability.md")
    options = parser.parse_args()
    rows = []
    for name, way in WAYS:
        cells = [measure(sync_ms, **way) for sync_ms in SYNCS_MS]
        rows.append((name, *(cell for pair in zip(*cells, strict=True) for cell in pair)))
        sys.stdout.write(f"{rows[-1]}\n")
    heads = [f"{what}, {ms} ms a sync" for what in ("read", "append") for ms in SYNCS_MS]
    text = markdown(("store", *heads), rows)
    with tempfile.TemporaryDirectory() as folder:
        one = Server(_bundled_binary(), Path(folder)).start()
        where = machine(one.connect().info("server")).removesuffix(", appendfsync always")
        one.kill()
    text += f"\n\n{where}, other programs beside it. {time.strftime('%Y-%m-%d')}."
    sys.stdout.write(text + "\n")
    if options.readme:
        head, rest = PAGE.read_text().split("<!-- syncs -->\n")
        PAGE.write_text(f"{head}<!-- syncs -->\n\n{text}\n\n<!-- end -->{rest.split('<!-- end -->', 1)[1]}")


if __name__ == "__main__":
    main()
