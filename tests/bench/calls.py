"""Calls of Sash's functions in each kind of window: ``python -m tests.bench.calls [--json]``.

They are those of the kinds' table, of 1,000 messages. A call counts wherever it is made, on the event loop or in the thread
of long work. Unlike time, the figures are the same on every machine, so a test keeps them.
"""

import argparse
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import uvloop

from sash.api.middleware.asgi import App
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, indexed, worker
from tests.bench.kinds import REQUESTS, SENT, filling, filling_agent

_AWAY = ("long", "agents", "longer", "hundred", "equipped")
"""Conversations of other lengths, whose windows do the same work."""
_WARM = 3
_TIMES = 9


class Calls:
    """A profile function that counts calls of functions of Sash."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").partition(".")[0] == "sash":
            self.count += 1


async def _fill(app: App) -> None:
    await ask(app, "POST", "/conversations", b'{"id": "indexed", "recall": "lexical"}')
    for each in (*filling("chat", 1_000), *filling("indexed", 1_000), *filling_agent("agent", 250)):
        await ask(app, *each)
    await indexed(app, "indexed")


async def measure(url: str) -> dict[str, int]:
    """Return the calls of each kind: the fewest of some requests, as a timer's work may come between."""
    calls = Calls()
    threading.setprofile(calls)
    async with worker(url) as app:
        await _fill(app)
        wanted = {name: path for name, path in REQUESTS.items() if path.split("/")[2] not in _AWAY}
        found: dict[str, int] = {}
        for name in (*wanted, "sent"):
            counts = []
            for turn in range(_WARM + _TIMES):
                calls.count = 0
                sys.setprofile(calls)
                if name == "sent":
                    await ask(app, "POST", "/window", SENT)
                else:
                    await ask(app, "GET", wanted[name])
                sys.setprofile(None)
                counts += [calls.count] if turn >= _WARM else []
            found[name] = min(counts)
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
