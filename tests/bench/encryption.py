"""What encryption at rest costs: ``python -m tests.bench.encryption``.

The same conversations with and without a key, each on a store of its own, because a service without the key is not ready
on a store with encrypted text. One client in the service's own process sends the calls, so that the difference is
encryption alone. Prints the service's processor time for a call in milliseconds, the least of
several rounds so that a busy machine matters little, and the store's bytes for a message.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import redis.asyncio
from rich.console import Console
from rich.table import Table

from sash.api.middleware.asgi import App
from sash.app import create_app
from sash.operations.logging import configure_logging
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, running
from tests.bench.rig import ROOT, nothing_held

ROUNDS = 15
CALLS = {"append": 200, "window of 32 messages": 200, "window of 128k tokens": 20, "page of 1,000 messages": 20}
TEXT = "It was a bright cold day in April, and the clocks were striking thirteen; nobody had asked them to. " * 2
LONG = 2_500  # messages whose window is a little under 128k tokens


async def fill(app: App, conversation: str, count: int) -> None:
    for start in range(0, count, 100):
        messages = [
            {"message": {"role": "user", "content": f"{start + n} {TEXT}"}} for n in range(min(100, count - start))
        ]
        await ask(app, "POST", f"/conversations/{conversation}/messages", msgspec.json.encode({"messages": messages}))


async def timed(call: Callable[[], Awaitable[Any]], times: int) -> float:
    """Return the milliseconds of processor time for a call."""
    started = time.process_time()
    for _ in range(times):
        await call()
    return (time.process_time() - started) / times * 1000


async def measure(*urls: str) -> tuple[dict[str, list[float]], list[float]]:
    found: dict[str, list[list[float]]] = {name: [[], []] for name in CALLS}
    same = {"SASH_DURABILITY": "fast", **nothing_held(ROOT)}
    async with AsyncExitStack() as stack:
        apps = [
            await stack.enter_async_context(running(create_app(Settings.read({**same, "SASH_REDIS_URL": url, **key}))))
            for url, key in zip(urls, ({}, {"SASH_ENCRYPTION_KEY": "6b" * 32}), strict=True)
        ]
        for place, app in enumerate(apps):
            await fill(app, f"short-{place}", 32)
            await fill(app, f"long-{place}", LONG)
        for _ in range(ROUNDS):
            for place, app in enumerate(apps):
                turn = msgspec.json.encode({"messages": [{"message": {"role": "user", "content": TEXT}}]})
                calls: dict[str, Callable[[], Awaitable[Any]]] = {
                    "append": lambda app=app, turn=turn, place=place: ask(
                        app, "POST", f"/conversations/other-{place}/messages", turn
                    ),
                    "window of 32 messages": lambda app=app, place=place: ask(
                        app, "GET", f"/conversations/short-{place}/window?model=gpt-4o"
                    ),
                    "window of 128k tokens": lambda app=app, place=place: ask(
                        app, "GET", f"/conversations/long-{place}/window?model=gpt-4o&reserve=0"
                    ),
                    "page of 1,000 messages": lambda app=app, place=place: ask(
                        app, "GET", f"/conversations/long-{place}/messages?limit=1000"
                    ),
                }
                for name, times in CALLS.items():
                    found[name][place].append(await timed(calls[name], times))
        window = json.loads(await ask(apps[1], "GET", "/conversations/long-1/window?model=gpt-4o&reserve=0"))
        assert window["tokens"]["total"] > 100_000, window["tokens"]
        sizes = []
        for place, url in enumerate(urls):
            async with redis.asyncio.Redis.from_url(url) as server:
                keys = [key async for key in server.scan_iter(f"sash:{{default/long-{place}}}:*")]
                sizes.append(sum([await server.memory_usage(key, samples=0) for key in keys]) / LONG)
    return {name: [min(each) for each in both] for name, both in found.items()}, sizes


def main() -> None:
    configure_logging("json", "error")
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedStore(Path(folder, "plain"), fsync="everysec") as plain_store,
        EmbeddedStore(Path(folder, "encrypted"), fsync="everysec") as encrypted_store,
    ):
        found, sizes = asyncio.run(measure(plain_store.url, encrypted_store.url))
    table = Table("", "without", "encrypted", "more", box=None)
    for name, (plain, sealed) in found.items():
        table.add_row(
            f"{name}, ms", f"{plain:.3f}", f"{sealed:.3f}", f"{sealed - plain:+.3f} ({sealed / plain - 1:+.0%})"
        )
    table.add_row("store, bytes a message", *(f"{size:.0f}" for size in sizes), f"{sizes[1] - sizes[0]:+.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
