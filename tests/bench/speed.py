"""The first table: how fast Sash is against a bare handler and the afternoon's service (``afternoon.py``).

Each has one worker; those with a store share it. In each round the servers take turns of a quarter of a second or so, every
second turn in reverse order, because the speed of a machine drifts within seconds: with one long turn each, a figure of
seven rounds differed by a tenth from run to run. A figure is the median of the rounds' ratios; the first round warms up.
Nothing is held between requests. No list is compressed, as this would slow reads of whole lists most.
"""

import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import redis
import redis.asyncio
import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench import ways
from tests.bench.figures import Figure
from tests.bench.load import load, request
from tests.bench.rig import Server, answer_of, beside, body_of, fill, latency, machine, serving

ROUNDS = 13
CONNECTIONS = 32
SASH, AFTERNOON, BARE, BARE_POST, AGAIN = "Sash", "the afternoon's", "bare", "bare, of a POST", "bare, again"
MESSAGES, SIZE = 32, 400
CONVERSATIONS, TURNS = 256, 8
MANY, FAST = 2_000, 10_000  # requests of a round, for a service and for a handler without a store
SLICES = 8  # turns of a server in a round
_ALL = "?model=gpt-4o-mini&max_tokens=126976"
_FULL = "/conversations/full/window?model=gpt-4o-mini&reserve=0"
_RATE, _LATENCY = "{:,.0f} and {:,.0f} a second; {:,.0f} and {:,.0f} µs of a worker", "{:.2f} and {:.2f} ms"


class Rate(NamedTuple):
    """Requests a second, or seconds a request over one connection; and the worker's processor time for each request."""

    value: float
    worker_us: float = 0.0


Rates = Mapping[str, Rate]
"""Rates of one round, by server or by length of the conversation."""


class Bench(NamedTuple):
    """The servers, their store's URL, and the lengths of conversations."""

    servers: Mapping[str, Server]
    url: str
    lengths: tuple[int, ...]


async def _rates(bench: Bench, turn: int, asked: Mapping[str, tuple[list[bytes], int]]) -> Rates:
    """Return the rate of each server in ``asked``, measured in turns of an equal part of its requests."""
    seconds, worker_seconds = dict.fromkeys(asked, 0.0), dict.fromkeys(asked, 0.0)
    for part in range(turn, turn + SLICES):
        for name in list(asked)[:: 1 if part % 2 else -1]:
            requests, count = asked[name]
            server, count = bench.servers[name], count // SLICES
            before = server.cpu_seconds()
            run = await load(server.port, requests, count=count, connections=min(CONNECTIONS, count))
            assert not run.errors, f"{run.errors} of {count} requests to {name} failed"
            seconds[name] += count / run.requests_per_second
            worker_seconds[name] += server.cpu_seconds() - before
    sent = {name: count // SLICES * SLICES for name, (_, count) in asked.items()}
    return {name: Rate(sent[name] / seconds[name], worker_seconds[name] / sent[name] * 1e6) for name in asked}


async def livez(bench: Bench, turn: int) -> Rates:
    """Measure ``GET /livez``, which both services answer with the same bytes."""
    asked = [request("GET", "/livez")]
    return await _rates(bench, turn, dict.fromkeys((SASH, BARE, AGAIN), (asked, FAST)))


async def window(bench: Bench, turn: int) -> Rates:
    """Measure a window of all 32 messages of a conversation."""
    asked = [request("GET", f"/conversations/short/window{_ALL}")]
    floor = [request("GET", "/window")]
    return await _rates(bench, turn, {SASH: (asked, 2 * MANY), BARE: (floor, FAST), AFTERNOON: (asked, 2 * MANY)})


async def append(bench: Bench, turn: int) -> Rates:
    """Measure an append of one message, which is counted and on the disk before the answer."""
    body = body_of(1, SIZE)
    asked = [request("POST", f"/conversations/a{place}/messages", body) for place in range(CONVERSATIONS)]
    return await _rates(bench, turn, dict.fromkeys((SASH, AFTERNOON), (asked, MANY)))


async def append_with_window(bench: Bench, turn: int) -> Rates:
    """Measure an append of one message with its window; conversations have 32 messages on average."""
    names = [f"turn{turn}-{place}" for place in range(CONVERSATIONS)]
    begin, body = body_of(MESSAGES - TURNS // 2, SIZE), body_of(1, SIZE)
    begins = [request("POST", f"/conversations/{name}/messages", begin) for name in names]
    for name in (SASH, AFTERNOON):
        await load(bench.servers[name].port, begins, count=CONVERSATIONS, connections=4)
    asked = [request("POST", f"/conversations/{name}/messages{_ALL}", body) for name in names]
    floor, posted = [request("GET", "/window")], [request("POST", "/append", body)]
    ours = (asked, CONVERSATIONS * TURNS)
    return await _rates(bench, turn, {SASH: ours, BARE: (floor, FAST), BARE_POST: (posted, FAST), AFTERNOON: ours})


async def of_1_000(bench: Bench, turn: int) -> Rates:
    """Measure a window of 8,000 tokens out of 1,000 messages."""
    asked = [request("GET", "/conversations/m1000/window?model=gpt-4o-mini&reserve=0&max_tokens=8000")]
    return await _rates(bench, turn, {SASH: (asked, MANY), AFTERNOON: (asked, MANY // 2)})


async def of_10_000(bench: Bench, turn: int) -> Rates:
    """Measure a window of 8,000 tokens out of 10,000 messages."""
    asked = [request("GET", "/conversations/m10000/window?model=gpt-4o-mini&reserve=0&max_tokens=8000")]
    return await _rates(bench, turn, {SASH: (asked, MANY), AFTERNOON: (asked, 64)})


async def lengths(bench: Bench, turn: int) -> Rates:
    """Measure a window of 32 messages in conversations of all lengths, one request at a time."""
    found = {}
    for length in bench.lengths[:: 1 if turn % 2 else -1]:
        asked = [request("GET", f"/conversations/l{length}/window?model=gpt-4o-mini&limit=32")]
        run = await load(bench.servers[SASH].port, asked, count=100, connections=1)
        found[str(length)] = Rate(run.latency(0.5))
    return found


async def full(bench: Bench, turn: int) -> Rates:
    """Measure a window of 128,000 tokens, one request at a time, and redis-py reading a list of the same messages."""
    asked = [request("GET", _FULL)]
    async with redis.asyncio.Redis.from_url(bench.url) as store:
        kept = await store.llen("bench:full")  # type: ignore[misc]
        floor = await latency(lambda: store.lrange("bench:full", -kept, -1), 40)
    run = await load(bench.servers[SASH].port, asked, count=40, connections=1)
    assert not run.errors
    return {SASH: Rate(run.latency(0.5)), "LRANGE": Rate(floor)}


CALLS: tuple[Callable[[Bench, int], Awaitable[Rates]], ...] = (
    livez,
    window,
    append,
    append_with_window,
    of_1_000,
    of_10_000,
    lengths,
    full,
)


class Row(NamedTuple):
    """A row of the table: the ratio of two rates that a call measured."""

    name: str
    call: str
    over: str
    under: str
    least: float | None = None
    most: float | None = None
    wanted: float | None = None


ROWS = (
    Row("window of 32 messages / bare handler", "window", SASH, BARE, 0.18, None, 0.22),
    Row("append with its window / bare handler", "append_with_window", SASH, BARE, 0.10, None, 0.12),
    Row("the same / bare handler that reads the same body", "append_with_window", SASH, BARE_POST),
    Row("window of 32 messages / the afternoon's", "window", SASH, AFTERNOON, 1.0, None, 1.15),
    Row("append with its window / the afternoon's", "append_with_window", SASH, AFTERNOON, 1.0, None, 1.1),
    Row("append / the afternoon's", "append", SASH, AFTERNOON, 0.8),
    Row("window of 8,000 tokens out of 1,000 messages / the afternoon's", "of_1_000", SASH, AFTERNOON, 2.3, None, 2.6),
    Row("window of 8,000 tokens out of 10,000 messages / the afternoon's", "of_10_000", SASH, AFTERNOON, 20, None, 25),
    Row("`GET /livez` / bare handler", "livez", SASH, BARE),
    Row("bare handler / itself: what the machine's noise makes", "livez", AGAIN, BARE),
    Row("window out of {long} messages / out of 100, latency", "lengths", "{long}", "100", None, 1.1),
    Row("full window of 128,000 tokens / bare LRANGE of its bytes, latency", "full", SASH, "LRANGE", None, 2.5, 2.0),
)
ENTERED = (("window", "a window", (75, 60), (24, 20)), ("append", "an append with its window", (130, 110), (34, 30)))


def entered() -> list[Figure]:
    """Return how many functions and modules of Sash a request enters."""
    figures, found = [], ways.measure()
    for way, name, functions, modules in ENTERED:
        for kind, count, (most, wanted) in (
            ("functions", len(found[way].functions), functions),
            ("modules", len(found[way].modules), modules),
        ):
            figures.append(Figure(f"{kind} that {name} enters", [count], None, most, wanted))
    return figures


_FILLED = {
    "window": ("short", MESSAGES, SIZE),
    "of_1_000": ("m1000", 1_000, SIZE),
    "of_10_000": ("m10000", 10_000, SIZE),
    "full": ("full", 1_400, 450),
}
"""Conversations that the calls need: name, number of messages, characters of each message."""


async def _fill(bench: Bench, calls: set[str]) -> None:
    for name, (identity, count, size) in _FILLED.items():
        for who in (SASH, AFTERNOON) if name in calls else ():
            await fill(bench.servers[who].port, identity, count, size)
    for length in bench.lengths if "lengths" in calls else ():
        await fill(bench.servers[SASH].port, f"l{length}", length, 60)
    if "full" in calls:
        window = msgspec.json.decode(answer_of(bench.servers[SASH].port, _FULL))
        async with redis.asyncio.Redis.from_url(bench.url) as store:
            await store.rpush("bench:full", *map(msgspec.json.encode, window["request"]["messages"]))  # type: ignore[misc]


def _sizes(port: int) -> dict[str, str]:
    """Return the variables that make the bare handler's answers as large as Sash's."""
    begin, turn = body_of(MESSAGES - 1, SIZE), body_of(1, SIZE)
    answer_of(port, "/conversations/sizes/messages", begin)
    appended = answer_of(port, f"/conversations/sizes/messages{_ALL}", turn)
    window = answer_of(port, f"/conversations/sizes/window{_ALL}")
    return {"TURN_BYTES": str(len(appended)), "WINDOW_BYTES": str(len(window))}


async def measure(bench: Bench, rounds: int, only: str) -> dict[str, list[Rates]]:
    """Return the rounds of each call whose name contains ``only``."""
    calls = [call for call in CALLS if only in call.__name__]
    await _fill(bench, {call.__name__ for call in calls})
    found: dict[str, list[Rates]] = {call.__name__: [] for call in calls}
    for turn in range(rounds + 1):
        for call in calls:
            rates = await call(bench, turn)
            if turn:  # the first warms up
                found[call.__name__].append(rates)
    return found


def figures_of(found: Mapping[str, list[Rates]], longest: int) -> list[Figure]:
    """Return the table's figures for the calls that were measured."""
    figures = []
    for row in (row for row in ROWS if row.call in found):
        over, under = row.over.format(long=longest), row.under
        values = [rates[over].value / rates[under].value for rates in found[row.call]]
        both = [statistics.median(rates[name].value for rates in found[row.call]) for name in (over, under)]
        worker = [statistics.mean(rates[name].worker_us for rates in found[row.call]) for name in (over, under)]
        note = _LATENCY.format(*(each * 1e3 for each in both)) if row.most else _RATE.format(*both, *worker)
        name = row.name.format(long=f"{longest:,}")
        figures.append(Figure(name, values, row.least, row.most, row.wanted, note))
    return figures


def run(rounds: int, only: str, *, quick: bool) -> tuple[list[Figure], dict[str, float], str]:
    """Return the table's figures, median milliseconds by the length of a conversation, and where and when it ran."""
    lengths = (100, 1_000, 10_000, 100_000, *(() if quick else (1_000_000,)))
    figures = [] if only and only not in "entered" else entered()
    with ExitStack() as stack:
        store = stack.enter_context(EmbeddedStore(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        with redis.Redis.from_url(store.url) as link:
            link.config_set("list-compress-depth", 0)  # for all: compression would slow reads of whole lists most
        sash = stack.enter_context(serving(store.url))
        afternoon = stack.enter_context(beside("afternoon", SASH_REDIS_URL=store.url))
        bare = stack.enter_context(beside("bare", **_sizes(sash.port)))
        servers = {SASH: sash, AFTERNOON: afternoon, **dict.fromkeys((BARE, BARE_POST, AGAIN), bare)}
        found = uvloop.run(measure(Bench(servers, store.url, lengths), rounds, only))
        with redis.Redis.from_url(store.url) as link:
            where = f"{machine(link.info('server'))}. {time.strftime('%Y-%m-%d')}, {rounds} rounds."  # type: ignore[arg-type]
    figures += figures_of(found, lengths[-1])
    rounds_of = found.get("lengths", [])
    points = {
        name: statistics.median(rates[name].value for rates in rounds_of) * 1e3
        for name in map(str, lengths)
        if rounds_of
    }
    return figures, points, where
