"""Sash against libraries in use today: ``python -m tests.bench peers``.

All get the same history and budget; those that count use o200k_base, and those with a store use the same one. Sash answers
over HTTP, network time included; the others are called in process. Installs the others into ``.venv-peers`` at first.
"""

import contextlib
import gzip
import hashlib
import importlib.util
import inspect
import json
import os
import re
import statistics
import subprocess
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import tiktoken_ext.openai_public
import uvloop
from rich.console import Console

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.load import load, request
from tests.bench.rig import fill, markdown, messages_of, serving

HERE = Path(__file__).parent
PEERS_HOME = HERE.parent.parent / ".venv-peers"
LENGTH, SIZE, BUDGET = 1_000, 300, 8_000
ROUNDS = 5
"""Rounds of Sash before each of the others, and as many after it, because the machine's speed drifts."""
PEERS = {
    "openai-messages-token-helper": 12,
    "LangChain trim_messages": 80,
    "LiteLLM trim_messages": None,
    "LlamaIndex ChatMemoryBuffer": 3_000,
    "OpenAI Agents RedisSession (no counts)": None,
}
"""The others, and the least that the time of each must be, as a multiple of Sash's; None if nothing is asked."""
SKIPPED = "redis/agent-memory-server is not in the table: it needs Redis Stack and Python 3.12."


def peers_python() -> Path:
    """Return the peers' own Python; its packages are installed on first use."""
    python = PEERS_HOME / "bin" / "python"
    if not python.exists():
        Console(stderr=True).print("[dim]installing the peers …")
        venv.create(PEERS_HOME, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements-peers.txt"], check=True)
    return python


def rank_cache(folder: Path) -> Path:
    """Fill tiktoken's cache directory from the rank file in an installed wheel, so that nothing is downloaded."""
    package = importlib.util.find_spec("bpe_openai")
    assert package is not None
    assert package.origin is not None
    ranks = (Path(package.origin).parent / "data" / "o200k_base.tiktoken.gz").read_bytes()
    source = inspect.getsource(tiktoken_ext.openai_public)
    (url,) = re.findall(r'"(https://\S+/o200k_base\.tiktoken)"', source)
    name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
    (folder / name).write_bytes(gzip.decompress(ranks))
    return folder


async def sash(port: int) -> list[float]:
    """Return the median seconds of a window over HTTP, for each round."""
    asked = [request("GET", f"/conversations/peers/window?model=gpt-4o&reserve=0&max_tokens={BUDGET}")]
    await load(port, asked, count=200, connections=1)
    runs = [await load(port, asked, count=100, connections=1) for _ in range(ROUNDS)]
    assert not any(each.errors for each in runs)
    return [each.latency(0.5) for each in runs]


def compare() -> Iterator[tuple[str, list[float], float | None]]:
    """Yield each peer, Sash's seconds in the rounds around it, and its own seconds; None for one that does not run."""
    python = peers_python()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(EmbeddedStore(folder / "data"))
        port = stack.enter_context(serving(store.url)).port
        uvloop.run(fill(port, "peers", LENGTH, SIZE))
        (folder / "ranks").mkdir()
        environ = {**os.environ, "TIKTOKEN_CACHE_DIR": str(rank_cache(folder / "ranks"))}
        job = folder / "job.json"
        job.write_text(json.dumps({"messages": messages_of(LENGTH, SIZE), "budget": BUDGET}))
        for peer in PEERS:
            before = uvloop.run(sash(port))
            command = [python, HERE / "peers_worker.py", store.url, job, peer]
            done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            yield peer, [*before, *uvloop.run(sash(port))], json.loads(done.stdout.splitlines()[-1])


def run() -> str:
    """Return the table and the note below it."""
    rows: list[tuple[str, ...]] = []
    for name, ours, seconds in compare():
        own, must = statistics.median(ours), PEERS[name]
        around = f"{own * 1e3:.2f} ({min(ours) * 1e3:.2f} to {max(ours) * 1e3:.2f})"
        if seconds is None:
            rows.append((name, "does not run", around, "", "", ""))
            continue
        holds = ("", "") if must is None else (f"≥ {must:,}", "yes" if seconds / own >= must else "**no**")
        rows.append((name, f"{seconds * 1e3:,.2f}", around, f"{seconds / own:,.1f}", *holds))
    head = ("", "milliseconds", "Sash's, before and after it", "times Sash", "must", "holds")
    return f"{markdown(head, rows)}\n\n{SKIPPED}"
