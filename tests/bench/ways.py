"""Functions and modules that a request enters: ``python -m tests.bench.ways [window|append] [--tree]``.

Counts those of the package ``sash``, for a window of a three-message conversation and for an append with its window: in
one process, warm, as a worker of ``sash serve`` runs them, log line included. With ``--tree`` prints the calls, indented,
with microseconds.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self

import uvloop

from sash.api.middleware.asgi import App
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, worker
from tests.bench.rig import body_of

COUNTED = 9
TIMED = 200
_PACKAGE = "sash"
_DRIVERS = frozenset({"__main__", "tests", "uvloop"})
_WINDOW = "/conversations/{}/window?model=gpt-4o-mini"
_APPEND = "/conversations/{}/messages?model=gpt-4o-mini"


@dataclass(frozen=True)
class Way:
    """Functions that a request enters, as (module, qualified name, line)."""

    functions: frozenset[tuple[str, str, int]]

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(module for module, _, _ in self.functions)


@dataclass
class Step:
    """A function called from one place: its own seconds, how often it was entered, and the tracer's events there."""

    name: str = ""
    entered: int = 0
    own_seconds: float = 0.0
    calls_heard: int = 0
    builtins_heard: int = 0
    below: dict[Any, Self] = field(default_factory=dict)

    def own(self, cost: "Cost") -> float:
        """Return the seconds in the function and the non-Python code that it calls, without the tracer's overhead."""
        heard = self.calls_heard * cost.call_seconds / 2 + self.builtins_heard * cost.builtin_seconds
        return max(0.0, self.own_seconds - heard)

    def raw(self) -> float:
        """Return the seconds in this step and below, with the tracer's overhead."""
        return self.own_seconds + sum(step.raw() for step in self.below.values())

    def all(self, cost: "Cost") -> float:
        return self.own(cost) + sum(step.all(cost) for step in self.below.values())

    def lines(self, cost: "Cost", times: int, unit: float, depth: int = 0) -> Iterator[str]:
        """Yield a line for each step below, in order of first calls; ``unit`` is in seconds for each microsecond shown."""
        for step in self.below.values():
            if step.entered * 2 > times:  # a timer's occasional calls are not part of a request
                own, whole = step.own(cost) / unit, step.all(cost) / unit
                yield f"{whole:8.1f} {own:8.1f} {step.entered / times:8.1f}  {'  ' * depth}{step.name}"
                yield from step.lines(cost, times, unit, depth + 1)


class Cost(NamedTuple):
    """Seconds that the tracer itself adds for one call and its return."""

    call_seconds: float
    builtin_seconds: float


class Tracer:
    """A profile function. Nested frames of another package are one step; frames that only drive the request are no step."""

    def __init__(self) -> None:
        self.root = Step()
        self._stack = [self.root]
        self._since = time.perf_counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        now = time.perf_counter()
        above = self._stack[-1]
        above.own_seconds += now - self._since
        if event == "call":
            step = self._step(above, frame)
            step.entered += step is not above
            above.calls_heard += 1
            step.calls_heard += 1
            self._stack.append(step)
        elif event == "return":
            if len(self._stack) > 1:
                self._stack.pop()
        elif event == "c_call":
            above.builtins_heard += 1
        self._since = time.perf_counter()

    def _step(self, above: Step, frame: FrameType) -> Step:
        module, code = frame.f_globals.get("__name__", "?"), frame.f_code
        package = module.partition(".")[0]
        if package == _PACKAGE:
            return above.below.get(code) or above.below.setdefault(
                code, Step(f"{module.removeprefix('sash.')}:{code.co_qualname}")
            )
        name = f"({package})"
        if package in _DRIVERS or above.name == name:
            return above
        return above.below.get(name) or above.below.setdefault(name, Step(name))


def tracer_cost() -> Cost:
    """Return the tracer's cost, measured on functions that do nothing."""

    def nothing() -> None:
        pass

    def seconds(call: Callable[[], object]) -> float:
        started = time.perf_counter()
        for _ in range(50_000):
            call()
        return time.perf_counter() - started

    def more(call: Callable[[], object]) -> float:
        tracer, plain = Tracer(), seconds(call)
        sys.setprofile(tracer)
        seconds(call)
        sys.setprofile(None)
        return (tracer.root.raw() - plain) / 50_000

    return Cost(*(statistics.median(more(call) for _ in range(5)) for call in (nothing, (3).bit_count)))


async def entered(request: Callable[[], Awaitable[object]]) -> Way:
    """Return what each of several warm requests enters, which leaves out what a timer calls between them."""
    seen: Counter[tuple[str, str, int]] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and (module == _PACKAGE or module.startswith(f"{_PACKAGE}.")):
            code = frame.f_code
            found.add((module, code.co_qualname, code.co_firstlineno))

    for turn in range(2 * COUNTED):
        found: set[tuple[str, str, int]] = set()
        if turn >= COUNTED:
            sys.setprofile(profile)
        await request()
        sys.setprofile(None)
        seen.update(found)
    return Way(frozenset(each for each, times in seen.items() if times == COUNTED))


async def requests(app: App, name: str) -> Callable[[], Awaitable[object]]:
    """Return a call that requests a window of three messages, or that appends the third message with its window."""
    await ask(app, "POST", "/conversations/three/messages", body_of(3, 40))
    if name == "window":
        return lambda: ask(app, "GET", _WINDOW.format("three"))
    turn, numbers = body_of(1, 40), iter(range(3 * TIMED + 1))
    for number in range(3 * TIMED + 1):
        await ask(app, "POST", f"/conversations/{number}/messages", body_of(2, 40))
    return lambda: ask(app, "POST", _APPEND.format(next(numbers)), turn)


async def ways(url: str) -> dict[str, Way]:
    """Return what a window enters and what an append with its window enters."""
    async with worker(url) as app:
        return {name: await entered(await requests(app, name)) for name in ("window", "append")}


async def tree(url: str, name: str) -> list[str]:
    """Return the calls of a request, indented; microseconds are means, without the tracer's overhead.

    The event loop's time is spread over the functions: together they take the processor time of an untraced request.
    """
    cost = tracer_cost()
    async with worker(url) as app:
        request, tracer = await requests(app, name), Tracer()
        for _ in range(TIMED):
            await request()
        started = time.process_time()
        for _ in range(TIMED):
            await request()
        plain = (time.process_time() - started) / TIMED * 1e6
        sys.setprofile(tracer)
        for _ in range(TIMED):
            await request()
        sys.setprofile(None)
    unit = sum(step.all(cost) for step in tracer.root.below.values()) / plain
    return [
        f"{name}: {plain:.0f} us of processor time a request without the tracer, and as many in what follows",
        f"{'us':>8} {'own us':>8} {'entered':>8}  function",
        *tracer.root.lines(cost, TIMED, unit),
    ]


def measure() -> dict[str, Way]:
    """Return the same as ``ways``, on a store of its own."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder)) as store:
        return uvloop.run(ways(store.url))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ways", description=__doc__)
    parser.add_argument("name", nargs="?", choices=("window", "append"))
    parser.add_argument("--tree", action="store_true", help="print the calls with microseconds")
    parser.add_argument("--json", action="store_true", help="print the figures for a program")
    parser.add_argument("--list", action="store_true", help="print the functions, by module")
    options = parser.parse_args()
    names = [options.name] if options.name else ["window", "append"]
    if options.tree:
        for name in names:
            with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder)) as store:
                print("\n".join(uvloop.run(tree(store.url, name))))
        return
    found = {name: way for name, way in measure().items() if name in names}
    figures = {name: {"functions": len(way.functions), "modules": len(way.modules)} for name, way in found.items()}
    if options.json:
        print(json.dumps(figures))
        return
    for name, way in found.items():
        print(f"{name}: {len(way.functions)} functions in {len(way.modules)} modules")
        if options.list:
            for module in sorted(way.modules):
                print(f"  {module}: {', '.join(sorted(each for where, each, _ in way.functions if where == module))}")


if __name__ == "__main__":
    main()
