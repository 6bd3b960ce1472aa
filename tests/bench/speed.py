"""How fast Sash is, as ratios measured side by side in one run: ``python -m tests.bench.speed``.

Each figure is the median of several rounds, A and B in turn, so that a machine whose speed drifts slows both. Prints a
table, and with ``--out`` writes the same as JSON. Takes about ten minutes; ``python -m tests.bench`` runs it with the
rest.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import redis.asyncio
import uvloop
from rich.console import Console
from rich.table import Table

from service.core.messages import Entry
from service.store.embedded import EmbeddedStore
from service.store.layout import keys_of
from tests.bench.load import load, request
from tests.bench.rig import (
    FORGETFUL,
    TENANT,
    Bench,
    Server,
    entries_of,
    latency,
    machine,
    serving,
    text_of,
    wait_until_ready,
)
from tests.store.servers import free_port

ROUNDS = 5
CONNECTIONS = 64


@dataclass(frozen=True)
class Figure:
    """One line of the table: a ratio or a time, its target, and whether it holds."""

    name: str
    target: str
    value: float
    low: float
    high: float
    holds: bool
    note: str


def spread(values: list[float]) -> tuple[float, float, float]:
    return statistics.median(values), min(values), max(values)


def ratio(name: str, target: str, values: list[float], holds: Callable[[float], bool], note: str) -> Figure:
    """A figure from a ratio a round."""
    value, low, high = spread(values)
    return Figure(name, target, value, low, high, holds(value), note)


async def window_against_livez(bench: Bench, server: Server) -> list[Figure]:
    """Asked again of a worker that holds it, and of one that holds nothing and reads everything from the store."""
    await bench.fill("c32", 32, 400)
    window = [request("GET", "/conversations/c32/window?model=gpt-4o-mini")]
    livez = [request("GET", "/livez")]
    figures = []
    with serving(bench.url, **FORGETFUL) as forgetful:
        for asked, name in ((server, "asked again"), (forgetful, "nothing held")):
            ratios, cpus, rates = [], [], []
            for _ in range(ROUNDS):
                floor = await load(asked.port, livez, count=8_000, connections=32)
                before = asked.cpu_seconds()
                run = await load(asked.port, window, count=6_000, connections=32)
                cpus.append((asked.cpu_seconds() - before) / 6_000 * 1e6)
                ratios.append(run.requests_per_second / floor.requests_per_second)
                rates.append(run.requests_per_second)
                assert not run.errors
            rate = f"{statistics.median(rates):,.0f} windows a second on one worker"
            kind = f"window of 32 messages, {name}"
            figures += [
                ratio(f"{kind} / livez, requests a second", ">= 0.40", ratios, lambda v: v >= 0.40, rate),
                ratio(f"worker CPU for a {kind}, us", "<= 250", cpus, lambda v: v <= 250, "user and system"),
            ]
    return figures


async def window_after_append(bench: Bench, server: Server) -> list[Figure]:
    """What a turn asks for: an append and then the window. Appends are measured by themselves too, and taken off."""
    body = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": text_of(400, 1)}}]})
    for place in range(CONNECTIONS):
        await bench.fill(f"turn{place}", 32, 400)
    appends = [request("POST", f"/conversations/turn{place}/messages", body) for place in range(CONNECTIONS)]
    path = "/conversations/turn{}/window?model=gpt-4o-mini&limit=32"
    turns = [each for place, append in enumerate(appends) for each in (append, request("GET", path.format(place)))]
    cpus = []
    for _ in range(ROUNDS):
        taken = []
        for asked, count in ((appends, 3_000), (turns, 6_000)):
            before = server.cpu_seconds()
            run = await load(server.port, asked, count=count, connections=32)
            assert not run.errors
            taken.append(server.cpu_seconds() - before)
        cpus.append((taken[1] - taken[0]) / 3_000 * 1e6)
    name = "worker CPU for a window of 32 messages, after an append, us"
    return [ratio(name, "<= 250", cpus, lambda v: v <= 250, "append and window, less an append")]


async def long_against_short(bench: Bench, server: Server) -> list[Figure]:
    """Also the points of the picture of latency against history. The worker holds nothing, so all comes from the store."""
    points, ratios = {}, []
    lengths = [100, 1_000, 10_000, 100_000, *([bench.million] if bench.million > 100_000 else [])]
    for length in lengths:
        await bench.fill(f"l{length}", length, 60)
    path = "/conversations/l{}/window?model=gpt-4o-mini&limit=32"
    with serving(bench.url, **FORGETFUL) as forgetful:
        for _ in range(ROUNDS):
            round_points = {}
            for length in lengths:
                run = await load(forgetful.port, [request("GET", path.format(length))], count=400, connections=1)
                round_points[length] = run.latency(0.5)
            ratios.append(round_points[lengths[-1]] / round_points[100])
            for length, seconds in round_points.items():
                points.setdefault(length, []).append(seconds * 1e3)
    PICTURES["latency"] = {length: statistics.median(values) for length, values in points.items()}
    name = "window of a long conversation / of a short one, nothing held, median latency"
    note = f"{lengths[-1]:,} messages against 100, one connection"
    return [ratio(name, "<= 1.2", ratios, lambda v: v <= 1.2, note)]


async def full_window(bench: Bench, server: Server) -> list[Figure]:
    await bench.fill("full", 1_400, 450)
    window = request("GET", "/conversations/full/window?model=gpt-4o-mini&reserve=0")
    turn = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": "and then?"}}]})
    append = request("POST", "/conversations/full/messages", turn)
    keys = keys_of(f"{TENANT}/full")
    ratios: dict[str, list[float]] = {"asked again": [], "after an append": [], "nothing held": []}
    took: dict[str, list[float]] = {name: [] for name in ratios}
    with serving(bench.url, **FORGETFUL) as forgetful:
        for _ in range(ROUNDS):
            floor = await latency(lambda: bench.redis.lrange(keys.log, -1300, -1), 100)
            runs = {
                "asked again": (await load(server.port, [window], count=100, connections=1)).latencies,
                "after an append": (await load(server.port, [append, window], count=100, connections=1)).latencies[
                    1::2
                ],
                "nothing held": (await load(forgetful.port, [window], count=100, connections=1)).latencies,
            }
            for name, latencies in runs.items():
                seconds = statistics.median(latencies)
                ratios[name].append(seconds / floor)
                took[name].append(seconds * 1e3)
    return [
        ratio(
            f"full 128,000-token window, {name} / bare LRANGE of its bytes, latency",
            "<= 2.5",
            values,
            lambda v: v <= 2.5,
            f"{statistics.median(took[name]):.1f} ms",
        )
        for name, values in ratios.items()
    ]


async def append_against_rpush(bench: Bench, server: Server) -> list[Figure]:
    """Bare RPUSH by redis-py, as who stores chats himself would write it: one command at a time on each connection.

    Against the service, and against what it does beneath HTTP: count, check, store.
    """
    text = text_of(1024, 1)
    body = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": text}}]})
    requests = [request("POST", f"/conversations/a{i}/messages", body) for i in range(CONNECTIONS)]
    payload = b"x" * 1060
    clients = [redis.asyncio.Redis.from_url(bench.url, single_connection_client=True) for _ in range(CONNECTIONS)]

    async def rpush(number: int) -> None:
        await clients[number].rpush(f"bench:{number}", payload)  # type: ignore[misc]

    async def append(number: int) -> None:
        await bench.append(f"b{number}", [Entry(message={"role": "user", "content": text})])

    async def rate(write: Callable[[int], Awaitable[None]]) -> float:
        async def writer(number: int) -> None:
            for _ in range(60):
                await write(number)

        started = time.perf_counter()
        await asyncio.gather(*map(writer, range(CONNECTIONS)))
        return CONNECTIONS * 60 / (time.perf_counter() - started)

    over_http, beneath, rates = [], [], []
    for _ in range(ROUNDS):
        floor = await rate(rpush)
        beneath.append(await rate(append) / floor)
        run = await load(server.port, requests, count=CONNECTIONS * 60, connections=CONNECTIONS)
        assert not run.errors
        over_http.append(run.requests_per_second / floor)
        rates.append(run.requests_per_second)
    for client in clients:
        await client.aclose()
    note = f"{statistics.median(rates):,.0f} durable appends a second on one worker"
    name = "append of 1 KB over HTTP / bare RPUSH by redis-py, 64 connections each"
    stored = "append of 1 KB, counted and stored without HTTP / bare RPUSH by redis-py, 64 at once"
    return [
        ratio(name, ">= 0.4", over_http, lambda v: v >= 0.4, note),
        ratio(stored, ">= 0.4", beneath, lambda v: v >= 0.4, "the service's own client of the store, in process"),
    ]


async def throughput(bench: Bench, server: Server) -> list[Figure]:
    """No figure: the points of the picture of requests a second against connections."""
    body = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": text_of(400, 1)}}]})
    calls = {
        "window of 32 messages": [request("GET", "/conversations/c32/window?model=gpt-4o-mini")],
        "durable append": [request("POST", f"/conversations/t{i}/messages", body) for i in range(64)],
        "GET /livez": [request("GET", "/livez")],
    }
    points: dict[str, dict[int, float]] = {name: {} for name in calls}
    for connections in (1, 2, 4, 8, 16, 32, 64, 128):
        for name, asked in calls.items():
            runs = [await load(server.port, asked, count=1_500, connections=connections) for _ in range(3)]
            points[name][connections] = statistics.median(run.requests_per_second for run in runs)
    PICTURES["throughput"] = points
    return []


async def one_call_against_two(bench: Bench, server: Server) -> list[Figure]:
    await bench.fill("both", 32, 400)
    body = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": "and then?"}}]})
    both = request("POST", "/conversations/both/messages?model=gpt-4o-mini&limit=32", body)
    append = request("POST", "/conversations/both/messages", body)
    window = request("GET", "/conversations/both/window?model=gpt-4o-mini&limit=32")
    ratios = []
    for _ in range(ROUNDS):
        together = await load(server.port, [both], count=300, connections=1)
        turns = (await load(server.port, [append, window], count=600, connections=1)).latencies
        apart = [first + second for first, second in zip(turns[::2], turns[1::2], strict=True)]
        ratios.append(together.latency(0.5) / statistics.median(apart))
    name = "append and window in one call / in two"
    return [ratio(name, "<= 0.65", ratios, lambda v: v <= 0.65, "one connection")]


async def round_trips(bench: Bench, server: Server) -> list[Figure]:
    before = int((await bench.redis.info("commandstats"))["cmdstat_evalsha"]["calls"])
    count = 200
    await load(server.port, [request("GET", "/conversations/c32/window?model=gpt-4o-mini")], count=count, connections=1)
    after = int((await bench.redis.info("commandstats"))["cmdstat_evalsha"]["calls"])
    value = (after - before) / count
    return [
        Figure("round trips to the store for the usual window", "1", value, value, value, value == 1, "scripts run")
    ]


async def stored_bytes(bench: Bench, server: Server) -> list[Figure]:
    await bench.fill("size", 5_000, 365)
    keys = keys_of(f"{TENANT}/size")
    bodies = sum(len(body) for body in await bench.redis.lrange(keys.log, 0, -1))
    used = sum([await bench.redis.memory_usage(key, samples=0) or 0 for key in keys])
    value = used / bodies
    note = f"{bodies / 5_000:.0f} bytes a message, 5,000 messages, MEMORY USAGE of every key"
    return [Figure("stored bytes for each byte of message JSON", "<= 1.5", value, value, value, value <= 1.5, note)]


async def two_workers(bench: Bench, server: Server) -> list[Figure]:
    """Windows of a stored conversation, and of one that comes in the body, for which no store is asked.

    Told beside them: what two processes that only count get done against one, which is what the machine has to give.
    """
    messages = [{"message": entry.message} for entry in entries_of(32, 400)]
    body = msgspec.json.encode({"model": "gpt-4o-mini", "messages": messages})
    stored = [request("GET", "/conversations/c32/window?model=gpt-4o-mini")], 6_000, "store, load and workers"
    brought = [request("POST", "/window", body)], 1_500, "load and workers"
    figures = []
    for (asked, count, who), kind in ((stored, "asked again"), (brought, "of a history in the body")):
        ratios, ones, twos = [], [], []
        for _ in range(3):
            ones.append(counting(1))
            twos.append(counting(2))
            alone = await load(server.port, asked, count=count, connections=32)
            with serving(bench.url, workers=2) as pair:
                await load(pair.port, asked, count=1_000, connections=32)
                both = await load(pair.port, asked, count=count, connections=32)
            assert not alone.errors + both.errors
            ratios.append(both.requests_per_second / alone.requests_per_second)
        name = f"two workers / one, windows of 32 {kind}, requests a second"
        note = f"{who} share {os.cpu_count()} cores, which do {2 * min(ones) / min(twos):.2f} times the work of one"
        figures.append(ratio(name, ">= 1.7", ratios, lambda v: v >= 1.7, note))
    return figures


def counting(processes: int) -> float:
    """Seconds that so many processes take which do nothing but count."""
    command = [sys.executable, "-c", "for _ in range(10_000_000): pass"]
    started = time.perf_counter()
    for process in [subprocess.Popen(command) for _ in range(processes)]:
        process.wait()
    return time.perf_counter() - started


async def flat_memory(bench: Bench, server: Server) -> list[Figure]:
    conversations = 10_000
    body = msgspec.json.encode({"messages": entries_of(1, 400)})
    writes = [request("POST", f"/conversations/m{i}/messages", body) for i in range(conversations)]
    reads = [request("GET", f"/conversations/m{i}/window?model=gpt-4o-mini") for i in range(conversations)]
    await load(server.port, writes, count=conversations, connections=32)
    await load(server.port, reads, count=conversations, connections=32)
    before = server.resident_bytes()
    for _ in range(4):
        await load(server.port, reads, count=20_000, connections=32)
    after = server.resident_bytes()
    value = after / before
    note = f"{after / 1e6:.0f} MB after 100,000 requests over 10,000 conversations"
    return [
        Figure(
            "a worker's memory after 100,000 requests / after 20,000", "flat", value, value, value, value <= 1.05, note
        )
    ]


async def start_to_ready(bench: Bench, server: Server) -> list[Figure]:
    took = []
    for _ in range(ROUNDS):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            environ = {name: value for name, value in os.environ.items() if name != "SASH_REDIS_URL"}
            command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--data-dir", folder]
            started = time.perf_counter()
            process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            wait_until_ready(port)
            took.append(time.perf_counter() - started)
            process.send_signal(signal.SIGTERM)
            process.wait(20)
    return [
        ratio(
            "start to ready with the embedded store, seconds",
            "<= 2",
            took,
            lambda v: v <= 2,
            "process start included",
        )
    ]


FIGURES = (
    window_against_livez,
    window_after_append,
    long_against_short,
    full_window,
    append_against_rpush,
    throughput,
    one_call_against_two,
    round_trips,
    stored_bytes,
    two_workers,
    flat_memory,
    start_to_ready,
)
PICTURES: dict[str, Any] = {}
MACHINE: dict[str, str] = {}


async def measure(*, full: bool, only: str) -> list[Figure]:
    figures = []
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder)) as store, serving(store.url) as server:
        bench = Bench(store.url, full=full)
        await bench.client.open()
        if only:
            await bench.fill("c32", 32, 400)
        for figure in FIGURES:
            if only in figure.__name__:
                Console(stderr=True).print(f"[dim]{figure.__name__} …")
                figures += await figure(bench, server)
        MACHINE["name"] = machine(await bench.redis.info("server"))
        MACHINE["date"] = time.strftime("%Y-%m-%d")
        await bench.client.close()
        await bench.redis.aclose()
    return figures


def table(figures: list[Figure]) -> Table:
    shown = Table(
        "figure", "must reach", "measured", "min to max", "holds", "note", caption="{name}. {date}".format(**MACHINE)
    )
    for figure in figures:
        shown.add_row(
            figure.name,
            figure.target,
            f"{figure.value:.3g}",
            f"{figure.low:.3g} to {figure.high:.3g}",
            "yes" if figure.holds else "NO",
            figure.note,
        )
    return shown


def write(figures: list[Figure], folder: Path) -> None:
    """What was measured as JSON, the points of the pictures with it."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {"figures": [asdict(figure) for figure in figures], "pictures": PICTURES, "machine": MACHINE}
    (folder / "speed.json").write_text(json.dumps(found, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100,000 messages instead of a million")
    parser.add_argument("--only", default="", help="figures whose name holds this")
    parser.add_argument("--out", type=Path, help="folder for speed.json")
    arguments = parser.parse_args()
    figures = uvloop.run(measure(full=not arguments.quick, only=arguments.only))
    Console(width=160).print(table(figures))
    if arguments.out:
        write(figures, arguments.out)


if __name__ == "__main__":
    main()
