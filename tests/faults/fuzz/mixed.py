"""``python -m tests.faults mixed`` asks one worker for everything in any order, and watches its memory.

Settings, tools and texts are of each conversation's own, so that whatever is kept of them is seen.
"""

import argparse
import asyncio
import json
import random
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from faults.fuzz.broken import broken
from faults.fuzz.logs import PlainLog, mixed
from faults.fuzz.parameters import AGENTS, window
from faults.fuzz.scripts import Object, body_of
from faults.hostile import memory_mb, processes_of
from faults.processes import Service
from faults.runs import default_binary
from faults.wire import Reply, Wire
from rigs.servers import Server

from sash.commands.terminal import progress_bar

SHARES = {
    "append": 30,
    "window": 24,
    "append with window": 10,
    "count": 6,
    "list": 6,
    "patch": 4,
    "redact": 2,
    "pin": 2,
    "summary": 2,
    "rewind": 1,
    "fork": 2,
    "export": 2,
    "import": 1,
    "search": 3,
    "events": 2,
    "erase": 3,
    "begin": 3,
    "mistake": 6,
    "state": 2,
}
"""Requests by kind, of a hundred or so."""
WARM = 0.25
"""The share of a run after which memory should not grow any more."""
MOST_MB = 32.0
"""How much it may grow after that, for what a worker keeps for good: plans of settings, within their bound."""
_TALKS = 400
_LONGEST = 120
_TURNS = mixed()
_MISTAKES: tuple[tuple[str, str, bytes], ...] = (
    ("POST", "/conversations/{}/messages", b'{"messages": ['),
    ("POST", "/conversations/{}/messages", b'{"messages": [{"role": "user", "content": "\\ud83d"}]}'),
    ("POST", "/conversations/{}/messages", b'{"messages": [{"role": "nobody", "content": 1}]}'),
    ("POST", "/conversations/{}/messages", b'{"messages": [{"role": "tool", "tool_call_id": "none", "content": "a"}]}'),
    ("POST", "/conversations/{}/messages", b"[" * 5_000),
    ("POST", "/conversations/{}/messages?format=nobody", b"{}"),
    ("GET", "/conversations/{}/window?model=nobody-knows", b""),
    ("GET", "/conversations/{}/window?model=gpt-4o&max_tokens=0", b""),
    ("GET", "/conversations/{}/window?model=gpt-4o&receipt=x", b""),
    ("GET", "/conversations/{}/messages?cursor=x", b""),
    ("GET", "/conversations/{}/messages/999999", b""),
    ("PATCH", "/conversations/{}", b'{"nothing": 1}'),
    ("PUT", "/conversations/{}/messages", b"{}"),
    ("DELETE", "/conversations/nobody/messages/1", b""),
    ("GET", "/nowhere", b""),
    ("POST", "/count", b'{"model": 5}'),
)


class Crowd:
    """Clients that ask for anything of some hundred conversations."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self.answered: Counter[int] = Counter()
        self.kinds: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.slowest = (0.0, "")
        """Seconds of the slowest answer, and what was asked."""
        self._port = port
        self._chance = chance
        self._talks = [f"m-{number}" for number in range(_TALKS)]
        self._lengths: Counter[str] = Counter()
        self._numbers = iter(range(10**9))

    async def ask(self, wire: Wire) -> None:
        """Make one request, or the few that one kind takes, and judge the answers."""
        kind = self._chance.choices(list(SHARES), list(SHARES.values()))[0]
        name = self._chance.choice(self._talks)
        if self._lengths[name] > _LONGEST:
            kind = "erase"
        self.kinds[kind] += 1
        await getattr(self, f"_{kind.replace(' ', '_')}")(wire, f"/conversations/{name}", name)

    async def _say(self, wire: Wire, method: str, path: str, body: Any = None) -> Reply:
        sent = body if isinstance(body, bytes) else b"" if body is None else body_of(body)
        began = time.monotonic()
        try:
            reply = await wire.ask(method, path, sent)
        except ConnectionError as error:
            self.wrong.append(f"{error}: {method} {path}")
            return Reply(0, {}, b"")
        self.answered[reply.status] += 1
        self.slowest = max(self.slowest, (time.monotonic() - began, f"{method} {path.partition('?')[0]}"))
        if reply.status >= 500:
            self.wrong.append(f"{reply.status} to {method} {path} {sent[:300]!r}: {reply.body[:300]!r}")
        return reply

    # ---- one kind each

    async def _begin(self, wire: Wire, path: str, name: str) -> None:
        del path
        number = next(self._numbers)
        tools = [
            {
                "type": "function",
                "function": {
                    "name": f"look_{number}_{n}",
                    "description": "Looks. " * 40,
                    "parameters": {"type": "object"},
                },
            }
            for n in range(self._chance.choice((0, 0, 3, 40)))
        ]
        settings = {"id": name, "owner": f"o-{number % 50}", "system": f"Be brief. {number}", "recall": "lexical"}
        await self._say(wire, "POST", "/conversations", settings | ({"tools": tools} if tools else {}))

    def _messages(self) -> tuple[str, list[Object]]:
        log = PlainLog(self._chance)
        while not log.groups:
            log.pick(_TURNS)(log)
        form, messages = log.groups[0]
        if self._chance.random() < 0.1:
            messages = [broken(self._chance, messages[0])[0]]
        if self._chance.random() < 0.2 and form == "openai":
            messages = [
                {
                    "role": "user",
                    "content": f"{next(self._numbers)} talks on Gradle " * self._chance.choice((1, 30, 300)),
                }
            ]
        return form, messages

    async def _append(self, wire: Wire, path: str, name: str, query: str = "") -> None:
        form, messages = self._messages()
        reply = await self._say(wire, "POST", f"{path}/messages?format={form}{query}", {"messages": messages})
        self._lengths[name] += len(messages) * (reply.status == 201)

    def _query(self) -> str:
        asked = window(self._chance)
        if self._chance.random() < 0.2:
            asked["view"] = self._chance.choice(AGENTS)
        return urlencode(asked)

    async def _append_with_window(self, wire: Wire, path: str, name: str) -> None:
        asked = window(self._chance)
        asked.pop("format")
        await self._append(wire, path, name, f"&{urlencode(asked)}")

    async def _window(self, wire: Wire, path: str, name: str) -> None:
        del name
        await self._say(wire, "GET", f"{path}/window?{self._query()}")

    async def _count(self, wire: Wire, path: str, name: str) -> None:
        del path, name
        text = f"{next(self._numbers)} talks " * self._chance.choice((1, 50, 2_000))
        await self._say(
            wire, "POST", "/count", {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]}
        )

    async def _list(self, wire: Wire, path: str, name: str) -> None:
        del name
        at = self._chance.choice(
            (f"{path}/messages?limit=50&order=desc", "/conversations?limit=50", f"{path}/messages/1")
        )
        await self._say(wire, "GET", at)

    async def _patch(self, wire: Wire, path: str, name: str) -> None:
        del name
        await self._say(
            wire, "PATCH", path, {"metadata": {"n": next(self._numbers)}, "reserve": self._chance.randrange(500)}
        )

    def _seq(self, name: str) -> int:
        return self._chance.randint(1, max(1, self._lengths[name]))

    async def _redact(self, wire: Wire, path: str, name: str) -> None:
        await self._say(wire, "DELETE", f"{path}/messages/{self._seq(name)}")

    async def _pin(self, wire: Wire, path: str, name: str) -> None:
        await self._say(wire, "PATCH", f"{path}/messages/{self._seq(name)}", {"pinned": self._chance.random() < 0.5})

    async def _summary(self, wire: Wire, path: str, name: str) -> None:
        told = {"text": f"They met {next(self._numbers)}.", "through_seq": self._seq(name)}
        await self._say(wire, "PUT", f"{path}/summary", told)

    async def _rewind(self, wire: Wire, path: str, name: str) -> None:
        await self._say(wire, "POST", f"{path}/rewind", {"to_seq": self._seq(name)})

    async def _fork(self, wire: Wire, path: str, name: str) -> None:
        other = self._chance.choice(self._talks)
        await self._erase(wire, f"/conversations/{other}", other)
        await self._say(wire, "POST", f"{path}/fork", {"id": other})
        self._lengths[other] = self._lengths[name]

    async def _export(self, wire: Wire, path: str, name: str) -> None:
        """Exports have no length, so a connection of its own reads one to its end."""
        del wire, name
        await self._streamed(f"{path}/export", 20.0)

    async def _import(self, wire: Wire, path: str, name: str) -> None:
        await self._erase(wire, path, name)
        lines = [{"id": name, "system": "Imported."}]
        lines += [
            {"message": {"role": "user", "content": f"line {n} " * 20}} for n in range(self._chance.randint(1, 60))
        ]
        body = "\n".join(map(json.dumps, lines)).encode()
        await self._say(wire, "POST", "/conversations/import", body)
        self._lengths[name] = len(lines) - 1

    async def _search(self, wire: Wire, path: str, name: str) -> None:
        del name
        words = quote(
            self._chance.choice(("talks on Gradle", "look day", "강연", f"{self._chance.randrange(9)} brief"))
        )
        at = self._chance.choice((path, f"/owners/o-{self._chance.randrange(50)}"))
        await self._say(wire, "GET", f"{at}/search?query={words}&limit=5")

    async def _events(self, wire: Wire, path: str, name: str) -> None:
        del wire, name
        await self._streamed(f"{path}/events?after={self._chance.choice((0, 0, 1, 5))}", 0.05)

    async def _erase(self, wire: Wire, path: str, name: str) -> None:
        await self._say(wire, "DELETE", path)
        self._lengths[name] = 0

    async def _state(self, wire: Wire, path: str, name: str) -> None:
        del name
        await self._say(wire, "GET", self._chance.choice((path, "/stats", "/metrics", "/readyz", "/models")))

    async def _mistake(self, wire: Wire, path: str, name: str) -> None:
        del path
        method, at, body = self._chance.choice(_MISTAKES)
        await self._say(wire, method, at.format(name), body or None)

    async def _streamed(self, path: str, seconds: float) -> None:
        """Read a stream for so many seconds, or to its end, and leave."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 20)
            status = int(head.split(b" ")[1])
            self.answered[status] += 1
            if status >= 500:
                self.wrong.append(f"{status} to GET {path}")
            async with asyncio.timeout(seconds):
                while await reader.read(65_536):
                    pass
        except (TimeoutError, OSError, asyncio.IncompleteReadError) as error:
            if not isinstance(error, TimeoutError) or seconds > 1:
                self.wrong.append(f"{type(error).__name__}: GET {path}")
        finally:
            writer.transport.abort()


_SHOWN_CHARACTERS = 8_000


class Memory:
    """The memory of a service's processes in MB, by the share of the run that was done."""

    def __init__(self, service: Service) -> None:
        self._group = processes_of(service)
        self.seen: list[tuple[float, float, float]] = []
        """Share of the run, seconds, MB."""

    def note(self, share: float, seconds: float) -> None:
        self.seen.append((share, seconds, memory_mb(self._group)))

    @property
    def growth(self) -> float:
        """How much it grew after the warm-up: the median of the last fifth less that of the fifth behind the warm-up."""
        return _median(self._between(0.8, 1.1)) - _median(self._between(WARM, WARM + 0.2))

    def _between(self, first: float, last: float) -> list[float]:
        return [each for share, _, each in self.seen if first <= share < last]

    def lines(self) -> list[str]:
        """Return some of the measurements as lines of a table."""
        step = max(1, len(self.seen) // 10)
        return [
            f"| {share:.0%} | {seconds:.0f} s | {each:.0f} MB |" for share, seconds, each in self.seen[step - 1 :: step]
        ]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


async def _run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = Server(default_binary(), folder / "store", appendfsync="no", appendonly="no")
        service = Service(
            store.url, folder / "serve.log", SASH_DURABILITY="fast", SASH_RECALL="lexical", SASH_LOG_LEVEL="error"
        )
        try:
            store.start()
            await service.start()
            wrong = await _ask(options, service)
            if wrong:  # the log has errors alone
                print((folder / "serve.log").read_text()[-_SHOWN_CHARACTERS:])
            return wrong
        finally:
            await service.kill()
            store.kill()


async def _ask(options: argparse.Namespace, service: Service) -> int:
    crowd, memory, began = Crowd(service.port, random.Random(options.seed)), Memory(service), time.monotonic()
    memory.note(0, 0)
    with progress_bar() as bar:
        task = bar.add_task("requests", total=options.requests)

        async def client() -> None:
            wire = Wire(service.port)
            while crowd.answered.total() < options.requests and len(crowd.wrong) < 50:
                await crowd.ask(wire)
                done = crowd.answered.total()
                if done * 50 // options.requests >= len(memory.seen):
                    memory.note(done / options.requests, time.monotonic() - began)
                bar.update(task, completed=done)
            wire.close()

        await asyncio.gather(*(client() for _ in range(options.at_once)))
    seconds = time.monotonic() - began
    print("| share | time | memory |\n| --- | --- | --- |")
    print("\n".join(memory.lines()))
    statuses = ", ".join(f"{number:,}x {status}" for status, number in sorted(crowd.answered.items()))
    print(f"\n{crowd.answered.total():,} requests in {seconds:.0f} s, seed {options.seed}: {statuses}")
    print(f"the slowest answer took {crowd.slowest[0]:.2f} s: {crowd.slowest[1]}")
    print(f"after the first {WARM:.0%}, memory grew by {memory.growth:.1f} MB; the bound is {options.growth:.0f} MB")
    print("\n".join(crowd.wrong[:20]))
    return 1 if crowd.wrong or memory.growth > options.growth else 0


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults mixed", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=8, help="clients that ask at the same time")
    parser.add_argument("--growth", type=float, default=MOST_MB, help="MB that memory may grow after the warm-up")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the service ends, too
    return asyncio.run(_run(parser.parse_args(words)))
