"""Encryption at rest: no text from clients is on the disk, and clients get the same answers as without a key."""

import asyncio
import json
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from conftest import Served, http, lifespan
from rigs.dialogue import append, indexed, window
from rigs.everything import CALLS, EVERYTHING, result, said, seen
from store.whole import until_named

from sash.app import create_app
from sash.core.chat.messages import digest
from sash.settings import ApiKey, Settings
from sash.store.data.datakeys import DataKeys
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

KEY = b"master".ljust(32)
CANARY = "kanarienvogel"
SETTINGS: dict[str, Any] = {
    "model": "gpt-4o",
    "owner": "ann",
    "system": f"system {CANARY}",
    "few_shots": [{"role": "user", "content": f"shot {CANARY}"}, {"role": "assistant", "content": "ok"}],
    "tools": [{"type": "function", "function": {"name": "look", "description": CANARY, "parameters": {}}}],
    "grounding_template": "{content}\n\n" + CANARY + ":\n{documents}",
    "metadata": {"note": CANARY},
}
CALL = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"at": CANARY})}}
SAYINGS: tuple[dict[str, Any], ...] = (
    said(f"developer {CANARY}", "a", "developer"),
    said(
        f"question {CANARY}",
        "b",
        grounding={"documents": [{"text": f"document {CANARY}", "id": "d-1"}]},
        metadata={"note": CANARY},
        pinned=True,
    ),
    {"id": "c", "message": {"role": "assistant", "content": None, "tool_calls": [CALL]}},
    {"id": "d", "message": {"role": "tool", "tool_call_id": "call-1", "content": CANARY}, "pinned": True},
    said(f"answer {CANARY}", "e", "assistant"),
    {"id": "f", "message": {"role": "user", "content": f"last {CANARY}", "name": CANARY}},
)


@asynccontextmanager
async def service(own: EmbeddedStore, *keys: bytes, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a new application with these master keys, as another process would run it."""
    wanted = Settings(redis_url=own.url, store_connections=2, durability="fast", encryption_key=keys, **settings)
    async with lifespan(create_app(wanted)) as app, http(app) as client:
        yield client


def on_disk(own: EmbeddedStore) -> bytes:
    """Return every byte of the data directory, after the store wrote a snapshot beside its append-only file."""
    with redis.Redis.from_url(own.url) as server:
        server.save()
        config = server.config_get("dir")
    return b"".join(path.read_bytes() for path in Path(config["dir"]).rglob("*") if path.is_file())


def rewritten(raw: redis.Redis) -> None:
    """Rewrite the append-only file to the present data only, and wait until it is done."""
    raw.bgrewriteaof()
    while raw.info("persistence")["aof_rewrite_in_progress"] or raw.info("persistence")["aof_rewrite_scheduled"]:
        time.sleep(0.02)


async def everything_said(client: httpx.AsyncClient) -> None:
    """Make each call that stores text, with the canary in each text."""
    assert (await client.post("/conversations", json={"id": "one", **SETTINGS})).status_code == 201
    headers = {"Idempotency-Key": "k-1"}
    body = {"messages": list(SAYINGS)}
    path = "/conversations/one"
    assert (await client.post(f"{path}/messages?model=gpt-4o", json=body, headers=headers)).status_code == 201
    again = await client.post(f"{path}/messages?model=gpt-4o", json=body, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    assert CANARY in again.text
    summary = {"text": f"summary {CANARY}", "through_seq": 2}
    assert (await client.put(f"{path}/summary", json=summary)).status_code == 200
    changed = await client.patch(path, json={"document_separator": CANARY}, headers={"Idempotency-Key": "k-2"})
    assert changed.status_code == 200
    assert (await client.post(f"{path}/fork", json={"id": "two"})).status_code == 201
    exported = (await client.get(f"{path}/export")).content
    form = {"Content-Type": "application/x-ndjson"}
    assert (await client.post("/conversations/import?id=three", content=exported, headers=form)).status_code == 201
    assert (await client.post("/conversations/three/rewind", json={"to_seq": 3})).status_code == 200
    assert (await client.delete("/conversations/two/messages/5")).status_code == 204


async def told(client: httpx.AsyncClient, *conversations: str) -> list[dict[str, Any]]:
    """Return all that clients can read of conversations, without times."""
    found = [await seen(client, conversation) for conversation in conversations]
    for each in found:
        for message in each["messages"]:
            del message["created_at"]
    return found


async def test_nothing_that_was_said_is_on_the_disk(own: EmbeddedStore, raw: redis.Redis) -> None:
    """After every call that stores text, no file of the store holds the text, or a digest that would confirm a guess.

    The history, the fork with a redaction and the import with a rewind are the same as without a key.
    """
    spoken = [each["message"] for each in SAYINGS if each["message"]["content"] is not None]
    guesses = [digest([message["role"], message["content"]], 8) for message in spoken]
    guesses.append(digest([SAYINGS[4]["message"], None, False, None, None], 16)[:8])
    async with service(own) as client:
        await everything_said(client)
        plainly = await told(client, "one", "two", "three")
    before = on_disk(own)
    assert CANARY.encode() in before
    assert all(guess in before for guess in guesses)
    raw.flushall()
    rewritten(raw)
    assert CANARY.encode() not in on_disk(own)

    async with service(own, KEY) as client:
        await everything_said(client)
        assert await told(client, "one", "two", "three") == plainly
        state = (await client.get("/conversations/one")).json()

    after = on_disk(own)
    assert b"sash:{default/one}:log" in after
    assert CANARY.encode() not in after
    assert KEY not in after
    assert [guess for guess in guesses if guess in after] == []
    assert state["tokens"]["o200k_base"] == int(raw.hget("sash:{default/one}:conversation", "t0"))  # not encrypted


async def test_clients_notice_nothing(own: EmbeddedStore, raw: redis.Redis) -> None:  # noqa: ARG001 - it clears up
    """State, history and window are the same with and without a key, for messages of every kind."""
    found = []
    for keys in ((), (KEY,)):
        async with service(own, *keys) as client:
            name = f"c-{len(keys)}"
            await client.post("/conversations", json={"id": name, **SETTINGS})
            await append(client, name, *EVERYTHING)
            await client.put(f"/conversations/{name}/summary", json={"text": "earlier", "through_seq": 3})
            found += await told(client, name)
    assert found[0] == found[1]


async def test_a_key_may_come_later(own: EmbeddedStore, raw: redis.Redis) -> None:
    """Messages stored before a key was set are read beside later ones; retries across the change are duplicates."""
    headers = {"Idempotency-Key": "k-1"}
    first = {"messages": [said("old", "a"), {"id": "b", "message": CALLS}, result("call-1", "c")]}
    async with service(own) as client:
        await client.post("/conversations", json={"id": "c", "system": "old"})
        answer = await client.post("/conversations/c/messages", json=first, headers=headers)
    async with service(own, KEY) as client:
        again = await client.post("/conversations/c/messages", json=first, headers=headers)
        assert (again.headers["idempotency-replayed"], again.status_code) == ("true", answer.status_code)
        assert [each["seq"] for each in again.json()["messages"]] == [each["seq"] for each in answer.json()["messages"]]
        retried = await append(client, "c", *first["messages"], result("call-2", "d"), said("new", "e"))
        assert [each["duplicate"] for each in retried["messages"]] == [True, True, True, False, False]
        other = await client.post("/conversations/c/messages", json={"messages": [said("another", "a")]})
        assert other.status_code == 409
        window = (await client.get("/conversations/c/window?model=gpt-4o")).json()["request"]["messages"]
        assert [message.get("content") for message in window] == [
            "old", "old", CALLS["content"], "42 é", "42 é", "new",
        ]  # fmt: skip
        page = (await client.get("/conversations/c/messages")).json()["messages"]
        assert [each["message"] for each in page] == window[1:]
    assert [value[:1] for value in raw.lrange("sash:{default/c}:log", 0, -1)] == [b"{", b"{", b"{", b"\x01", b"\x01"]


async def test_an_export_encrypts_what_is_old(own: EmbeddedStore, raw: redis.Redis) -> None:
    """An old conversation that is exported, erased and imported is the same, and encrypted."""
    async with service(own) as client:
        await append(client, "c", *EVERYTHING)
        before = await seen(client, "c")
    async with service(own, KEY) as client:
        exported = (await client.get("/conversations/c/export")).content
        assert (await client.delete("/conversations/c")).status_code == 204
        form = {"Content-Type": "application/x-ndjson"}
        assert (await client.post("/conversations/import", content=exported, headers=form)).status_code == 201
        assert await seen(client, "c") == before
        again = await append(client, "c", *EVERYTHING)
        assert all(each["duplicate"] for each in again["messages"])
    assert {value[:1] for value in raw.lrange("sash:{default/c}:log", 0, -1)} == {b"\x01"}


async def test_without_the_key_it_says_so(
    own: EmbeddedStore, raw: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server without the key, or with another, serves nothing encrypted and says what is missing; erasing works."""
    async with service(own, KEY) as client:
        await client.post("/conversations", json={"id": "c", **SETTINGS})
        await append(client, "c", *SAYINGS)
    key = raw.lindex("sash:{default/c}:log", 0)[1:5].hex()
    for keys, said_of_it in (((), "without SASH_ENCRYPTION_KEY"), ((b"other".ljust(32),), "which is not set")):
        async with service(own, *keys) as client:
            await until_named(client, "SASH_ENCRYPTION_KEY")
            for path in ("", "/messages", "/window?model=gpt-4o", "/messages/1"):
                answer = await client.get(f"/conversations/c{path}")
                problem = answer.json()
                assert (answer.status_code, problem["type"]) == (500, "/problems/internal")
                assert said_of_it in problem["detail"]
                assert problem["key"] == key
                assert CANARY not in answer.text
            refused = await client.post("/conversations/d/messages", json={"messages": [said("x")]})
            assert refused.status_code == (500 if keys else 503)
    logged = capsys.readouterr().out
    assert "what is stored does not open" in logged
    assert re.search(rf'key_id"?[=:]"?{key}', logged)
    assert CANARY not in logged
    async with service(own) as client:
        assert (await client.delete("/conversations/c")).status_code == 204
    assert raw.keys("sash:{default/c}*") == []
    assert raw.keys("sash:{default/owner/*") == []


async def test_a_message_of_an_agent_is_recalled(own: EmbeddedStore) -> None:
    """An encrypted message that has an author is recalled: its details are read, as its body opens with all of its row."""
    async with service(own, KEY, recall="lexical") as client:
        turns = [said(f"turn {number} and then some more") for number in range(12)]
        await append(client, "zoo", said("The zebra is called Rex.", author="triage"), *turns, said("Which zebra?"))
        await indexed(client, "zoo")
        found = await window(client, "zoo", limit=2, recall_max_tokens=200)
        assert found["request"]["messages"][0]["content"] == "The zebra is called Rex."
        await client.delete("/conversations/zoo")


async def test_a_service_without_the_key_adds_nothing_to_what_is_encrypted(
    own: EmbeddedStore, raw: redis.Redis
) -> None:
    """A service that does not know yet that others encrypt refuses an append before it stores it; then it stores nothing."""
    body = {"messages": [said(f"plain {CANARY}")]}
    async with service(own) as plain:
        await until_named(plain, '"ready"')
        assert (await plain.post("/conversations", json={"id": "old"})).status_code == 201
        async with service(own, KEY) as client:
            await client.post("/conversations", json={"id": "c", "model": "gpt-4o"})
            await append(client, "old", said("encrypted"))
            for name, stored in (("c", 0), ("old", 1)):
                for query in ("", "?model=gpt-4o"):
                    refused = await plain.post(f"/conversations/{name}/messages{query}", json=body)
                    assert refused.status_code in (500, 503), refused.text
                assert (await client.get(f"/conversations/{name}")).json()["messages"]["count"] == stored
            await until_named(plain, "SASH_ENCRYPTION_KEY is not set")
            for path, content in (("/conversations", {"system": CANARY}), ("/conversations/new/messages", body)):
                answer = await plain.post(path, json=content)
                assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
                assert "SASH_ENCRYPTION_KEY is not set" in answer.json()["detail"]
    assert raw.keys("sash:{default/new}*") == []


async def test_without_the_key_an_owner_can_be_erased(own: EmbeddedStore, raw: redis.Redis) -> None:
    """Without the key, an owner's list has only unencrypted conversations; erasing the owner erases exactly the owner's."""
    form = {"Content-Type": "application/x-ndjson"}
    async with service(own, KEY) as client:
        for identity, owner in (("a", "ann"), ("b", "ann"), ("other", "bob"), ("left", "ann")):
            made = await client.post("/conversations", json={"id": identity, "owner": owner})
            assert made.status_code == 201
        await client.patch("/conversations/left", json={"owner": None})
        await client.patch("/conversations/b", json={"owner": "bob"})
        await client.patch("/conversations/b", json={"owner": "ann"})
        assert (await client.post("/conversations/a/fork", json={"id": "copy"})).status_code == 201
        body = b'{"id":"imported","owner":"ann"}\n'
        assert (await client.post("/conversations/import", content=body, headers=form)).status_code == 201
        # This puts Bob's conversation on Ann's list for a while.
        assert (await client.post("/conversations", json={"id": "other", "owner": "ann"})).status_code == 409
    async with service(own) as client:
        assert (await client.post("/conversations", json={"id": "open", "owner": "ann"})).status_code == 201
        listed = (await client.get("/conversations?owner=ann")).json()["conversations"]
        assert [each["id"] for each in listed] == ["open"]
        assert (await client.delete("/owners/ann")).status_code == 204
    left = sorted(raw.keys("sash:*:conversation"))
    assert left == [b"sash:{default/left}:conversation", b"sash:{default/other}:conversation"]


def _flipped(raw: redis.Redis) -> None:
    value = raw.lindex("sash:{default/c}:log", 1)
    raw.lset("sash:{default/c}:log", 1, value[:-20] + bytes([value[-20] ^ 1]) + value[-19:])


def _swapped(raw: redis.Redis) -> None:
    first, second = raw.lrange("sash:{default/c}:log", 0, 1)
    raw.lset("sash:{default/c}:log", 0, second)
    raw.lset("sash:{default/c}:log", 1, first)


def _recounted(raw: redis.Redis) -> None:
    raw.setrange("sash:{default/c}:counts", 24 + 4, b"\x09\x00\x00\x00")


def _from_another(raw: redis.Redis) -> None:
    raw.lset("sash:{default/c}:log", 1, raw.lindex("sash:{default/d}:log", 1))


def _cut(raw: redis.Redis) -> None:
    raw.lset("sash:{default/c}:log", 1, raw.lindex("sash:{default/c}:log", 1)[:40])


def _emptied(raw: redis.Redis) -> None:
    raw.lset("sash:{default/c}:log", 1, b"")


def _documents_moved(raw: redis.Redis) -> None:
    raw.hset("sash:{default/c}:grounding", 2, raw.hget("sash:{default/d}:grounding", 2))


@pytest.mark.parametrize("change", [_flipped, _swapped, _recounted, _from_another, _cut, _emptied, _documents_moved])
async def test_what_was_changed_is_not_served(own: EmbeddedStore, raw: redis.Redis, change: Any) -> None:
    """A stored message or count that was changed, cut, swapped or copied from elsewhere is a 500 and is not served."""
    async with service(own, KEY) as client:
        for name in ("c", "d"):
            await append(client, name, said("hello", "a"), said("text", "b", grounding={"documents": [{"text": name}]}))
        change(raw)
        for path in ("/messages", "/window?model=gpt-4o"):
            answer = await client.get(f"/conversations/c{path}")
            assert answer.status_code == 500
            assert "does not open: it was changed or moved" in answer.json()["detail"]
        assert (await client.get("/conversations/d/messages")).status_code == 200


async def test_two_tenants_have_their_own_keys(own: EmbeddedStore, raw: redis.Redis) -> None:
    """One tenant's data does not decrypt as another's, and equal messages of two tenants have different digests."""
    keys = (ApiKey("acme", "key-of-acme-0123456789"), ApiKey("beta", "key-of-beta-0123456789"))
    headers = [{"Authorization": f"Bearer {each.key}"} for each in keys]
    async with service(own, KEY, api_keys=keys) as client:
        for each in headers:
            body = {"messages": [said("the same", "a")]}
            assert (await client.post("/conversations/c/messages", json=body, headers=each)).status_code == 201
        acme, beta = (raw.lindex(f"sash:{{{key.tenant}/c}}:log", 0) for key in keys)
        counts = [raw.get(f"sash:{{{key.tenant}/c}}:counts") for key in keys]
        assert acme[1:5] != beta[1:5]
        assert counts[0][:16] == counts[1][:16]
        assert counts[0][16:] != counts[1][16:]  # the digest
        raw.lset("sash:{beta/c}:log", 0, acme)
        answers = [await client.get("/conversations/c/messages", headers=each) for each in headers]
    assert [answer.status_code for answer in answers] == [200, 500]
    assert answers[1].json()["key"] == acme[1:5].hex()


async def test_a_key_is_rotated_under_load(own: EmbeddedStore, raw: redis.Redis) -> None:
    """Two applications append and read during three rotations of the data key: no request fails, no message is lost."""
    keeper = Client(own.url)
    await keeper.open()
    begun, done = asyncio.Event(), asyncio.Event()

    async def talk(client: httpx.AsyncClient, writer: int) -> int:
        said_so_far = 0
        while not done.is_set():
            await append(client, "c", said(f"{writer} {said_so_far}", f"{writer}-{said_so_far}"))
            begun.set()
            window = await client.get("/conversations/c/window?model=gpt-4o")
            assert window.status_code == 200, window.text
            said_so_far += 1
        return said_so_far

    async with service(own, KEY) as one, service(own, KEY) as two:
        writers = [asyncio.create_task(talk(client, n)) for n, client in enumerate((one, two) * 4)]
        await begun.wait()  # the first key has sealed a message
        for _ in range(3):
            await DataKeys(keeper, [KEY]).rotate("default")
            # An application that starts now uses the new key at once; the two running ones read its messages.
            async with service(own, KEY) as fresh:
                await append(fresh, "c", said("fresh"))
        done.set()
        written = sum(await asyncio.gather(*writers)) + 3
        assert (await one.get("/conversations/c")).json()["messages"]["count"] == written
        async with service(own, KEY) as reader:
            lines = (await reader.get("/conversations/c/export")).text.splitlines()
    await keeper.close()
    assert len(lines) == written + 1
    assert len({value[1:5] for value in raw.lrange("sash:{default/c}:log", 0, -1)}) == 4


def test_what_a_killed_service_encrypted_is_there(tmp_path: Path) -> None:
    """A message stored by ``sash serve`` with a key file is readable after SIGKILL and a restart, and encrypted on disk."""
    (tmp_path / "key").write_text("bWFzdGVy" * 5 + "bWE=\n")
    process = Served(tmp_path / "data", SASH_ENCRYPTION_KEY=f"@{tmp_path / 'key'}")
    process.start()
    turn = {"messages": [said(f"first {CANARY}", "a")]}
    try:
        assert httpx.post(f"{process.url}/conversations/c/messages", json=turn).status_code == 201
        process.stop(signal.SIGKILL)
        process.start()
        again = httpx.post(f"{process.url}/conversations/c/messages", json=turn)
        window = httpx.get(f"{process.url}/conversations/c/window?model=gpt-4o").json()
    finally:
        process.stop()
    assert "what people write is encrypted at rest" in (tmp_path / "serve.log").read_text()
    assert again.json()["messages"][0]["duplicate"]
    assert window["request"]["messages"] == [turn["messages"][0]["message"]]
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


async def test_messages_without_content_are_no_duplicates(own: EmbeddedStore) -> None:
    """Two encrypted refusals without content are not duplicates of each other."""
    refusals = [{"message": {"role": "assistant", "content": None, "refusal": text}} for text in ("no", "never")]
    async with service(own, KEY) as client:
        await client.post("/conversations/refused/messages", json={"messages": refusals})
        body = (await client.get("/conversations/refused/window?model=gpt-4o&dedupe=messages")).json()
        await client.delete("/conversations/refused")
    assert (body["kept"]["messages"], body["dropped"]["duplicates"]) == (2, 0)


async def test_a_compaction_stands_and_is_sealed(own: EmbeddedStore, raw: redis.Redis) -> None:
    """A provider's compaction begins windows as without encryption; its words are not in the store."""
    block = {"type": "compaction", "content": "Summary 4711-secret."}
    reply = {"role": "assistant", "content": [block, {"type": "text", "text": "So."}]}
    query = "model=claude-opus-4-6&format=anthropic"
    said = [{"role": "user", "content": "Hello"}, reply, {"role": "user", "content": "Go on"}]
    async with service(own, KEY) as client:
        appended = await client.post(f"/conversations/c-1/messages?{query}", json={"messages": said})
        assert appended.json()["window"]["request"]["messages"] == said[1:]
        rewritten(raw)
        assert b"4711-secret" not in on_disk(own)
        assert (await client.delete("/conversations/c-1/messages/1")).status_code == 204
        assert "4711-secret" not in (await client.get("/conversations/c-1/messages")).text
        await client.delete("/conversations/c-1")


async def test_a_compaction_may_be_the_newest_message(own: EmbeddedStore) -> None:
    """Right after an append of a compaction alone, the bodies that are read are those of the messages that are read."""
    block = {"type": "compaction", "content": "Summary."}
    said = [{"role": "user", "content": f"Word {number} " * 40} for number in range(100)]
    async with service(own, KEY) as client:
        await client.post("/conversations/newest/messages?format=anthropic", json={"messages": said})
        last = {"messages": [{"role": "assistant", "content": [block]}]}
        await client.post("/conversations/newest/messages?format=anthropic", json=last)
        answer = await client.get("/conversations/newest/window?model=claude-opus-4-6&format=anthropic&max_tokens=500")
        assert answer.status_code == 200, answer.text
        assert answer.json()["request"]["messages"][0] == last["messages"][0]
        await client.delete("/conversations/newest")
