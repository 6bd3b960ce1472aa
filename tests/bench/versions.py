"""Compare the speed of versions on one machine: ``python -m tests.bench.versions COMMIT|FOLDER…``.

A commit is checked out into a folder of its own; a folder is another checkout, such as one with changes made by hand. Each
version has its own server and store. They are measured in turn, so that a drift of the machine's speed affects all equally.
Prints the median and the least of the rounds; takes about half a minute a version.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.load import load, request
from tests.bench.rig import ROOT, Server, body_of, fill, serving

ROUNDS = 9
_WINDOW = "/conversations/{}/window?model=gpt-4o-mini&reserve=0"
_TURN = "/conversations/{}/messages{}"
CALLS = {
    "GET /livez": ([request("GET", "/livez")], 1_500, 32),
    "window of 32 messages": ([request("GET", _WINDOW.format("short"))], 1_200, 32),
    "append of 1 KB": ([request("POST", _TURN.format("turns", ""), body_of(1, 1024))], 600, 32),
    "append of 400 B with a window of 32": (
        [request("POST", _TURN.format("both", "?model=gpt-4o-mini&limit=32"), body_of(1, 400))],
        600,
        32,
    ),
    "window of 8,000 tokens out of 1,400 messages": (
        [request("GET", _WINDOW.format("full") + "&max_tokens=8000")],
        600,
        32,
    ),
    "window of 128,000 tokens": ([request("GET", _WINDOW.format("full"))], 80, 1),
}
"""By call: the requests, how many a round, and over how many connections."""

Measured = dict[tuple[str, str], list[tuple[float, float]]]
"""By call and commit: processor time and median latency of each round, in microseconds."""


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """Yield the folder of a version's files; a commit's folder is removed in the end."""
    if Path(commit).is_dir():
        yield Path(commit).resolve()
        return
    tree = folder / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
    try:
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)


def beside_tests(tree: Path, folder: Path) -> dict[str, str]:
    """Make ``folder`` with a version's files of the service and these tests; return the environment for a process there."""
    folder.mkdir()
    (folder / "service").symlink_to(tree / "service")
    (folder / "tests").symlink_to(ROOT / "tests")
    return {**os.environ, "PYTHONPATH": str(folder / "service")}  # else the installed package would be measured


@contextmanager
def running(commit: str) -> Iterator[Server]:
    """Yield the commit's server, on a store of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedStore(Path(folder) / "data") as store,
        checked_out(commit, Path(folder)) as tree,
        serving(store.url, tree=tree) as server,
    ):
        yield server


async def measure(servers: dict[str, Server]) -> Measured:
    for server in servers.values():
        await fill(server.port, "short", 32, 400)
        await fill(server.port, "full", 1_400, 450)
    found: Measured = {}
    for turn in range(ROUNDS + 1):
        for call, (asked, count, connections) in CALLS.items():
            for commit, server in servers.items():
                before = server.cpu_seconds()
                run = await load(server.port, asked, count=count, connections=connections)
                assert not run.errors
                taken = (server.cpu_seconds() - before) / count * 1e6, run.latency(0.5) * 1e6
                if turn:  # the first warms up
                    found.setdefault((call, commit), []).append(taken)
    return found


def table(found: Measured, commits: list[str]) -> Table:
    shown = Table("call", "commit", "worker CPU, us", "least", "median latency, us", "least")
    for call in CALLS:
        for commit in commits:
            columns = zip(*found[call, commit], strict=True)
            figures = [f"{each:,.0f}" for column in columns for each in (statistics.median(column), min(column))]
            shown.add_row(call if commit == commits[0] else "", Path(commit).name or commit, *figures)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.versions", description=__doc__)
    parser.add_argument("commits", nargs="+", help="two commits or folders, or more; the oldest first")
    commits: list[str] = parser.parse_args().commits
    with ExitStack() as stack:
        servers = {commit: stack.enter_context(running(commit)) for commit in commits}
        found = uvloop.run(measure(servers))
    Console(width=120).print(table(found, commits))


if __name__ == "__main__":
    main()
