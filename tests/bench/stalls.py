"""How long one request keeps the event loop from all others: ``python -m tests.bench.stalls``.

A conversation of 10,000 messages in 70 languages, 200 characters each, in this process, as a worker of ``sash serve`` runs
it. A task sleeps for a millisecond at a time while a request runs; what it waits longer is a stall. A model's first window
also counts all messages in the model's vocabulary, in the background: its stalls count too. Each round asks a new
fork of the conversation, so each is a first window. Vocabularies are loaded before: the first use of one stalls a worker
for up to a second. To count calls, half the messages are enough. In another
conversation a window cuts the results of 45 tools.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Self

import msgspec
import uvloop

from sash.api.middleware.asgi import App
from sash.core.counts.text.vocabularies import INSTALLED
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.figures import Figure, into_readme, table
from tests.bench.inprocess import ask, worker

MESSAGES, CHARACTERS = 10_000, 200
MOST_MS = 20
ROUNDS = 5
_BATCH = 100
_PARAMETERS = (
    "model=gpt-4.1",
    "model=gpt-4.1&stable=true&dedupe=messages",
    "model=claude-sonnet-4-5&format=anthropic&overflow=skip",
)
_RESULTS = 45
_CUT = "model=gpt-4.1&tool_result_max_tokens=50"
VOCABULARIES = ("qwen3.5-plus", "deepseek-v4-pro", "mistral-large-2512")


class Stalls:
    """Records in ``found`` how long the event loop was blocked each time, in milliseconds, while this is entered.

    With ``calls`` these are the functions that the event loop's thread entered meanwhile, which no other process changes.
    """

    def __init__(self, *, calls: bool = False) -> None:
        self.found: list[float] = []
        self._calls = calls
        self._entered = 0

    async def __aenter__(self) -> Self:
        if self._calls:
            sys.setprofile(self._enter)
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            started, entered = time.perf_counter(), self._entered
            await asyncio.sleep(0.001)
            late = 1000 * (time.perf_counter() - started - 0.001)
            self.found.append(self._entered - entered if self._calls else late)

    def _enter(self, _: FrameType, event: str, __: object) -> None:
        if event in ("call", "c_call"):
            self._entered += 1


def messages(count: int) -> list[dict[str, str]]:
    """Return the conversation's messages: stretches of the languages' paragraphs."""
    texts = tomllib.loads((Path(__file__).parents[1] / "truth" / "languages.toml").read_text("utf-8")).values()
    said = " ".join(texts)
    cuts = (place * CHARACTERS % (len(said) - CHARACTERS) for place in range(count))
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": said[cut : cut + CHARACTERS]} for place, cut in enumerate(cuts)]


def results(count: int) -> list[dict[str, object]]:
    """Return a question, and calls that each have a result of some thousand words."""
    made: list[dict[str, object]] = [{"role": "user", "content": "Look everywhere."}]
    for place in range(count):
        call = {"id": f"call-{place}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        made.append({"role": "assistant", "content": None, "tool_calls": [call]})
        made.append({"role": "tool", "tool_call_id": f"call-{place}", "content": f"{place} was found here. " * 500})
    return made


class Measured(NamedTuple):
    """The application under measurement, the rounds of each request, and whether calls are counted instead."""

    app: App
    rounds: int
    calls: bool

    async def all(self) -> list[Figure]:
        """Return the longest stall of each request, a value for each round."""
        history = messages(MESSAGES // 2 if self.calls else MESSAGES)
        for first in range(0, len(history), _BATCH):
            body = msgspec.json.encode({"messages": history[first : first + _BATCH]})
            await ask(self.app, "POST", "/conversations/whole/messages", body)
        found = {f"`GET …/window?{name}`": await self._windows("whole", name) for name in _PARAMETERS}
        await ask(
            self.app, "POST", "/conversations/looks/messages", msgspec.json.encode({"messages": results(_RESULTS)})
        )
        found[f"`GET …/window?{_CUT}`, {_RESULTS} results"] = await self._windows("looks", _CUT)
        for name in VOCABULARIES:
            found[f"`GET …/window?model={name}`, the first"] = await self._first(name)
        for path in ("/window", "/count"):
            found[f"`POST {path}`, {VOCABULARIES[0]}"] = await self._posted(path, history)
        return [Figure(name, values, most=MOST_MS) for name, values in found.items()]

    async def _windows(self, conversation: str, parameters: str) -> list[float]:
        path = f"/conversations/{conversation}/window?{parameters}"
        return [await self._stalled("GET", path) for _ in range(self.rounds)]

    async def _first(self, model: str) -> list[float]:
        found = []
        for _ in range(self.rounds):
            await ask(self.app, "POST", "/conversations/whole/fork", b'{"id":"copy"}')
            found.append(await self._stalled("GET", f"/conversations/copy/window?model={model}"))
            await ask(self.app, "DELETE", "/conversations/copy")
        return found

    async def _posted(self, path: str, history: list[dict[str, str]]) -> list[float]:
        body = msgspec.json.encode({"model": VOCABULARIES[0], "messages": history})
        return [await self._stalled("POST", path, body) for _ in range(self.rounds)]

    async def _stalled(self, method: str, path: str, body: bytes = b"") -> float:
        """Return the longest stall during one request."""
        async with Stalls(calls=self.calls) as stalls:
            await ask(self.app, method, path, body)
        return max(stalls.found)


async def measure(rounds: int, *, calls: bool) -> list[Figure]:
    """Measure on a store and an application of their own."""
    for vocabulary in INSTALLED.values():
        vocabulary.count("")
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder)) as store:
        async with worker(store.url) as app:
            return await Measured(app, rounds, calls).all()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stalls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--calls", action="store_true", help="count the functions entered instead of milliseconds")
    parser.add_argument("--json", action="store_true", help="print the values of all rounds instead of the table")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md beside this file")
    options = parser.parse_args()
    found = uvloop.run(measure(options.rounds, calls=options.calls))
    if options.json:
        sys.stdout.write(json.dumps({figure.name: figure.values for figure in found}) + "\n")
        return
    text = table(found)
    sys.stdout.write(text + "\n")
    if options.readme:
        into_readme("stalls", text)


if __name__ == "__main__":
    main()
