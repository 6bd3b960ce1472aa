"""What a view costs: ``python -m tests.bench.views [--rounds N]``.

Two conversations of five agents: ``rounds`` rounds of a question to all, and of each agent a call, its result, a note for
one other agent, and an answer. One has authors and audiences, and is read with ``view``; the other has the same messages
without them. Windows of 8,000 tokens are asked for in turn, in this process, so that the machine's drift affects all alike.
Prints the processor time of each and its ratio to the plain window's, and the round trips to the store.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis
import uvloop
from rich.console import Console
from rich.table import Table

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, worker
from tests.bench.rig import text_of

if TYPE_CHECKING:
    from sash.api.middleware.asgi import App

AGENTS = ("triage", "billing", "refunds", "fraud", "writer")
_BATCH = 84  # entries a request: four rounds
_TIMES = 30
_ROUNDS = 7
_WINDOW = "model=gpt-4o-mini&reserve=0&max_tokens=8000"
_TWICE = "model=gpt-4o-mini&reserve=0&max_tokens=16000"
KINDS = {
    "plain window": f"/conversations/plain/window?{_WINDOW}",
    "the same of entries with authors": f"/conversations/named/window?{_WINDOW}",
    "as many tokens as a view reads: of 16,000": f"/conversations/named/window?{_TWICE}",
    "view": f"/conversations/named/window?{_WINDOW}&view=billing",
    "view, against the window that reads as much": f"/conversations/named/window?{_WINDOW}&view=billing",
    "stable": f"/conversations/plain/window?{_WINDOW}&stable=true",
    "stable, view": f"/conversations/named/window?{_WINDOW}&stable=true&view=billing",
    "view of an agent that sees 1 of 50": f"/conversations/rare/window?{_WINDOW}&view=auditor",
}
AGAINST = {
    "stable, view": "stable",
    "view, against the window that reads as much": "as many tokens as a view reads: of 16,000",
}
"""The kinds that are not compared with the plain window."""


def dialogue(rounds: int) -> Iterator[dict[str, Any]]:
    """The entries of a conversation of five agents."""
    for number in range(rounds):
        yield {"message": {"role": "user", "content": text_of(200, number)}}
        for place, agent in enumerate(AGENTS):
            call = {"id": f"{agent}-{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            result = {"role": "tool", "tool_call_id": call["id"], "content": text_of(400, number + place)}
            note = {"role": "assistant", "content": text_of(120, number + place + 1)}
            said = {"role": "assistant", "content": text_of(200, number + place + 2)}
            yield {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "author": agent}
            yield {"message": result, "author": agent}
            yield {"message": note, "author": agent, "audience": [AGENTS[place - 1]]}
            yield {"message": said, "author": agent}


def rare(rounds: int) -> Iterator[dict[str, Any]]:
    """The same messages, of which one of fifty is for an auditor, and all others are for others."""
    for number, entry in enumerate(dialogue(rounds)):
        message = {"role": "user", "content": json.dumps(entry["message"])[:400]}
        yield {"message": message, "audience": ["auditor" if number % 50 == 0 else "team"]}


def unnamed(entries: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return ({"message": entry["message"]} for entry in entries)


async def _fill(app: "App", name: str, entries: Iterator[dict[str, Any]]) -> None:
    given = list(entries)
    for first in range(0, len(given), _BATCH):
        body = json.dumps({"messages": given[first : first + _BATCH]}).encode()
        await ask(app, "POST", f"/conversations/{name}/messages", body)


async def measure(url: str, rounds: int) -> tuple[dict[str, list[float]], dict[str, float], dict[str, int]]:
    """Processor time of a window in microseconds by kind and round, the round trips of one, and its messages."""
    times: dict[str, list[float]] = {name: [] for name in KINDS}
    trips: dict[str, float] = {}
    kept: dict[str, int] = {}
    async with worker(url) as app:
        await _fill(app, "plain", unnamed(dialogue(rounds)))
        await _fill(app, "named", dialogue(rounds))
        await _fill(app, "rare", rare(rounds))
        for turn in range(_ROUNDS + 1):
            for name, path in KINDS.items():
                started = time.process_time()
                for _ in range(_TIMES):
                    body = await ask(app, "GET", path)
                taken = (time.process_time() - started) / _TIMES * 1e6
                if turn:  # the first warms up
                    times[name].append(taken)
                kept[name] = json.loads(body)["kept"]["messages"]
        with redis.Redis.from_url(url) as store:
            for name, path in KINDS.items():
                before = _reads(store)
                for _ in range(_TIMES):
                    await ask(app, "GET", path)
                trips[name] = (_reads(store) - before) / _TIMES
    return times, trips, kept


def _reads(store: redis.Redis) -> int:
    found: dict[str, int] = store.info("stats")  # type: ignore[assignment]
    return found["total_reads_processed"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.views", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of 21 messages of each conversation")
    rounds: int = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder) / "data") as store:
        times, trips, kept = uvloop.run(measure(store.url, rounds))
    shown = Table("window of 8,000 tokens", "messages", "processor time, us", "/ without a view", "round trips")
    for name, found in times.items():
        against = times[AGAINST.get(name, "plain window")]
        ratio = statistics.median(one / other for one, other in zip(found, against, strict=True))
        shown.add_row(name, str(kept[name]), f"{statistics.median(found):,.0f}", f"{ratio:.2f}", f"{trips[name]:.2f}")
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
