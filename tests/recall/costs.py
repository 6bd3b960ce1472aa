"""Measures what recall costs: ``python -m tests.recall.costs``.

Messages have 400 characters, cut from the texts of the conversations with questions (data/recall.jsonl). Appends with and
without recall are measured in turn: over HTTP, 32 at once, on a store that writes each append to disk before it answers.
Windows are read in this process, one after another, with questions of the same conversations. Meanwhile a task sleeps for
one millisecond at a time; its delay is the time that the event loop was blocked. ``--readme`` writes the tables into
README.md.
"""

import argparse
import asyncio
import itertools
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec
import redis

from sash.api.middleware.asgi import App
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, worker
from tests.bench.load import load, request
from tests.bench.rig import Server, answer_of, machine, markdown, serving
from tests.bench.stalls import Stalls
from tests.recordings import DATA

README = Path(__file__).parent / "README.md"
MODES = ("off", "lexical")
LENGTHS = (1_000, 10_000, 20_000)
MOST_MS = (3, 12, 25)
CHARACTERS = 400
ROUNDS = 9
CONVERSATIONS = 32
APPENDS = 1_500  # in each round
EMBEDDED_DEPTH = 8
BATCH = 100
_IDLE_SECONDS = 1.0


def sources() -> tuple[list[str], list[str]]:
    """Return texts of 400 characters, and questions."""
    told = [json.loads(line) for line in (DATA / "recall.jsonl").read_bytes().splitlines()]
    said = " ".join(entry["message"]["content"] for each in told for entry in each["messages"])
    cuts = range(0, len(said) - CHARACTERS, CHARACTERS)
    return [said[at : at + CHARACTERS] for at in cuts], [
        question["text"] for each in told for question in each["questions"]
    ]


def entries(texts: Sequence[str], first: int, count: int) -> bytes:
    """Return the body of a request that appends ``count`` messages."""
    roles = ("user", "assistant")
    said = [
        {"message": {"role": roles[place % 2], "content": texts[place % len(texts)]}}
        for place in range(first, first + count)
    ]
    return msgspec.json.encode({"messages": said})


# ---- appends, over HTTP


async def appends(texts: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
    """Return, by mode and round, the milliseconds per append: elapsed, and of processor time with indexing included."""
    found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedStore(Path(folder), fsync="always") as store,
        serving(store.url) as server,
    ):
        for mode in MODES:
            begin(server, mode, texts)
        for turn in range(ROUNDS):
            for mode in MODES[:: 1 if turn % 2 else -1]:
                found[mode].append(await appended(server, mode, texts, turn))
    return found


def begin(server: Server, mode: str, texts: Sequence[str]) -> None:
    for number in range(CONVERSATIONS):
        answer_of(server.port, "/conversations", msgspec.json.encode({"id": f"{mode}-{number}", "recall": mode}))
        answer_of(server.port, f"/conversations/{mode}-{number}/messages", entries(texts, number, BATCH))


async def appended(server: Server, mode: str, texts: Sequence[str], turn: int) -> tuple[float, float]:
    await asyncio.sleep(_IDLE_SECONDS)
    asked = [
        request("POST", f"/conversations/{mode}-{number}/messages", entries(texts, turn * CONVERSATIONS + number, 1))
        for number in range(CONVERSATIONS)
    ]
    before = server.cpu_seconds()
    run = await load(server.port, asked, count=APPENDS, connections=CONVERSATIONS)
    assert not run.errors
    await asyncio.sleep(_IDLE_SECONDS)  # later indexing is part of the cost
    used = server.cpu_seconds() - before
    return 1000 / run.requests_per_second, 1000 * used / APPENDS


# ---- windows and bytes, in this process


async def fill(app: App, name: str, mode: str, texts: Sequence[str], length: int) -> None:
    await ask(app, "POST", "/conversations", msgspec.json.encode({"id": name, "recall": mode}))
    for first in range(0, length, BATCH):
        await ask(app, "POST", f"/conversations/{name}/messages", entries(texts, first, BATCH))
    while mode != "off":
        progress = json.loads(await ask(app, "GET", f"/conversations/{name}"))["recall_progress"]
        if progress["words"] == length:
            return
        await asyncio.sleep(0.1)


async def windows(app: App, name: str, questions: Iterator[str]) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each window, and of each blocking of the event loop meanwhile."""
    taken: list[float] = []
    async with Stalls() as stalls:
        for question in itertools.islice(questions, 100):
            path = f"/conversations/{name}/window?model=gpt-4o&max_tokens=4000&recall_max_tokens=2000"
            started = time.perf_counter()
            window = await ask(app, "GET", f"{path}&recall_query={quote(question)}")
            taken.append(1000 * (time.perf_counter() - started))
            assert json.loads(window)["recalled"]["messages"]
    return taken, stalls.found


def stored_bytes(store: redis.Redis, name: str) -> int:
    keys = store.scan_iter(f"sash:{{default/{name}}}:*")
    return sum(store.memory_usage(key, samples=0) or 0 for key in keys)


async def long_ones(texts: Sequence[str], questions: Sequence[str], compressing: int) -> dict[str, str]:
    """Return figures of windows, blocked event loop and bytes, by name, with the store's ``list-compress-depth`` given.

    The store compresses a list except for ``compressing`` nodes at each end; with 0 it compresses nothing.
    """
    asked, found = itertools.cycle(questions), {}
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedStore(Path(folder), fsync="always") as store,
        redis.Redis.from_url(store.url) as link,
    ):
        link.config_set("list-compress-depth", compressing)
        async with worker(store.url) as app:
            stood: list[float] = []
            for length, most in zip(LENGTHS, MOST_MS, strict=True):
                await fill(app, f"r{length}", "lexical", texts, length)
                await windows(app, f"r{length}", asked)
                taken, stalls = await windows(app, f"r{length}", asked)
                stood += stalls
                found[f"window with recall over {length:,} messages, ms (wanted: ≤ {most})"] = spread(taken)
            found["longest that the event loop stood still meanwhile, ms (≤ 5)"] = f"{max(stood):.1f}"
            await fill(app, "plain", "off", texts, LENGTHS[1])
        plain, indexed = (stored_bytes(link, name) / LENGTHS[1] for name in ("plain", f"r{LENGTHS[1]}"))
        more = f"{indexed / plain - 1:+.0%}: {plain:.0f} and {indexed:.0f}"
        found["stored bytes of a message, without and with recall (≤ 40 %)"] = more
        found["on"] = machine(link.info("server"))  # type: ignore[arg-type]
    return found


def spread(values: Sequence[float]) -> str:
    """Return the median and the 95th percentile as a text."""
    return f"{statistics.median(values):.1f} (95 % below {statistics.quantiles(values, n=20)[-1]:.1f})"


def compared(found: dict[str, list[tuple[float, float]]], part: Callable[[tuple[float, float]], float]) -> str:
    """Return, as a text, the median, lowest and highest of the rounds' ratios, and both modes' medians in milliseconds."""
    off, on = ([part(each) for each in found[mode]] for mode in MODES)
    ratios = [b / a for a, b in zip(off, on, strict=True)]
    share = f"{statistics.median(ratios) - 1:+.0%} ({min(ratios) - 1:+.0%} to {max(ratios) - 1:+.0%})"
    return f"{share}: {statistics.median(off):.2f} and {statistics.median(on):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.recall.costs", description=__doc__)
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    texts, questions = sources()
    posted = asyncio.run(appends(texts))
    rows = [
        ["append, without and with recall: ms of one of 32 at once (≤ 15 %)", compared(posted, lambda each: each[0])],
        ["the same: ms of a worker's processor time, indexing included", compared(posted, lambda each: each[1])],
    ]
    table = markdown(("appends", "more"), rows)
    embedded, plain = (asyncio.run(long_ones(texts, questions, depth)) for depth in (EMBEDDED_DEPTH, 0))
    told = embedded.pop("on")
    rows = [[name, figure, plain[name]] for name, figure in embedded.items()]
    head = ("windows and bytes", f"`list-compress-depth {EMBEDDED_DEPTH}`, as embedded", "`list-compress-depth 0`")
    text = f"{table}\n\n{markdown(head, rows)}\n\n{told}."
    sys.stdout.write(text + "\n")
    if options.readme:
        page = README.read_text("utf-8")
        page = re.sub(r"(?s)(<!-- costs -->\n).*?(\n<!-- end -->)", lambda at: f"{at[1]}\n{text}\n{at[2]}", page)
        README.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
