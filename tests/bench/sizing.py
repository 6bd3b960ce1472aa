"""What a deployment needs, measured: ``python -m tests.bench.sizing``. Prints the tables of deploy/sizing.md, in a minute.

Memory is MEMORY USAGE of every key, all of it sampled. Processor time is that of the worker and of the store's main thread
for a known number of calls over 32 connections; unlike calls a second, it does not depend on what else keeps the machine
busy. Figures are medians of several rounds, with the least and the most.

With ``--conversations``, ``--turns-a-day`` and ``--retention-days`` it prints what such a deployment needs (plan.py), from
these figures and from the values of flags, such as prices. With ``--check`` it fills a cluster of six nodes, and compares
memory and processor time with the prediction.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import redis

from sash.store.redis.embedded import _bundled_binary
from tests.bench.data_run import load_conversations
from tests.bench.load import load, request
from tests.bench.memory import main_thread_seconds, prose, stored_bytes
from tests.bench.plan import MEANINGS, Assumed, Measured, Wanted, table
from tests.bench.rig import Server, machine, markdown, serving
from tests.rigs.servers import Cluster, linked, wait_until
from tests.rigs.servers import server as one_server

MODEL = "gpt-4o-mini"
MESSAGE_BYTES = 400
WINDOW = 32
CONNECTIONS = 32
CONVERSATIONS = 200
LONG = 10_000
TURNS = 10
TEXT = prose(load_conversations())


@dataclass(frozen=True)
class Cost:
    """The cost of one call in microseconds of processor time, and how many calls were answered in a second."""

    worker_us: float
    store_us: float
    per_second: float


def body(seeds: range) -> bytes:
    """Return the body of an append with one message for each seed, each with 400 characters of real text."""
    starts = [seed * MESSAGE_BYTES % (len(TEXT) - MESSAGE_BYTES) for seed in seeds]
    messages = [
        {"message": {"role": ("user", "assistant")[seed % 2], "content": TEXT[start : start + MESSAGE_BYTES]}}
        for seed, start in zip(seeds, starts, strict=True)
    ]
    return msgspec.json.encode({"messages": messages})


def append(conversation: str, seeds: range, query: str = "") -> bytes:
    return request("POST", f"/conversations/{conversation}/messages{query}", body(seeds))


async def answered(server: Server, requests: list[bytes], count: int, connections: int = CONNECTIONS) -> float:
    """Send ``count`` of the requests, and return the calls a second."""
    done = await load(server.port, requests, count=count, connections=min(connections, count))
    if done.errors:
        raise SystemExit(f"{done.errors} of {count} requests failed")
    return done.requests_per_second


async def cost(server: Server, store: redis.Redis, requests: list[bytes], count: int) -> Cost:
    worker, main = server.cpu_seconds(), main_thread_seconds(store)
    per_second = await answered(server, requests, count)
    return Cost(
        (server.cpu_seconds() - worker) / count * 1e6, (main_thread_seconds(store) - main) / count * 1e6, per_second
    )


async def stored(server: Server, store: redis.Redis, messages: int) -> int:
    """Return the store's bytes for a conversation of so many messages."""
    name = f"stored-{messages}"
    for first in range(0, messages, 100):
        await answered(server, [append(name, range(first, min(first + 100, messages)))], 1)
    return stored_bytes(store, name)


def spread(values: list[float], form: str = ",.0f") -> str:
    """Return the median with the least and the most."""
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


async def run(rounds: int, calls: int) -> Measured:
    with (
        tempfile.TemporaryDirectory(prefix="sash-sizing-") as folder,
        one_server(_bundled_binary(), Path(folder) / "primary", list_compress_depth="8") as primary,
        one_server(_bundled_binary(), Path(folder) / "replica", replicaof=f"127.0.0.1 {primary.port}") as replica,
        serving(primary.url) as server,
        redis.Redis.from_url(primary.url, decode_responses=True) as store,
    ):
        wait_until(lambda: linked(replica.connect()))
        names = [f"c-{number}" for number in range(CONVERSATIONS)]
        await answered(server, [append(name, range(WINDOW)) for name in names], CONVERSATIONS)
        windows = [request("GET", f"/conversations/{name}/window?model={MODEL}&limit={WINDOW}") for name in names]
        appends = [append(name, range(number, number + 1)) for number, name in enumerate(names)]
        both = [
            append(name, range(number, number + 1), f"?model={MODEL}&limit={WINDOW}")
            for number, name in enumerate(names)
        ]
        kinds = {"an append": appends, f"a window of {WINDOW}": windows, "both in one call": both}
        costs: dict[str, list[Cost]] = {kind: [] for kind in kinds}
        for requests in kinds.values():
            await answered(server, requests, calls)  # warm
        for _ in range(rounds):
            for kind, requests in kinds.items():
                costs[kind].append(await cost(server, store, requests, calls))
        print_calls(costs)
        one, twenty, long = [await stored(server, store, messages) for messages in (1, 20, LONG)]
        print_memory(one=one, twenty=twenty, long=long, resident=server.resident_bytes())
        where = machine(store.info("server"))
        print(f"\n{where}. {time.strftime('%Y-%m-%d')}, {rounds} rounds of {calls:,} calls of each kind.")
        turn = [costs[kind] for kind in ("both in one call", "an append")]
        worker, main = [
            sum(statistics.median(getattr(each, name) for each in kind) for kind in turn)
            for name in ("worker_us", "store_us")
        ]
        return Measured(one, twenty, worker, main)


async def check(measured: Measured, conversations: int = 1_000) -> None:
    """Fill a cluster, and print its figures beside those that one store's figures predict."""
    with tempfile.TemporaryDirectory(prefix="sash-sizing-") as folder, ExitStack() as stack:
        cluster = Cluster(_bundled_binary(), Path(folder), list_compress_depth="8")
        stack.callback(cluster.kill)
        primaries = [each.connect() for each in cluster.start().servers[:3]]
        server = stack.enter_context(serving(cluster.url))
        names = [f"check-{number}" for number in range(conversations)]
        before, began = [sum(map(read, primaries)) for read in (_used_bytes, main_thread_seconds)]
        for place in range(0, 2 * TURNS, 2):
            for query, first in ((f"?model={MODEL}&limit={WINDOW}", place), ("", place + 1)):
                asked = [append(name, range(first, first + 1), query) for name in names]
                await answered(server, asked, conversations, 3 * CONNECTIONS)  # CONNECTIONS for each primary
        seconds = sum(map(main_thread_seconds, primaries)) - began
        stored_each = (sum(map(_used_bytes, primaries)) - before) / conversations
    rows = []
    for name, predicted, found in (
        (f"stored bytes of a conversation of {2 * TURNS}", measured.conversation_bytes(2 * TURNS), stored_each),
        ("store's processor for a turn, µs", measured.store_us, seconds / conversations / TURNS * 1e6),
    ):
        rows.append((name, f"{predicted:,.0f}", f"{found:,.0f}", f"{found / predicted:.2f}"))
    print("\n" + markdown(("cluster of three primaries and three replicas", "predicted", "measured", "ratio"), rows))


def _used_bytes(store: redis.Redis) -> int:
    """Return the bytes of keys and values: the store's memory without its fixed overhead."""
    found: dict[str, Any] = store.info("memory")  # type: ignore[assignment]
    return int(found["used_memory_dataset"])


def print_calls(costs: dict[str, list[Cost]]) -> None:
    print("| call | worker's processor, µs | store's processor, µs | calls a second a worker | workers a store shard |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for kind, rounds in costs.items():
        cells = (
            spread([each.worker_us for each in rounds]),
            spread([each.store_us for each in rounds]),
            spread([each.per_second for each in rounds]),
            spread([each.worker_us / each.store_us for each in rounds], ",.1f"),
        )
        print(f"| {kind} | {' | '.join(cells)} |")


def print_memory(*, one: int, twenty: int, long: int, resident: int) -> None:
    print("\n| memory | |\n| --- | ---: |")
    print(f"| a message of {MESSAGE_BYTES} bytes, in a conversation of {LONG:,} | {long / LONG:,.0f} B |")
    print(f"| a conversation of one such message | {one:,} B |")
    print(f"| a conversation of 20 | {twenty:,} B |")
    print(f"| a million conversations of 20 | {twenty / 1e3:,.1f} GB |")
    print(f"| a worker | {resident / 1e6:,.0f} MB |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--conversations", type=float, help="kept at a time")
    parser.add_argument("--turns-a-day", type=float, help="of all of them")
    parser.add_argument("--retention-days", type=float, default=30)
    parser.add_argument("--replicas", type=int, default=1, help="of each shard")
    parser.add_argument("--check", action="store_true", help="compare with a cluster of six nodes")
    assumed = parser.add_argument_group("assumed (and what, if nothing is said)")
    for name, value in Assumed._field_defaults.items():
        flag, meaning = f"--{name.replace('_', '-')}", f"{MEANINGS[name]} ({value:g})"
        assumed.add_argument(flag, type=float, default=value, metavar="NUMBER", help=meaning)
    options = parser.parse_args()
    if (options.conversations is None) != (options.turns_a_day is None):
        parser.error("--conversations and --turns-a-day go together")
    measured = asyncio.run(run(options.rounds, options.calls))
    if options.check:
        asyncio.run(check(measured))
    if options.conversations:
        wanted = Wanted(options.conversations, options.turns_a_day, options.retention_days, options.replicas)
        print("\n" + table(wanted, measured, Assumed(*(getattr(options, name) for name in Assumed._fields))))


if __name__ == "__main__":
    sys.exit(main())
