"""Conversations in the store: no message is lost, doubled, mixed up or out of order."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import redis
from conftest import kill, opened
from rigs.entries import said, texts_of

from sash.problems import ConversationExists, Internal, NotFound, PreconditionFailed
from sash.store.data.conversations import Conversations
from sash.store.data.entries import new_id
from sash.store.data.layout import PARTS, Target, life_of, target_at
from sash.store.data.replies import Tail
from sash.store.data.tails import Known, Reach, read_window
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}


@pytest_asyncio.fixture
async def conversations(store: EmbeddedStore, nothing_left: None) -> AsyncIterator[Conversations]:  # noqa: ARG001
    """Yield the store's conversations, on the test's own client."""
    async with opened(store.url, connections=2) as each:
        yield each


def body(text: str) -> bytes:
    return f'{{"role":"user","content":"{text}"}}'.encode()


async def test_two_writers(store: EmbeddedStore, conversations: Conversations, conversation: str) -> None:
    """Two clients append 1,000 messages each to one conversation: 2,000 are stored without gaps, each client's in order."""

    async def write(through: Conversations, who: str) -> list[int]:
        seqs = []
        for start in range(0, 1000, 10):
            turns = (
                through.append(target_at("default", conversation), said(f"{who} {n}", identity=f"{who}-{n}-"), **APPEND)
                for n in range(start, start + 10)
            )
            seqs += [reply.entries[0].seq for reply in await asyncio.gather(*turns)]
        return seqs

    async with opened(store.url, connections=2) as other:
        one, two = await asyncio.gather(write(conversations, "one"), write(other, "two"))

    assert sorted(one + two) == list(range(1, 2001))
    stored = await texts_of(conversations, "default", conversation)
    for who, seqs in (("one", one), ("two", two)):
        assert [stored[seq - 1] for seq in seqs] == [body(f"{who} {n}") for n in range(1000)]
    state = await conversations.reader.get(target_at("default", conversation))
    assert (state.version, state.length) == (2000, 2000)


async def test_totals_are_the_sum(conversations: Conversations, conversation: str) -> None:
    """Running totals equal the sum over the appended messages for any batching, and duplicates add nothing."""
    batches = [said(*(f"text {n} {i}" for i in range(n)), identity=f"b{n}-") for n in range(1, 6)]
    for batch in [*batches, *batches]:
        await conversations.append(target_at("default", conversation), batch, **APPEND)

    state = await conversations.reader.get(target_at("default", conversation))

    assert state.length == 15
    assert state.tokens == tuple(sum(entry.tokens[i] for batch in batches for entry in batch) for i in (0, 1))
    assert state.question == 15


async def test_a_crash_loses_nothing(tmp_path: Path) -> None:
    """Messages, ids and settings that were acknowledged before the server is killed are there after its restart."""
    with EmbeddedStore(tmp_path) as store:
        async with opened(store.url) as before:
            await before.create(target_at("t", "c"), b'{"reserve":7}', ttl_ms=None, now_ms=1, token="x")
            await asyncio.gather(
                *(before.append(target_at("t", "c"), said(f"{n}", identity=f"{n}-"), **APPEND) for n in range(300))
            )
            expected = await texts_of(before, "t", "c")
            state = await before.reader.get(target_at("t", "c"))
        kill(store)
        store.start()
        async with opened(store.url) as after:
            assert await texts_of(after, "t", "c") == expected
            assert await after.reader.get(target_at("t", "c")) == state
            again = await after.append(target_at("t", "c"), said("7", identity="7-"), **APPEND)
            assert again.entries[0].duplicate


async def test_many_tenants(conversations: Conversations, conversation: str) -> None:
    """Fifty tenants use the same conversation id and entry ids at once, and each reads only its own messages."""
    tenants = [f"t{n}" for n in range(50)]

    async def talk(tenant: str) -> None:
        for n in range(10):
            await conversations.append(
                target_at(tenant, conversation), said(f"{tenant} {n}", identity=f"{n}-"), **APPEND
            )
            tail = await conversations.reader.tails.read(target_at(tenant, conversation), Reach())
            assert isinstance(tail, Tail)
            assert tail.bodies == [body(f"{tenant} {i}") for i in range(n + 1)]

    await asyncio.gather(*(talk(tenant) for tenant in tenants))

    for tenant in tenants:
        assert await texts_of(conversations, tenant, conversation) == [body(f"{tenant} {n}") for n in range(10)]


async def test_names_that_look_alike(conversations: Conversations, fresh: Callable[[], str]) -> None:
    """Pairs of tenant and id that look alike, such as a-b/c and a/b-c, are different conversations."""
    tail = fresh()
    pairs = [("a-b", f"c{tail}"), ("a", f"b-c{tail}"), ("a.b", f"c{tail}"), ("a", f"c{tail}.x"), ("a", f"c{tail}-x")]
    for tenant, conversation in pairs:
        await conversations.append(target_at(tenant, conversation), said(f"{tenant}|{conversation}"), **APPEND)

    for tenant, conversation in pairs:
        assert await texts_of(conversations, tenant, conversation) == [body(f"{tenant}|{conversation}")]


async def test_a_foreign_answer_is_an_error(
    conversations: Conversations, conversation: str, server: redis.Redis
) -> None:
    """When a key holds another conversation's id, reads and appends fail instead of showing that conversation."""
    await conversations.append(target_at("default", conversation), said("secret"), **APPEND)
    key = target_at("default", conversation).keys.conversation
    server.hset(key, "id", "other/conversation")

    reads: list[Callable[[], Any]] = [
        lambda: conversations.reader.get(target_at("default", conversation)),
        lambda: conversations.reader.page(target_at("default", conversation), 1, 10),
        lambda: conversations.reader.tails.read(target_at("default", conversation), Reach()),
        lambda: conversations.append(target_at("default", conversation), said("more"), **APPEND),
    ]
    for read in reads:
        with pytest.raises(Internal):
            await read()
    server.hset(key, "id", target_at("default", conversation).name)
    assert len(await texts_of(conversations, "default", conversation)) == 1


async def test_create(conversations: Conversations, conversation: str) -> None:
    """A conversation is created once; only a repetition with the same token succeeds again."""
    created: dict[str, Any] = {"ttl_ms": None, "now_ms": 5, "token": "mine"}
    await conversations.create(target_at("default", conversation), b"{}", **created)
    await conversations.create(target_at("default", conversation), b"{}", **created)

    with pytest.raises(ConversationExists):
        await conversations.create(target_at("default", conversation), b"{}", **{**created, "token": "other"})
    assert (await conversations.reader.get(target_at("default", conversation))).version == 1


async def test_change(conversations: Conversations, conversation: str) -> None:
    """A change is refused when the settings or the version have changed since, or the conversation does not exist."""
    etag = await conversations.create(target_at("default", conversation), b"{}", ttl_ms=None, now_ms=5, token="x")
    change: dict[str, Any] = {"settings": b'{"reserve":1}', "life": life_of(etag), "ttl_ms": None, "now_ms": 6}

    for refused in ({"standing": b'{"a":1}', "if_match": ""}, {"standing": b"{}", "if_match": "9"}):
        with pytest.raises(PreconditionFailed):
            await conversations.change(target_at("default", conversation), **change, **refused, token="y")
    changed = await conversations.change(
        target_at("default", conversation), **change, standing=b"{}", if_match=etag, token="z"
    )
    assert changed.version == 2
    with pytest.raises(NotFound):
        await conversations.change(target_at("default", "absent"), **change, standing=b"{}", if_match="", token="z")


async def test_pages_are_clipped(conversations: Conversations, conversation: str) -> None:
    """A range of seqs is clipped to the existing messages; negative numbers count from the end."""
    await conversations.append(target_at("default", conversation), said(*"abcdef"), **APPEND)

    async def seqs(first: int, last: int) -> list[int]:
        return [
            message.seq
            for message in (await conversations.reader.page(target_at("default", conversation), first, last)).messages
        ]

    assert await seqs(2, 4) == [2, 3, 4]
    assert await seqs(5, 99) == [5, 6]
    assert await seqs(-2, -1) == [5, 6]
    assert await seqs(-99, -1) == [1, 2, 3, 4, 5, 6]
    assert await seqs(7, 9) == await seqs(4, 3) == []
    with pytest.raises(NotFound):
        await conversations.reader.page(target_at("default", "absent"), 1, 2)


async def test_a_tail_is_sized_by_its_budget(conversations: Conversations, conversation: str) -> None:
    """A window's read covers all of a history that fits its budget, and only a part of a longer one."""
    for _ in range(10):
        await conversations.append(target_at("default", conversation), said(*["some words of text"] * 100), **APPEND)

    async def length(budget: int, limit: int = 0) -> int:
        tail = await conversations.reader.tails.read(target_at("default", conversation), Reach(budget, limit=limit))
        assert isinstance(tail, Tail)
        assert tail.first_seq == 1001 - len(tail.records)
        assert len(tail.bodies) == len(tail.records)
        return len(tail.records)

    total = (await conversations.reader.get(target_at("default", conversation))).tokens[0]
    assert await length(total) == 1000
    assert 100 < await length(total // 10) < 250
    assert await length(total, limit=3) == 4
    assert await length(0) == 64


async def test_a_short_tail_is_opened_between_long_ones(store: EmbeddedStore, nothing_left: None) -> None:  # noqa: ARG001
    """Where the store answers several reads of long tails at once, a short one behind them waits for one of them at most."""
    client, opened_tails = Client(store.url), []
    await client.open()
    conversations, short, long = Conversations(client), target_at("default", "short"), target_at("default", "long")
    await conversations.append(short, said("hello"), **APPEND)
    await conversations.append(long, said(*["some words of text"] * 1000), **APPEND)
    replies = {each.id: await client.run(read_window(each.keys, Reach(1_000_000))) for each in (short, long)}

    async def read(target: Target) -> None:
        await conversations.reader.tails.opened(target, replies[target.id])
        opened_tails.append(target.id)

    async with asyncio.TaskGroup() as reading:
        for target in (long, long, long, long, short):
            reading.create_task(read(target))
    await client.close()
    assert opened_tails == ["long", "short", "long", "long", "long"]


async def test_a_known_state_is_not_read(conversations: Conversations, conversation: str) -> None:
    """A window read with the current ETag returns only that ETag; with an older one it returns the tail."""
    etag = (await conversations.append(target_at("default", conversation), said("one"), **APPEND)).etag

    assert await conversations.reader.tails.read_unless(
        target_at("default", conversation), Reach(), ["other", etag]
    ) == Known(etag)
    assert isinstance(
        await conversations.reader.tails.read_unless(target_at("default", conversation), Reach(), ["1"]), Tail
    )


async def test_details_are_read_only_where_they_are_needed(conversations: Conversations, conversation: str) -> None:
    """Details of messages in other scripts are read for estimates alone; those of a message with a name always."""
    await conversations.append(target_at("default", conversation), said("Привет, как дела?", "and you?"), **APPEND)

    async def details(*, scripts: bool) -> list[bool]:
        tail = await conversations.reader.tails.read(
            target_at("default", conversation), Reach(100, scripts=int(scripts))
        )
        assert isinstance(tail, Tail)
        return [bool(each.row) for each in tail.records.details or ()]

    assert await details(scripts=False) == []
    assert await details(scripts=True) == [True, False]
    await conversations.append(target_at("default", conversation), said("hello", name="ada"), **APPEND)
    assert await details(scripts=False) == [True, False, True]


async def test_retention_of_a_deployment(store: EmbeddedStore, conversation: str, server: redis.Redis) -> None:
    """The deployment's retention applies to a conversation without its own, and each append restarts it."""
    async with opened(store.url) as each:
        keeping = Conversations(each._client, retention_ms=60_000)
        await keeping.append(target_at("default", conversation), said("one"), **APPEND)
        keys = target_at("default", conversation).keys
        for key in (keys.conversation, keys.log):
            server.pexpire(key, 1000)
        await keeping.append(target_at("default", conversation), said("two"), **APPEND)

        kept = [key for key in keys if server.exists(key)]
        assert {keys.conversation, keys.log, keys.counts, keys.ids} <= set(kept)
        assert all(59_000 < server.pttl(key) <= 60_000 for key in kept)
        await keeping.erase(target_at("default", conversation), if_match="")


def test_one_slot(fresh: Callable[[], str]) -> None:
    """Every key of a conversation has the same hash tag, so that a script touches one slot of a cluster."""
    keys = target_at("tenant", fresh()).keys

    assert len({key[key.index("{") : key.index("}") + 1] for key in keys}) == 1
    assert len(set(keys)) == len(PARTS)


def test_ids_sort_by_time() -> None:
    """Generated ids are ULIDs: later ones sort later, and two of one millisecond differ."""
    ids = [new_id(now) for now in (0, 1, 1_700_000_000_000, 1_700_000_000_001, 2**48 - 1)]

    assert ids == sorted(ids)
    assert all(re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", each) for each in ids)
    assert new_id(5) != new_id(5)
