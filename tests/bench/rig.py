"""What the benchmarks run on: a server, a store with conversations in it, texts, one way to time a call."""

import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.asyncio

from service.core.grounding import DEFAULT_SEPARATOR, DEFAULT_TEMPLATE, parse_template
from service.core.messages import Entry
from service.core.settings import ConversationSettings, encode_settings
from service.store.client import Client
from service.store.conversations import SCRIPTS, Conversations
from service.store.entries import prepare
from tests.store.servers import free_port

ROOT = Path(__file__).parents[2]
TENANT = "default"
TEMPLATE = parse_template(DEFAULT_TEMPLATE, DEFAULT_SEPARATOR)
SETTINGS = encode_settings(ConversationSettings())
FORGETFUL = {"SASH_RECENT_BYTES": "0"}
"""The setting of a service that holds nothing, so that all comes from the store."""
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "while",
    "seven",
    "wizards",
    "box",
    "quietly",
    "near",
    "old",
    "bridges",
    "at",
    "dawn",
]


def text_of(size: int, seed: int) -> str:
    """About ``size`` characters of words, different for each seed."""
    words, length, place = [], 0, seed
    while length < size:
        word = WORDS[place % len(WORDS)]
        words.append(word)
        length += len(word) + 1
        place += 7 + seed % 5
    return f"{seed} " + " ".join(words)[:size]


def entries_of(count: int, size: int, first: int = 0) -> list[Entry]:
    """Messages of a user and an assistant in turn."""
    return [
        Entry(message={"role": ("user", "assistant")[i % 2], "content": text_of(size, first + i)}) for i in range(count)
    ]


def machine(facts: dict[str, Any]) -> str:
    """The processor, how many there are, and what ran on it; ``facts`` are the store's."""
    try:
        told = Path("/proc/cpuinfo").read_text()
        model = next(each.partition(":")[2].strip() for each in told.splitlines() if each.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    kept = f"Valkey {facts['valkey_version']}" if "valkey_version" in facts else f"Redis {facts['redis_version']}"
    return f"{model}, {os.cpu_count()} processors; Python {platform.python_version()}, {kept}, appendfsync always"


@dataclass(frozen=True)
class Server:
    port: int
    process: subprocess.Popen[bytes]

    def workers(self) -> list[int]:
        """Process ids of the workers."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                except (OSError, IndexError):
                    continue
                if parent == self.process.pid and b"valkey" not in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
        return found

    def cpu_seconds(self) -> float:
        """CPU that the workers have used."""
        ticks = 0
        for pid in self.workers():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Memory that the workers hold."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.workers())
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serving(url: str, *, workers: int = 1, tree: Path = ROOT, **settings: str) -> Iterator[Server]:
    """``sash serve`` of the files in ``tree`` on a free port, on the store at ``url``; ``settings`` are its variables."""
    port = free_port()
    environ = {**os.environ, "SASH_REDIS_URL": url, "SASH_LOG_LEVEL": "warning", "PYTHONPATH": str(tree), **settings}
    command = [sys.executable, "-m", "service", "serve", "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(command, cwd=tree, env=environ, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_until_ready(port)
        yield Server(port, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def wait_until_ready(port: int) -> None:
    """Return when /readyz answers 200."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                if connection.recv(64).startswith(b"HTTP/1.1 200"):
                    return
        except OSError:
            pass
        time.sleep(0.01)
    raise TimeoutError("the server was not ready in 20 seconds")


async def latency(call: Callable[[], Awaitable[object]], count: int) -> float:
    """Median seconds of one call at a time."""
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


class Bench:
    """The store, a client of its own, and what is in it."""

    def __init__(self, url: str, *, full: bool) -> None:
        self.url = url
        self.client = Client(url, scripts=SCRIPTS, timeout_seconds=60)
        self.conversations = Conversations(self.client)
        self.redis = redis.asyncio.Redis.from_url(url)
        self.million = 1_000_000 if full else 100_000

    async def fill(self, identity: str, count: int, size: int) -> None:
        """A conversation of ``count`` messages of ``size`` characters."""
        for first in range(0, count, 100):
            await self.append(identity, entries_of(min(100, count - first), size, first % 5000))

    async def append(self, identity: str, entries: list[Entry]) -> None:
        """What the service does to append, beneath HTTP."""
        prepared = prepare(entries, TEMPLATE, 1)
        await self.conversations.append(TENANT, identity, prepared, settings=SETTINGS, if_match="", now_ms=1)
