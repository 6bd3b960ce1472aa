"""Windows that are made again from their receipts: ``python -m tests.bench.receipts [--windows 100000]``.

Many windows of conversations that go on, about a hundred of each: messages with tools, documents and pins are appended, and
now and then one is redacted, a conversation is rewound, its settings or its summary change, a reply goes on, or it is
erased. Then each window is asked for once more, after one of these:

- nothing happened, and another process answers;
- the service was started anew;
- the store was killed, and started anew on its files;
- the service was started with a key for encryption, or with a newer one;
- the service was started with other figures of a model (price and context window), as after an upgrade;
- the service was started with another rule: the note in place of what is left out has other words.

Every answer must have the same bytes, or be a 410 whose reason, version and message are those of an operation that was
made. Then the cost of a plain window is measured, with a receipt and without, in turn: round trips to the store, and
processor time of the service and of its store. Ends with status 1 if an answer was wrong.
"""

import argparse
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec
import redis
import uvloop

from sash.api.middleware.asgi import App
from sash.app import create_app
from sash.core.law import render
from sash.core.law.history import notes
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore
from sash.windows import stored
from sash.windows.asked import Asked
from sash.windows.flow import Flow
from sash.windows.needs import SeenHistory
from tests.bench.inprocess import answered, ask, running
from tests.bench.rig import body_of, markdown

WINDOWS: Final = 100_000
KEYS: Final = ("6b" * 32, "6c" * 32)
MODEL: Final = """[models."own"]
like = "gpt-4o-mini"
context_window = {window}
input_price = {price}
"""
_CALLS: Final = 50
QUERIES: Final = (
    "model=gpt-4o-mini",
    "model=gpt-4o-mini&max_tokens=300",
    "model=gpt-4o-mini&max_tokens=300&stable=true&note=true",
    "model=claude-sonnet-4-5&format=anthropic&max_tokens=900&cache=auto&price=auto",
    "model=own&grounding=all&limit=9",
    "model=gpt-5&format=responses&tool_results_kept=1&max_tokens=500",
    "model=gemini-2.5-pro&format=gemini&overflow=skip&max_tokens=250&reserve=0",
    "model=own&summary=always&max_tokens=600&note=true",
)
PHASES: Final = (
    *("another process", "a new process", "a killed store", "encryption", "a newer key", "other figures of a model"),
    "another rule",
)
WORDS: Final = ("the", "talk", "on", "gradle", "is", "at", "noon", "in", "second", "room", "nobody", "asked", "kotlin")


@dataclass
class Talk:
    """A conversation, and what was done to it: version, kind and message of each operation that took something away."""

    name: str
    length: int = 0
    begun: int = 0
    done: list[tuple[int, str, int]] = field(default_factory=list)
    changes: int = 0
    """Changes of settings and summaries."""


@dataclass(frozen=True)
class Kept:
    """A window that was served: a digest of its bytes, and what there was then."""

    talk: Talk
    receipt: str
    digest: bytes
    version: int
    length: int
    begun: int
    changes: int
    is_noted: bool


class Run:
    """Applications on one store, the conversations, and the windows that were served."""

    def __init__(self, seed: int, windows: int) -> None:
        self.chance = random.Random(seed)
        self.talks = [Talk(f"c-{number}") for number in range(max(60, windows // 100))]
        self.kept: list[Kept] = []

    def text(self, most: int = 60) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, most)))

    def entries(self, talk: Talk) -> list[dict[str, Any]]:
        """Return a turn: a question, perhaps with documents or pinned, perhaps with a tool's result, and a reply."""
        chance, question = self.chance, {"message": {"role": "user", "content": self.text()}}
        if chance.random() < 0.2:
            question["grounding"] = {"documents": [{"id": "d", "text": self.text(120)}]}
        if chance.random() < 0.03:
            question["pinned"] = True
        turn: list[dict[str, Any]] = [question]
        if chance.random() < 0.3:
            call = f"call-{talk.length}-{chance.randrange(10**6)}"
            function = {"name": "look", "arguments": "{}"}
            calls = [{"id": call, "type": "function", "function": function}]
            turn.append({"role": "assistant", "content": None, "tool_calls": calls})
            turn.append({"role": "tool", "tool_call_id": call, "content": self.text(200)})
        return [*turn, {"role": "assistant", "content": self.text()}]

    async def step(self, app: App) -> None:
        """Append a turn with its window, or change something; then ask for two windows."""
        chance, talk = self.chance, self.chance.choice(self.talks)
        path, kind = f"/conversations/{talk.name}", chance.random()
        if talk.length < 4 or kind < 0.8:
            await self._append(app, talk, path)
        else:
            await self._change(app, talk, path, kind)
        for query in chance.sample(QUERIES, 2):
            status, body = await answered(app, "GET", f"{path}/window?{query}")
            if status == 200:
                self.keep(talk, json.loads(body), body, is_whole=True, query=query)

    async def _append(self, app: App, talk: Talk, path: str) -> None:
        query = self.chance.choice(QUERIES[:3])
        body = msgspec.json.encode({"messages": self.entries(talk)})
        answer = json.loads(await ask(app, "POST", f"{path}/messages?{query}", body))
        talk.length = answer["last_seq"]
        if answer["window"] is not None:
            self.keep(talk, answer["window"], b"", is_whole=False, query=query)

    async def _change(self, app: App, talk: Talk, path: str, kind: float) -> None:
        chance, seq = self.chance, self.chance.randint(1, talk.length)
        if kind < 0.84:
            await ask(app, "DELETE", f"{path}/messages/{seq}")
            talk.done.append((await self.version(app, path), "redacted", seq))
        elif kind < 0.88:
            to = chance.randint(max(0, talk.length - 4), talk.length - 1)
            await ask(app, "POST", f"{path}/rewind", msgspec.json.encode({"to_seq": to}))
            talk.length = to
            talk.done.append((await self.version(app, path), "rewound", to))
        elif kind < 0.92:
            settings = {"system": self.text(), "metadata": {"n": chance.random()}}
            await ask(app, "PATCH", path, msgspec.json.encode(settings))
            talk.changes += 1
        elif kind < 0.96:
            summary = {"text": self.text(), "through_seq": seq}
            await ask(app, "PUT", f"{path}/summary", msgspec.json.encode(summary))
            talk.changes += 1
        elif kind < 0.99:
            await ask(app, "PATCH", f"{path}/messages/{seq}", b'{"pinned": true}')
            talk.done.append((await self.version(app, path), "amended", seq))
        elif kind < 0.995:
            await ask(app, "DELETE", path)
            talk.begun, talk.length, talk.done, talk.changes = talk.begun + 1, 0, [], 0

    async def version(self, app: App, path: str) -> int:
        found: int = json.loads(await ask(app, "GET", path))["version"]
        return found

    def keep(self, talk: Talk, window: dict[str, Any], body: bytes, *, is_whole: bool, query: str) -> None:
        """Keep a window. One in an append's answer is compared as it is decoded, because it stands among other bytes."""
        digest = blake2b(
            body if is_whole else _plain(window), digest_size=16, key=b"whole" if is_whole else b""
        ).digest()
        noted = "note=true" in query and window["note"] > 0
        length = talk.length
        self.kept.append(
            Kept(talk, window["receipt"], digest, window["version"], length, talk.begun, talk.changes, noted)
        )

    async def judge(self, app: App, kept: Kept, phase: str) -> str:
        """Ask for a window again. Returns ``same``, the true reason of a 410, or what is wrong."""
        status, body = await answered(app, "GET", f"/conversations/{kept.talk.name}/window?receipt={kept.receipt}")
        if status == 200:
            whole = blake2b(body, digest_size=16, key=b"whole").digest()
            same = kept.digest in (whole, blake2b(_plain(json.loads(body)), digest_size=16).digest())
            return "same" if same else "WRONG: other bytes"
        problem = json.loads(body)
        if status != 410:
            return f"WRONG: {status} {problem['type']}"
        return problem["reason"] if self.is_true(problem, kept, phase) else f"WRONG: untrue {problem['reason']}"

    def is_true(self, problem: dict[str, Any], kept: Kept, phase: str) -> bool:
        reason, talk = problem["reason"], kept.talk
        if talk.begun != kept.begun:
            return bool(reason == "erased")
        since = [each for each in talk.done if each[0] > kept.version]
        match reason:
            case "redacted" | "amended":
                return (problem["version"], reason, problem["seq"]) in since and problem["seq"] <= kept.length
            case "rewound":
                named = problem.get("version")
                return any(kind == "rewound" and to < kept.length and version == named for version, kind, to in since)
            case "settings":
                return talk.changes - kept.changes >= 8
            case "summary":  # its text goes with the messages that it covered
                is_taken = any(each[1] in {"redacted", "rewound"} for each in since)
                return is_taken or talk.changes - kept.changes >= 8
            case "history":
                return len(since) > 0
            case "rules":
                return phase == PHASES[-1] and kept.is_noted
        return False


def _plain(window: dict[str, Any]) -> bytes:
    return msgspec.json.encode(window)


async def replayed(folder: Path, windows: int, seed: int) -> tuple[dict[str, Counter[str]], float]:
    """Serve windows, and ask for each again in one of the phases. Returns the outcomes by phase, and the seconds."""
    run, models = Run(seed, windows), folder / "models.toml"
    models.write_text(MODEL.format(window=16_000, price=0.15))
    found: dict[str, Counter[str]] = defaultdict(Counter)
    started = time.monotonic()
    store = EmbeddedStore(folder / "data", fsync="always")
    store.start()
    try:
        async with AsyncExitStack() as stack:
            apps = [await stack.enter_async_context(running(_app(store, models))) for _ in range(2)]
            while len(run.kept) < windows:
                await run.step(run.chance.choice(apps))
            parts = _parts(run)
            await _judged(run, apps[0], parts, 0, found)
        async with running(_app(store, models)) as app:
            await _judged(run, app, parts, 1, found)
        os.kill(store.pid, signal.SIGKILL)
        store.stop()
        store = EmbeddedStore(folder / "data", fsync="always")
        store.start()
        async with running(_app(store, models)) as app:
            await _judged(run, app, parts, 2, found)
        for phase, keys in ((3, KEYS[:1]), (4, KEYS[::-1])):
            async with running(_app(store, models, ",".join(keys))) as app:
                for _ in range(len(run.talks)):
                    await run.step(app)
                await _judged(run, app, parts, phase, found)
        models.write_text(MODEL.format(window=32_000, price=0.3))
        async with running(_app(store, models, ",".join(KEYS[::-1]))) as app:
            await _judged(run, app, parts, 5, found)
            with _another_rule():
                await _judged(run, app, parts, 6, found)
    finally:
        store.stop()
    return found, time.monotonic() - started


def _app(store: EmbeddedStore, models: Path, keys: str = "") -> App:
    given = {"SASH_REDIS_URL": store.url, "SASH_MODELS_FILE": str(models)}
    return create_app(Settings.read({**given, **({"SASH_ENCRYPTION_KEY": keys} if keys else {})}), log=None)


def _parts(run: Run) -> list[list[Kept]]:
    """Return the windows, in a part for each phase."""
    order = list(run.kept)
    run.chance.shuffle(order)
    return [order[place :: len(PHASES)] for place in range(len(PHASES))]


async def _judged(run: Run, app: App, parts: list[list[Kept]], phase: int, found: dict[str, Counter[str]]) -> None:
    name = PHASES[phase]
    for kept in parts[phase]:
        found[name][await run.judge(app, kept, name)] += 1


@contextmanager
def _another_rule() -> Iterator[None]:
    """Another release: its note has other words."""

    def note_message(count: int) -> dict[str, Any]:
        return {"role": "system", "content": f"{count} earlier messages are not shown."}

    with patch.object(notes, "note_message", note_message), patch.object(render, "note_message", note_message):
        yield


# ---- the cost of a plain window


async def cost(folder: Path, rounds: int) -> list[tuple[str, str]]:
    """Measure a window of 8,000 tokens out of 1,000 messages with a receipt and without, in turn."""
    named, wants = stored.window, [True]

    def named_or_bare(asked: Asked, seen: SeenHistory) -> Flow:
        return named(asked if wants[0] else msgspec.structs.replace(asked, receipt=None), seen)

    times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    calls: dict[bool, int] = {}
    with EmbeddedStore(folder / "cost") as store, redis.Redis.from_url(store.url) as beside:
        async with running(_app(store, folder / "models.toml")) as app:
            for _ in range(10):
                await ask(app, "POST", "/conversations/long/messages", body_of(100, 40))
            path = "/conversations/long/window?model=gpt-4o-mini&max_tokens=8000"
            with patch.object(stored, "window", named_or_bare):
                for number in range(2 * rounds):
                    wants[0] = number % 4 in (0, 3)
                    own, other = time.process_time(), _seconds_of(store.pid)
                    for _ in range(_CALLS):
                        await ask(app, "GET", path)
                    took = time.process_time() - own, _seconds_of(store.pid) - other
                    times[wants[0]].append((took[0] / _CALLS * 1e6, took[1] / _CALLS * 1e6))
                for each in (True, False):
                    wants[0], before = each, int(beside.info("stats")["total_commands_processed"])
                    for _ in range(_CALLS):
                        await ask(app, "GET", path)
                    calls[each] = int(beside.info("stats")["total_commands_processed"]) - before - 1
    own = {each: _quarter([one for one, _ in times[each]]) for each in times}
    theirs = statistics.mean(other for _, other in times[False])
    more = own[True] - own[False]
    return [
        (
            "commands that the store ran for a window, with a receipt and without",
            f"{calls[True] / _CALLS:.2f} and {calls[False] / _CALLS:.2f}",
        ),
        ("processor time of the service without a receipt", f"{own[False]:.0f} µs"),
        ("processor time of the store", f"{theirs:.0f} µs"),
        ("more with a receipt", f"{more:.1f} µs"),
        ("of the service's time", f"{more / own[False]:.1%}"),
        ("of both times", f"{more / (own[False] + theirs):.1%}"),
    ]


def _quarter(values: list[float]) -> float:
    """The lower quartile: a busy machine makes some rounds longer, and none shorter."""
    return statistics.quantiles(values, n=4)[0]


def _seconds_of(pid: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.receipts", description=__doc__)
    parser.add_argument("--windows", type=int, default=WINDOWS, help="the number of windows that are asked for again")
    parser.add_argument("--rounds", type=int, default=200, help="rounds of the cost of a plain window")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        found, seconds = uvloop.run(replayed(place, options.windows, options.seed))
        print(_table(found))
        print(
            f"\n{sum(each.total() for each in found.values())} windows were served and asked for again in {seconds:.0f} s.\n"
        )
        print(markdown(("a plain window", ""), uvloop.run(cost(place, options.rounds))))
    if any(outcome.startswith("WRONG") for each in found.values() for outcome in each):
        sys.exit(1)


def _table(found: dict[str, Counter[str]]) -> str:
    reasons = sorted({outcome for each in found.values() for outcome in each} - {"same"})
    head = (
        "asked again after",
        "windows",
        "the same bytes",
        *(f"410 {each}" if each[0] != "W" else each for each in reasons),
    )
    rows = [
        (name, f"{each.total():,}", f"{each['same']:,}", *(f"{each[reason]:,}" for reason in reasons))
        for name, each in found.items()
    ]
    return markdown(head, rows)


if __name__ == "__main__":
    main()
