"""Where a request's processor time goes, by stage: ``python -m tests.bench.stages [--top N]``.

In one process, warm, sixteen requests at once, as a worker of ``sash serve`` runs them. The kernel's timer of processor time
interrupts at intervals; each tick counts for the stage of the innermost function that ``STAGES`` names. No function is
wrapped, so nothing slows down. Prints microseconds a request as a table; ``--top`` adds the functions that take most, and
``--version`` measures another version of Sash with these tests.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import cycle, repeat
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Self

import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench import bare
from tests.bench.inprocess import ask, running, worker
from tests.bench.load import load, request
from tests.bench.rig import beside, body_of, markdown
from tests.bench.versions import beside_tests, checked_out

if TYPE_CHECKING:  # earlier versions have no such module
    from sash.api.middleware.asgi import App

AT_ONCE = 16
REQUESTS = 32_000
MESSAGES, SIZE = 32, 400
_TICK_SECONDS = 0.001  # the kernel rounds it up to its own tick
_TURNS = 8
_LOOP = "server: the loop's tasks and callbacks"
_ROUTING = "routing, query and answer"
_EDGE = "key and deadline"
_ASK = "ask and parse"
_CHECK = "check and count what is appended"
_LAW = "law"
_SPLICE = "splice"
_SAID = "log and figures"
STAGES = {
    "tests.bench": _LOOP,
    "litestar": _ROUTING,
    "sash.api": _ROUTING,
    "sash.api.middleware.layer": _EDGE,
    "sash.api.middleware.request_body": _EDGE,
    "sash.api.middleware.callers": _EDGE,
    "sash.api.middleware.large": _EDGE,
    "sash.api.middleware.idempotency": _EDGE,
    "sash.api.edge": _EDGE,  # these five are of earlier versions
    "sash.api.middleware.drain": _EDGE,
    "sash.api.budgets": _EDGE,
    "sash.api.observed": _SAID,
    "sash.api.answer": _SPLICE,
    "sash.store.data.limits": _EDGE,
    "sash.store.data.entries:new_id": _EDGE,
    "sash.store": _ASK,
    "redis": _ASK,
    "sash.api.append_handlers:_prepared": _CHECK,
    "sash.store.data.entries": _CHECK,
    "sash.core": _LAW,
    "sash.core.chat.messages": _CHECK,
    "sash.core.counts.text": _CHECK,
    "sash.core.counts.costs.counting": _CHECK,
    "sash.windows": _LAW,
    "sash.windows.answer": _SPLICE,
    "sash.windows.flow:_made": _SPLICE,
    "sash.windows.edits": _SPLICE,
    "sash.windows.marked": _SPLICE,
    "sash.core.law.render": _SPLICE,
    "sash.operations": _SAID,
    "sash.api.middleware.layer:Middleware._end": _SAID,
    "structlog": _SAID,
}
"""Stage by package, module or function (``module:name``); the longest prefix of a function's name decides."""


@cache
def _stage(module: str, name: str) -> str | None:
    place = f"{module}:{name}"
    found = [known for known in STAGES if place == known or place.startswith((f"{known}.", f"{known}:"))]
    return STAGES[max(found, key=len)] if found else None


class Sampler:
    """Counts ticks of processor time by stage and by function."""

    def __init__(self) -> None:
        self.stages: Counter[str] = Counter()
        self.functions: Counter[tuple[str, CodeType]] = Counter()

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._tick)
        signal.setitimer(signal.ITIMER_PROF, _TICK_SECONDS, _TICK_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)

    def _tick(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            stage = _stage(module, frame.f_code.co_qualname)
            if stage is not None:
                self.stages[stage] += 1
                self.functions[module, frame.f_code] += 1
                return
            frame = frame.f_back
        self.stages[_LOOP] += 1


class Spent:
    """Microseconds of processor time for one request, and the sampler's ticks by stage and function."""

    def __init__(self, seconds: float, requests: int, sampler: Sampler) -> None:
        self.each_us = seconds / requests * 1e6
        self.sampler = sampler
        self._unit = self.each_us / max(1, sampler.stages.total())

    def stage_us(self, name: str) -> float:
        return self.sampler.stages[name] * self._unit

    def top(self, count: int) -> list[tuple[str, str, str]]:
        found = self.sampler.functions.most_common(count)
        return [
            (f"{module}:{code.co_qualname}", _stage(module, code.co_qualname) or "", f"{ticks * self._unit:.1f}")
            for (module, code), ticks in found
        ]


async def spent(targets: Iterable[tuple["App", str, str, bytes]], count: int) -> Spent:
    """Send ``count`` requests, sixteen at once, after a tenth as many to warm up; return their processor time."""
    asked, sampler = iter(targets), Sampler()

    async def some(number: int) -> None:
        for _ in range(number):
            await ask(*next(asked))

    async def all_of(number: int) -> None:
        await asyncio.gather(*(some(number // AT_ONCE) for _ in range(AT_ONCE)))

    await all_of(count // 10)
    started = time.process_time()
    with sampler:
        await all_of(count)
    return Spent(time.process_time() - started, count // AT_ONCE * AT_ONCE, sampler)


async def turns(app: "App", count: int) -> Iterator[tuple["App", str, str, bytes]]:
    """Return appends with their windows, eight to each conversation, so that a window has 32 messages on average."""
    names = [f"t{number}" for number in range(count // _TURNS + AT_ONCE)]
    begin, turn = body_of(MESSAGES - _TURNS // 2, SIZE), body_of(1, SIZE)
    for name in names:
        await ask(app, "POST", f"/conversations/{name}/messages", begin)
    return (
        (app, "POST", f"/conversations/{name}/messages?model=gpt-4o-mini", turn)
        for first in range(0, len(names), AT_ONCE)
        for _ in range(_TURNS)
        for name in names[first : first + AT_ONCE]
    )


async def measure(url: str, count: int) -> dict[str, Spent]:
    """Return the processor time of each kind of request."""
    found = {}
    async with worker(url) as app:
        for place in range(AT_ONCE):
            await ask(app, "POST", f"/conversations/w{place}/messages", body_of(MESSAGES, SIZE, place))
        windows = [(app, "GET", f"/conversations/w{place}/window?model=gpt-4o-mini", b"") for place in range(AT_ONCE)]
        found["window of 32"] = await spent(cycle(windows), count)
        found["append with window"] = await spent(await turns(app, count), count // 2)
        found["`GET /livez`"] = await spent(repeat((app, "GET", "/livez", b"")), count)
    async with running(bare.application()) as floor:
        found["bare handler"] = await spent(repeat((floor, "GET", "/window", b"")), count)
    return found


async def server_us() -> float:
    """Return a worker's microseconds of processor time for a bare handler's answer over HTTP."""
    with beside("bare") as server:
        asked = [request("GET", "/window")]
        await load(server.port, asked, count=2_000, connections=AT_ONCE)
        before = server.cpu_seconds()
        await load(server.port, asked, count=10_000, connections=AT_ONCE)
        return (server.cpu_seconds() - before) / 10_000 * 1e6


def table(found: dict[str, Spent]) -> str:
    stages = list(dict.fromkeys(STAGES.values()))
    rows = [(stage, *(f"{each.stage_us(stage):.0f}" for each in found.values())) for stage in stages]
    whole = ("**together**", *(f"**{each.each_us:.0f}**" for each in found.values()))
    return markdown(("processor time, µs", *found), [*rows, whole])


def run(count: int, top: int = 0) -> str:
    """Return the table and the note below it."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder)) as store:
        found = uvloop.run(measure(store.url, count))
    over_http = uvloop.run(server_us())
    said = f"Granian, the HTTP server, is not part of these. With it a worker takes {over_http:.0f} µs for the bare handler."
    tops = [markdown((name, "stage", "own µs"), each.top(top), 2) for name, each in found.items() if top]
    return "\n\n".join([table(found), said, *tops])


def run_version(version: str, count: int, top: int) -> None:
    """Print what ``run`` returns for another version: its files of the service beside these tests."""
    with tempfile.TemporaryDirectory() as folder, checked_out(version, Path(folder)) as tree:
        both = Path(folder) / "both"
        environ = beside_tests(tree, both)
        command = (sys.executable, "-m", "tests.bench.stages", "--requests", str(count), "--top", str(top))
        subprocess.run(command, cwd=both, env=environ, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stages", description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS, help="windows; half as many appends")
    parser.add_argument("--top", type=int, default=0, help="functions that take most, so many of each kind")
    parser.add_argument("--version", metavar="COMMIT|FOLDER", help="a version to measure in place of these files")
    options = parser.parse_args()
    if options.version:
        run_version(options.version, options.requests, options.top)
        return
    print(run(options.requests, options.top))


if __name__ == "__main__":
    main()
