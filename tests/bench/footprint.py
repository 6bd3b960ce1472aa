"""What Sash uses of a machine: round trips, the store's thread, stored bytes, a second worker, memory, the start."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import redis
import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench import memory, store_thread
from tests.bench.data_run import load_conversations
from tests.bench.figures import Figure
from tests.bench.kinds import agent
from tests.bench.load import load, request
from tests.bench.rig import BATCH, Server, answer_of, beside, body_of, fill, messages_of, serving, wait_until_ready
from tests.bench.stalls import VOCABULARIES
from tests.rigs.servers import free_port

ROUNDS = 3
_WINDOW = "/conversations/c32/window?model=gpt-4o-mini"


class Bench(NamedTuple):
    """The server, its store's URL, and a connection to the store."""

    server: Server
    url: str
    store: redis.Redis


async def round_trips(bench: Bench) -> list[Figure]:
    """Measure how often the store reads from a connection for each request, with one request at a time.

    The service's own periodic commands are included: 0.01 or 0.02 a request.
    """
    turn = request("POST", "/conversations/trips/messages?model=gpt-4o-mini&limit=32", body_of(1, 400))
    figures = []
    for name, asked in (("window", request("GET", _WINDOW)), ("append with its window", turn)):
        await load(bench.server.port, [asked], count=1, connections=1)
        before = _reads(bench.store)
        await load(bench.server.port, [asked], count=1_000, connections=1)
        each = (_reads(bench.store) - before) / 1_000
        figures.append(Figure(f"round trips to the store for the usual {name}", [each], most=1.05))
    return figures


def _reads(store: redis.Redis) -> int:
    found: dict[str, int] = store.info("stats")  # type: ignore[assignment]
    return found["total_reads_processed"]


async def store_thread_of_an_append(bench: Bench) -> list[Figure]:
    """Compare the store's main thread for an append with what the afternoon's service takes of it."""
    with beside("afternoon", SASH_REDIS_URL=bench.url) as afternoons:
        return await store_thread.measure(bench.store, bench.server.port, afternoons.port)


async def stored_bytes(bench: Bench) -> list[Figure]:
    """Measure MEMORY USAGE of all keys for each byte of message JSON, in a short and in long conversations."""
    text = memory.prose(load_conversations())
    wanted = (
        ("20 messages", memory.entries_of(20, text), 1.5, None),
        ("5,000 messages", memory.entries_of(5_000, text), 0.9, 0.8),
        ("5,000 messages of an agent", [{"message": each} for each in agent(1_250)], 0.9, 0.8),
    )
    figures = [_stored(bench, *each) for each in wanted]
    return [*figures, _short_messages(bench, text)]


def _stored(bench: Bench, name: str, entries: memory.Entries, most: float, wanted: float | None) -> Figure:
    """Compare the stored bytes of a conversation with those of its messages' JSON."""
    identity = name.replace(" ", "-").replace(",", "")
    for first in range(0, len(entries), BATCH):
        body = msgspec.json.encode({"messages": entries[first : first + BATCH]})
        answer_of(bench.server.port, f"/conversations/{identity}/messages", body)
    said = memory.said_bytes(entries)
    value = memory.stored_bytes(bench.store, identity) / said
    note = f"{said / len(entries):.0f} bytes a message"
    return Figure(f"stored bytes for each byte of message JSON, {name}", [value], most=most, wanted=wanted, note=note)


def _short_messages(bench: Bench, text: str) -> Figure:
    """Compare the stored bytes of a conversation of short messages with those of a plain list of their JSON."""
    entries = memory.entries_of(20, text, range(60, 121, 3))
    for first in range(0, len(entries), 2):
        body = msgspec.json.encode({"messages": entries[first : first + 2]})
        answer_of(bench.server.port, "/conversations/short/messages", body)
    bench.store.rpush("plain", *(msgspec.json.encode(entry["message"]) for entry in entries))
    plain: int = bench.store.memory_usage("plain", samples=0)  # type: ignore[assignment]
    name = "stored bytes of 20 messages of 60 to 120 characters / a plain list of their JSON"
    note = f"{memory.said_bytes(entries) / len(entries):.0f} bytes a message"
    return Figure(name, [memory.stored_bytes(bench.store, "short") / plain], most=1.8, wanted=1.5, note=note)


async def two_workers(bench: Bench) -> list[Figure]:
    """Compare two workers with one, on windows of a history in the body, which need no store.

    The note says how much more two processes that only count get done than one, which is the machine's own limit.
    """
    entries = [{"message": message} for message in messages_of(32, 400)]
    asked = [request("POST", "/window", msgspec.json.encode({"model": "gpt-4o-mini", "messages": entries}))]
    values, given = [], 2 * _counting(1) / _counting(2)
    with serving(bench.url, workers=2) as pair:
        for _ in range(ROUNDS):
            alone, both = [await load(each.port, asked, count=1_500, connections=32) for each in (bench.server, pair)]
            assert not alone.errors + both.errors
            values.append(both.requests_per_second / alone.requests_per_second)
    note = f"two processes that only count: {given:.2f}"
    return [Figure("two workers / one, windows of a history in the body", values, least=1.7, note=note)]


def _counting(processes: int) -> float:
    """Return the seconds that ``processes`` processes take to count, all at the same time."""
    command = [sys.executable, "-c", "for _ in range(8_000_000): pass"]
    started = time.perf_counter()
    for process in [subprocess.Popen(command) for _ in range(processes)]:
        process.wait()
    return time.perf_counter() - started


async def flat_memory(bench: Bench) -> list[Figure]:
    """Measure how much a worker's memory grows with its requests."""
    body = body_of(1, 400)
    writes = [request("POST", f"/conversations/m{place}/messages", body) for place in range(10_000)]
    reads = [request("GET", f"/conversations/m{place}/window?model=gpt-4o-mini") for place in range(10_000)]
    for asked in (writes, reads):
        await load(bench.server.port, asked, count=10_000, connections=32)
    before = bench.server.resident_bytes()
    await load(bench.server.port, reads, count=50_000, connections=32)
    after = bench.server.resident_bytes()
    name = "a worker's memory after 70,000 requests over 10,000 conversations / after 20,000"
    return [Figure(name, [after / before], most=1.05, note=f"{after / 1e6:.0f} MB")]


async def ready_memory(bench: Bench) -> list[Figure]:
    """Measure a worker's memory when it is ready, and after windows that are counted in other vendors' vocabularies."""
    with serving(bench.url) as fresh:
        ready = fresh.resident_bytes() / 1e6
        for model in VOCABULARIES:
            answer_of(fresh.port, f"/conversations/c32/window?model={model}")
        counted, beside_it = fresh.resident_bytes() / 1e6, fresh.vocabularies_bytes() / 1e6
    note = f"{beside_it:.0f} MB in one process beside all workers"
    return [
        Figure("a worker's memory when it is ready, MB", [ready], most=200, wanted=150),
        Figure("the same with Qwen's, DeepSeek's and Mistral's vocabularies", [counted], None, 330, 250, note),
    ]


async def start_to_ready(bench: Bench) -> list[Figure]:
    """Measure the seconds from the start of the process to the first 200 of /readyz, with the embedded store."""
    took = []
    environ = {name: value for name, value in os.environ.items() if name != "SASH_REDIS_URL"}
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            port = free_port()
            command = [sys.executable, "-m", "sash", "serve", "--data-dir", folder, "--port", str(port)]
            started = time.perf_counter()
            process = subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            wait_until_ready(port)
            took.append(time.perf_counter() - started)
            process.send_signal(signal.SIGTERM)
            process.wait(20)
    return [Figure("start to ready with the embedded store, seconds", took, most=2)]


CALLS: tuple[Callable[[Bench], Awaitable[list[Figure]]], ...] = (
    round_trips,
    store_thread_of_an_append,
    stored_bytes,
    two_workers,
    flat_memory,
    ready_memory,
    start_to_ready,
)


async def _measure(bench: Bench, only: str) -> list[Figure]:
    await fill(bench.server.port, "c32", 32, 400)
    return [figure for call in CALLS if only in call.__name__ for figure in await call(bench)]


def run(only: str) -> list[Figure]:
    """Return the figures of the calls whose name contains ``only``."""
    with ExitStack() as stack:
        store = stack.enter_context(EmbeddedStore(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        server = stack.enter_context(serving(store.url))
        link = stack.enter_context(redis.Redis.from_url(store.url))
        return uvloop.run(_measure(Bench(server, store.url, link), only))
