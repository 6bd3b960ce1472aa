"""Visitors that come at a given rate, however slow the answers are, and repeat a call until it succeeds.

A visitor makes one call in a conversation that no other visitor uses meanwhile, so the right answer of a read is known.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from faults.ledger import Ledger, Verdict, parse, read_history
from faults.wire import Reply, Wire

MIX = {"append with window": 70, "append": 60, "window": 36, "page": 24, "append again": 9, "erase": 1}
"""Calls by kind, of 200. "Append again" sends the newest turn once more, under its id."""
READS = {"window", "page"}
_NEWEST = 20
_ASKED = f"model=gpt-4o-mini&limit={_NEWEST}"
_RETRY_SECONDS = 0.2
"""Used where the answer has no Retry-After."""
_IDLE_SECONDS = 5.0
"""Connections idle for longer are not used again, as in most HTTP clients; the service closes them after ten seconds."""
Turn = tuple[str, int, int]
"""Conversation, life (1, and one more after each erasure) and number; the ledger takes the life for the writer."""


class Try(NamedTuple):
    """One request of a call: its times in seconds of the monotonic clock, and why it failed; empty if it did not."""

    began: float
    ended: float
    problem: str


class Call(NamedTuple):
    """A call with all its tries, of which only the last succeeded."""

    kind: str
    tries: list[Try]

    @property
    def seconds(self) -> float:
        """Seconds that the visitor waited, retries included."""
        return self.tries[-1].ended - self.tries[0].began


@dataclass
class Talk:
    """A conversation, and the number of its newest turn."""

    name: str
    life: int = 1
    newest: int = 0

    def turns(self, last: int) -> set[Turn]:
        """Return the newest ``last`` turns."""
        return {(self.name, self.life, number) for number in range(max(1, self.newest - last + 1), self.newest + 1)}


def said(turn: Turn) -> str:
    """Return the text of a turn, about 400 bytes."""
    return f"{' '.join(map(str, turn))}\n" + f"Is there a table for {turn[2]} at a quarter past {turn[1]}? " * 9


def heard(text: str) -> str:
    """Return the turn in a stored text, in the ledger's form; empty for a text that no visitor sends."""
    head = text.partition("\n")[0]
    return head if said(parse(head)) == text else ""


class Visitors:
    """All visitors: their turns, their calls, and what was wrong with what they read."""

    def __init__(self, ports: Callable[[int], int], *, conversations: int, seed: int = 1) -> None:
        self.ledger = Ledger()
        self.calls: list[Call] = []
        self.read = Verdict()
        self._ports = ports
        self._idle = [Talk(f"d-{number}") for number in range(conversations)]
        self._talks = list(self._idle)
        self._wires: list[tuple[float, Wire]] = []
        self._random = random.Random(seed)

    async def come(self, rate: Callable[[], float], over: asyncio.Event) -> None:
        """Start visitors at random moments, ``rate()`` a second, until ``over`` is set; wait for the last answer."""
        async with asyncio.TaskGroup() as visitors:
            due = time.monotonic()
            while not over.is_set():
                due += self._random.expovariate(rate())
                await asyncio.sleep(due - time.monotonic())
                if self._idle:
                    place = self._random.randrange(len(self._idle))
                    self._idle[place], self._idle[-1] = self._idle[-1], self._idle[place]
                    visitors.create_task(self._visit(self._idle.pop()))

    async def judge(self, port: int) -> Verdict:
        """Read every conversation back, and return what is wrong with it and with everything read before."""
        texts = {talk.name: [heard(text) for text in await read_history(port, talk.name)] for talk in self._talks}
        return self.read + self.ledger.judge(texts)

    async def _visit(self, talk: Talk) -> None:
        kind = self._random.choices(list(MIX), list(MIX.values()))[0] if talk.newest else "append"
        match kind:
            case "window":
                reply = await self._call(kind, "GET", f"/conversations/{talk.name}/window?{_ASKED}")
                self._judge_window(talk, json.loads(reply.body))
            case "page":
                await self._page(talk)
            case "erase":
                await self._erase(talk)
            case _:
                await self._append(talk, kind)
        self._idle.append(talk)

    async def _append(self, talk: Talk, kind: str) -> None:
        turn = (talk.name, talk.life, talk.newest + (kind != "append again"))
        self.ledger.attempted.add(turn)
        role = "user" if turn[2] % 2 else "assistant"
        entry = {"id": f"{turn[1]}-{turn[2]}", "message": {"role": role, "content": said(turn)}}
        path = f"/conversations/{talk.name}/messages" + (f"?{_ASKED}" if kind == "append with window" else "")
        reply = await self._call(kind, "POST", path, json.dumps({"messages": [entry]}).encode())
        self.ledger.acknowledged.add(turn)
        talk.newest = turn[2]
        if kind == "append with window":
            self._judge_window(talk, json.loads(reply.body)["window"])

    async def _page(self, talk: Talk, last: int = _NEWEST) -> None:
        reply = await self._call("page", "GET", f"/conversations/{talk.name}/messages?order=desc&limit={last}")
        entries = json.loads(reply.body)["messages"]
        self._judge(talk, [entry["message"]["content"] for entry in reversed(entries)], last)

    async def _erase(self, talk: Talk) -> None:
        """Read the whole conversation and erase it; the next turn begins another life."""
        await self._page(talk, 1000)
        await self._call("erase", "DELETE", f"/conversations/{talk.name}")
        self.ledger.erase(talk.turns(talk.newest))
        talk.life, talk.newest = talk.life + 1, 0

    def _judge_window(self, talk: Talk, window: dict[str, Any]) -> None:
        self._judge(talk, [message["content"] for message in window["request"]["messages"]], _NEWEST)

    def _judge(self, talk: Talk, texts: list[str], last: int) -> None:
        """Compare the texts of a read with the newest turns, all of which must be there."""
        known = Ledger(self.ledger.attempted, talk.turns(last), self.ledger.erased)
        self.read += known.judge({talk.name: [heard(text) for text in texts]})

    async def _call(self, kind: str, method: str, path: str, body: bytes = b"") -> Reply:
        """Repeat a request until it succeeds; return the answer. Raises AssertionError for one that a retry cannot mend."""
        tries: list[Try] = []
        while True:
            began = time.monotonic()
            try:
                reply = await self._ask(method, path, body)
            except OSError as error:
                tries.append(Try(began, time.monotonic(), str(error)[:40]))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            gone = method == "DELETE" and reply.status == 404 and tries  # an earlier try erased it
            if reply.status < 300 or gone:
                self.calls.append(Call(kind, [*tries, Try(began, time.monotonic(), "")]))
                return reply
            assert reply.status >= 500, f"{method} {path}: {reply.body.decode()}"
            tries.append(Try(began, time.monotonic(), json.loads(reply.body)["type"].removeprefix("/problems/")))
            await asyncio.sleep(float(reply.headers.get("retry-after", _RETRY_SECONDS)))

    async def _ask(self, method: str, path: str, body: bytes) -> Reply:
        wire = self._wire()
        reply = await wire.ask(method, path, body)
        self._wires.append((time.monotonic(), wire))
        return reply

    def _wire(self) -> Wire:
        """Return the connection that was used last, or a new one, set to the port that a balancer would choose."""
        wire = Wire(0)
        while self._wires:
            used, wire = self._wires.pop()
            if time.monotonic() - used < _IDLE_SECONDS:
                break
            wire.close()
        port = self._ports(wire.port)
        if port != wire.port:
            wire.close()
            wire.port = port
        return wire
