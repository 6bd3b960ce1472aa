"""How long one command holds the store, of requests about a long conversation: ``python -m tests.bench.held [--readme]``.

A conversation of 200,000 messages of 400 characters in an embedded store is forked, exported, read, rewound and erased over
HTTP. ``SLOWLOG`` has the store's own time of each command: nobody else is served meanwhile. Where this user may set
priorities, the store's main thread comes before all other programs, so that their time is not in it. Takes some minutes.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis

from sash.store.redis.embedded import EmbeddedStore
from sash.store.redis.lua import SCRIPTS
from tests.bench.figures import into_readme
from tests.bench.rig import fill, machine, markdown, serving

MESSAGES, CHARACTERS = 200_000, 400
MOST_MS = 20
_NAMES = {script.sha: f"`{name}`" for name, script in SCRIPTS.items()}
_OPERATIONS = (
    ("POST …/fork", "POST", "/conversations/long/fork", b'{"id":"copy"}'),
    ("GET …/export", "GET", "/conversations/long/export", None),
    ("GET …/window, of 1,000,000 tokens", "GET", "/conversations/long/window?model=gpt-4.1", None),
    ("POST …/rewind, to the middle", "POST", "/conversations/copy/rewind", b'{"to_seq":%d}'),
    ("DELETE, of the fork", "DELETE", "/conversations/copy", None),
)


def first_in_line(pid: int) -> bool:
    """Run a server's main thread before all other programs. Returns whether this user may."""
    with suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(10))
        return True
    return False


def slowest(store: redis.Redis) -> tuple[float, str, int]:
    """Return the longest command's milliseconds and name, and how many are in the log."""
    logged: list[dict[str, Any]] = store.slowlog_get(100_000)
    found = [each for each in logged if not each["command"].startswith(b"SLOWLOG")]
    if not found:
        return 0.0, "none", 0
    most = max(found, key=lambda each: int(each["duration"]))
    words = most["command"].split()
    name = _NAMES.get(words[1].decode(), "a script") if words[0].startswith(b"EVAL") else f"`{words[0].decode()}`"
    return most["duration"] / 1000, name, len(found)


def asked(port: int, method: str, path: str, body: bytes | None) -> float:
    """Send a request, and return how many seconds its whole answer took."""
    headers = {"Content-Type": "application/json"} if body else {}
    started = time.perf_counter()
    whole = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method=method)
    with urllib.request.urlopen(whole) as answer:
        while answer.read(1 << 20):
            pass
    return time.perf_counter() - started


def measure(messages: int) -> tuple[list[tuple[str, ...]], str]:
    """Return a row for each request, and what it was measured on."""
    with (
        tempfile.TemporaryDirectory(prefix="sash-held-") as folder,
        EmbeddedStore(Path(folder), fsync="everysec") as store,
    ):
        alone = first_in_line(store.pid)
        link = redis.Redis.from_url(store.url)
        link.config_set("slowlog-max-len", 100_000)
        settings = {"SASH_DURABILITY": "fast", "SASH_REQUEST_TIMEOUT_SECONDS": "60"}
        with serving(store.url, **settings) as server:
            asyncio.run(fill(server.port, "long", messages, CHARACTERS))
            rows = []
            link.config_set("slowlog-log-slower-than", 1000)
            for name, method, path, body in _OPERATIONS:
                given = body % (messages // 2) if body and b"%d" in body else body
                link.slowlog_reset()
                seconds = asked(server.port, method, path, given)
                time.sleep(1)  # what goes on behind the answer
                most, command, number = slowest(link)
                rows.append((name, f"{most:,.1f}", command, f"{number:,}", f"{seconds:,.1f}"))
                sys.stdout.write(f"{rows[-1]}\n")
                sys.stdout.flush()
            where = machine(link.info("server")).replace("always", "everysec")
        link.close()
    how = "comes" if alone else "did not come"
    return rows, f"{where}. {time.strftime('%Y-%m-%d')}, other programs beside it; the store {how} before them."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.held", description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--readme", action="store_true", help="put the table into README.md beside this file")
    options = parser.parse_args()
    rows, where = measure(options.messages)
    text = markdown(("request", "longest command, ms", "which", "over 1 ms", "seconds"), rows)
    text += f"\n\n{where}"
    sys.stdout.write(text + "\n")
    if options.readme:
        into_readme("held", text)


if __name__ == "__main__":
    main()
