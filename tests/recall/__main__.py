"""Measures how many of the messages that answer a question are in the window: ``python -m tests.recall``.

The data are long conversations between two people, with questions whose evidence is known (data/recall.jsonl of the test
data, one conversation a line). Each row makes windows of the same budgets in its own way; a question's score is the share
of its evidence in the window. Sash's rows call the real application on the real store over HTTP. ``--readme`` writes the
table into README.md beside this file.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from sash.app import create_app
from sash.core.counts.costs.counting import message_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import find_model
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore
from tests.recordings import DATA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from recall.embeddings import MODEL as EMBEDDINGS
from recall.embeddings import serving
from recall.peers import peers
from recall.ways import Conversation, Way, ways

BUDGETS = (1000, 2000, 4000)
MODEL = "gpt-4o"
README = Path(__file__).parent / "README.md"


def conversations(path: Path) -> list[Conversation]:
    """Return the conversations of a file, with the tokens of each message."""
    model = find_model(MODEL, {})
    found = []
    for line in path.read_bytes().splitlines():
        told = json.loads(line)
        messages = [entry["message"] for entry in told["messages"]]
        costs = [message_tokens(measure(message), model) for message in messages]
        places = {entry["id"]: place for place, entry in enumerate(told["messages"])}
        questions = [(each["text"], [places[one] for one in each["evidence"]]) for each in told["questions"]]
        found.append(Conversation(told["id"], told["messages"], costs, questions, model.priming))
    return found


def score(told: Sequence[Conversation], way: Way, budget: int) -> float:
    """Return the mean share of the evidence that is in windows of ``budget`` tokens."""
    shares = []
    for each in told:
        for text, evidence in each.questions:
            kept = set(way(each, text, budget))
            assert sum(each.costs[place] for place in kept) + each.priming <= budget
            shares.append(sum(place in kept for place in evidence) / len(evidence))
    return sum(shares) / len(shares)


@asynccontextmanager
async def application(folder: Path, **options: Any) -> Any:
    """Yield a client of the real application on its own store."""
    with EmbeddedStore(folder, fsync="everysec") as store:
        app = create_app(Settings(redis_url=store.url, durability="fast", **options), log=None)
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        task = asyncio.ensure_future(app(scope, inbox.get, outbox.put))  # type: ignore[arg-type]
        inbox.put_nowait({"type": "lifespan.startup"})
        await outbox.get()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            yield client
        inbox.put_nowait({"type": "lifespan.shutdown"})
        await task


async def ours(told: Sequence[Conversation], mode: str) -> list[float]:
    """Return the service's scores for ``BUDGETS``, with the recall mode ``mode``."""
    async with serving() as endpoint:
        options = {"embeddings_url": endpoint.url, "embeddings_model": EMBEDDINGS} if mode == "semantic" else {}
        return await _ours(told, mode, **options)


async def _ours(told: Sequence[Conversation], mode: str, **options: Any) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        async with application(Path(folder) / "data", **options) as client:
            for each in told:
                await stored(client, each, mode)
            return [await asked(client, told, budget) for budget in BUDGETS]


async def stored(client: httpx.AsyncClient, told: Conversation, mode: str) -> None:
    """Append a conversation, and wait until all messages are indexed."""
    path = f"/conversations/{told.id}"
    (await client.post("/conversations", json={"id": told.id, "recall": mode})).raise_for_status()
    for start in range(0, len(told.entries), 100):
        batch = {"messages": told.entries[start : start + 100]}
        (await client.post(f"{path}/messages", json=batch)).raise_for_status()
    while True:
        progress = (await client.get(path)).json()["recall_progress"]
        whole = (progress["words"], progress["vectors"] if mode == "semantic" else progress["messages"])
        if whole == (progress["messages"], progress["messages"]):
            return
        await asyncio.sleep(0.1)


async def asked(client: httpx.AsyncClient, told: Sequence[Conversation], budget: int) -> float:
    """Return the mean share of the evidence in windows that use up to half of their budget for recall."""
    shares = []
    for each in told:
        for text, evidence in each.questions:
            wanted = {
                "model": MODEL,
                "reserve": 0,
                "max_tokens": budget,
                "recall_max_tokens": budget // 2,
                "recall_query": text,
                "explain": True,
            }
            window = (await client.get(f"/conversations/{each.id}/window", params=wanted)).raise_for_status().json()
            assert window["tokens"]["total"] <= budget
            kept = {line["seq"] - 1 for line in window["explain"] if line["kept"]}
            assert len(kept) == len(window["request"]["messages"])
            shares.append(sum(place in kept for place in evidence) / len(evidence))
    return sum(shares) / len(shares)


def table(rows: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Return the rows as a Markdown table."""
    head = "| window | " + " | ".join(f"{budget:,} tokens" for budget in BUDGETS) + " |"
    lines = [head, "| --- |" + " ---: |" * len(BUDGETS)]
    lines += [f"| {name} | " + " | ".join(f"{value:.1%}" for value in values) + " |" for name, values in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.recall", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA / "recall.jsonl", help="another file of conversations")
    parser.add_argument("--ours", action="store_true", help="the rows of the service alone")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md")
    options = parser.parse_args()
    told = conversations(options.data)
    others = {} if options.ours else {**ways(), **peers()}
    rows = [(name, [score(told, way, budget) for budget in BUDGETS]) for name, way in others.items()]
    rows += [(f"**Sash, `recall: {mode}`**", asyncio.run(ours(told, mode))) for mode in ("semantic", "lexical")]
    text = table(rows)
    print(text)
    if options.readme:
        page = README.read_text("utf-8")
        README.write_text(re.sub(r"\| window \|(?s:.*?)\n(?=\n|\Z)", lambda _: text + "\n", page, count=1), "utf-8")


if __name__ == "__main__":
    main()
