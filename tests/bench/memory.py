"""What settings of the store's lists cost and save: ``python -m tests.bench.memory``. Prints two tables:
bytes and time by setting, and where the bytes of a short conversation are.

Bytes are MEMORY USAGE of every key of a conversation, for each byte of its messages' JSON (and documents, in the data set).
Time is the processor time of the store's main thread for a call. The texts are those of the data set (``TEST_DATA``),
or of the project's pages where it is absent: real texts, because compression depends on the text.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import redis
import uvloop

from sash.api.middleware.asgi import App
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.data_run import load_conversations
from tests.bench.inprocess import ask, worker
from tests.bench.rig import ROOT, machine, markdown

SETTINGS = ((-2, 0), (-2, 2), (-2, 8), (-1, 8), (-1, 2), (-1, 1), (6, 1))
"""``list-max-listpack-size`` and ``list-compress-depth``; the first pair is the servers' default."""
LENGTHS = (20, 1_000, 5_000)
SIZE = 365
"""Characters of a message; its JSON has about 400 bytes."""
WINDOWS = (32, 90, 300, 1_300)
"""Numbers of newest messages, for windows of 3,000, 8,000, 27,000 and 117,000 tokens."""
ROUNDS, CALLS = 5, 100
Entries = list[dict[str, Any]]


class Found(NamedTuple):
    """Results of one setting: stored bytes for each JSON byte by kind of conversation; the store's microseconds by call."""

    stored: list[float]
    taken_us: list[float]


def prose(conversations: Iterable[dict[str, Any]]) -> str:
    """Return the texts of the conversations, or else of the project's pages, joined."""
    said = [entry["message"]["content"] for each in conversations for entry in each["entries"]]
    text = " ".join(each for each in said if isinstance(each, str))
    return text or " ".join(path.read_text("utf-8") for path in sorted(ROOT.glob("*/**/*.md")))


def entries_of(count: int, text: str, sizes: Sequence[int] = (SIZE,)) -> Entries:
    """Return messages of a user and an assistant in turn, each with another part of the text, of these sizes in turn."""
    starts = [place * SIZE % (len(text) - SIZE) for place in range(count)]
    roles = ("user", "assistant")
    contents = [text[start : start + sizes[place % len(sizes)]] for place, start in enumerate(starts)]
    return [{"message": {"role": roles[place % 2], "content": said}} for place, said in enumerate(contents)]


def named(entries: Entries) -> Entries:
    """Return the entries with ids of the client's own, of about four bytes; Sash's have 26."""
    return [{"id": f"m-{place}", **entry} for place, entry in enumerate(entries)]


async def fill(app: App, name: str, entries: Entries) -> None:
    """Append one message after the other, as conversations grow; batches would fill the list's nodes differently."""
    for entry in entries:
        await ask(app, "POST", f"/conversations/{name}/messages", msgspec.json.encode({"messages": [entry]}))


def stored_bytes(store: redis.Redis, name: str) -> int:
    """Return the store's bytes for a conversation, with the names of its keys."""
    return sum(bytes_by_key(store, name).values())


def bytes_by_key(store: redis.Redis, name: str) -> dict[str, int]:
    """Return the store's bytes for a conversation by kind of key."""
    keys: list[bytes] = list(store.scan_iter(f"sash:{{default/{name}}}:*", count=10_000))
    used = [int(store.memory_usage(key, samples=0) or 0) for key in keys]  # type: ignore[arg-type]
    return {key.rpartition(b":")[2].decode(): size for key, size in zip(keys, used, strict=True)}


def said_bytes(entries: Entries) -> int:
    """Return the bytes of the JSON of messages and their documents."""
    parts = chain.from_iterable((each["message"], each.get("grounding")) for each in entries)
    return sum(len(msgspec.json.encode(part)) for part in parts if part)


def taken_us(store: redis.Redis, call: Callable[[], object]) -> float:
    """Return the microseconds of the store's main thread for a call, as the median of several rounds."""
    rounds = []
    for _ in range(ROUNDS):
        before = main_thread_seconds(store)
        for _ in range(CALLS):
            call()
        rounds.append((main_thread_seconds(store) - before) / CALLS * 1e6)
    return statistics.median(rounds)


def main_thread_seconds(store: redis.Redis) -> float:
    """Return the processor time of the store's main thread, which runs every command, in seconds."""
    found: dict[str, Any] = store.info("cpu")  # type: ignore[assignment]
    return float(found["used_cpu_user_main_thread"]) + float(found["used_cpu_sys_main_thread"])


async def measure(app: App, store: redis.Redis, setting: tuple[int, int], conversations: Entries) -> Found:
    """Make conversations under a setting; measure their size, reads of the longest one's newest messages, and an append."""
    store.config_set("list-max-listpack-size", setting[0])
    store.config_set("list-compress-depth", setting[1])
    text, mark = prose(conversations), f"{setting[0]}-{setting[1]}".replace("-", "m")
    kinds = [[entries_of(length, text)] for length in LENGTHS] + [[named(entries_of(LENGTHS[0], text))]]
    kinds.append([each["entries"] for each in conversations])
    stored = []
    for place, kind in enumerate(each for each in kinds if each):
        names = [f"x{mark}-{place}-{number}" for number in range(len(kind))]
        for name, entries in zip(names, kind, strict=True):
            await fill(app, name, entries)
        stored.append(sum(stored_bytes(store, name) for name in names) / sum(map(said_bytes, kind)))
    log = f"sash:{{default/x{mark}-{len(LENGTHS) - 1}-0}}:log"
    taken = [taken_us(store, lambda count=count: store.lrange(log, -count, -1)) for count in WINDOWS]  # type: ignore[misc]
    body = msgspec.json.encode(entries_of(1, text)[0]["message"])
    return Found(stored, [*taken, taken_us(store, lambda: store.rpush("bench:log", body))])


async def where(app: App, store: redis.Redis, text: str) -> list[tuple[str, ...]]:
    """Return bytes a message by key, for a short conversation under Sash's settings: with Sash's ids and with short ids."""
    store.config_set("list-max-listpack-size", -2)
    store.config_set("list-compress-depth", 8)
    count, found = LENGTHS[0], []
    for name, entries in (("ours", entries_of(count, text)), ("short", named(entries_of(count, text)))):
        await fill(app, name, entries)
        found.append({"the messages' JSON": said_bytes(entries)} | bytes_by_key(store, name))
    return [
        (key, *(f"{each[key] / count:.0f}" for each in found))
        for key in sorted(found[0], key=lambda key: -found[0][key])
    ]


async def run(url: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]], str]:
    conversations = load_conversations()
    rows = []
    with redis.Redis.from_url(url) as store:
        async with worker(url) as app:
            for setting in SETTINGS:
                found = await measure(app, store, setting, conversations)
                shown = [f"{each:.2f}" for each in found.stored] + [f"{each:,.0f}" for each in found.taken_us]
                rows.append((f"`{setting[0]}`, `{setting[1]}`", *shown))
            keys = await where(app, store, prose(conversations))
        return rows, keys, machine(store.info("server"))  # type: ignore[arg-type]


@contextmanager
def fast_store() -> Any:
    """Yield a store that does not wait for the disk, because disk time is not measured here."""
    os.environ["SASH_DURABILITY"] = "fast"
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder), fsync="everysec") as store:
        yield store


def main() -> None:
    with fast_store() as store:
        rows, keys, on = uvloop.run(run(store.url))
    kinds = [f"{length:,} messages" for length in LENGTHS] + [f"{LENGTHS[0]} with short ids"]
    kinds += ["data set"] if len(rows[0]) > 10 else []
    calls = [f"newest {count:,}, µs" for count in WINDOWS]
    print(markdown(("size, depth", *kinds, *calls, "RPUSH, µs"), rows))
    print("\n" + markdown((f"bytes a message, of {LENGTHS[0]}", "Sash's ids", "short ids"), keys))
    print(
        f"\n{on.replace('appendfsync always', 'appendfsync everysec')}. {time.strftime('%Y-%m-%d')}, {ROUNDS} rounds."
    )


if __name__ == "__main__":
    main()
