"""Whether a request takes more processor time than before: ``python -m tests.bench.least [COMMIT|FOLDER]``.

The version before is by default the newest commit that is a day older than HEAD. Each version runs in a process of its own,
without the HTTP server, on a store of its own, and they take turns of a few requests. A figure is nearly the least time of
some thousand single requests. Beside a load of thirty it differed by 2 % between two processes of one version, and by 4 % at
most, where medians differ by a tenth. It takes half a minute. Fails if a request takes more than a tenth more, and prints
the stages of both versions then.

``--kinds [WORD]`` compares the kinds of window that ``tests.bench kinds`` has, or those with the word in their name, and
fails for none. A request of several milliseconds is hardly ever left alone, and has fewer turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

import uvloop

from sash.store.redis.embedded import EmbeddedStore
from tests.bench import kinds
from tests.bench.figures import into_readme
from tests.bench.inprocess import ask, indexed, worker
from tests.bench.kinds import Call
from tests.bench.rig import ROOT, body_of, markdown
from tests.bench.stages import run_version
from tests.bench.versions import beside_tests, checked_out

MOST = 1.1
SECONDS = 5
"""For each call, of both versions together."""
_DAY_SECONDS = 86_400
_WARM = 40
_TURN_NS = 8_000_000
"""Processor time of a call in a turn, with at least one request."""
_QUANTILE = 0.005
_WINDOW = "/conversations/{}/window?model=gpt-4o-mini"
CALLS: dict[str, list[Call]] = {
    "window of 32 messages": [("GET", _WINDOW.format("short"), b"")],
    "append with its window": [("POST", "/conversations/turns/messages?model=gpt-4o-mini&limit=32", body_of(1, 400))],
    "window of 8,000 tokens out of 1,000 messages": [("GET", f"{_WINDOW.format('chat')}&max_tokens=8000", b"")],
}


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


def _chosen(kind: str | None) -> tuple[dict[str, list[Call]], Iterable[Call]]:
    """Return the calls that are compared, and what makes their conversations: of the kinds with the word in their name."""
    if kind is None:
        return CALLS, (*kinds.filling("short", 32), *kinds.filling("chat", 1_000))
    named = {"plain": "plain", **{each.name.partition(" / ")[0]: each.over for each in kinds.KINDS}}
    calls = kinds.calls()
    return {name: calls[key] for name, key in named.items() if kind in name}, kinds.conversations()


async def answer_turns(url: str, kind: str | None) -> None:
    """Make some requests of each call for each line of standard input; print the nanoseconds of each."""
    said = os.fdopen(os.dup(1), "w")  # the worker's own goes nowhere
    calls, conversations = _chosen(kind)
    following = {name: cycle(each) for name, each in calls.items()}

    async def some(asked: Iterator[Call], most: int, least: int = 1) -> list[int]:
        found: list[int] = []
        while len(found) < least or sum(found) < most:
            call = next(asked)
            began = time.process_time_ns()
            await ask(app, *call)
            found.append(time.process_time_ns() - began)
        return found

    async with worker(url) as app:
        for each in conversations:
            await ask(app, *each)
        if kind is not None:
            await indexed(app, "indexed")
        for asked in following.values():
            await some(asked, 0, _WARM)
        print(file=said, flush=True)
        while sys.stdin.readline():
            found = {name: await some(asked, _TURN_NS) for name, asked in following.items()}
            print(json.dumps(found), file=said, flush=True)


@contextmanager
def _process(tree: Path, folder: Path, kind: str | None) -> Iterator["subprocess.Popen[str]"]:
    """Run ``answer_turns`` with a version's files of the service, and these tests."""
    environ = {**beside_tests(tree, folder), "PYTHONHASHSEED": "0", "SASH_DURABILITY": "fast"}
    with EmbeddedStore(folder / "store", fsync="everysec") as store:
        command = (sys.executable, "-m", "tests.bench.least", "--turns", store.url)
        command += () if kind is None else ("--kinds", kind)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, cwd=folder, env=environ, text=True, **pipes) as process:
            yield process


def measure(version: str, kind: str | None = None) -> dict[str, list[float]]:
    """Return, for each call, the microseconds of the version and of these files.

    Raises EOFError if one of them does not run with these tests.
    """
    calls, _ = _chosen(kind)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trees = {"before": stack.enter_context(checked_out(version, folder)), "now": ROOT}
        pair = [stack.enter_context(_process(tree, folder / name, kind)) for name, tree in trees.items()]
        for each in pair:
            _told(each)  # it is warm
        found: dict[str, tuple[list[int], list[int]]] = {name: ([], []) for name in calls}
        end = time.monotonic() + SECONDS * len(calls)
        while time.monotonic() < end:
            for place, each in enumerate(pair):
                print(file=each.stdin, flush=True)
                for name, taken in json.loads(_told(each)).items():
                    found[name][place].extend(taken)
    return {name: [_least(taken) / 1e3 for taken in both] for name, both in found.items()}


def _told(process: "subprocess.Popen[str]") -> str:
    """Return the process's next line."""
    assert process.stdout is not None
    if not (line := process.stdout.readline()):
        raise EOFError
    return line


def _least(taken: list[int]) -> int:
    return sorted(taken)[int(len(taken) * _QUANTILE)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.least", description=__doc__)
    parser.add_argument("version", nargs="?", metavar="COMMIT|FOLDER")
    parser.add_argument(
        "--kinds", nargs="?", const="", metavar="WORD", help="compare kinds of window, those with the word"
    )
    parser.add_argument("--readme", action="store_true", help="put the table into README.md beside this file")
    parser.add_argument("--turns", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.turns:
        uvloop.run(answer_turns(options.turns, options.kinds))
        return
    version = options.version or before()
    if version is None:
        parser.exit(0, "no commit is a day older than HEAD\n")
    try:
        found = measure(version, options.kinds)
    except EOFError:
        parser.exit(0, f"{version} does not run with these tests\n")
    rows = [(name, f"{old:,.0f}", f"{new:,.0f}", f"{new / old:.2f}") for name, (old, new) in found.items()]
    table = markdown(("processor time, µs", version[:12], "now", "ratio"), rows)
    print(table, flush=True)
    if options.readme:
        into_readme(f"least {version}", f"{table}\n\n{time.strftime('%Y-%m-%d')}.")
    if options.kinds is None and any(new > MOST * old for old, new in found.values()):
        for tree in (version, str(ROOT)):
            run_version(tree, 4_000, 10)
        sys.exit(f"a request takes more than {MOST} times what it took in {version[:12]}")


if __name__ == "__main__":
    main()
