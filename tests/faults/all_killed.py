"""Everything that changes a conversation, with pictures, while worker, service and store are killed in turn.

Two hands work in each conversation: they append, make the log agree with a list, go to a branch, drop one, redact a message,
rewind, and erase the whole conversation. A third one copies: it forks, or exports and imports, and erases the copy. What was
acknowledged must be there once, in order, with its picture; what was erased must be nowhere: in no answer, in no key of the
store, in no object.
"""

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import redis
from faults.ledger import Verdict
from faults.pictures_kept import picture
from faults.processes import Service
from faults.runs import Row, Scale, running
from rigs.servers import Server
from rigs.storages import MARKED, files_in

from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_erasures import MediaErasures
from sash.store.data.object_storage import open_objects
from sash.store.redis.client import Client

_CHATS, _HANDS = 3, 2
_TURNS = 70
"""Changes of one conversation, fewer than the branches that it keeps; then its hands go on with the next one."""
_PICTURES = 4
"""Pictures of a conversation: each is in many of its messages."""
_NDJSON = {"Content-Type": "application/x-ndjson"}
_IN_PROGRESS = "/problems/idempotency-key-in-progress"
"""A worker that was killed holds its request's key for ten seconds."""
_DUE_MS, _STAGED_MS = 601_000, 600_000
_TEXT = re.compile(r"(\S+) (\d+) (\d+) (\d+)\.")
"""Conversation, hand, number, and the number of the picture; 0 is none."""


@dataclass
class Told:
    """What the hands of a conversation know of its texts."""

    name: str
    sent: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    """Those that were acknowledged."""
    gone: set[str] = field(default_factory=set)
    """Those that an erasure may have taken."""
    erased: set[str] = field(default_factory=set)
    """Those that an acknowledged erasure took."""
    turns: int = 0


@dataclass
class Found:
    """A conversation as its export has it: its entries, and those of its branches by the branch's id."""

    etag: str
    path: list[dict[str, Any]]
    branches: dict[str, list[dict[str, Any]]]

    @property
    def texts(self) -> list[str]:
        """The texts of all entries."""
        return [text for each in (self.path, *self.branches.values()) for text in texts_of(each)]


def texts_of(entries: list[dict[str, Any]]) -> list[str]:
    """Return the texts of entries, without those that were redacted."""
    return [text_of(each["message"]["content"]) for each in entries if not each.get("redacted")]


def text_of(content: Any) -> str:
    """Return the text of a message's content."""
    text: str = content if isinstance(content, str) else content[0]["text"]
    return text


def message_of(text: str, role: str = "user") -> dict[str, Any]:
    """Return the message of a text, with the picture that it names."""
    match = _TEXT.fullmatch(text)
    assert match is not None, text
    name, _, _, number = match.groups()
    if number == "0":
        return {"role": role, "content": text}
    image = {"type": "image_url", "image_url": {"url": picture(f"{name} {number}")}}
    return {"role": role, "content": [{"type": "text", "text": text}, image]}


def read(answer: httpx.Response) -> Found:
    """Return an export's conversation."""
    found, at = Found(answer.headers["etag"], [], {}), ""
    for line in map(json.loads, answer.content.splitlines()[1:]):
        if "branch" in line:
            at = line["branch"]["id"]
            found.branches[at] = []
        else:
            (found.branches[at] if at else found.path).append(line)
    return found


class Asker:
    """Asks until there is an answer, each change under one Idempotency-Key."""

    def __init__(self, service: Service, chance: random.Random) -> None:
        self._client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.port}", timeout=20)
        self.chance = chance
        self.requests = 0
        self.answers = 0
        self.failures = 0
        self.wrong: list[str] = []

    async def ask(self, method: str, path: str, *, told: Sequence[int] = (), **rest: Any) -> httpx.Response:
        """Return the first answer that is no failure of the service, nor tells that a killed worker still holds the key.

        ``told`` are statuses that another hand's change may lead to, beside those of every request.
        """
        headers = dict(rest.pop("headers", {}))
        if method != "GET":
            headers["Idempotency-Key"] = f"{self.chance.getrandbits(64):x}"
        while True:
            self.requests += 1
            with contextlib.suppress(httpx.TransportError):
                answer = await self._client.request(method, path, headers=headers, **rest)
                if answer.status_code == 500:
                    self.wrong.append(f"{method} {path} was 500: {answer.text[:200]}")
                if answer.status_code < 500 and _IN_PROGRESS not in answer.text:
                    self.answers += 1
                    if answer.status_code not in (200, 201, 204, 404, 409, 412, 410, *told):
                        self.wrong.append(f"{method} {path} was {answer.status_code}: {answer.text[:200]}")
                    return answer
            self.failures += 1
            await asyncio.sleep(0.05)

    async def export(self, name: str) -> httpx.Response | None:
        """Return an export; None where there is no conversation, or it changes all the time."""
        for _ in range(20):
            with contextlib.suppress(httpx.TransportError):
                answer = await self.ask("GET", f"/conversations/{name}/export")
                if answer.status_code == 200:
                    return answer
                if answer.status_code == 404:
                    return None
            await asyncio.sleep(0.02)
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


class Hand(Asker):
    """One of those who work in a conversation."""

    def __init__(self, number: int, service: Service, chats: "Chats", place: int) -> None:
        super().__init__(service, random.Random(number * 1000 + chats.seed))
        self._number = number
        self._chats = chats
        self._place = place
        self._count = 0
        self.did: Counter[str] = Counter()

    async def run(self) -> None:
        """Do one thing after the other, until it is cancelled."""
        moves: dict[Callable[[Told], Awaitable[None]], int] = {
            self._append: 40,
            self._agree: 20,
            self._redact: 14,
            self._swap: 10,
            self._rewind: 4,
            self._drop: 5,
            self._erase: 2,
        }
        while True:
            (move,) = self.chance.choices(list(moves), list(moves.values()))
            self.did[move.__name__.strip("_")] += 1
            await move(self._chats.turn(self._place))

    def _texts(self, told: Told, number: int) -> list[str]:
        texts = []
        for _ in range(number):
            self._count += 1
            shown = self.chance.choice((0, 0, *range(1, _PICTURES + 1)))
            texts.append(f"{told.name} {self._number} {self._count} {shown}.")
        told.sent |= {*texts}
        return texts

    async def _append(self, told: Told) -> None:
        texts = self._texts(told, self.chance.choice((1, 1, 2)))
        entries = [{"id": text.replace(" ", "-"), "message": message_of(text)} for text in texts]
        answer = await self.ask("POST", f"/conversations/{told.name}/messages", json={"messages": entries})
        if answer.status_code < 300:
            told.done |= {*texts}

    async def _agree(self, told: Told) -> None:
        """Edit the last message, or ask behind the list as it is seen."""
        exported = await self.export(told.name)
        if exported is None:
            return
        found = read(exported)
        kept = [message_of(text) for text in texts_of(found.path)]
        if len(kept) < len(found.path):
            return  # a redacted one has no message to send
        kept = kept[: len(kept) - self.chance.randrange(3)] if len(kept) > 3 else kept
        texts = self._texts(told, 1)
        answer = await self.ask(
            "PUT",
            f"/conversations/{told.name}/messages?list=whole",
            json={"messages": [*kept, *map(message_of, texts)]},
            headers={"If-Match": found.etag},
        )
        if answer.status_code < 300:
            told.done |= {*texts}

    async def _redact(self, told: Told) -> None:
        exported = await self.export(told.name)
        if exported is None:
            return
        found = read(exported)
        entries = [each for part in (found.path, *found.branches.values()) for each in part]
        known = {text: each["id"] for each in entries for text in texts_of([each]) if text in told.done}
        if not known:
            return
        text = self.chance.choice(sorted(known))
        told.gone.add(text)
        answer = await self.ask("DELETE", f"/conversations/{told.name}/messages/id:{known[text]}")
        if answer.status_code < 300:
            told.erased.add(text)

    async def _swap(self, told: Told) -> None:
        listed = await self.ask("GET", f"/conversations/{told.name}/branches")
        if listed.status_code == 200 and (branches := listed.json()["branches"]):
            await self.ask("POST", f"/conversations/{told.name}/branches/{self.chance.choice(branches)['id']}")

    async def _drop(self, told: Told) -> None:
        exported = await self.export(told.name)
        if exported is None or not (branches := read(exported).branches):
            return
        which = self.chance.choice(sorted(branches))
        texts = {*texts_of(branches[which])}
        for line in map(json.loads, exported.content.splitlines()[1:]):
            if line.get("branch", {}).get("parent") == which:
                return  # what hangs in it goes with it, or stays: not asked here
        told.gone |= texts
        answer = await self.ask("DELETE", f"/conversations/{told.name}/branches/{which}")
        if answer.status_code < 300:
            told.erased |= texts & told.done

    async def _rewind(self, told: Told) -> None:
        exported = await self.export(told.name)
        if exported is None or len(path := read(exported).path) < 4:
            return
        told.gone |= {*texts_of(path)}  # without a branch it is an erasure; what it took is not asked
        # Another hand may have made it shorter meanwhile, which is 422.
        await self.ask("POST", f"/conversations/{told.name}/rewind", told=[422], json={"to_seq": len(path) - 2})

    async def _erase(self, told: Told) -> None:
        told.gone |= told.sent
        before = set(told.done)
        answer = await self.ask("DELETE", f"/conversations/{told.name}")
        told.gone |= told.sent
        if answer.status_code < 300:
            told.erased |= before


class Copier(Asker):
    """Copies conversations, looks at the copy, and erases it."""

    def __init__(self, service: Service, chats: "Chats") -> None:
        super().__init__(service, random.Random(chats.seed - 1))
        self._chats = chats
        self.names: list[str] = []
        self.copies = 0
        self.ends = False

    async def run(self) -> None:
        """Make one copy after the other, and erase the last one, too, where it ``ends``."""
        while not self.ends:
            await self._copy(self._chats.turn(self.chance.randrange(_CHATS)))
            await asyncio.sleep(0.05)

    async def _copy(self, told: Told) -> None:
        name = f"copy-{len(self.names)}"
        erased = set(told.erased)
        self.names.append(name)
        if self.chance.random() < 0.5:
            answer = await self.ask("POST", f"/conversations/{told.name}/fork", json={"id": name})
        else:
            exported = await self.export(told.name)
            if exported is None:
                return
            answer = await self.ask(
                "POST", f"/conversations/import?id={name}", content=exported.content, headers=_NDJSON
            )
        if answer.status_code < 300:
            self.copies += 1
            copied = await self.export(name)
            if copied is None:
                self.wrong.append(f"{name} of {told.name} was acknowledged, and is not there")
            else:
                self.wrong += wrong_in(name, read(copied))
                if back := erased & {*read(copied).texts}:
                    self.wrong.append(f"{name} has {sorted(back)[:2]}, which were erased before")
        await self.ask("DELETE", f"/conversations/{name}")
        if await self.export(name) is not None:
            self.wrong.append(f"{name} is there after its erasure")


class Chats:
    """The conversations in turn."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.all: list[Told] = [Told(f"all-{place}-1") for place in range(_CHATS)]
        self._now = list(self.all)

    def turn(self, place: int) -> Told:
        """Return the conversation of the next change at a place."""
        told = self._now[place]
        told.turns += 1
        if told.turns > _TURNS:
            kind, where, number = told.name.split("-")
            told = self._now[place] = Told(f"{kind}-{where}-{int(number) + 1}")
            self.all.append(told)
        return told


def wrong_in(name: str, found: Found) -> list[str]:
    """Return what is wrong with the pictures of a conversation."""
    entries = [each for part in (found.path, *found.branches.values()) for each in part]
    return [
        f"{name}: {text} has not its picture"
        for each in entries
        for text in texts_of([each])
        if _TEXT.fullmatch(text) and each["message"]["content"] != message_of(text)["content"]
    ]


def judged(told: Told, found: Found | None) -> Verdict:
    """Return what is wrong with the texts of a conversation."""
    texts = Counter(found.texts if found else ())
    verdict = Verdict(
        lost=len(told.done - told.gone - texts.keys()),
        duplicated=sum(count - 1 for count in texts.values()),
        foreign=len(texts.keys() - told.sent),
        returned=len(told.erased & texts.keys()),
    )
    latest: dict[str, int] = {}
    for text in texts_of(found.path) if found else ():
        _, hand, number, _ = text.split(" ")
        verdict.reordered += int(number) < latest.get(hand, 0)
        latest[hand] = max(int(number), latest.get(hand, 0))
    return verdict


def workers(service: Service) -> list[int]:
    """Return the processes of the service's workers."""
    assert service.process is not None
    told = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, check=True, text=True).stdout
    pairs = [line.split(maxsplit=2) for line in told.splitlines()]
    return [int(pid) for pid, parent, *_ in pairs if int(parent) == service.process.pid]


async def kill(what: str, service: Service, store: Server) -> None:
    """Kill a part of the deployment, and start it again."""
    if what == "worker" and (found := workers(service)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[-1], signal.SIGKILL)
    if what in ("service", "both"):
        await service.kill()
    if what in ("store", "both"):
        await asyncio.to_thread(store.kill)
        await asyncio.to_thread(store.start)
    if what in ("service", "both"):
        await service.start()


def words_left(store: Server, texts: set[str]) -> list[str]:
    """Return the keys of the store that still have one of these texts. What a killed copy staged is left out: nobody can
    read it, and it expires in ten minutes."""
    wanted = re.compile(b"|".join(re.escape(each.encode()) for each in sorted(texts))) if texts else None
    found = []
    with redis.Redis.from_url(store.url) as link:
        for key in link.scan_iter(count=1000):
            if b":staged-" in key and 0 < link.pttl(key) <= _STAGED_MS:
                continue
            match link.type(key):
                case b"string":
                    values = [link.get(key) or b""]
                case b"list":
                    values = link.lrange(key, 0, -1)
                case b"hash":
                    values = [part for pair in link.hgetall(key).items() for part in pair]
                case b"set":
                    values = list(link.smembers(key))
                case b"zset":
                    values = link.zrange(key, 0, -1)
                case _:
                    values = []
            if wanted and any(wanted.search(value) for value in values):
                found.append(key.decode())
    return found


async def objects_left(store: Server, url: str, folder: Path) -> list[str]:
    """Return what is wrong with the objects, once what is due is erased, and then a day later."""
    wrong = []
    with redis.Redis.from_url(store.url) as link:
        for key in link.scan_iter("*:staged-*", count=1000):
            link.delete(key)  # they would expire by then
        held = {
            f"{key.decode().partition('{')[2].partition('}')[0]}/{name.hex()}-{value.split()[2].decode()}"
            for key in link.scan_iter("*}:media", count=1000)
            if link.type(key) == b"hash"
            for name, value in link.hgetall(key).items()
            if len(name) == 16
        }
    client = Client(store.url)
    await client.open()
    try:
        objects = open_objects(url, 5.0)
        assert objects is not None
        erasures = MediaErasures(client, MarkedStorage(client, objects))
        await erasures.erase_due(time.time_ns() // 1_000_000 + _DUE_MS)
        swept = await erasures.sweep(datetime.now(UTC) + timedelta(days=2))
    finally:
        await client.close()
    there = {name for name in files_in(folder) if MARKED not in name}
    if lost := held - there:
        wrong.append(f"{len(lost)} of {len(held)} objects are lost: {sorted(lost)[:2]}")
    if over := there - held:
        wrong.append(f"{len(over)} objects without a message, {swept} were swept: {sorted(over)[:2]}")
    return wrong


async def _answered(everybody: Sequence[Asker], more: int) -> None:
    """Wait until so many more requests were answered, half a minute at most."""
    wanted = sum(each.answers for each in everybody) + more
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            while sum(each.answers for each in everybody) < wanted:  # noqa: ASYNC110 - others count
                await asyncio.sleep(0.01)


async def all_killed(folder: Path, scale: Scale) -> Row:
    """Kill worker, service and store in turn under every kind of change, with pictures in a folder."""
    store, chance, chats = Server(scale.binary, folder / "store"), random.Random(scale.seed), Chats(scale.seed)
    kills, media = scale.store_kills * 2, folder / "media"
    did: Counter[str] = Counter()
    async with running(store, folder, SASH_MEDIA_URL=media.as_uri()) as service:
        hands = [Hand(number, service, chats, number % _CHATS) for number in range(_CHATS * _HANDS)]
        copier = Copier(service, chats)
        everybody: list[Hand | Copier] = [*hands, copier]
        at_work = [asyncio.ensure_future(each.run()) for each in everybody]
        for number in range(kills):
            await _answered(everybody, chance.randrange(1, 60))
            await asyncio.sleep(chance.random() / 10)
            what = ("worker", "store", "service", "both")[number % 4]
            did[what] += 1
            await kill(what, service, store)
        await service.ready()
        await asyncio.sleep(1)
        copier.ends = True
        for task in at_work[:-1]:
            task.cancel()
        stopped = await asyncio.gather(*at_work, return_exceptions=True)
        wrong = [repr(each) for each in stopped if not (each is None or isinstance(each, asyncio.CancelledError))]
        await asyncio.sleep(2)  # until the service has answered what nobody waits for
        found = {told.name: await copier.export(told.name) for told in chats.all}
        read_back = {name: read(answer) if answer is not None else None for name, answer in found.items()}
        total = sum((judged(told, read_back[told.name]) for told in chats.all), Verdict())
        wrong += [f"{total.returned} texts can be read after their erasure"] if total.returned else []
        wrong += [each for asker in everybody for each in asker.wrong]
        wrong += [why for name, each in read_back.items() if each is not None for why in wrong_in(name, each)]
        for each in everybody:
            await each.close()
        erased = {text for told in chats.all for text in told.erased}
        if keys := await asyncio.to_thread(words_left, store, erased):
            wrong.append(f"{len(keys)} keys have what was erased: {keys[:3]}")
        wrong += await objects_left(store, media.as_uri(), media)
    made = sum((hand.did for hand in hands), Counter())
    note = (
        f"{kills} kills ({did['worker']} of a worker, {did['store']} of the store, {did['service']} of the service, "
        f"{did['both']} of both); {', '.join(f'{count} {name}' for name, count in made.most_common())}, "
        f"{copier.copies} copies; {len(erased):,} erased"
    )
    turns = sum(len(told.done) for told in chats.all)
    requests, failures = (sum(getattr(each, name) for each in everybody) for name in ("requests", "failures"))
    return Row("all changes, killed (-9)", turns, requests, total, f"{failures} sent again", note, "; ".join(wrong[:6]))
