"""What a worker holds of conversations in use: bounded, dropped in time, and never another answer than the store's."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any

import httpx
import pytest
import redis
from api.test_history_properties import PLACE, QUERIES, STEPS, TEXTS, Talk, plain
from conftest import http, lifespan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store.entries import said

from service.app import create_app
from service.problems import NotFound
from service.settings import Settings
from service.store import datakeys, recent
from service.store.client import Client
from service.store.conversations import SCRIPTS, Conversations
from service.store.datakeys import DataKeys
from service.store.embedded import EmbeddedStore
from service.store.layout import keys_of
from service.store.recent import Recent
from service.store.replies import Reply

EMPTY = Reply(1, b"", b"", b"", [], 0, 1, b"", b"", [], b"", [], [], 0)
APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}
READ: dict[str, Any] = {"known_version": "", "budget": 1000, "column": 0, "most": 0}
LIMITED = st.builds(lambda query, limit: {**query, **({"limit": limit} if limit else {})}, QUERIES, st.integers(0, 6))
"""A limit makes a tail short, so that it leaves messages behind as turns come."""
CHANGES = st.one_of(
    st.tuples(st.just("long"), st.text("abc", min_size=1, max_size=3)),
    st.tuples(st.just("summary"), PLACE),
    st.tuples(st.just("settings"), TEXTS),
    st.tuples(st.just("created anew"), st.none()),
)


@pytest.fixture(scope="module")
def raw(own: EmbeddedStore) -> Iterator[redis.Redis]:
    """The same server, behind the service's back."""
    with redis.Redis.from_url(own.url) as connection:
        yield connection


def weighing(size_bytes: int) -> Reply:
    return EMPTY._replace(bodies=[b"x" * (size_bytes - 4 * 64)])


def reply_of(held: Recent, name: str) -> Reply | None:
    found = held.find(name, 1)
    return found.reply if found is not None else None


async def test_it_holds_what_was_used_last() -> None:
    """The longest unused make room, and what is asked for in another way is not there."""
    held = Recent(8000)
    for name in "abcdefgh":
        held.keep(name, 1, weighing(1000))
    held.keep("a", 1, weighing(1000))
    held.keep("i", 1, weighing(1000))
    assert (reply_of(held, "b"), held.find("a", 2)) == (None, None)
    assert reply_of(held, "a") == reply_of(held, "i") == weighing(1000)
    assert held.size_bytes == 8000
    for name in "acdefghi":
        held.forget(name)
    assert held.size_bytes == 0


async def test_a_large_reply_pushes_nobody_out() -> None:
    """What would take more than an eighth of the room is not held; with no room nothing is."""
    held, none = Recent(8000), Recent(0)
    held.keep("a", 1, weighing(1000))
    held.keep("b", 1, weighing(1001))
    none.keep("a", 1, EMPTY)
    assert (reply_of(held, "a"), reply_of(held, "b"), reply_of(none, "a")) == (weighing(1000), None, None)


async def test_what_nobody_asks_for_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text does not stay in memory for longer than was said, traffic or none."""
    monkeypatch.setattr(recent, "_KEPT_SECONDS", 0.2)
    held = Recent(8000)
    held.keep("a", 1, EMPTY)
    await asyncio.sleep(0.1)
    held.keep("b", 1, EMPTY)
    await asyncio.sleep(0.15)
    assert (reply_of(held, "a"), reply_of(held, "b")) == (None, EMPTY)
    await asyncio.sleep(0.15)
    assert (reply_of(held, "b"), held.size_bytes) == (None, 0)


async def replies_of(client: Client) -> list[Any]:
    """What the store answers to each call of read_window from now on."""
    replies: list[Any] = []
    calls = client.calls

    async def watched(asked: Any) -> list[Any]:
        found = await calls(asked)
        replies.extend(reply for call, reply in zip(asked, found, strict=True) if call[0] == "read_window")
        return found

    client.calls = watched  # type: ignore[method-assign]
    return replies


@pytest.mark.usefixtures("nothing_left")
async def test_the_store_sends_what_came_since_alone(store: EmbeddedStore, conversation: str) -> None:
    """Nothing of a history that stands as it was, the new messages of one that went on, and all of one that was edited."""
    client = Client(store.url, scripts=SCRIPTS)
    await client.open()
    conversations, other = Conversations(client, recent_bytes=2**20), Conversations(client)
    replies = await replies_of(client)

    async def read() -> list[bytes]:
        tail = await conversations.read_window("default", conversation, **READ)
        assert tail is not None
        assert [len(body) for body in tail.bodies] == list(tail.records.sizes())
        return tail.bodies

    try:
        first, more = said("one", "two", "three"), said("four", "five")
        await other.append("default", conversation, first, **APPEND)
        assert await read() == [entry.body for entry in first]
        assert await read() == [entry.body for entry in first]
        assert replies[1:] == [[1]]
        await other.append("default", conversation, more, **APPEND)
        assert await read() == [entry.body for entry in (*first, *more)]
        assert Reply(*replies[2]).bodies == [entry.body for entry in more]
        appended, tail = await conversations.append_and_read(
            "default", conversation, said("six"), **APPEND, budget=1000, column=0, most=0
        )
        assert (appended.version, len(tail.bodies), len(Reply(*replies[3]).bodies)) == (3, 6, 1)
        await other.erase("default", conversation, if_match="")
        await other.append("default", conversation, more, **APPEND | {"now_ms": 1_700_000_000_001})
        assert await read() == [entry.body for entry in more]
        assert Reply(*replies[4]).since == 0
        await conversations.erase("default", conversation, if_match="")
        assert conversations.recent_bytes == 0
        await conversations.append_and_read("default", conversation, more, **APPEND, budget=1000, column=0, most=0)
        assert conversations.recent_bytes > 0
        await other.erase("default", conversation, if_match="")
        with pytest.raises(NotFound):
            await read()
        assert conversations.recent_bytes == 0
    finally:
        await client.close()


async def test_what_was_read_behind_is_held_too(own: EmbeddedStore, conversation: str, keys: tuple[bytes, ...]) -> None:
    """A long window's older bodies are read once; what comes next is put after them."""
    client = Client(own.url, scripts=(*SCRIPTS, *datakeys.SCRIPTS))
    await client.open()
    try:
        conversations = Conversations(client, data_keys=DataKeys(client, keys), recent_bytes=2**23)
        long, more = said(*[str(n) * 40_000 for n in range(10)]), said("and then?")
        await conversations.append("default", conversation, long, **APPEND)
        read = {**READ, "budget": 1_000_000}
        tail = await conversations.read_window("default", conversation, **read)
        assert tail is not None
        assert tail.bodies_seq == 8
        for first, last in ((3, 4), (1, 7)):  # the first of them do not come before those that are held
            older = tail.records[first - 1 : last]
            await conversations.read_bodies("default", conversation, [(first, older)], state=tail.state)
        await conversations.append("default", conversation, more, **APPEND)
        tail = await conversations.read_window("default", conversation, **read)
        assert tail is not None
        assert tail.bodies == [entry.body for entry in (*long, *more)]
        assert tail.bodies_seq == 1
    finally:
        await client.close()


async def test_what_is_encrypted_is_held_encrypted(own: EmbeddedStore, conversation: str) -> None:
    """A worker's memory has no more of it than the store, between two requests."""
    client = Client(own.url, scripts=(*SCRIPTS, *datakeys.SCRIPTS))
    await client.open()
    try:
        conversations = Conversations(client, data_keys=DataKeys(client, (b"k" * 32,)), recent_bytes=2**20)
        (entry,) = said("a secret")
        _, tail = await conversations.append_and_read(
            "default", conversation, [entry], **APPEND, budget=1000, column=0, most=0
        )
        assert tail.bodies == [entry.body]
        held = conversations._recent.find(f"default/{conversation}", (1000, 0, 0))
        assert held is not None
        assert held.tail is None
        assert b"secret" not in b"".join(held.reply.bodies)
    finally:
        await client.close()


class Changing(Talk):
    """A conversation whose settings and summary change too, told what to do by either of two workers.

    Its store may lose what it had, as one does whose disk or replica is behind: it is brought back as it was saved.
    """

    def __init__(self, client: httpx.AsyncClient, raw: redis.Redis) -> None:
        super().__init__(client)
        self.raw = raw
        self.saved: tuple[str, int, dict[str, bytes]] | None = None

    async def do(self, name: str, argument: Any) -> None:
        match name:
            case "summary" if self.length:
                summary = {"text": "what was said", "through_seq": argument % self.length + 1}
                await self.ok("PUT", "summary", json=summary)
            case "long":  # more bytes than tokens: a window of two or three holds more than one reply has
                await self.append([plain("user", " " * 60_000 + mark, None, False, False) for mark in argument])  # noqa: FBT003
            case "said":
                await self.append([plain("user", argument, None, False, False)])  # noqa: FBT003
            case "settings":
                answer = await self.client.patch(f"/conversations/{self.id}", json={"system": argument})
                assert answer.status_code == 200, answer.text
            case "saved":
                keys = keys_of(f"default/{self.id}")
                self.saved = self.id, self.length, {key: value for key in keys if (value := self.raw.dump(key))}
            case "brought back" if self.saved:
                self.id, self.length, values = self.saved
                self.last = []
                self.raw.delete(*keys_of(f"default/{self.id}"))
                for key, value in values.items():
                    self.raw.restore(key, 0, value)
            case "created anew":
                await self.client.delete(f"/conversations/{self.id}")
                self.length = 0
                await self.append([plain("user", "anew", None, False, True)])  # noqa: FBT003
            case _:
                await super().do(name, argument)


@pytest.fixture(params=[(), (b"k" * 32,)], ids=["plain", "encrypted"])
def keys(request: pytest.FixtureRequest) -> tuple[bytes, ...]:
    """No key for encryption at rest, and one."""
    return tuple(request.param)


@asynccontextmanager
async def two_workers(
    own: EmbeddedStore, keys: tuple[bytes, ...]
) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """One that remembers, and one that forgets."""
    same: dict[str, Any] = {"redis_url": own.url, "store_connections": 1, "durability": "fast", "encryption_key": keys}
    async with (
        lifespan(create_app(Settings(**same))) as remembering,
        lifespan(create_app(Settings(**same, recent_bytes=0))) as forgetting,
        http(remembering) as client,
        http(forgetting) as other,
    ):
        yield client, other


@pytest.mark.parametrize(
    ("name", "lost", "done"),
    [("said", "one", "two"), ("settings", "one", "two"), ("redact", 0, 1), ("summary", 0, 1), ("long", "a", "b")],
)
async def test_what_the_store_lost_is_lost_here(
    own: EmbeddedStore, raw: redis.Redis, keys: tuple[bytes, ...], name: str, lost: Any, done: Any
) -> None:
    """A store that comes back without its newest write gives the same version, and the same seq, to another one."""
    async with two_workers(own, keys) as (client, other):
        talk = Changing(other, raw)
        await talk.append([plain("user", text, None, False, False) for text in ("a", "b", "c")])  # noqa: FBT003
        path = f"/conversations/{talk.id}/window?model=gpt-4o"
        await talk.do("saved", None)
        for change in (lost, done):
            await talk.do("brought back", None)
            await talk.do(name, change)
            one, two = [(await worker.get(path)).content for worker in (client, other)]
            assert one == two
        await talk.append([plain("assistant", "what came then", None, False, False)])  # noqa: FBT003
        one, two = [(await worker.get(path)).content for worker in (client, other)]
        assert one == two


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.one_of(STEPS.map(lambda steps: steps[0]), CHANGES), max_size=15), query=LIMITED)
async def test_who_remembers_says_what_who_forgets_says(
    own: EmbeddedStore, raw: redis.Redis, keys: tuple[bytes, ...], steps: list[tuple[str, Any]], query: dict[str, Any]
) -> None:
    """Whatever is done to a history, and by which worker, one that holds it gives the window of one that holds nothing.

    The window that comes with an append too.
    """
    async with two_workers(own, keys) as (client, other):
        talk, workers = Changing(client, raw), cycle([other, client])
        talk.query = query
        await talk.append([plain("user", "hello", None, False, False)])  # noqa: FBT003
        for name, argument in [("nothing", None), *steps]:
            talk.client = next(workers)
            talk.window = None
            await talk.do(name, argument)
            if talk.window is not None:
                assert talk.window == (await other.get(f"/conversations/{talk.id}/window", params=query)).json()
            for asked in (query, {**query, "note": "true"}, query):
                path = f"/conversations/{talk.id}/window"
                one, two = [await worker.get(path, params=asked) for worker in (client, other)]
                assert (one.status_code, one.content) == (two.status_code, two.content)
