"""A repair measures again what an older version measured, and changes nothing else about a conversation."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import redis
from api.dialogue import append, assistant, calling, etag_of, history, result, user
from api.everything import EVERYTHING
from conftest import http, kill, lifespan, opened
from store.aged import age, old_messages
from store.entries import said

from sash.app import create_app
from sash.core.law.records import Flags, Records
from sash.problems import ConversationDamaged, StoreUnavailable
from sash.settings import Settings
from sash.store.data.conversations import Conversations
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import keys_of, life_of
from sash.store.data.remeasuring import Repair, Repaired, _step_messages
from sash.store.data.replies import HistoryEdited
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

KEY = b"master".ljust(32)
NDJSON = {"Content-Type": "application/x-ndjson"}
APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}
THOUGHT = {"message": {"role": "assistant", "content": "Yes.", "reasoning_content": "It was asked before. " * 9}}
QUERIES = (
    "model=gpt-4o",
    "model=gpt-4o&max_tokens=600",
    "model=gpt-4&max_tokens=2000&grounding=all",
    "model=gpt-5&explain=true",
    "model=claude-sonnet-4-5&max_tokens=900",
)


class Bench(NamedTuple):
    """A service, and direct access to the same store."""

    http: httpx.AsyncClient
    conversations: Conversations
    repair: Repair

    async def aged(self, conversation: str) -> None:
        await age(self.conversations, "default", conversation)
        assert await self.old(conversation) > 0

    async def old(self, conversation: str) -> int:
        return await old_messages(self.conversations, "default", conversation)

    async def repaired(self) -> list[Repaired]:
        return [each async for each in self.repair.all()]

    async def totals(self, conversation: str) -> Any:
        return (await self.http.get(f"/conversations/{conversation}")).json()["tokens"]

    async def fresh_totals(self, conversation: str) -> Any:
        """Return the totals of an import of the conversation's export."""
        exported = await self.http.get(f"/conversations/{conversation}/export")
        query = {"id": f"{conversation}-again"}
        taken = await self.http.post("/conversations/import", content=exported.content, headers=NDJSON, params=query)
        assert taken.status_code == 201, taken.text
        return taken.json()["tokens"]

    async def windows(self, conversation: str) -> list[bytes]:
        """Return the bodies of windows, without their version."""
        answers = [await self.http.get(f"/conversations/{conversation}/window?{query}") for query in QUERIES]
        return [answer.content.replace(b'"version":%d' % answer.json()["version"], b"") for answer in answers]


@asynccontextmanager
async def bench(store: EmbeddedStore, *keys: bytes) -> AsyncIterator[Bench]:
    """Yield a bench on an emptied store, with these master keys."""
    with redis.Redis.from_url(store.url) as server:
        server.flushall()
    settings = Settings(redis_url=store.url, store_connections=2, durability="fast", encryption_key=keys)
    client = Client(store.url)
    await client.open()
    try:
        async with lifespan(create_app(settings)) as app, http(app) as over_http:
            data_keys = DataKeys(client, keys)
            yield Bench(over_http, Conversations(client, data_keys=data_keys), Repair(client, data_keys))
    finally:
        await client.close()


@pytest.fixture(params=[(), (KEY,)], ids=["plain", "encrypted"])
async def there(own: EmbeddedStore, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Yield a bench, without and with encryption at rest."""
    async with bench(own, *request.param) as made:
        yield made


async def test_a_repaired_conversation_is_as_if_it_came_today(there: Bench) -> None:
    """A repair restores windows to the byte and totals to those of a fresh import; a second repair writes nothing.

    The messages have documents, metadata, pins, reasoning, unknown members, images and results of parallel calls.
    """
    await append(there.http, "c", *EVERYTHING, result("call-2"), THOUGHT, user("Sure? 会話の窓"))
    windows, totals, entries = await there.windows("c"), await there.totals("c"), await history(there.http, "c")
    await there.aged("c")
    assert await there.totals("c") != totals

    (repaired,) = await there.repaired()

    assert (repaired.messages, repaired.problem, await there.old("c")) == (len(entries), None, 0)
    assert await there.windows("c") == windows
    assert await there.totals("c") == totals == await there.fresh_totals("c")
    assert await history(there.http, "c") == entries
    etag = await etag_of(there.http, "c")
    assert {each.messages for each in await there.repaired()} == {0}
    assert await etag_of(there.http, "c") == etag


async def test_a_window_is_the_same_before_and_after(there: Bench) -> None:
    """A window is the same before a repair, when it measures older messages itself, and after it.

    The conversation is so long that a window reads its bodies in two steps.
    """
    long = [user(f"{n} {'of many words ' * 900}") for n in range(20)]
    await append(there.http, "c", *EVERYTHING, *long, THOUGHT, user("Sure?"))
    await there.aged("c")
    windows = await there.windows("c")
    await there.repaired()
    assert await there.windows("c") == windows


async def test_a_reply_in_progress_is_ended_after_a_repair(there: Bench) -> None:
    """After a repair, a longer reply replaces one in progress, and the totals are those of a fresh import."""
    reply = {"id": "r", "status": "in_progress", **assistant("So far, " * 9)}
    await append(there.http, "c", user("Tell me."), reply)
    await there.aged("c")

    (repaired,) = await there.repaired()
    await append(there.http, "c", {"id": "r", **assistant("So far, so good. " * 9)})

    assert repaired.messages == 2
    assert await there.totals("c") == await there.fresh_totals("c")


async def test_a_repair_keeps_life_times_and_expiry(there: Bench, own: EmbeddedStore) -> None:
    """A repair keeps created_at, updated_at and the expiry of each key; the ETag changes, but names the same life."""
    assert (await there.http.post("/conversations", json={"id": "c", "ttl_seconds": 900})).status_code == 201
    await append(there.http, "c", *EVERYTHING)
    await there.aged("c")
    before = (await there.http.get("/conversations/c")).json(), await etag_of(there.http, "c")
    with redis.Redis.from_url(own.url) as server:
        expiry = {key: server.pexpiretime(key) for key in server.keys("sash:{default/c}:*")}
        await there.repaired()
        assert {key: server.pexpiretime(key) for key in server.keys("sash:{default/c}:*")} == expiry
    after = (await there.http.get("/conversations/c")).json(), await etag_of(there.http, "c")

    same = ("created_at", "updated_at", "expires_at")
    assert [before[0][name] for name in same] == [after[0][name] for name in same]
    assert before[0]["version"] + 1 == after[0]["version"]
    assert (life_of(before[1].strip('"')), before[1] == after[1]) == (life_of(after[1].strip('"')), False)


async def test_messages_stored_before_there_was_a_key_are_encrypted(own: EmbeddedStore) -> None:
    """A repair under a master key encrypts messages from before there was one, as it writes counts and bodies together."""
    async with bench(own) as before:
        await append(before.http, "c", *EVERYTHING)
        await before.aged("c")
        windows = await before.windows("c")
    client = Client(own.url)
    await client.open()
    try:
        data_keys = DataKeys(client, (KEY,))
        done = [each async for each in Repair(client, data_keys).all()]
        page = await Conversations(client, data_keys=data_keys).reader.page("default", "c", 1, 100)
        bodies = (await client.commands([("LRANGE", keys_of("default/c").log, 0, -1)]))[0]
    finally:
        await client.close()
    assert [each.messages for each in done] == [len(EVERYTHING)] == [len(page.messages)]
    assert {body[0] for body in bodies} == {1}
    settings = Settings(redis_url=own.url, store_connections=2, durability="fast", encryption_key=(KEY,))
    async with lifespan(create_app(settings)) as app, http(app) as over_http:
        assert await Bench(over_http, *before[1:]).windows("c") == windows


async def test_a_conversation_that_does_not_open_is_told_and_the_others_repaired(own: EmbeddedStore) -> None:
    """A conversation that cannot be decrypted is reported and stays as it is; the others are repaired."""
    async with bench(own, KEY) as sealed:
        await append(sealed.http, "locked", *EVERYTHING)
        await sealed.aged("locked")
    async with opened(own.url) as plain:
        await plain.append("other", "open", said("one", "two"), **APPEND)
        await age(plain, "other", "open")
        found = {each.name: each async for each in Repair(plain._client, DataKeys(plain._client)).all()}

        assert found["other/open"].messages == 2
        assert (found["default/locked"].messages, str(found["default/locked"].problem)) == (
            0,
            "What is stored is encrypted, and this service was started without SASH_ENCRYPTION_KEY.",
        )
        assert await old_messages(plain, "default", "locked") > 0


async def test_a_damaged_conversation_is_told(there: Bench, own: EmbeddedStore) -> None:
    """A conversation that lost its pinned copies is reported, and none of its messages is measured again."""
    await append(there.http, "c", *EVERYTHING)
    await there.aged("c")
    with redis.Redis.from_url(own.url) as server:
        server.delete("sash:{default/c}:pinned")
    (found,) = await there.repaired()
    assert (found.messages, "(pinned)" in str(found.problem)) == (0, True)


@pytest.mark.parametrize("part", ["conversation", "log", "details"])
async def test_a_damaged_conversation_of_today_is_told(there: Bench, own: EmbeddedStore, part: str) -> None:
    """A conversation that lost a key is reported also if this version measured its messages."""
    await append(there.http, "c", *EVERYTHING)
    with redis.Redis.from_url(own.url) as server:
        server.delete(f"sash:{{default/c}}:{part}")
    (found,) = await there.repaired()
    assert (found.name, f"({part})" in str(found.problem)) == ("default/c", True)


async def test_a_repair_that_was_broken_off_goes_on(there: Bench) -> None:
    """After a repair that stopped between steps, the next repair measures the rest."""
    for _ in range(3):
        await append(there.http, "c", *[user(f"Message {n}") for n in range(100)])
    totals = await there.totals("c")
    await there.aged("c")
    pages = there.repair._pages("default/c")
    done = await there.repair._measure("default/c", await anext(pages))
    await pages.aclose()

    (rest,) = await there.repaired()

    assert (0 < done.messages < 300, done.messages + rest.messages) == (True, 300)
    assert (await there.old("c"), await there.totals("c")) == (0, totals)


async def test_a_message_that_changed_since_it_was_read_is_left_alone(there: Bench) -> None:
    """Messages that were redacted or rewound since they were read are left alone; the others of the step are measured."""
    await append(there.http, "c", *EVERYTHING)
    await there.aged("c")
    page = await anext(there.repair._pages("default/c"))
    assert (await there.http.delete("/conversations/c/messages/2")).status_code == 204
    assert (await there.http.post("/conversations/c/rewind", json={"to_seq": 7})).status_code == 200

    done = await there.repair._measure("default/c", page)

    found = (await there.conversations.reader.page("default", "c", 1, 100)).messages
    assert (done.messages, len(found), await there.old("c")) == (6, 7, 0)
    assert [message.seq for message in found if message.record.flags & Flags.REDACTED] == [2]
    assert await there.totals("c") == await there.fresh_totals("c")


async def test_a_conversation_that_began_anew_is_left_alone(there: Bench) -> None:
    """A page that was read from one life of a conversation is not written to the next life."""
    await append(there.http, "c", *EVERYTHING)
    await there.aged("c")
    page = await anext(there.repair._pages("default/c"))
    assert (await there.http.delete("/conversations/c")).status_code == 204
    await append(there.http, "c", *EVERYTHING)
    etag = await etag_of(there.http, "c")
    await there.aged("c")

    problem = await asyncio.gather(there.repair._measure("default/c", page), return_exceptions=True)

    assert str(problem[0]) == "There is no such conversation."
    assert await etag_of(there.http, "c") == etag


async def test_nothing_is_lost_beside_a_busy_service(there: Bench) -> None:
    """Appends and redactions during a repair are all there, and the totals are those of a fresh import."""
    for _ in range(6):
        await append(there.http, "c", *[user(f"Message {n}") for n in range(100)])
    await append(there.http, "c", calling("call-1", "call-2"), result("call-1"), result("call-2"))
    await there.aged("c")
    repairing = asyncio.create_task(there.repaired())
    for turn in range(80):
        await append(there.http, "c", user(f"New {turn}"), assistant("Yes."))
        assert (await there.http.delete(f"/conversations/c/messages/{7 * turn + 1}")).status_code == 204
    (found,) = await repairing

    entries = await history(there.http, "c")
    assert found.messages > 500
    assert (len(entries), await there.old("c")) == (603 + 2 * 80, 0)
    assert sum(1 for entry in entries if entry.get("redacted")) == 80
    assert await there.totals("c") == await there.fresh_totals("c")


async def test_windows_of_several_reads_are_answered_meanwhile(there: Bench) -> None:
    """Windows of several reads are answered during a repair, although each of its writes makes them start again."""
    for _ in range(8):
        await append(there.http, "c", *[user(f"Message {n} {'of many words ' * 20}") for n in range(100)])
    await there.aged("c")
    repairing = asyncio.create_task(there.repaired())
    statuses = []
    while not repairing.done():
        statuses.append((await there.http.get("/conversations/c/window?model=gpt-4o")).status_code)
    assert [each.messages for each in await repairing] == [800]
    assert set(statuses) == {200}


async def test_long_messages_are_read_in_steps(there: Bench) -> None:
    """A repair of long messages, which reads few at once, leaves none out."""
    for n in range(5):
        await append(there.http, "c", user(f"{n} {'of many words ' * 45_000}"), assistant("Yes."))
    totals = await there.totals("c")
    await there.aged("c")
    (found,) = await there.repaired()
    assert (found.messages, await there.old("c"), await there.totals("c")) == (10, 0, totals)


async def test_a_store_that_is_lost_ends_a_repair(tmp_path: Path) -> None:
    """A repair ends with StoreUnavailable when the store is lost, and leaves no task running."""
    with EmbeddedStore(tmp_path) as store:
        async with opened(store.url, timeout_seconds=1) as conversations:
            for n in range(9):
                for _ in range(5):
                    await conversations.append("t", f"c{n}", said(*["one"] * 100), **APPEND)
                await age(conversations, "t", f"c{n}")
            repair = Repair(conversations._client, DataKeys(conversations._client))
            repairing = asyncio.ensure_future(anext(repair.all()))
            await asyncio.sleep(0.1)
            kill(store)
            with pytest.raises(StoreUnavailable):
                await repairing
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert not [task for task in others if "_when_there_is_room" in repr(task)]


async def test_two_repairs_at_once_do_it_once(there: Bench) -> None:
    """Two repairs at once measure each message again once."""
    for _ in range(4):
        await append(there.http, "c", *[user(f"Message {n}") for n in range(100)])
    totals = await there.totals("c")
    await there.aged("c")
    ones, others = await asyncio.gather(there.repaired(), there.repaired())
    assert sum(each.messages for each in (*ones, *others)) == 400
    assert (await there.old("c"), await there.totals("c")) == (0, totals)


async def test_who_reads_in_several_steps_begins_anew(there: Bench) -> None:
    """A read in several steps raises HistoryEdited when a repair comes between, so that old and new counts never mix."""
    await append(there.http, "c", *EVERYTHING)
    await there.aged("c")
    state = await there.conversations.reader.get("default", "c")
    await there.repaired()
    with pytest.raises(HistoryEdited):
        await there.conversations.reader.records("default", "c", 1, 2, state=state)


async def test_an_answer_with_older_counts_is_not_given_again(there: Bench) -> None:
    """A kept answer with older counts is not given again after a repair: as after a redaction, the request answers 409."""
    request: dict[str, Any] = {"json": {"messages": [user("Hello.")]}, "headers": {"Idempotency-Key": "k"}}
    first = await there.http.post("/conversations/c/messages?model=gpt-4o", **request)
    await there.aged("c")
    await there.repaired()
    again = await there.http.post("/conversations/c/messages?model=gpt-4o", **request)
    assert (first.status_code, again.status_code, len(await history(there.http, "c"))) == (201, 409, 1)


async def test_a_sample_finds_older_messages(there: Bench) -> None:
    """A sample tells how many conversations it read, at most the number asked for, and how many of them need a repair."""
    for n in range(5):
        await append(there.http, f"c{n}", user("Hello."))
    await there.aged("c2")
    assert (await there.repair.sample(200), (await there.repair.sample(3))[0]) == ((5, 1), 3)
    assert await there.repair.count() == 5


async def test_a_conversation_that_lost_its_counts_is_told(there: Bench, own: EmbeddedStore) -> None:
    """A repair names a conversation without its counts, from which the others are found, and none that is empty."""
    for name in ("whole", "lost"):
        await append(there.http, name, user("Hello."))
    assert (await there.http.post("/conversations", json={"id": "empty"})).status_code == 201
    with redis.Redis.from_url(own.url) as server:
        assert server.delete(keys_of("default/lost").counts) == 1
    found = {each.name: each.problem for each in await there.repaired()}
    assert found["default/whole"] is None
    assert isinstance(found["default/lost"], ConversationDamaged)
    assert len(found) == 2


def test_steps_are_shorter_where_a_message_is_far_in_its_list() -> None:
    """A step has fewer messages the farther they are from the list's end, because the store walks to each of them."""
    records = Records.of([entry.record for entry in said(*["of many words " * 20] * 100)])
    steps = [_step_messages(records, distance) for distance in (50, 100_000, 1_000_000, 10**9)]
    assert steps == sorted(steps, reverse=True)
    assert (steps[0], steps[-1], len({*steps})) == (100, 5, 3)


@pytest.mark.nightly
@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "encrypted"])
async def test_no_step_keeps_the_store_long(tmp_path: Path, keys: tuple[bytes, ...]) -> None:
    """In a conversation of 50,000 messages the median script takes less than 10 ms, half of the limit of 20 ms.

    The median is used because the server's clock runs on while the machine does other work.
    """
    with EmbeddedStore(tmp_path, fsync="everysec") as store, redis.Redis.from_url(store.url) as admin:
        async with bench(store, *keys) as there:
            entries = [user(f"Message {n} " + "of many words " * 10) for n in range(100)]
            for _ in range(500):
                await append(there.http, "c", *entries)
            await there.aged("c")
            admin.config_resetstat()
            (found,) = await there.repaired()
            took = admin.info("latencystats")["latency_percentiles_usec_evalsha"]
    assert found.messages == 50_000
    assert took["p50"] < 10_000, took
