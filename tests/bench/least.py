"""Whether a request takes more processor time than before: ``python -m tests.bench.least [COMMIT|FOLDER]``.

The version before is by default the newest commit that is a day older than HEAD. Each version runs in a process of its own,
without the HTTP server, and they take turns of a few requests. A figure is nearly the least time of some thousand single
requests. Beside a load of thirty it differed by 2 % between two processes of one version, and by 4 % at most, where medians
differ by a tenth; requests of several milliseconds are hardly ever left alone for so long, and are not here. It takes half a
minute. Fails if a request takes more than a tenth more, and prints the stages of both versions then.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, worker
from tests.bench.rig import ROOT, body_of, markdown
from tests.bench.stages import run_version
from tests.bench.versions import beside_tests, checked_out

MOST = 1.1
SECONDS = 15
_DAY_SECONDS = 86_400
_WARM, _AT_ONCE = 40, 8
_QUANTILE = 0.005
_WINDOW = "/conversations/{}/window?model=gpt-4o-mini"
CALLS = {
    "window of 32 messages": ("GET", _WINDOW.format("short-{}"), b""),
    "append with its window": ("POST", "/conversations/turns-{}/messages?model=gpt-4o-mini&limit=32", body_of(1, 400)),
    "window of 8,000 tokens out of 1,000 messages": ("GET", f"{_WINDOW.format('long-{}')}&max_tokens=8000", b""),
}
"""By name: method, target with a place for the version's mark, and body."""


def before() -> str | None:
    """Return the newest commit that is a day older than HEAD; None without such a history."""
    told = _git("log", "-1", "--format=%ct")
    found = _git("rev-list", "-1", f"--before={int(told) - _DAY_SECONDS}", "HEAD") if told else ""
    return found or None


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:  # no git
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


async def answer_turns(url: str, mark: str) -> None:
    """Make some requests of each call for each line of standard input; print the nanoseconds of each."""
    said = os.fdopen(os.dup(1), "w")  # the worker's own goes nowhere
    async with worker(url) as app:
        histories = {"short": [body_of(32, 400)], "long": [body_of(100, 400, first) for first in range(0, 1_000, 100)]}
        for name, bodies in histories.items():
            for body in bodies:
                await ask(app, "POST", f"/conversations/{name}-{mark}/messages", body)
        times = _WARM
        while times:
            found: dict[str, list[int]] = {}
            for name, (method, target, body) in CALLS.items():
                found[name] = []
                for _ in range(times):
                    began = time.process_time_ns()
                    await ask(app, method, target.format(mark), body)
                    found[name].append(time.process_time_ns() - began)
            print(json.dumps(found), file=said, flush=True)
            times = _AT_ONCE if sys.stdin.readline() else 0


@contextmanager
def _process(tree: Path, url: str, mark: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run ``answer_turns`` with a version's files of the service, and these tests."""
    both = folder / mark
    environ = {**beside_tests(tree, both), "PYTHONHASHSEED": "0", "SASH_DURABILITY": "fast"}
    command = (sys.executable, "-m", "tests.bench.least", "--turns", url, mark)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=both, env=environ, text=True, **pipes) as process:
        yield process


def measure(version: str, seconds: float = SECONDS) -> dict[str, list[float]]:
    """Return, for each call, the microseconds of the version and of these files.

    Raises EOFError if one of them does not run with these tests.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(EmbeddedStore(folder / "store", fsync="everysec"))
        trees = (stack.enter_context(checked_out(version, folder)), ROOT)
        marks = ("before", "now")
        pair = [
            stack.enter_context(_process(tree, store.url, mark, folder))
            for tree, mark in zip(trees, marks, strict=True)
        ]
        for each in pair:
            _told(each)  # warm
        found: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in CALLS}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for place, each in enumerate(pair):
                print(file=each.stdin, flush=True)
                for name, taken in _told(each).items():
                    found[name][place].extend(taken)
    return {name: [_least(taken) / 1e3 for taken in both] for name, both in found.items()}


def _told(process: "subprocess.Popen[str]") -> dict[str, list[int]]:
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise EOFError
    told: dict[str, list[int]] = json.loads(line)
    return told


def _least(taken: list[int]) -> int:
    return sorted(taken)[int(len(taken) * _QUANTILE)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.least", description=__doc__)
    parser.add_argument("version", nargs="?", metavar="COMMIT|FOLDER")
    parser.add_argument("--turns", nargs=2, metavar=("URL", "MARK"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turns:
        uvloop.run(answer_turns(*options.turns))
        return
    version = options.version or before()
    if version is None:
        parser.exit(0, "no commit is a day older than HEAD\n")
    try:
        found = measure(version)
    except EOFError:
        parser.exit(0, f"{version} does not run with these tests\n")
    rows = [(name, f"{old:,.0f}", f"{new:,.0f}", f"{new / old:.2f}") for name, (old, new) in found.items()]
    print(markdown(("processor time, µs", version[:12], "now", "ratio"), rows), flush=True)
    if any(new > MOST * old for old, new in found.values()):
        for tree in (version, str(ROOT)):
            run_version(tree, 4_000, 10)
        sys.exit(f"a request takes more than {MOST} times what it took in {version[:12]}")


if __name__ == "__main__":
    main()
