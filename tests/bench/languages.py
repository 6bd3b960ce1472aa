"""The afternoon's service in other languages beside Sash: what a user would gain by leaving Python.

Node's packages are installed the first time. Go's service has no tokeniser, so it has windows only. A language whose tools
are missing is left out. Each service has one worker; each round measures all, every second round in reverse order.
"""

import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.load import load, request
from tests.bench.peers import HERE, PEERS_HOME
from tests.bench.rig import Server, beside, body_of, fill, machine, markdown, serving

SASH, PYTHON, NODE, GO = "Sash", "the afternoon's, in Python", "in Node", "in Go"
SIZE = 400
ROUNDS = 5
CONVERSATIONS, CONNECTIONS = 256, 32
NODE_HOME = PEERS_HOME / "node"
_PACKAGES = ("redis@6.3.1", "gpt-tokenizer@4.0.0")
_ALL = "?model=gpt-4o-mini&max_tokens=126976"
_WINDOWS = {
    "window of 32": (request("GET", f"/conversations/short/window{_ALL}"), 2_000),
    "of 8,000 tokens out of 1,000 messages": (
        request("GET", "/conversations/m1000/window?model=gpt-4o-mini&reserve=0&max_tokens=8000"),
        400,
    ),
}


@contextmanager
def services(url: str) -> Iterator[dict[str, Server]]:
    """Run all services whose language is installed, on the store at ``url``."""
    with ExitStack() as stack:
        found = {SASH: stack.enter_context(serving(url))}
        found[PYTHON] = stack.enter_context(beside("afternoon", SASH_REDIS_URL=url))
        if (node := shutil.which("node")) and (npm := shutil.which("npm")):
            if not NODE_HOME.exists():
                subprocess.run([npm, "install", "--silent", "--prefix", NODE_HOME, *_PACKAGES], check=True)
            path = str(NODE_HOME / "node_modules")
            script = str(HERE / "afternoon.cjs")
            found[NODE] = stack.enter_context(beside(node, script, SASH_REDIS_URL=url, NODE_PATH=path))
        if go := shutil.which("go"):
            program = f"{stack.enter_context(tempfile.TemporaryDirectory())}/afternoon"
            subprocess.run([go, "build", "-o", program, HERE / "afternoon.go"], check=True)
            command = ("env", "GOMAXPROCS=1", program)
            found[GO] = stack.enter_context(beside(*command, SASH_REDIS_URL=url))
        yield found


async def _cost(server: Server, requests: list[bytes], count: int) -> float:
    """Return the microseconds of the worker's processor that a request takes."""
    before = server.cpu_seconds()
    run = await load(server.port, requests, count=count, connections=CONNECTIONS)
    assert not run.errors, f"{run.errors} of {count} requests failed"
    return (server.cpu_seconds() - before) / count * 1e6


async def measure(servers: dict[str, Server], rounds: int) -> dict[tuple[str, str], list[float]]:
    """Return the rounds' microseconds of each service and call; the first round warms up and is left out."""
    for name, server in servers.items():
        for identity, count in (("short", 32), ("m1000", 1_000)) if name != GO else ():
            await fill(server.port, identity, count, SIZE)
    found: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):
        for name in list(servers)[:: 1 if turn % 2 else -1]:
            calls = {call: ([asked], count) for call, (asked, count) in _WINDOWS.items()}
            if name != GO:
                calls |= await _appends(servers[name], turn)
            for call, (requests, count) in calls.items():
                cost = await _cost(servers[name], requests, count)
                if turn:
                    found.setdefault((name, call), []).append(cost)
    return found


async def _appends(server: Server, turn: int) -> dict[str, tuple[list[bytes], int]]:
    """Return the calls that append a message to conversations of 28, which are made first."""
    names, body = [f"turn{turn}-{place}" for place in range(CONVERSATIONS)], body_of(1, SIZE)
    begins = [request("POST", f"/conversations/{name}/messages", body_of(28, SIZE)) for name in names]
    await load(server.port, begins, count=CONVERSATIONS, connections=4)
    alone = [request("POST", f"/conversations/a{place}/messages", body) for place in range(CONVERSATIONS)]
    both = [request("POST", f"/conversations/{name}/messages{_ALL}", body) for name in names]
    return {"append": (alone, 2_000), "append with its window": (both, CONVERSATIONS * 8)}


def run(rounds: int) -> str:
    """Return the table: microseconds of a worker for a request."""
    with ExitStack() as stack:
        store = stack.enter_context(EmbeddedStore(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
        servers = stack.enter_context(services(store.url))
        found = uvloop.run(measure(servers, rounds))
        with redis.Redis.from_url(store.url) as link:
            where = f"{machine(link.info('server'))}. {time.strftime('%Y-%m-%d')}, {rounds} rounds."  # type: ignore[arg-type]
    calls = list(dict.fromkeys(call for _, call in found))
    rows = [
        (name, *(f"{statistics.median(found[name, call]):,.0f}" if (name, call) in found else "" for call in calls))
        for name in servers
    ]
    return f"{markdown(('processor time, µs', *calls), rows)}\n\n{where}"
