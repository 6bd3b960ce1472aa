"""Measure chats with pictures: ``python -m tests.bench.screenshots [--before COMMIT|FOLDER]``.

A chat has a hundred turns with a screenshot of 3 MB in base64 each. Each way of keeping them has its own server and store.
They are asked in turn, so that a drift of the machine's speed affects all equally. The memory of a picture is the store's
for the chat's keys, less that for the same chat without pictures. Takes a minute or two.
"""

import argparse
import base64
import random
import statistics
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import redis
from rich.console import Console
from rich.progress import track

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.rig import ROOT, Server, answer_of, machine, markdown, serving
from tests.bench.versions import checked_out

TURNS = 100
SIDE = 866
"""Pixels of a screenshot's side: its noise has 3.0 MB in base64."""
ROUNDS = 40
_WINDOW = "/conversations/{}/window?model=gpt-4o&limit=8"
_PLAIN = "/conversations/plain/window?model=gpt-4o-mini&limit=32"


class Way:
    """A way to keep pictures, with its server and its store."""

    def __init__(self, name: str, server: Server, store: EmbeddedStore) -> None:
        self.name = name
        self.server = server
        self.store = redis.Redis.from_url(store.url)
        self.seconds: dict[str, list[float]] = {"append": [], "window": [], "plain": []}
        self.processor: dict[str, float] = {"append": 0.0, "window": 0.0}

    def ask(self, what: str, path: str, body: bytes | None = None) -> bytes:
        """Return an answer, and note its time."""
        started = time.perf_counter()
        answer = answer_of(self.server.port, path, body)
        self.seconds[what].append((time.perf_counter() - started) * 1000)
        return answer

    def memory(self, conversation: str) -> int:
        """Return the bytes of a conversation in the store."""
        keys = list(self.store.scan_iter(f"sash:{{default/{conversation}}}:*"))
        return sum(self.store.memory_usage(key, samples=0) or 0 for key in keys)


def screenshot(number: int) -> str:
    """Return a PNG of noise, in base64."""
    noise = random.Random(number).randbytes(SIDE * 3)
    lines = b"".join(b"\0" + noise[n * 3 :] + noise[: n * 3] for n in range(SIDE))
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 0)), (b"IEND", b""))
    parts = (struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def turn(number: int, picture: str | None) -> bytes:
    """Return the body that appends a question, with its screenshot."""
    text = {"type": "text", "text": f"What does step {number} show?"}
    shown = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}] if picture else []
    return msgspec.json.encode({"messages": [{"role": "user", "content": [text, *shown]}]})


@contextmanager
def ways(folder: Path, before: Path | None) -> Iterator[list[Way]]:
    """Yield every way, with its server."""
    found: list[tuple[str, Path, dict[str, str]]] = [("before", before, {})] if before else []
    found.append(("in the store", ROOT, {}))
    found.append(("as files", ROOT, {"SASH_MEDIA_URL": (folder / "media").as_uri()}))
    with ExitStack() as stack:
        opened = []
        for place, (name, tree, settings) in enumerate(found):
            store = stack.enter_context(EmbeddedStore(folder / f"store-{place}", fsync="always"))
            server = stack.enter_context(serving(store.url, tree=tree, **settings))
            opened.append(Way(name, server, store))
        yield opened


def run(each: list[Way]) -> None:
    """Have the chats, and read their windows."""
    reply = msgspec.json.encode({"messages": [{"role": "assistant", "content": "The step after the one before."}]})
    for number in track(range(TURNS), "turns"):
        body, plain = turn(number, screenshot(number)), turn(number, None)
        for way in each:
            before = way.server.cpu_seconds()
            way.ask("append", "/conversations/chat/messages", body)
            way.processor["append"] += way.server.cpu_seconds() - before
            answer_of(way.server.port, "/conversations/chat/messages", reply)
            answer_of(way.server.port, "/conversations/plain/messages", plain)
            answer_of(way.server.port, "/conversations/plain/messages", reply)
    for _ in track(range(ROUNDS), "windows"):
        for way in each:
            before = way.server.cpu_seconds()
            way.ask("window", _WINDOW.format("chat"))
            way.processor["window"] += way.server.cpu_seconds() - before
        for _ in range(20):
            for way in each:
                way.ask("plain", _PLAIN)


def rows(each: list[Way]) -> list[list[str]]:
    """Return the table's rows."""
    found = []
    for way in each:
        memory = (way.memory("chat") - way.memory("plain")) / TURNS
        times = {what: f"{statistics.median(each):.1f} ({min(each):.1f})" for what, each in way.seconds.items()}
        found.append(
            [
                way.name,
                f"{memory:,.0f} B",
                f"{times['append']} ms",
                f"{way.processor['append'] / TURNS * 1000:.1f} ms",
                f"{times['window']} ms",
                f"{way.processor['window'] / ROUNDS * 1000:.1f} ms",
                f"{times['plain']} ms",
            ]
        )
    return found


HEAD = (
    "pictures are kept",
    "store's memory a picture",
    "append",
    "of a processor",
    "window of four",
    "of a processor",
    "window without pictures",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.screenshots", description=__doc__)
    parser.add_argument("--before", help="a commit or a folder of an earlier version")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        before = stack.enter_context(checked_out(options.before, folder)) if options.before else None
        each = stack.enter_context(ways(folder, before))
        run(each)
        facts: Any = each[0].store.info("server")
        Console().print(markdown(HEAD, rows(each)), soft_wrap=True)
        print(f"\n{machine(facts)}. {TURNS} turns, screenshots of 3 MB. Medians, and the least.")


if __name__ == "__main__":
    main()
