"""Test agreements from four tabs while service and store are killed: each text stands once, on the path or in a branch."""

import asyncio
import contextlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from faults.ledger import Verdict
from faults.runs import Row, Scale, running
from faults.wire import Wire
from rigs.servers import Server

_TABS = 4
_TURNS = 80
"""Changes of one conversation, fewer than the branches that it keeps; then the tabs go on with the next one."""


class Chats:
    """The conversations of all tabs: the texts that were sent to each, and those that were acknowledged."""

    def __init__(self) -> None:
        self.number = 1
        self.sent: dict[str, set[str]] = {}
        self.done: dict[str, set[str]] = {}
        self._turns = 0

    def turn(self) -> str:
        """Return the conversation that the next change is of."""
        self._turns += 1
        if self._turns > _TURNS:
            self.number, self._turns = self.number + 1, 1
        name = f"tabs-{self.number}"
        self.sent.setdefault(name, set())
        self.done.setdefault(name, set())
        return name


class Tab:
    """A browser tab: it holds the chat as it saw it at last, and puts the whole list, or goes to a branch."""

    def __init__(self, number: int, port: int, chats: Chats, chance: random.Random) -> None:
        self._name = number
        self._wire = Wire(port, timeout_seconds=10)
        self._chats = chats
        self._chance = chance
        self._count = 0
        self._conversation = ""
        self._list: list[dict[str, str]] = []
        self.requests = 0
        self.failures = 0
        self.wrong = ""

    async def run(self) -> None:
        """Press one thing after the other, until it is cancelled."""
        while True:
            name = self._chats.turn()
            if name != self._conversation:
                self._conversation, self._list = name, []
            if self._list and self._chance.random() < 0.3:
                await self._reload()
            if self._list and self._chance.random() < 0.2:
                await self._swap()
            else:
                await self._put()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def _text(self, role: str) -> dict[str, str]:
        self._count += 1
        return {"role": role, "content": f"{role} {self._name}-{self._count}"}

    async def _put(self) -> None:
        """Ask, edit the last question, or regenerate its reply."""
        match self._chance.randrange(3) if self._list else 0:
            case 0:
                kept, new = self._list, [self._text("user"), self._text("assistant")]
            case 1:
                kept, new = self._list[:-2], [self._text("user"), self._text("assistant")]
            case _:
                kept, new = self._list[:-1], [self._text("assistant")]
        name, wanted = self._conversation, [*kept, *new]
        self._chats.sent[name] |= {each["content"] for each in new}
        body = json.dumps({"messages": wanted}).encode()
        if await self._ask("PUT", f"/conversations/{name}/messages?list=whole", body) is not None:
            self._chats.done[name] |= {each["content"] for each in new}
            self._list = wanted

    async def _swap(self) -> None:
        path = f"/conversations/{self._conversation}/branches"
        listed = await self._ask("GET", path)
        if listed and listed["branches"]:
            await self._ask("POST", f"{path}/{self._chance.choice(listed['branches'])['id']}")
            await self._reload()

    async def _reload(self) -> None:
        page = await self._ask("GET", f"/conversations/{self._conversation}/messages?limit=1000")
        if page is not None:
            self._list = [
                {"role": each["message"]["role"], "content": each["message"]["content"]} for each in page["messages"]
            ]

    async def _ask(self, method: str, path: str, body: bytes = b"") -> Any:
        """Ask until there is an answer; None where the conversation or the branch is not there."""
        while True:
            self.requests += 1
            with contextlib.suppress(OSError, TimeoutError):
                reply = await self._wire.ask(method, path, body)
                if reply.status < 300:
                    return json.loads(reply.body)
                if reply.status in (404, 409):
                    return None
                if reply.status < 500:
                    self.wrong = f"{method} {path} was {reply.status}"
                    return None
            self.failures += 1
            await asyncio.sleep(0.05)


async def agreements_killed(folder: Path, scale: Scale) -> Row:
    """Kill the service and the store in turn while four tabs make a log agree with their lists, and go to branches."""
    store, chance, chats = Server(scale.binary, folder / "store"), random.Random(scale.seed), Chats()
    kills = scale.service_kills + scale.store_kills // 2
    async with running(store, folder) as service:
        tabs = [Tab(number, service.port, chats, random.Random(scale.seed + number)) for number in range(_TABS)]
        running_tabs = [asyncio.ensure_future(tab.run()) for tab in tabs]
        for number in range(kills):
            await asyncio.sleep(0.2 + chance.random() * 0.6)
            if number % 2:
                await service.kill()
                await service.start()
            else:
                await asyncio.to_thread(store.kill)
                await asyncio.to_thread(store.start)
        await asyncio.sleep(1)
        for each in running_tabs:
            each.cancel()
        await asyncio.gather(*running_tabs, return_exceptions=True)
        for tab in tabs:
            tab.close()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.port}", timeout=30) as client:
            found = [await _judge(client, name, chats) for name in chats.sent]
    total = sum((each for each, _ in found), Verdict())
    broken = next(filter(None, [*(tab.wrong for tab in tabs), *(why for _, why in found)]), "")
    turns = sum(map(len, chats.done.values()))
    failures = f"{sum(tab.failures for tab in tabs)} sent again"
    note = f"{kills} kills, {_TABS} tabs, {len(found)} conversations"
    return Row("agreements, killed (-9)", turns, sum(tab.requests for tab in tabs), total, failures, note, broken)


async def _judge(client: httpx.AsyncClient, name: str, chats: Chats) -> tuple[Verdict, str]:
    """Return what is wrong with the texts of a conversation and its branches, and with its totals."""
    exported = await _exported(client, name)
    if exported is None:
        return Verdict(lost=len(chats.done[name])), ""
    head, *lines = map(json.loads, exported.splitlines())
    texts = Counter(line["message"]["content"] for line in lines if "branch" not in line)
    verdict = Verdict(
        lost=len(chats.done[name] - texts.keys()),
        duplicated=sum(count - 1 for count in texts.values()),
        foreign=len(texts.keys() - chats.sent[name]),
    )
    ends = next((place for place, line in enumerate(lines) if "branch" in line), len(lines))
    tokens = sum(line["tokens"]["o200k_base"] for line in lines[:ends])
    return verdict, "" if tokens == head["tokens"]["o200k_base"] else "totals are wrong"


async def _exported(client: httpx.AsyncClient, name: str) -> bytes | None:
    """Return a conversation's whole export, and None where there is none. A tab's last request may still be under way:
    an export that it changes breaks off or is 409, and is asked for again."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await client.get(f"/conversations/{name}/export")
                if answer.status_code in (200, 404):
                    return answer.content if answer.status_code == 200 else None
            await asyncio.sleep(0.05)
