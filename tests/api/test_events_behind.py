"""Followers far behind: a reader pulls what it lacks, and each version comes once, in order, however slowly it reads."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import httpx
import pytest
import pytest_asyncio
from conftest import App, Served, serving_alone
from hypothesis import example, given
from hypothesis import strategies as st
from model.asgi import Listener, Request
from profiles import examples
from rigs.dialogue import user
from rigs.reading_events import applied, following

from sash.api.events import event_bodies, event_stream

VERSIONS = 600
"""Three steps of a reader's pull, and more bytes than may wait for it or than its socket takes."""
WHOLE = 300
WORDS = "and so on " * 400
"""Four kilobytes."""
NUMBERS = count()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service for this file."""
    with serving_alone(tmp_path_factory.mktemp("behind"), SASH_DURABILITY="fast", SASH_METRICS_KEY="m") as process:
        yield process


@pytest_asyncio.fixture(loop_scope="session")
async def one(alone: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=alone.url, timeout=60, limits=httpx.Limits(max_connections=None)) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def long(alone: Served) -> str:
    """Return the path of a conversation with 600 versions after the first, of which every third is for one agent."""
    async with httpx.AsyncClient(base_url=alone.url, timeout=60) as client:
        await client.post("/conversations", json={"id": "long"})
        for number in range(VERSIONS):
            await say(client, "long", f"{number} {WORDS}", **({"audience": ["fraud"]} if number % 3 == 0 else {}))
    return "/conversations/long"


async def say(client: httpx.AsyncClient, name: str, text: str, **envelope: Any) -> int:
    """Append a message, and return the version."""
    answer = await client.post(f"/conversations/{name}/messages", json={"messages": [user(text, **envelope)]})
    version: int = answer.raise_for_status().json()["version"]
    return version


async def read(answer: httpx.Response, *, until: int, pause: float = 0) -> list[dict[str, Any]]:
    """The events of an open stream up to a version; with a pause after each piece."""
    events: list[dict[str, Any]] = []
    rest = b""
    async for piece in answer.aiter_bytes():
        *whole, rest = (rest + piece).split(b"\n\n")
        events += events_in(whole)
        if events and events[-1]["version"] >= until:
            return events
        await asyncio.sleep(pause)
    raise AssertionError(f"the stream ended at {events[-1:]}")


class Chat:
    """A conversation, and the messages by seq that each version has for all and for one agent."""

    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self.client = client
        self.path = f"/conversations/{name}"
        self.version = 0
        self.takes = asyncio.Semaphore(0)
        self.told: dict[tuple[int, str | None], dict[int, str]] = {}
        self.drafts: set[int] = set()
        """Versions that a longer text of the same reply followed, or that were one."""
        self._draft = 0

    async def begin(self) -> None:
        await self._send("POST", "/messages", {"messages": [user("first")]})

    async def do(self, kind: str, number: int) -> None:
        """Make a change, or have the reader's socket take some pieces."""
        length = max(self.told[self.version, None], default=0)
        match kind:
            case "take":
                for _ in range(number):
                    self.takes.release()
                await asyncio.sleep(0.01)
            case "append":
                await self._send("POST", "/messages", {"messages": [user(f"{each} words") for each in range(number)]})
            case "hidden":
                await self._send("POST", "/messages", {"messages": [user("SECRET", audience=["fraud"])]})
            case "draft":
                self._draft += number > 5
                entry = {"id": f"d-{self._draft}", "role": "assistant", "content": "x" * self.version}
                self.drafts.add(self.version + 1)
                await self._send("POST", "/messages", {"messages": [entry | {"status": "in_progress"}]})
            case "rewind" if length:
                await self._send("POST", "/rewind", {"to_seq": number % length})
            case "redact" if length:
                await self._send("DELETE", f"/messages/{1 + number % length}")
            case "settings":
                await self._send("PATCH", "", {"metadata": {"title": f"{self.version}"}})
            case "summary" if length:
                await self._send("PUT", "/summary", {"text": f"{self.version}", "through_seq": 1})

    async def _send(self, method: str, path: str, body: Any = None) -> None:
        await self.client.request(method, self.path + path, json=body)  # a draft that is not the newest is refused
        self.version = (await self.client.get(self.path)).json()["version"]
        for view in (None, "billing"):
            page = await self.client.get(
                f"{self.path}/messages", params={"limit": 1000} | ({"view": view} if view else {})
            )
            self.told[self.version, view] = {each["seq"]: each["id"] for each in page.json()["messages"]}


@pytest.mark.parametrize("query", [{}, {"body": "true"}, {"view": "billing"}, {"view": "fraud", "body": "true"}])
@pytest.mark.parametrize("by", ["after", "Last-Event-ID"])
async def test_a_reader_hundreds_of_versions_behind_gets_each_once(
    one: httpx.AsyncClient, long: str, query: dict[str, str], by: str
) -> None:
    """600 versions behind, in each form: one event a version, and then the live ones."""
    state = (await one.get(long)).json()
    life = state["etag"].strip('"').split("-", 1)[1][:16]
    place = {"headers": {"Last-Event-ID": f"1-{life}"}} if by != "after" else {"after": 1}
    async with following(one, f"{long}/events", **query, **place) as heard:
        await heard.until(lambda: heard.versions[-1:] == [state["version"]], 120)
        last = await say(one, "long", "live", audience=["fraud"])
        await heard.until(lambda: heard.versions[-1:] == [last])
        assert heard.versions == list(range(2, last + 1))
    hidden = [event["version"] for event in heard.events if event["type"] == "unseen"]
    assert (hidden != []) == (query.get("view") == "billing")
    for event in heard.events:
        assert all(("entry" in message) == ("body" in query) for message in event.get("messages", ()))


async def test_nothing_is_missed_while_a_slow_reader_catches_up(one: httpx.AsyncClient, long: str) -> None:
    """A reader 300 whole messages behind reads slowly while others append: each version comes once, in order."""
    version = (await one.get(long)).json()["version"]
    appended = asyncio.create_task(grow(one, 100))
    async with one.stream("GET", f"{long}/events", params={"after": version - WHOLE, "body": "true"}) as answer:
        events = await read(answer, until=version + 100, pause=0.02)
    assert await appended == version + 100
    assert [event["version"] for event in events] == list(range(version - WHOLE + 1, version + 101))
    assert all(event["messages"][0]["entry"]["message"]["content"] for event in events)


async def grow(client: httpx.AsyncClient, count: int, text: str = WORDS) -> int:
    """Append so many messages, and return the last version."""
    return [await say(client, "long", f"{number} {text}") for number in range(count)][-1]


async def test_a_reader_that_stops_reading_is_ended_and_loses_nothing(
    alone: Served, one: httpx.AsyncClient, long: str
) -> None:
    """It is ended as too slow; with the last id that it has it gets the rest, and each version once."""
    version = (await one.get(long)).json()["version"]
    path = f"{long}/events?after=1&body=true"
    before = await ended_as_slow(one)
    with stuck(alone, path) as reader:
        got = b""
        while got.count(b"\nid: ") < 20:
            got += await asyncio.to_thread(reader.recv, 4096)
        async with asyncio.timeout(60):
            while await ended_as_slow(one) == before:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.5)
        with suppress(ConnectionError):
            while piece := await asyncio.to_thread(reader.recv, 65536):
                got += piece
    whole = [each for each in re.split(rb"\r?\n\r?\n", got) if re.search(rb"^data: .*\}$", each, re.MULTILINE)]
    ids = re.findall(rb"^id: (.*)$", b"\n".join(whole), re.MULTILINE)
    last = int(ids[-1].split(b"-")[0])
    assert [int(each.split(b"-")[0]) for each in ids] == list(range(2, last + 1))
    assert 20 < last < version
    async with following(one, f"{long}/events", {"Last-Event-ID": ids[-1].decode()}) as again:
        await again.until(lambda: again.versions[-1:] == [version], 60)
        assert again.versions == list(range(last + 1, version + 1))


def stuck(alone: Served, path: str) -> socket.socket:
    """A connection that has asked for a stream, with a small buffer."""
    host, port = alone.url.removeprefix("http://").split(":")
    reader = socket.socket()
    reader.settimeout(90)
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect((host, int(port)))
    reader.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return reader


@pytest.mark.long
async def test_many_readers_far_behind_take_little_memory(alone: Served, one: httpx.AsyncClient, long: str) -> None:
    """A hundred readers that take nothing, 2.4 MB behind each, cost the service a small part of that."""
    async with one.stream("GET", f"{long}/events?after=1&body=true") as answer:
        await read(answer, until=VERSIONS)
    before = await figure(one, "process_resident_memory_bytes")
    readers = [stuck(alone, f"{long}/events?after=1&body=true") for _ in range(100)]
    try:
        grown, steady = 0.0, 0
        async with asyncio.timeout(60):
            while steady < 2:
                await asyncio.sleep(0.5)
                grown = max(grown, await figure(one, "process_resident_memory_bytes") - before)
                steady += await figure(one, "sash_followers") >= len(readers)
        assert grown < len(readers) * 400_000
    finally:
        for reader in readers:
            reader.close()


async def figures(client: httpx.AsyncClient) -> str:
    return (await client.get("/metrics", headers={"Authorization": "Bearer m"})).text


async def ended_as_slow(client: httpx.AsyncClient) -> float:
    """The readers that were ended as too slow until now, those of other tests among them."""
    found = re.search(r'^sash_followers_ended_total\{reason="slow"\} (\S+)', await figures(client), re.MULTILINE)
    return float(found[1]) if found else 0.0


async def figure(client: httpx.AsyncClient, name: str) -> float:
    found = re.search(rf"^{name} (\S+)", await figures(client), re.MULTILINE)
    assert found is not None
    return float(found[1])


async def test_a_sidebar_that_is_too_slow_gets_the_list_again(one: httpx.AsyncClient) -> None:
    """A list of half a megabyte, and more events than may wait: the reader is not cut, and has each version in the end."""
    names = [f"o-{number}" for number in range(60)]
    for name in names:
        given = {"id": name, "owner": "ann", "metadata": {"notes": 2 * WORDS}}
        (await one.post("/conversations", json=given)).raise_for_status()
    async with one.stream("GET", "/owners/ann/events") as answer:
        pieces = answer.aiter_bytes()
        got = await anext(pieces)
        versions = {}
        for turn in range(4):
            changed = await asyncio.gather(
                *(
                    one.patch(f"/conversations/{name}", json={"metadata": {"notes": f"{turn} {2 * WORDS}"}})
                    for name in names
                )
            )
            versions = {
                name: each.raise_for_status().json()["version"] for name, each in zip(names, changed, strict=True)
            }
            got += await anext(pieces)  # too little, but a reader that takes nothing for long is cut
        known: dict[str, int] = {}
        lists = 0
        async with asyncio.timeout(60):
            while known != versions:
                got += await anext(pieces)
                *whole, got = got.split(b"\n\n")
                for event in events_in(whole):
                    if event["type"] == "listed":
                        lists += 1
                        known = {each["id"]: each["version"] for each in event["conversations"]}
                    else:
                        assert event["version"] > known.get(event["conversation_id"], 0)
                        known[event["conversation_id"]] = event["version"]
        assert lists > 1
        (await one.delete(f"/conversations/{names[0]}")).raise_for_status()
        while b'"erased"' not in got:
            got += await anext(pieces)


def events_in(whole: list[bytes]) -> list[dict[str, Any]]:
    """The data of whole events."""
    return [json.loads(data) for each in whole for data in re.findall(rb"^data: (.*)$", each, re.MULTILINE)]


CHANGE = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 4)),
    st.tuples(st.just("hidden"), st.just(1)),
    st.tuples(st.sampled_from(["rewind", "redact", "draft", "settings", "summary", "take"]), st.integers(1, 9)),
)


@examples(0.15)
@given(
    before=st.lists(CHANGE, max_size=12),
    after=st.lists(CHANGE, max_size=25),
    body=st.booleans(),
    view=st.sampled_from([None, "billing"]),
    since=st.integers(0, 6),
)
@example(before=[("append", 3), ("rewind", 1), ("append", 4)], after=[], body=False, view=None, since=0)
@example(before=[*[("append", 1)] * 3, ("rewind", 1), ("append", 4)], after=[], body=True, view=None, since=0)
@example(before=[], after=[*[("append", 2)] * 6, ("rewind", 1), ("append", 4)], body=False, view="billing", since=0)
async def test_a_reader_of_any_slowness_is_told_all(
    app: App, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, **drawn: Any
) -> None:
    """Whatever changes, and whenever the socket takes a piece: the events lead to the history, each version once, in order.

    Steps of three versions, pages of 300 bytes and one waiting event put a boundary everywhere.
    """
    monkeypatch.setattr(event_bodies, "_AT_ONCE", 3)
    monkeypatch.setattr(event_bodies, "_PAGE_BYTES", 300)
    monkeypatch.setattr(event_stream, "_WAITING_BYTES", 1)
    chat = Chat(client, f"behind-{next(NUMBERS)}")
    try:
        await chat.begin()
        for change in drawn["before"]:
            await chat.do(*change)
        since = min(1 + drawn["since"], chat.version)
        query = f"after={since}&body={str(drawn['body']).lower()}" + (f"&view={drawn['view']}" if drawn["view"] else "")
        chat.takes.release()  # the head
        listener = Listener(app, Request("GET", f"{chat.path}/events?{query}"), {"host": "localhost"}, chat.takes)
        for change in drawn["after"]:
            await chat.do(*change)
        for _ in range(10_000):
            chat.takes.release()
        assert await listener.until(lambda: since == chat.version or listener.versions[-1:] == [chat.version])
        await listener.leave()
        versions = listener.versions
        assert versions == sorted(set(versions))
        assert set(range(since + 1, chat.version + 1)) - set(versions) <= chat.drafts
        for event in listener.events:
            its_own = chat.told[event["version"], None]
            assert all(its_own[message["seq"]] == message["id"] for message in event.get("messages", ()))
        if "reset" not in [event["type"] for event in listener.events]:
            now = applied(listener.events, chat.told[since, drawn["view"]])
            assert now == chat.told[chat.version, drawn["view"]]
    finally:
        (await client.delete(chat.path)).raise_for_status()
