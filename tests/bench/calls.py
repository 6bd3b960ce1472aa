"""Calls of Sash's functions in each kind of window: ``python -m tests.bench.calls [--json]``.

They are those of the kinds' table, of 1,000 messages. A call counts that is made for the request, on the event loop or in
the thread of long work; what a timer or a connection calls meanwhile does not. So, unlike time, the figures are the same on
every machine, busy or not, and a test keeps them.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import uvloop

from sash.api.middleware import layer
from sash.api.middleware.asgi import App
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, indexed, worker
from tests.bench.kinds import REQUESTS, SENT, filling, filling_agent

_AWAY = ("long", "agents", "longer", "hundred", "equipped")
"""Conversations of other lengths, whose windows do the same work."""
_WARM = 3
_TIMES = 9
_TICKS = 4
"""Ticks of the event loop in which a window's turn comes to its end after the answer (``sash.processor.Turns``)."""
_NEVER_SECONDS = 3600.0
"""Until requests past their deadline are looked for: a request does it itself where the timer has ended."""


class Calls:
    """The calls that are made for one request."""

    def __init__(self) -> None:
        self.count = 0


_ASKED: ContextVar[Calls | None] = ContextVar("asked", default=None)
"""The request that runs. Tasks, callbacks and jobs have the context of what began them."""


def _count(frame: FrameType, event: str, _: object) -> None:
    """Count a call of one of Sash's functions; this is a profile function."""
    if event == "call" and (asked := _ASKED.get()) and frame.f_globals.get("__name__", "").startswith("sash."):
        asked.count += 1


async def _fill(app: App) -> None:
    await ask(app, "POST", "/conversations", b'{"id": "indexed", "recall": "lexical"}')
    for each in (*filling("chat", 1_000), *filling("indexed", 1_000), *filling_agent("agent", 250)):
        await ask(app, *each)
    await indexed(app, "indexed")


async def _calls_of(app: App, name: str) -> int:
    """Return the calls of one request. It is to run in a task, and so in a context, of its own."""
    calls = Calls()
    _ASKED.set(calls)
    sys.setprofile(_count)
    if name == "sent":
        await ask(app, "POST", "/window", SENT)
    else:
        await ask(app, "GET", REQUESTS[name])
    for _ in range(_TICKS):
        await asyncio.sleep(0)
    sys.setprofile(None)
    return calls.count


async def measure(url: str) -> dict[str, int]:
    """Return the calls of each kind, as most of some requests make them: now and then one's bytes leave with another's."""
    threading.setprofile(_count)
    with patch.object(layer, "_LOOK_SECONDS", _NEVER_SECONDS):
        return await _measure(url)


async def _measure(url: str) -> dict[str, int]:
    async with worker(url) as app:
        await _fill(app)
        wanted = [name for name, path in REQUESTS.items() if path.split("/")[2] not in _AWAY]
        found: dict[str, int] = {}
        for name in (*wanted, "sent"):
            counts = [await asyncio.create_task(_calls_of(app, name)) for _ in range(_WARM + _TIMES)]
            found[name] = statistics.mode(counts[_WARM:])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.calls", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures for a program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder)) as store:
        found = uvloop.run(measure(store.url))
    print(json.dumps(found) if options.json else "\n".join(f"{count:8,}  {name}" for name, count in found.items()))


if __name__ == "__main__":
    main()
