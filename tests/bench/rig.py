"""Shared parts of the benchmarks: servers, conversations, texts, one way to time a call and one to print a table."""

import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.load import load, request
from tests.rigs.servers import free_port

ROOT = Path(__file__).parents[2]
BATCH = 100
_VOCABULARIES = "sash-vocabulary"
WORDS = "the quick brown fox jumps over a lazy dog while seven wizards box quietly near old bridges at dawn".split()  # noqa: SIM905


def text_of(size: int, seed: int) -> str:
    """Return about ``size`` characters of words, different for each seed."""
    words, length, place = [], 0, seed
    while length < size:
        word = WORDS[place % len(WORDS)]
        words.append(word)
        length += len(word) + 1
        place += 7 + seed % 5
    return f"{seed} " + " ".join(words)[:size]


def messages_of(count: int, size: int, first: int = 0) -> list[dict[str, str]]:
    """Return messages of a user and an assistant in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": text_of(size, i)} for i in range(first, first + count)]


def body_of(count: int, size: int, first: int = 0) -> bytes:
    """Return the body that appends ``count`` messages."""
    return msgspec.json.encode({"messages": [{"message": each} for each in messages_of(count, size, first)]})


async def fill(port: int, identity: str, count: int, size: int) -> None:
    """Append ``count`` messages of ``size`` characters over HTTP, which works with every version and with other services."""
    path, firsts = f"/conversations/{identity}/messages", range(0, count, BATCH)
    different = [request("POST", path, body_of(min(BATCH, count - first), size, first)) for first in firsts[:50]]
    whole = [different[place % len(different)] for place in range(count // BATCH)]
    rest = [request("POST", path, body_of(count % BATCH, size, count))] if count % BATCH else []
    for asked in (whole, rest):
        run = await load(port, asked, count=len(asked), connections=min(4, len(asked)))
        assert not run.errors


def answer_of(port: int, path: str, body: bytes | None = None) -> bytes:
    """Send one request and return the answer's body; a request with a body is a POST."""
    url, headers = f"http://127.0.0.1:{port}{path}", {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
        found: bytes = answer.read()
    return found


def machine(facts: dict[str, Any]) -> str:
    """Return the processor, how many there are, their load, and the versions in use, of which ``facts`` (``INFO server``)
    has the store's."""
    try:
        told = Path("/proc/cpuinfo").read_text()
        model = next(each.partition(":")[2].strip() for each in told.splitlines() if each.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    kept = f"Valkey {facts['valkey_version']}" if "valkey_version" in facts else f"Redis {facts['redis_version']}"
    used = f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.0f}; Python {platform.python_version()}"
    return f"{model}, {used}, {kept}, appendfsync always"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 1) -> str:
    """Return a Markdown table; columns from ``numbers`` on are right-aligned."""
    rule = ["---" if place < numbers else "---:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


@dataclass(frozen=True)
class Server:
    port: int
    process: subprocess.Popen[bytes]

    def _children(self) -> Iterator[tuple[int, str]]:
        """Yield the id and the name of each process that it started."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                    name = (entry / "comm").read_text()
                except (OSError, IndexError):
                    continue
                if parent == self.process.pid:
                    yield int(entry.name), name

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        return [pid for pid, name in self._children() if not name.startswith(("valkey", _VOCABULARIES))]

    def cpu_seconds(self) -> float:
        """Return the processor time that the workers have used, in seconds, to the nanosecond: clock_getcpuclockid(3)."""
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.workers())

    def resident_bytes(self) -> int:
        """Return the resident memory of the workers."""
        return sum(map(_resident_bytes, self.workers()))

    def vocabularies_bytes(self) -> int:
        """Return the resident memory of the process that holds other vendors' vocabularies for all workers."""
        return sum(_resident_bytes(pid) for pid, name in self._children() if name.startswith(_VOCABULARIES))


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serving(url: str, *, workers: int = 1, tree: Path = ROOT, **settings: str) -> Iterator[Server]:
    """Run ``sash serve`` from ``tree`` on a free port, with the store at ``url`` and the variables ``settings``."""
    environ = {"SASH_REDIS_URL": url, "SASH_LOG_LEVEL": "info", **nothing_held(tree), **settings}
    with started([package_of(tree), "serve", "--workers", str(workers), "--port"], tree=tree, **environ) as server:
        yield server


def package_of(tree: Path) -> str:
    """Return the import name of a version's package: it was the name of its folder once."""
    return "sash" if (tree / "service" / "sash").is_dir() else "service"


def nothing_held(tree: Path) -> dict[str, str]:
    """Return the variable that stops a version from holding conversations between requests; empty if it has none."""
    settings = next((tree / "service").rglob("settings.py")).read_text()
    return {"SASH_RECENT_BYTES": "0"} if "SASH_RECENT_BYTES" in settings else {}


@contextmanager
def beside(*command: str, **environ: str) -> Iterator[Server]:
    """Run a service that Sash is measured against on a free port: ``bare``, ``afternoon``, or a program and its argument."""
    with started(["tests.bench.others", *command], tree=ROOT, **environ) as server:
        yield server


@contextmanager
def started(module: Sequence[str], *, tree: Path, **environ: str) -> Iterator[Server]:
    """Run ``python -m`` with the module, its arguments and, last, a free port."""
    port = free_port()
    environ = {**os.environ, "PYTHONPATH": f"{tree / 'service'}{os.pathsep}{tree}", **environ}
    command = [sys.executable, "-m", *module, str(port)]
    process = subprocess.Popen(command, cwd=tree, env=environ, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until_ready(port)
        yield Server(port, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def wait_until_ready(port: int) -> None:
    """Wait until /readyz answers 200."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if connection.recv(64).startswith(b"HTTP/1.1 200"):
                    return
        except OSError:
            pass
        time.sleep(0.01)
    raise TimeoutError("the server was not ready in 60 seconds")


async def latency(call: Callable[[], Awaitable[object]], count: int) -> float:
    """Return the median seconds of a call, made ``count`` times one after the other."""
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)
