"""What followers of conversations get, and cost: ``python -m tests.bench.events``. Prints the tables of its section.

Followers are open streams of ``GET …/events`` on one worker, on plain sockets. An event's time is from the moment at which
its append was sent to the moment at which the follower has it. Kills: writers append, some texts grow, and followers come
back with their last id; each must get each version once, in order, from the first to the last. A `reset` begins anew.
Some follow by plain HTTP, some by the Python client, and some of these with a view, which has no question.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import redis
import uvloop

from sash.store.redis.embedded import EmbeddedStore
from sash_client.client import Sash
from tests.bench.load import load, request
from tests.bench.memory import main_thread_seconds
from tests.bench.rig import ROOT, body_of, machine, markdown
from tests.rigs.servers import Cluster, Sentinels, binaries, free_port

A_SECOND = 100
"""Appends a second while events are timed."""
_ID = re.compile(rb"\nid: (\d+)-")
_SIZE = 200


# ---- followers on plain sockets


@dataclass
class Crowd:
    """Many followers, and when each append of a conversation was sent, by version."""

    sent: dict[tuple[int, int], float] = field(default_factory=dict)
    delays: list[float] = field(default_factory=list)
    events: int = 0
    wrong: int = 0
    """Events that were not the next version of their conversation."""


class Follower(asyncio.Protocol):
    """One follower of one conversation."""

    def __init__(self, crowd: Crowd, place: int, begun: "asyncio.Future[None]") -> None:
        self._crowd = crowd
        self._place = place
        self._begun = begun
        self._rest = b""
        self._version = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(request("GET", f"/conversations/f-{self._place}/events?after=1"))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self._begun.done():
            assert data.startswith(b"HTTP/1.1 200"), data[:200]
            self._begun.set_result(None)
        *whole, self._rest = (self._rest + data).split(b"\n\n")
        for each in whole:
            for version in map(int, _ID.findall(each)):
                crowd = self._crowd
                crowd.events += 1
                crowd.wrong += version != (self._version or 1) + 1
                self._version = version
                since = crowd.sent.get((self._place, version))
                if since is not None:
                    crowd.delays.append(now - since)


@asynccontextmanager
async def followed(port: int, followers: int, conversations: int) -> AsyncIterator[Crowd]:
    """Yield so many followers, spread over the conversations, each of which has one message."""
    crowd, loop, transports = Crowd(), asyncio.get_running_loop(), []
    for first in range(0, followers, 50):
        begun: list[asyncio.Future[None]] = []
        for number in range(first, min(first + 50, followers)):
            begun.append(loop.create_future())
            made = await loop.create_connection(
                lambda number=number, each=begun[-1]: Follower(crowd, number % conversations, each), "127.0.0.1", port
            )
            transports.append(made[0])
        await asyncio.wait_for(asyncio.gather(*begun), 60)
    try:
        yield crowd
    finally:
        for each in transports:
            each.abort()


async def timed(port: int, crowd: Crowd, conversations: int, seconds: float) -> None:
    """Append at a steady rate, and note when each append was sent."""
    versions = [1] * conversations
    pending = set()
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}", limits=httpx.Limits(max_connections=32)
    ) as client:

        async def one(place: int, version: int) -> None:
            crowd.sent[place, version] = time.perf_counter()
            body, kind = body_of(1, _SIZE), {"Content-Type": "application/json"}
            (await client.post(f"/conversations/f-{place}/messages", content=body, headers=kind)).raise_for_status()

        began = time.perf_counter()
        for number in range(int(A_SECOND * seconds)):
            await asyncio.sleep(max(0.0, began + number / A_SECOND - time.perf_counter()))
            place = number % conversations
            versions[place] += 1
            task = asyncio.create_task(one(place, versions[place]))
            pending.add(task)
            task.add_done_callback(pending.discard)
        await asyncio.gather(*pending)
    await asyncio.sleep(1)


async def speed(port: int, store: redis.Redis, name: str, conversations: int, count: int) -> tuple[float, float]:
    """Return appends a second in a closed loop of 16 connections, and the microseconds of the store's thread for one."""
    asked = [
        request("POST", f"/conversations/{name}-{place}/messages", body_of(1, _SIZE)) for place in range(conversations)
    ]
    before = main_thread_seconds(store)
    run = await load(port, asked, count=count, connections=16)
    assert not run.errors
    return run.requests_per_second, (main_thread_seconds(store) - before) / count * 1e6


async def begin(port: int, name: str, conversations: int) -> None:
    asked = [
        request("POST", f"/conversations/{name}-{place}/messages", body_of(1, _SIZE)) for place in range(conversations)
    ]
    await load(port, asked, count=conversations, connections=8)


async def measure(followers: int, conversations: int, seconds: float, rounds: int) -> list[tuple[str, ...]]:
    """Return the rows about followers of one worker."""
    count, rows = conversations * 4, []
    with tempfile.TemporaryDirectory() as folder:
        service = Process(Path(folder), SASH_MAX_FOLLOWERS=str(followers + 100))
        await service.start()
        with redis.Redis.from_url(service.store_url()) as store:
            port = service.port
            await begin(port, "f", conversations)
            await begin(port, "g", conversations)
            before = service.memory()
            async with followed(port, followers, conversations) as crowd:
                kilobytes = (service.memory() - before) / followers / 1024
                programs = {"the worker": service.worker(), "the store": service.store(), "the followers": os.getpid()}
                since, began = {name: scheduled(pid) for name, pid in programs.items()}, time.monotonic()
                await timed(port, crowd, conversations, seconds)
                took = time.monotonic() - began
                shares = {name: scheduled(pid) - since[name] for name, pid in programs.items()}
                delays = sorted(crowd.delays)
                at = [delays[int(len(delays) * share)] * 1000 for share in (0.5, 0.99)]
                rows.append(
                    (
                        f"{followers:,} followers of {conversations:,} conversations, {A_SECOND} appends a second",
                        f"{len(delays):,} events, {crowd.wrong} out of order or missed",
                        f"p50 {at[0]:.1f} ms, p99 {at[1]:.1f} ms",
                        "p99 ≤ 50 ms",
                    )
                )
                for name, share in shares.items():
                    what = f"while the events are timed, {name} ran / waited for a processor"
                    rows.append((what, f"of {took:.0f} s", f"{share.ran:.1f} s / {share.waited:.1f} s", ""))
                rows.append(("a follower's memory in the worker", "", f"{kilobytes:.0f} kB", ""))
            alone, beside, told = [], [], []
            for _ in range(rounds):
                alone.append(await speed(port, store, "g", conversations, count))
                async with followed(port, followers, conversations):
                    beside.append(await speed(port, store, "g", conversations, count))
                    told.append(await speed(port, store, "f", conversations, count))
                await asyncio.sleep(1)
            for what, found, bound in (
                ("appends to other conversations, beside these followers / without", beside, "≥ 0.95"),
                (f"appends to followed ones, {followers // conversations} events each / without", told, ""),
            ):
                ratio = statistics.median(one[0] / other[0] for one, other in zip(found, alone, strict=True))
                thread = [statistics.median(each[1] for each in side) for side in (found, alone)]
                rows.append(
                    (what, f"store's thread {thread[0]:.0f} and {thread[1]:.0f} µs an append", f"{ratio:.2f}", bound)
                )
        await service.stop()
    return rows


class Scheduled(NamedTuple):
    """How long a process ran, and how long its main thread was ready and had no processor, in seconds."""

    ran: float
    waited: float

    def __sub__(self, other: "Scheduled") -> "Scheduled":
        return Scheduled(self.ran - other.ran, self.waited - other.waited)


def scheduled(pid: int) -> Scheduled:
    """Return the times of a process. The main thread has the worker's event loop, and the store's commands."""
    folder = Path(f"/proc/{pid}")
    ran = sum(int((each / "schedstat").read_text().split()[0]) for each in (folder / "task").iterdir())
    return Scheduled(ran / 1e9, int((folder / "schedstat").read_text().split()[1]) / 1e9)


# ---- kills


class Process:
    """``sash serve`` that can be killed and started again; without a store's URL it has its own."""

    def __init__(self, folder: Path, url: str = "", **environment: str) -> None:
        self.port = free_port()
        self._folder = folder
        self._environment = {**({"SASH_REDIS_URL": url} if url else {}), **environment}
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        given = {name: value for name, value in os.environ.items() if not name.startswith("SASH_")}
        given |= {"SASH_PORT": str(self.port), "SASH_DATA_DIR": str(self._folder / "data"), "SASH_LOG_LEVEL": "warning"}
        with (self._folder / "serve.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sash", "serve"],
                cwd=ROOT,
                env=given | self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await self.ready()

    async def ready(self) -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}") as client, asyncio.timeout(120):
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get("/readyz")).status_code == 200:
                        return
                await asyncio.sleep(0.05)

    def _below(self) -> dict[int, str]:
        """Return the processes of the service and of its own store, with their commands."""
        assert self._process is not None
        told = subprocess.run(["ps", "-eo", "pid=,pgid=,args="], capture_output=True, check=True, text=True).stdout
        found = {}
        for line in told.splitlines():
            pid, group, name = line.split(maxsplit=2)
            if int(group) == self._process.pid or str(self._folder) in name:
                found[int(pid)] = name
        return found

    def worker(self) -> int:
        """Return the worker's process: the youngest of the service's own."""
        return max(pid for pid, name in self._below().items() if "sash serve" in name)

    def store(self) -> int:
        """Return the embedded store's process."""
        return next(pid for pid, name in self._below().items() if "valkey-server" in name)

    def store_url(self) -> str:
        return f"unix://{self._folder / 'data' / 'valkey.sock'}"

    def memory(self) -> int:
        """Return the worker's resident bytes."""
        status = Path(f"/proc/{self.worker()}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024

    async def kill(self) -> None:
        """Kill the service and its workers, and start it again. Its own store ends with it."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        await asyncio.to_thread(self._process.wait)
        await self.start()

    async def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        await asyncio.to_thread(self._process.wait)


@dataclass
class Heard:
    """What one follower has: its last id, and each version that it was told."""

    conversation: str
    reader: str = "HTTP"
    last: str = "0"
    versions: list[int] = field(default_factory=list)
    texts: set[int] = field(default_factory=set)
    """Versions that were texts of a reply, which stand for the texts before."""
    messages: dict[int, str] = field(default_factory=dict)
    events: int = 0
    resets: int = 0
    doubled: int = 0

    def take(self, identity: str, event: dict[str, Any]) -> None:
        version = event["version"]
        self.events += 1
        if event["type"] == "reset":
            self.resets += 1
            self.versions = [version]
        else:
            self.doubled += version <= (self.versions or [0])[-1]
            self.versions.append(version)
        if event["type"] == "replaced":
            self.texts.add(version)
        for message in event.get("messages", ()):
            self.messages[message["seq"]] = message["id"]
        self.last = identity

    def missed(self, last: int) -> int:
        """Return how many versions were not told, up to the last one. Texts that another text followed are not missed."""
        told, missed = set(self.versions), 0
        for version in range(self.versions[0] if self.resets else 1, last + 1):
            later = next((each for each in self.versions if each > version), 0)
            missed += version not in told and later not in self.texts
        return missed


async def write(url: str, name: str, done: asyncio.Event) -> dict[str, str]:
    """Append questions and growing replies until ``done``, each until it is stored; returns nothing lost."""
    async with httpx.AsyncClient(base_url=url, timeout=10) as client:
        number = 0
        while not done.is_set():
            number += 1
            reply = {"id": f"r{number}", "role": "assistant", "content": "a", "status": "in_progress"}
            steps = [[{"id": f"q{number}", "role": "user", "content": "q", "audience": ["asker"]}], [reply]]
            steps += [[reply | {"content": "a" * size}] for size in (2, 3)]
            steps.append([reply | {"content": "aaaa", "status": "completed"}])
            for step in steps:
                await _stored(client, name, step)
                await asyncio.sleep(random.uniform(0.01, 0.05))
    return {}


async def _stored(client: httpx.AsyncClient, name: str, entries: list[dict[str, Any]]) -> None:
    while True:
        with suppress(httpx.TransportError):
            answer = await client.post(f"/conversations/{name}/messages", json={"messages": entries})
            if answer.status_code < 500:
                assert answer.status_code in (200, 201), answer.text
                return
        await asyncio.sleep(0.05)


async def hear(url: str, heard: Heard) -> None:
    """Follow a conversation, and come back after each end."""
    async with httpx.AsyncClient(base_url=url, timeout=httpx.Timeout(5, read=30)) as client:
        while True:
            path, headers = f"/conversations/{heard.conversation}/events", {"Last-Event-ID": heard.last}
            with suppress(httpx.TransportError):
                async with client.stream("GET", path, headers=headers) as answer:
                    if answer.status_code == 200:
                        fields: dict[str, str] = {}
                        async for line in answer.aiter_lines():
                            name, _, value = line.partition(":")
                            if line:
                                fields[name] = value.removeprefix(" ")
                            elif "data" in fields:
                                heard.take(fields["id"], json.loads(fields.pop("data")))
            await asyncio.sleep(0.1)


VIEWS = {"HTTP": None, "Python client": None, "Python client, a view": "agent"}
"""The readers, and what they see."""


async def hear_by_client(url: str, heard: Heard) -> None:
    """Follow a conversation with the Python client, which comes back by itself."""
    async for event in Sash(url).follow(heard.conversation, after=0, view=VIEWS[heard.reader]):
        heard.take("", event)


@dataclass
class Deployment:
    """A service on a store, and the ways to kill the store."""

    service: Process
    kill_store: Callable[[], Awaitable[None]]


@asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[Deployment]:
    service = Process(folder)
    await service.start()

    async def kill() -> None:
        os.kill(service.store(), signal.SIGKILL)
        await asyncio.sleep(1)
        await service.ready()

    yield Deployment(service, kill)
    await service.stop()


@asynccontextmanager
async def sentinel(folder: Path) -> AsyncIterator[Deployment]:
    binary = binaries()["valkey-9"]
    assert binary is not None
    store = Sentinels(binary, folder)
    await asyncio.to_thread(store.start)
    service = Process(folder, store.url, SASH_DURABILITY="replicated")
    await service.start()

    async def kill() -> None:
        for each, other in ((store.primary, store.replica), (store.replica, store.primary)):
            if each.connect().info("replication")["role"] == "master":
                each.kill()
                async with asyncio.timeout(60):
                    while other.connect().info("replication")["role"] != "master":  # noqa: ASYNC110 - another process
                        await asyncio.sleep(0.1)
                each.start()
                break
        await service.ready()
        await asyncio.sleep(4)

    yield Deployment(service, kill)
    await service.stop()
    store.kill()


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Deployment]:
    binary = binaries()["valkey-9"]
    assert binary is not None
    store = Cluster(binary, folder)
    await asyncio.to_thread(store.start)
    service = Process(folder, store.url, SASH_DURABILITY="replicated")
    await service.start()

    async def kill() -> None:
        chosen = random.choice(store.primaries())
        chosen.kill()
        await asyncio.sleep(4)
        chosen.start()
        await asyncio.to_thread(store.wait)
        await service.ready()

    yield Deployment(service, kill)
    await service.stop()
    store.kill()


DEPLOYMENTS = {"embedded": embedded, "Sentinel": sentinel, "cluster": cluster}


async def killed(name: str, kills: int, conversations: int, followers: int) -> list[tuple[str, ...]]:
    """Kill the store and the service in turn, while conversations are written and followed; returns a row a reader.

    ``followers`` of each conversation follow by HTTP, and one by each other way.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with DEPLOYMENTS[name](Path(folder)) as deployment:
            url, done = f"http://127.0.0.1:{deployment.service.port}", asyncio.Event()
            names = [f"k-{number}" for number in range(conversations)]
            async with httpx.AsyncClient(base_url=url, timeout=10) as client:
                for each in names:
                    await _stored(client, each, [{"id": "first", "role": "user", "content": "x"}])
            readers = ["HTTP"] * (followers - 1) + [*VIEWS]
            crowd = [Heard(each, reader) for each in names for reader in readers]
            following = [
                asyncio.create_task(hear(url, each) if each.reader == "HTTP" else hear_by_client(url, each))
                for each in crowd
            ]
            writing = [asyncio.create_task(write(url, each, done)) for each in names]
            for number in range(kills):
                await asyncio.sleep(random.uniform(0.3, 1.0))
                await (deployment.kill_store() if number % 2 else deployment.service.kill())
            await asyncio.sleep(1)
            done.set()
            await asyncio.gather(*writing)
            async with httpx.AsyncClient(base_url=url, timeout=10) as client:
                last = {each: (await client.get(f"/conversations/{each}")).json()["version"] for each in names}
                logs = {(each, reader): await _log(client, each, VIEWS[reader]) for each in names for reader in VIEWS}
            async with asyncio.timeout(60):
                while any(each.versions[-1:] != [last[each.conversation]] for each in crowd):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
    rows = []
    for reader in VIEWS:
        some = [each for each in crowd if each.reader == reader]
        events = sum(each.events for each in some)
        missed = sum(each.missed(last[each.conversation]) for each in some)
        wrong = sum(each.messages != logs[each.conversation, reader] for each in some if not each.resets)
        doubled, resets = sum(each.doubled for each in some), sum(each.resets for each in some)
        figures = (missed, doubled, wrong, resets)
        rows.append((name, reader, str(len(some)), str(kills), f"{events:,}", *map(str, figures)))
    return rows


async def _log(client: httpx.AsyncClient, name: str, view: str | None) -> dict[int, str]:
    found: dict[int, str] = {}
    cursor: str | None = ""
    while cursor is not None:
        query = {"limit": "1000"} | ({"cursor": cursor} if cursor else {}) | ({"view": view} if view else {})
        page = (await client.get(f"/conversations/{name}/messages", params=query)).json()
        found |= {message["seq"]: message["id"] for message in page["messages"]}
        cursor = page["next_cursor"]
    return found


# ---- the command


async def run(arguments: argparse.Namespace) -> None:
    if "followers" in arguments.parts:
        rows = await measure(arguments.followers, arguments.conversations, arguments.seconds, arguments.rounds)
        print(markdown(("what", "of", "found", "wanted"), rows, numbers=2), flush=True)
    if "kills" in arguments.parts:
        head = ("deployment", "reader", "readers", "kills", "events", "missed", "doubled", "wrong messages", "resets")
        for name in arguments.deployments:
            print("\n" + markdown(head, await killed(name, arguments.kills, 8, 4), numbers=2), flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedStore(Path(folder)) as store,
        redis.Redis.from_url(store.url) as link,
    ):
        print(f"\n{machine(link.info('server'))}. {time.strftime('%Y-%m-%d')}.")  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["followers", "kills"], help="followers, kills")
    parser.add_argument("--followers", type=int, default=5000)
    parser.add_argument("--conversations", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--deployments", nargs="+", default=list(DEPLOYMENTS))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
