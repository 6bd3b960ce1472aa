"""What changes bought: versions side by side on one machine, ``python -m tests.bench.versions COMMIT|FOLDER…``.

A commit is checked out beside this one; a folder is another checkout, in which something was changed by hand. Each has a
server and a store of its own, and they are asked in turn, so that a machine whose speed drifts slows all alike. Prints the
median and the least of the rounds; about half a minute a version.
"""

import argparse
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console
from rich.table import Table

from service.store.embedded import EmbeddedStore
from tests.bench.load import load, request
from tests.bench.rig import Server, entries_of, serving, text_of

ROUNDS = 9
_TURN = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": text_of(1024, 1)}}]})
_WINDOW = "/conversations/{}/window?model=gpt-4o-mini&reserve=0"
_SHORT, _FULL = request("GET", _WINDOW.format("short")), request("GET", _WINDOW.format("full"))
_SAID = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": "and then?"}}]})
CALLS = {
    "GET /livez": ([request("GET", "/livez")], 1_500, 32),
    "window of 32 messages": ([_SHORT], 1_200, 32),
    "append of 1 KB": ([request("POST", "/conversations/turns/messages", _TURN)], 600, 32),
    "window of 128,000 tokens": ([_FULL], 80, 1),
    "the same after an append": ([request("POST", "/conversations/full/messages", _SAID), _FULL], 80, 1),
}
"""What is asked in turn, how many requests a round, over how many connections. The last is what is timed."""

Measured = dict[tuple[str, str], list[tuple[float, float]]]
"""By call and commit: CPU and median latency of each round, in microseconds."""


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """The version's files, for as long as they are needed."""
    if Path(commit).is_dir():
        yield Path(commit).resolve()
        return
    tree = folder / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
    try:
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], check=True)


@contextmanager
def running(commit: str) -> Iterator[Server]:
    """The commit's server on a store of its own, two conversations in it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedStore(Path(folder) / "data") as store,
        checked_out(commit, Path(folder)) as tree,
        serving(store.url, tree=tree) as server,
    ):
        yield server


async def fill(server: Server) -> None:
    for name, count, size in (("short", 32, 400), ("full", 1_400, 450)):
        for first in range(0, count, 100):
            entries = [{"message": entry.message} for entry in entries_of(min(100, count - first), size, first)]
            body = msgspec.json.encode({"messages": entries})
            await load(server.port, [request("POST", f"/conversations/{name}/messages", body)], count=1, connections=1)


async def measure(servers: dict[str, Server]) -> Measured:
    for server in servers.values():
        await fill(server)
    found: Measured = {}
    for turn in range(ROUNDS + 1):
        for call, (asked, count, connections) in CALLS.items():
            for commit, server in servers.items():
                before = server.cpu_seconds()
                run = await load(server.port, asked, count=count, connections=connections)
                assert not run.errors
                latency = statistics.median(run.latencies[len(asked) - 1 :: len(asked)])
                taken = (server.cpu_seconds() - before) / count * len(asked) * 1e6, latency * 1e6
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
