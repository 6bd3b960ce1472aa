"""Test that killing clients while they store a reply part by part loses nothing acknowledged."""

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

from faults.ledger import Verdict
from faults.processes import ROOT
from faults.reply_client import PARTS, text_of
from faults.runs import Row, Scale, running
from faults.wire import Wire
from rigs.servers import Server

_CLIENTS = 8


class Talk:
    """One conversation, written by one client after the other, with the newest part sent and acknowledged of each reply."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self._port = port
        self.tried: dict[int, int] = {}
        self.done: dict[int, int] = {}

    async def until_killed(self, seconds: float) -> None:
        """Run a client for ``seconds`` after its first line and kill it; the next client begins with a new question."""
        number = max(self.tried, default=0) + 1
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "faults.reply_client", str(self._port), self.name, str(number)),
            cwd=ROOT / "tests",
            stdout=asyncio.subprocess.PIPE,
        )
        assert client.stdout is not None
        first = await client.stdout.readline()
        await asyncio.sleep(seconds)
        client.kill()
        rest = await client.stdout.read()
        await client.wait()
        for line in (first + rest).decode().splitlines():
            match line.split():
                case ["try", number_, part]:
                    self.tried[int(number_)] = int(part)
                case ["done", number_, part]:
                    self.done[int(number_)] = int(part)

    async def _stored(self, wire: Wire) -> list[Any]:
        """Return every stored entry, read page by page."""
        stored: list[Any] = []
        query = "limit=1000"
        while query:
            page = json.loads((await wire.ask("GET", f"/conversations/{self.name}/messages?{query}")).body)
            stored += page["messages"]
            query = f"limit=1000&cursor={page['next_cursor']}" if page["next_cursor"] else ""
        return stored

    async def judge(self, wire: Wire) -> tuple[Verdict, str]:
        """Return what is wrong with the stored entries, and with their window and token totals."""
        path = f"/conversations/{self.name}"
        stored = await self._stored(wire)
        whole = json.loads((await wire.ask("GET", path)).body)["tokens"]["o200k_base"]
        made = json.loads((await wire.ask("GET", f"{path}/window?model=gpt-4o&max_tokens=100000000")).body)
        ids = [entry["id"] for entry in stored]
        replies = {int(entry["id"][2:]): entry for entry in stored if entry["id"].startswith("r-")}
        verdict = Verdict(duplicated=len(ids) - len(set(ids)))
        order = [int(identity[2:]) for identity in ids]
        verdict.reordered = int(order != sorted(order))
        kept = {number: _part(self.name, number, entry) for number, entry in replies.items()}
        verdict.foreign = sum(part is None or part > self.tried.get(number, 0) for number, part in kept.items())
        verdict.lost = sum((kept.get(number) or 0) < part for number, part in self.done.items())
        ended = [number for number, entry in replies.items() if entry["status"] == "completed"]
        said = [each["content"] for each in made["request"]["messages"] if each["role"] == "assistant"]
        wrong = [
            "a window has a reply in progress" if said != [text_of(self.name, n, PARTS) for n in ended] else "",
            "a reply ended early" if any(kept[number] != PARTS for number in ended) else "",
            "totals are wrong" if whole != sum(entry["tokens"]["o200k_base"] for entry in stored) else "",
        ]
        return verdict, ", ".join(filter(None, wrong))


def _part(conversation: str, number: int, entry: dict[str, object]) -> int | None:
    """Return the newest part that a stored reply holds; None for a text that no client sent."""
    message = entry["message"]
    text = message["content"] if isinstance(message, dict) else ""
    part = str(text).count("word")
    return part if text == text_of(conversation, number, part) else None


async def clients_killed(folder: Path, scale: Scale) -> Row:
    """Kill clients with SIGKILL while they store replies, again and again; each conversation goes on with a new client."""
    store, chance = Server(scale.binary, folder / "store"), random.Random(scale.seed)
    async with running(store, folder) as service:
        talks = [Talk(f"talk-{place}", service.port) for place in range(_CLIENTS)]
        for _ in range(scale.service_kills * 2):
            await asyncio.gather(*(talk.until_killed(0.1 + chance.random() * 0.4) for talk in talks))
        wire = Wire(service.port, timeout_seconds=30)
        found = [await talk.judge(wire) for talk in talks]
        wire.close()
    total = sum((each for each, _ in found), Verdict())
    broken = next((why for _, why in found if why), "")
    acknowledged = sum(sum(talk.done.values()) for talk in talks)
    cut = sum(part < PARTS for talk in talks for part in talk.tried.values())
    note = f"{scale.service_kills * 2 * _CLIENTS} kills, {cut} in the middle of a reply"
    if not cut:
        broken = broken or "no client was killed in the middle of a reply"
    return Row("clients killed (-9)", acknowledged, acknowledged, total, "none", note, broken)
