"""What a plain window waits beside heavy clients: ``python -m tests.bench.heavy [FOLDER…]``.

One connection asks for a plain window of 32 messages, again and again, while sixteen others send what takes a worker's
processor for milliseconds. All share one worker. Several folders of versions are measured in turn.
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.kinds import filling_agent
from tests.bench.load import Load, load, request
from tests.bench.rig import ROOT, body_of, fill, markdown, messages_of, serving

HEAVY = 16
MIXED = "four each of `/count` of 4 MB, lists of 1,000, windows with recall and exports of 4,000"
PROBES = 300
_AT_ONCE = 4 * HEAVY
_CLAUDE = "model=claude-sonnet-4-5&format=anthropic&stable=true&cache=auto&max_tokens=8000"
_AGENT = "model=gpt-4o-mini&reserve=0&max_tokens=8000"
_PLAIN = request("GET", "/conversations/short/window?model=gpt-4o-mini")
_QWEN = request("GET", "/conversations/short/window?model=qwen3.5-plus")
_LIVE = request("GET", "/livez")


def kinds() -> dict[str, list[bytes]]:
    """Return the requests of each kind of heavy client."""
    history = json.dumps({"model": "gpt-4o-mini", "messages": messages_of(1_000, 400)}).encode()
    big = json.dumps({"model": "gpt-4o-mini", "messages": messages_of(8_500, 400)}).encode()
    appends = [request("POST", f"/conversations/h{place}/messages", body_of(100, 400)) for place in range(HEAVY)]
    return {
        "nobody": [],
        "windows of an agent": [request("GET", f"/conversations/agent/window?{_AGENT}")],
        "the same with tool_results_kept=1": [
            request("GET", f"/conversations/agent/window?{_AGENT}&tool_results_kept=1")
        ],
        "Claude's windows of an agent, stable, with hints": [request("GET", f"/conversations/agent/window?{_CLAUDE}")],
        "appends of 100 messages": appends,
        "`POST /window` of 1,000 messages": [request("POST", "/window", history)],
        "lists of 1,000 messages": [request("GET", "/conversations/long/messages?limit=1000")],
        "exports of 4,000 messages": [request("GET", "/conversations/long/export")],
        MIXED: [
            request("POST", "/count", big),
            request("GET", "/conversations/long/messages?limit=1000"),
            request("GET", "/conversations/long/window?model=gpt-4o-mini&recall_max_tokens=2000"),
            request("GET", "/conversations/long/export"),
        ],
    }


def press(port: int, heavy: list[bytes]) -> None:
    """Send ``heavy`` requests until the process is ended: one of its own, so that the probe waits for the server alone."""
    while True:
        uvloop.run(load(port, heavy, count=_AT_ONCE, connections=HEAVY))


async def beside(port: int, heavy: list[bytes]) -> Load:
    """Return the latencies of plain windows beside clients that send ``heavy``."""
    pressing = multiprocessing.get_context("spawn").Process(target=press, args=(port, heavy), daemon=True)
    if heavy:
        pressing.start()
        await asyncio.sleep(2)
    try:
        return await load(port, [_PLAIN], count=PROBES, connections=1)
    finally:
        if heavy:
            pressing.kill()
            pressing.join()


async def while_loaded(port: int) -> float:
    """Return the longest seconds of a ``GET /livez`` while the first window for a model waits for its vocabulary."""
    first = asyncio.create_task(load(port, [_QWEN], count=1, connections=1))
    longest = 0.0
    while not first.done():
        longest = max(longest, *(await load(port, [_LIVE], count=2, connections=1)).latencies)
    assert not first.result().errors
    return longest


async def measure(ports: Sequence[int]) -> tuple[list[float], dict[str, list[Load]]]:
    """Return what ``while_loaded`` finds, and the latencies beside each kind of heavy client, for each server."""
    for port in ports:
        await fill(port, "short", 32, 400)
        settings = json.dumps({"id": "long", "recall": "lexical"}).encode()
        made = [request(*each) for each in (*filling_agent("agent", 250), ("POST", "/conversations", settings))]
        await load(port, made, count=len(made), connections=1)
        await fill(port, "long", 4_000, 400)
    loading = [await while_loaded(port) for port in ports]
    return loading, {name: [await beside(port, heavy) for port in ports] for name, heavy in kinds().items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.heavy", description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, default=[ROOT], metavar="FOLDER")
    options = parser.parse_args()
    with ExitStack() as stack:
        ports = []
        for tree in options.trees:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            store = stack.enter_context(EmbeddedStore(folder))
            ports.append(stack.enter_context(serving(store.url, tree=tree.resolve())).port)
        loading, found = uvloop.run(measure(ports))
    rows = []
    for name, loads in found.items():
        cells = [f"{each.latency(0.5) * 1e3:.1f} / {each.latency(0.99) * 1e3:.0f}" for each in loads]
        rows.append((name, *cells))
    print(markdown(("beside 16 connections of", *(f"p50 / p99, ms: {tree}" for tree in options.trees)), rows))
    longest = ", ".join(f"{each * 1e3:.0f}" for each in loading)
    print(f"\nThe longest GET /livez while Qwen's vocabulary is loaded for its first window: {longest} ms")


if __name__ == "__main__":
    main()
