"""What each kind of window costs beside a plain one: ``python -m tests.bench kinds``.

The processor time of one worker for a request, over that of a plain window in the same round: 8,000 tokens out of 1,000
messages of 400 characters unless the row says so. Each round measures all kinds one after the other, every second round in
reverse order; a figure is the median of the rounds' ratios. Requests come one at a time.
The last row is over counting alone, with tiktoken, the messages that the window keeps.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import redis
import tiktoken
import uvloop

from sash.store.redis.embedded import EmbeddedStore
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request
from tests.bench.figures import Figure
from tests.bench.load import load, request
from tests.bench.peers import rank_cache
from tests.bench.rig import BATCH, Server, body_of, machine, messages_of, serving, text_of

ROUNDS = 13
_SECONDS = 0.2
"""Processor time of a kind in a round: the two requests of a row are compared while the machine is the same."""
_OWNERS = 300
"""Conversations of as many owners, more than a worker keeps the settings of."""
_LENGTHS = {"chat": 1_000, "hundred": 100, "long": 10_000, "longer": 12_000, "indexed": 1_000, "equipped": 1_000}
"""Messages of each conversation."""
_SHORT = "model=gpt-4o-mini&reserve=0&max_tokens=8000"
_LONG = "model=gpt-4o-mini&reserve=0&max_tokens=64000"
_NEWEST = "model=gpt-4o-mini&limit=90"
_CLAUDES_NEWEST = "model=claude-sonnet-4-5&format=anthropic&limit=90"
_WHOLE = "model=gpt-4.1&reserve=0&max_tokens=1000000"
_CLAUDE = "model=claude-sonnet-4-5&format=anthropic&reserve=0&max_tokens=8000"


Call = tuple[str, str, bytes]
"""Method, target and body of a request."""
SENT = json.dumps({"model": "gpt-4o-mini", "max_tokens": 8000, "messages": messages_of(1_000, 400)}).encode()


class Kind(NamedTuple):
    """A row: a kind's request over another's, and the bounds of their ratio."""

    name: str
    over: str
    under: str
    most: float
    wanted: float | None = None


REQUESTS = {
    "plain": f"/conversations/chat/window?{_SHORT}",
    "anthropic": f"/conversations/chat/window?{_CLAUDE}",
    "gemini": "/conversations/chat/window?model=gemini-2.5-flash&format=gemini&reserve=0&max_tokens=8000",
    "responses": f"/conversations/chat/window?{_SHORT}&format=responses",
    "tools": f"/conversations/agent/window?{_SHORT}",
    "stable": f"/conversations/chat/window?{_SHORT}&stable=true",
    "claude": f"/conversations/chat/window?{_CLAUDE}&stable=true&cache=auto",
    "claude, tools": f"/conversations/agent/window?{_CLAUDE}&stable=true&cache=auto",
    "results": f"/conversations/agent/window?{_SHORT}&tool_results_kept=1",
    "explain": f"/conversations/chat/window?{_SHORT}&explain=true",
    "dedupe": f"/conversations/chat/window?{_SHORT}&dedupe=messages",
    "recall": f"/conversations/indexed/window?{_SHORT}&recall_max_tokens=1000",
    "skip": f"/conversations/chat/window?{_SHORT}&overflow=skip",
    "skip, 100": f"/conversations/hundred/window?{_SHORT}&overflow=skip",
    "skip, 10,000": f"/conversations/long/window?{_SHORT}&overflow=skip",
    "plain, 10,000": f"/conversations/long/window?{_SHORT}",
    "stable, 10,000": f"/conversations/long/window?{_SHORT}&stable=true",
    "anthropic, 10,000": f"/conversations/long/window?{_CLAUDE}",
    "plain, 64,000": f"/conversations/long/window?{_LONG}",
    "tools, stable, 64,000": f"/conversations/agents/window?{_LONG}&stable=true",
    "90 messages": f"/conversations/chat/window?{_NEWEST}",
    "60 tools": f"/conversations/equipped/window?{_NEWEST}",
    "anthropic, 90 messages": f"/conversations/chat/window?{_CLAUDES_NEWEST}",
    "anthropic, 60 tools": f"/conversations/equipped/window?{_CLAUDES_NEWEST}",
    "plain, 1,000,000": f"/conversations/longer/window?{_WHOLE}",
    "stable, 1,000,000": f"/conversations/longer/window?{_WHOLE}&stable=true",
}
KINDS = (
    Kind("anthropic / plain", "anthropic", "plain", 2, 1.5),
    Kind("gemini / plain", "gemini", "plain", 2.5, 1.5),
    Kind("responses / plain", "responses", "plain", 1.8, 1.3),
    Kind("with tools / plain", "tools", "plain", 2.5, 1.5),
    Kind("stable / plain", "stable", "plain", 2, 1.3),
    Kind("anthropic, stable, cache=auto / plain", "claude", "plain", 5, 3),
    Kind("the same, of an agent / plain", "claude, tools", "plain", 5, 3),
    Kind("tools, tool_results_kept=1 / plain", "results", "plain", 4, 2.5),
    Kind("explain / plain", "explain", "plain", 2.5, 2),
    Kind("dedupe=messages / plain", "dedupe", "plain", 1.5, 1.2),
    Kind("recall / plain", "recall", "plain", 4, 3),
    Kind("overflow=skip, 10,000 messages / 100", "skip, 10,000", "skip, 100", 1.5, 1.1),
    Kind("plain, 10,000 messages / 1,000", "plain, 10,000", "plain", 1.2, 1.1),
    Kind("stable, 10,000 messages / 1,000", "stable, 10,000", "stable", 1.2, 1.1),
    Kind("anthropic, 10,000 messages / 1,000", "anthropic, 10,000", "anthropic", 1.2, 1.1),
    Kind("tools, stable, 64,000 tokens of 4,000 / plain of that size", "tools, stable, 64,000", "plain, 64,000", 4, 2),
    Kind("stable, 1,000,000 tokens of 12,000 / plain of that size", "stable, 1,000,000", "plain, 1,000,000", 4, 2),
    Kind("90 messages, 60 tool definitions / none", "60 tools", "90 messages", 1.3, 1.1),
    Kind("anthropic, the same", "anthropic, 60 tools", "anthropic, 90 messages", 1.5, 1.2),
    Kind("20 tool definitions, 300 conversations with owners / without", "owned", "unowned", 1.1, 1),
    Kind("append with tools / plain append", "append, tools", "append", 2, 1.5),
    Kind("`POST /window` of 1,000 messages / counting what it keeps", "sent", "counting", 3, 2),
)


def agent(turns: int, first: int = 0) -> list[dict[str, Any]]:
    """Return the messages of an agent: in each turn a question, a call, its result and an answer."""
    found: list[dict[str, Any]] = []
    for turn in range(first, first + turns):
        call = {"id": f"call-{turn}", "type": "function"}
        call |= {"function": {"name": "look", "arguments": json.dumps({"place": text_of(40, turn)})}}
        found += (
            {"role": "user", "content": text_of(200, turn)},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call-{turn}", "content": text_of(600, turn + 1)},
            {"role": "assistant", "content": text_of(200, turn + 2)},
        )
    return found


def definitions(count: int) -> list[dict[str, Any]]:
    """Return definitions of tools, of some 70 tokens each."""
    place = {"type": "string", "description": "The name of the place, as people there say it."}
    parameters = {"type": "object", "properties": {"place": place, "since": {"type": "integer"}}, "required": ["place"]}
    said = "Look up what the archive has about a place, the newest first."
    return [
        {"type": "function", "function": {"name": f"look_up_{each}", "description": said, "parameters": parameters}}
        for each in range(count)
    ]


def filling(identity: str, count: int) -> Iterator[Call]:
    """Yield the appends of ``count`` messages of 400 characters."""
    for first in range(0, count, BATCH):
        yield "POST", f"/conversations/{identity}/messages", body_of(min(BATCH, count - first), 400, first)


def filling_agent(identity: str, turns: int) -> Iterator[Call]:
    """Yield the appends of an agent's turns."""
    for first in range(0, turns, 25):
        entries = [{"message": message} for message in agent(min(25, turns - first), first)]
        yield "POST", f"/conversations/{identity}/messages", json.dumps({"messages": entries}).encode()


def conversations() -> Iterator[Call]:
    """Yield the requests that make all conversations of the kinds, 300 of an owner each and 300 of nobody among them."""
    yield "POST", "/conversations", b'{"id": "indexed", "recall": "lexical"}'
    yield "POST", "/conversations", json.dumps({"id": "equipped", "tools": definitions(60)}).encode()
    for identity, length in _LENGTHS.items():
        yield from filling(identity, length)
    yield from filling_agent("agent", 250)
    yield from filling_agent("agents", 1_000)
    tools = definitions(20)
    for each in range(_OWNERS):
        for made in ({"id": f"owned-{each}", "owner": f"person-{each}"}, {"id": f"unowned-{each}"}):
            yield "POST", "/conversations", json.dumps({**made, "tools": tools}).encode()
            yield from filling(made["id"], 16)


def calls() -> dict[str, list[Call]]:
    """Return the requests of each kind; those that append come as many as a round needs, all to one conversation."""
    found = {name: [("GET", path, b"")] for name, path in REQUESTS.items()}
    for kind in ("owned", "unowned"):
        found[kind] = [("GET", f"/conversations/{kind}-{each}/window?{_SHORT}", b"") for each in range(_OWNERS)]
    found["sent"] = [("POST", "/window", SENT)]
    found["append"] = [("POST", "/conversations/appended/messages", body_of(2, 400))]
    called = [{"messages": [{"message": each} for each in agent(1, turn)[1:3]]} for turn in range(2000)]
    found["append, tools"] = [("POST", "/conversations/called/messages", json.dumps(each).encode()) for each in called]
    return found


async def _cost(server: Server, requests: list[bytes], count: int) -> float:
    """Return the seconds of the worker's processor that a request takes."""
    before = server.cpu_seconds()
    run = await load(server.port, requests, count=count, connections=1)
    assert not run.errors, f"{run.errors} of {count} requests failed"
    return (server.cpu_seconds() - before) / count


def counting(folder: Path) -> Callable[[], object]:
    """Return a call that counts, with tiktoken and nothing else, the texts that the window of SENT keeps."""
    os.environ["TIKTOKEN_CACHE_DIR"] = str(rank_cache(folder))
    encode = tiktoken.get_encoding("o200k_base").encode_ordinary
    made, _ = window_of_request(decode_request(SENT)[0], {})
    texts = [message["content"] for message in json.loads(made.body)["request"]["messages"]]
    return lambda: list(map(encode, texts))


def _seconds(work: Callable[[], object], times: int = 200) -> float:
    """Return the seconds of this process's processor that ``work`` takes."""
    before = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - before) / times


async def measure(server: Server, rounds: int, only: str, count: Callable[[], object]) -> dict[str, list[float]]:
    """Return the rounds' seconds of each request that the rows with ``only`` in their name need."""
    port, wanted = server.port, {each for kind in KINDS if only in kind.name for each in (kind.over, kind.under)}
    made = [request(*each) for each in conversations()]
    assert not (await load(port, made, count=len(made), connections=1)).errors
    asked = {name: [request(*each) for each in some] for name, some in calls().items() if name in wanted}
    counts = {name: max(4, int(_SECONDS / max(1e-4, await _cost(server, asked[name], 20)))) for name in asked}
    found: dict[str, list[float]] = {name: [] for name in (*asked, "counting")}
    for turn in range(rounds):
        found["counting"].append(_seconds(count))
        for name in list(asked)[:: 1 if turn % 2 else -1]:
            found[name].append(await _cost(server, asked[name], counts[name]))
    return found


def run(rounds: int, only: str) -> tuple[list[Figure], str]:
    """Return the table's figures, and where and when they were measured."""
    with ExitStack() as stack:
        folder, ranks = (Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        store = stack.enter_context(EmbeddedStore(folder))
        server = stack.enter_context(serving(store.url))
        found = uvloop.run(measure(server, rounds, only, counting(ranks)))
        with redis.Redis.from_url(store.url) as link:
            where = f"{machine(link.info('server'))}. {time.strftime('%Y-%m-%d')}, {rounds} rounds."  # type: ignore[arg-type]
    figures = []
    for kind in (kind for kind in KINDS if only in kind.name):
        over, under = found[kind.over], found[kind.under]
        ratios = [one / other for one, other in zip(over, under, strict=True)]
        note = f"{sorted(over)[len(over) // 2] * 1e6:,.0f} and {sorted(under)[len(under) // 2] * 1e6:,.0f} µs"
        figures.append(Figure(kind.name, ratios, None, kind.most, kind.wanted, note))
    return figures, where
