"""What a plain window waits beside heavy clients: ``python -m tests.bench.heavy [FOLDER…]``.

One connection asks for a plain window of 32 messages, again and again, while sixteen others send what takes a worker's
processor for milliseconds. All share one worker. Several folders of versions are measured in turn.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.kinds import fill_agent
from tests.bench.load import Load, load, request
from tests.bench.rig import ROOT, body_of, fill, markdown, messages_of, serving

HEAVY = 16
PROBES = 300
_AT_ONCE = 4 * HEAVY
_CLAUDE = "model=claude-sonnet-4-5&format=anthropic&stable=true&cache=auto&max_tokens=8000"
_AGENT = "model=gpt-4o-mini&reserve=0&max_tokens=8000"
_PLAIN = request("GET", "/conversations/short/window?model=gpt-4o-mini")


def kinds() -> dict[str, list[bytes]]:
    """Return the requests of each kind of heavy client."""
    history = json.dumps({"model": "gpt-4o-mini", "messages": messages_of(1_000, 400)}).encode()
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
    }


async def beside(port: int, heavy: list[bytes]) -> Load:
    """Return the latencies of plain windows beside clients that send ``heavy``."""
    ended = asyncio.Event()

    async def press() -> None:
        while heavy and not ended.is_set():
            await load(port, heavy, count=_AT_ONCE, connections=HEAVY)

    pressing = asyncio.create_task(press())
    await asyncio.sleep(0.5)
    try:
        return await load(port, [_PLAIN], count=PROBES, connections=1)
    finally:
        ended.set()
        await pressing


async def measure(ports: Sequence[int]) -> dict[str, list[Load]]:
    """Return the latencies beside each kind of heavy client, for each server."""
    for port in ports:
        await fill(port, "short", 32, 400)
        await fill_agent(port, "agent", 250)
    return {name: [await beside(port, heavy) for port in ports] for name, heavy in kinds().items()}


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
        found = uvloop.run(measure(ports))
    rows = []
    for name, loads in found.items():
        cells = [f"{each.latency(0.5) * 1e3:.1f} / {each.latency(0.99) * 1e3:.0f}" for each in loads]
        rows.append((name, *cells))
    print(markdown(("beside 16 connections of", *(f"p50 / p99, ms: {tree}" for tree in options.trees)), rows))


main()
