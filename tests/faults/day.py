"""A day of load in an hour: ``python -m tests.faults.day [--minutes 60]`` prints a page of the results.

2,000 conversations on two replicas of the service behind a balancer, and on a primary with a replica and three Sentinels.
The load rises and falls as a sine. At fixed hours: two deploys, a slow store, a failover, a full disk. With ``--readme``
the page goes into tests/faults/day.md and its picture beside it.
"""

import argparse
import asyncio
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent.parent)]

from faults.day_page import Day, Event, drawing, page  # noqa: E402
from faults.disks import fill, mount, unmount  # noqa: E402
from faults.hostile import memory_mb, processes_of  # noqa: E402
from faults.processes import ROOT, Fleet, Service  # noqa: E402
from faults.runs import default_binary  # noqa: E402
from faults.visitors import Visitors  # noqa: E402
from rigs.servers import Sentinels, Server, wait_until  # noqa: E402

from tests.bench.rig import machine  # noqa: E402

PAGE = ROOT / "tests" / "faults" / "day.md"
_LEAST, _MOST = 2.0, 40.0
"""Calls a second at four in the morning and at four in the afternoon."""
_DISK_MB = 256


@dataclass
class Town:
    """The servers of a run: the stores and the replicas of the service."""

    pair: Sentinels
    services: list[Service]
    disks: list[Path] = field(default_factory=list)
    """Mounted disks of the two stores; empty where mounting is not allowed."""

    def __post_init__(self) -> None:
        self.fleet = Fleet(*self.services)

    def primary(self) -> Server:
        """Return the store that takes writes now."""
        return next(each for each in (self.pair.primary, self.pair.replica) if _role(each) == "master")

    async def come_back(self, ended: Server) -> None:
        """Start an ended store again, as a replica of the present primary."""
        primary = await asyncio.to_thread(self.primary)
        await asyncio.to_thread(ended.start)
        ended.connect().execute_command("REPLICAOF", "127.0.0.1", primary.port)

    async def taken_over(self) -> None:
        """Wait until the Sentinels have made the store that still runs the primary."""
        running = [each for each in (self.pair.primary, self.pair.replica) if _role(each)]
        await asyncio.to_thread(wait_until, lambda: _role(running[0]) == "master")


def _role(store: Server) -> str:
    """Return a store's replication role, or an empty string when the store has ended."""
    if store.process is None or store.process.poll() is not None:
        return ""
    return str(store.connect().info("replication")["role"])


async def deploy(town: Town, _: float) -> str:
    """Replace both replicas of the service by SIGTERM and a new start."""
    await town.fleet.roll()
    return f"both replicas replaced by SIGTERM, drained in at most {town.fleet.slowest_seconds:.1f} s"


async def slow_store(town: Town, seconds: float) -> str:
    """Make the primary sleep for 0.4 of each 0.5 seconds, as if its disk synced slowly."""
    link, end = town.primary().connect(), time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.to_thread(link.execute_command, "DEBUG", "SLEEP", "0.4")
        await asyncio.sleep(0.1)
    return f"the primary slept 0.4 of each 0.5 seconds, for {seconds:.0f} s"


async def failover(town: Town, seconds: float) -> str:
    """Kill the primary with SIGKILL; start it again some seconds after the replica took over."""
    ended = town.primary()
    await asyncio.to_thread(ended.kill)
    await town.taken_over()
    away = seconds / 6
    await asyncio.sleep(away)
    await town.come_back(ended)
    return f"`kill -9` of the primary; it came back as a replica {away:.0f} s after the other took over"


async def full_disk(town: Town, seconds: float) -> str:
    """Fill the primary's disk, so that the primary ends; some seconds later make room and start it as a replica."""
    if not town.disks:
        return "not done: mounting a small disk is not allowed here"
    ended, away = town.primary(), seconds / 2
    ballast = await asyncio.to_thread(fill, town.disks[0 if ended is town.pair.primary else 1])
    await town.taken_over()
    await asyncio.sleep(away)
    ballast.unlink()
    await town.come_back(ended)
    return f"the primary's disk filled, and it ended; room was made {away:.0f} s after the replica took over"


Cause = Callable[[Town, float], Awaitable[str]]
CLOCK: dict[str, tuple[float, Cause]] = {
    "deploy": (8.0, deploy),
    "slow-store": (11.0, slow_store),
    "second-deploy": (14.0, deploy),
    "failover": (17.0, failover),
    "full-disk": (20.0, full_disk),
}
"""Events by name: the hour of the day, and the function that causes it."""


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[Town]:
    """Yield all servers, running."""
    pair = Sentinels(default_binary(), folder / "store", maxmemory_policy="noeviction", list_compress_depth="8")
    services = [
        Service(pair.url, folder / f"serve-{place}.log", SASH_DURABILITY="replicated", SASH_LOG_LEVEL="error")
        for place in range(2)
    ]
    async with AsyncExitStack() as undo:
        disks = [folder / "store" / name for name in ("a", "b")]
        mounted = [await asyncio.to_thread(mount, disk, megabytes=_DISK_MB) for disk in disks]
        for disk in disks:
            undo.callback(unmount, disk)
        undo.callback(pair.kill)
        for service in services:
            undo.push_async_callback(service.kill)
        await asyncio.to_thread(pair.start)
        for service in services:
            await service.start()
        yield Town(pair, services, disks if all(mounted) else [])


async def live(minutes: float, conversations: int, names: list[str], seed: int) -> Day:
    """Run a day of ``minutes`` minutes with the named events, and return its results."""
    with tempfile.TemporaryDirectory() as folder:
        async with town(Path(folder)) as servers:
            visitors = Visitors(servers.fleet.port, conversations=conversations, seed=seed)
            day = Day(minutes, conversations, began=time.monotonic(), calls=visitors.calls)
            over = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(visitors.come(lambda: rate(day.hour(time.monotonic())), over))
                tasks.create_task(_weigh(servers, day))
                await _happen(servers, day, names)
                await asyncio.sleep(day.moment(24) - time.monotonic())
                over.set()
            day.verdict = await visitors.judge(servers.services[0].port)
            day.turns = len(visitors.ledger.attempted)
            day.erased = len(visitors.ledger.erased)
            day.machine = machine(servers.primary().connect().info("server"))
            return day


def rate(hour: float) -> float:
    """Return the calls a second at an hour of the day."""
    return _LEAST + (_MOST - _LEAST) * (1 - math.cos((hour - 4) / 24 * math.tau)) / 2


async def _happen(servers: Town, day: Day, names: list[str]) -> None:
    """Cause each event at its hour, and note when it began and ended."""
    seconds = max(3.0, day.minutes / 2)
    for name in names:
        hour, cause = CLOCK[name]
        await asyncio.sleep(day.moment(hour) - time.monotonic())
        event = Event(name.replace("-", " "), time.monotonic())
        day.events.append(event)
        event.what = await cause(servers, seconds)


async def _weigh(servers: Town, day: Day) -> None:
    """Note the memory of the service's largest process in the middle of each hour of the day."""
    for hour in range(24):
        await asyncio.sleep(day.moment(hour + 0.5) - time.monotonic())
        day.memory_mb.append(await asyncio.to_thread(_largest_mb, servers))


def _largest_mb(servers: Town) -> float:
    running = [service for service in servers.services if service.process]
    return max((memory_mb([each]) for service in running for each in processes_of(service)), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.day", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"events: {', '.join(CLOCK)}")
    parser.add_argument("--minutes", type=float, default=60, help="that the day takes")
    parser.add_argument("--conversations", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--readme", action="store_true", help=f"write {PAGE.relative_to(ROOT)} and its picture")
    options = parser.parse_args()
    random.seed(options.seed)
    names = [name for name in CLOCK if name in options.names or not options.names]
    day = asyncio.run(live(options.minutes, options.conversations, names, options.seed))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    made = page(day, commit.stdout.strip())
    print(made)
    if options.readme:
        PAGE.write_text(made + "\n")
        PAGE.with_suffix(".svg").write_text(drawing(day))
    return 1 if day.verdict else 0


if __name__ == "__main__":
    sys.exit(main())
