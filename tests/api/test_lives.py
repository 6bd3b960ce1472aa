"""Reads, writes and retries that belong to an erased conversation never touch a new one with the same id."""

import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from conftest import http, kill, lifespan
from rigs.dialogue import append, etag_of, history, problem, user, window
from rigs.relay import relayed

from sash.app import create_app
from sash.settings import Settings
from sash.store.data.layout import PREFIX
from sash.store.redis.embedded import EmbeddedStore
from sash.store.redis.lua import SCRIPTS

READS = ("", "/messages", "/messages/1", "/window?model=gpt-4o", "/export")
WRITES: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "append": ("POST", "/messages", {"messages": [user("late")]}),
    "append with a window": ("POST", "/messages?model=gpt-4o", {"messages": [user("late")]}),
    "change": ("PATCH", "", {"reserve": 7}),
    "rewind": ("POST", "/rewind", {"to_seq": 0}),
    "redact": ("DELETE", "/messages/1", None),
    "summary": ("PUT", "/summary", {"text": "so far", "through_seq": 1}),
    "no summary": ("DELETE", "/summary", None),
    "fork": ("POST", "/fork", {}),
    "usage": ("POST", "/usage", {"model": "gpt-4o", "prompt_tokens": 9, "window_tokens": 9}),
    "erase": ("DELETE", "", None),
}


@asynccontextmanager
async def applications(url: str, count: int = 2):
    """Yield a client for each of ``count`` services on one store."""
    async with AsyncExitStack() as stack:
        apps = [
            await stack.enter_async_context(lifespan(create_app(Settings(redis_url=url, durability="fast"))))
            for _ in range(count)
        ]
        yield [await stack.enter_async_context(http(app)) for app in apps]


async def begin(client: httpx.AsyncClient, conversation: str, how: str, text: str) -> None:
    """Begin a conversation whose first message says ``text``."""
    path = f"/conversations/{conversation}"
    match how:
        case "append":
            await append(client, conversation, user(text, id="a"))
        case "create":
            assert (await client.post("/conversations", json={"id": conversation})).status_code == 201
            await append(client, conversation, user(text, id="a"))
        case "import":
            lines = b'{"id":"%s"}\n{"message":{"role":"user","content":"%s"}}\n' % (
                conversation.encode(),
                text.encode(),
            )
            headers = {"Content-Type": "application/x-ndjson"}
            assert (await client.post("/conversations/import", content=lines, headers=headers)).status_code == 201
        case "fork":
            await append(client, f"{conversation}-source", user(text, id="a"))
            forked = await client.post(f"{path}-source/fork", json={"id": conversation})
            assert forked.status_code == 201
            await client.delete(f"{path}-source")


BEGINNINGS = ("append", "create", "import", "fork")


@pytest.mark.parametrize("how", BEGINNINGS)
async def test_an_old_tag_is_not_the_new_conversation(client: httpx.AsyncClient, conversation: str, how: str) -> None:
    """No read of a new conversation answers 304 to an ETag of an erased one with the same id and version."""
    path = f"/conversations/{conversation}"
    await begin(client, conversation, how, "old words")
    tags = {read: (await client.get(path + read)).headers["etag"] for read in READS}
    assert (await client.delete(path)).status_code == 204
    await begin(client, conversation, how, "new words")

    for read, tag in tags.items():
        answer = await client.get(path + read, headers={"If-None-Match": tag})
        assert (answer.status_code, b"old words" in answer.content) == (200, False), read


@pytest.mark.parametrize("what", WRITES)
async def test_no_write_under_an_old_tag(client: httpx.AsyncClient, conversation: str, what: str) -> None:
    """A write with the ETag of an erased conversation is 412 and does not change the new one with the same id."""
    path, (method, where, body) = f"/conversations/{conversation}", WRITES[what]
    await begin(client, conversation, "append", "old words")
    tag = await etag_of(client, conversation)
    await client.delete(path)
    await begin(client, conversation, "append", "new words")
    now = await etag_of(client, conversation)

    answer = await client.request(method, path + where, json=body, headers={"If-Match": tag})

    problem(answer, 412, "precondition-failed")
    assert (await etag_of(client, conversation), len(await history(client, conversation))) == (now, 1)


async def test_a_cursor_ends_with_its_life(client: httpx.AsyncClient, conversation: str) -> None:
    """A cursor of an erased conversation is refused by a new one with the same id."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"), user("two"))
    cursor = (await client.get(f"{path}/messages?limit=1")).json()["next_cursor"]
    await client.delete(path)
    await append(client, conversation, user("other"), user("words"))

    problem(await client.get(f"{path}/messages?limit=1&cursor={cursor}"), 400, "invalid-cursor")


async def test_another_service_serves_an_edited_import_at_once(store: EmbeddedStore, conversation: str) -> None:
    """After one service replaces a conversation with an edited import, another that read the old text returns the new."""
    path, headers = f"/conversations/{conversation}", {"Content-Type": "application/x-ndjson"}
    async with applications(store.url) as (here, there):
        await append(here, conversation, user("a wrong name"))
        seen = await there.get(f"{path}/window?model=gpt-4o")
        edited = (await here.get(f"{path}/export")).content.replace(b"a wrong name", b"a right name")
        await here.delete(path)
        assert (await here.post("/conversations/import", content=edited, headers=headers)).status_code == 201

        known = {"If-None-Match": seen.headers["etag"]}
        answers = [await there.get(f"{path}/window?model=gpt-4o", headers=each) for each in ({}, known)]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert all("a right name" in answer.text and "a wrong name" not in answer.text for answer in answers)
        await here.delete(path)


ACTS: dict[str, tuple[str, str, dict[str, Any] | None, str]] = {
    "erase": ("DELETE", "", None, "erase"),
    "rewind": ("POST", "/rewind", {"to_seq": 0}, "rewind"),
    "redact": ("DELETE", "/messages/1", None, "redact"),
    "summary": ("PUT", "/summary", {"text": "so far", "through_seq": 1}, "summarize"),
    "change": ("PATCH", "", {"system": "Be old."}, "change"),
}


@pytest.mark.parametrize("what", ACTS)
async def test_a_lost_reply_of_the_store_harms_no_later_life(
    store: EmbeddedStore, conversation: str, tmp_path: Path, what: str
) -> None:
    """A service that retries after a lost reply of the store does not change a conversation created in between."""
    path, (method, where, body, script) = f"/conversations/{conversation}", ACTS[what]
    async with relayed(store.url, tmp_path) as (relay, url), applications(store.url, 1) as (other,):
        settings = Settings(redis_url=url, store_connections=1, durability="fast")
        async with lifespan(create_app(settings)) as app, http(app) as client:
            await append(client, conversation, user("old words"))

            async def meanwhile() -> None:
                await other.delete(path)
                await append(other, conversation, user("new words"))

            relay.lose_reply_to, relay.meanwhile = SCRIPTS[script].sha.encode(), meanwhile

            answer = await client.request(method, path + where, json=body)

            assert relay.lost == 1
            assert answer.status_code in (204, 404), answer.text
            assert [entry["message"]["content"] for entry in await history(other, conversation)] == ["new words"]
            assert "system" not in (await other.get(path)).json()
            await other.delete(path)


@pytest.mark.parametrize("what", ACTS)
async def test_a_key_is_bound_to_the_life_that_it_found(
    client: httpx.AsyncClient, conversation: str, server: redis.Redis, what: str
) -> None:
    """A repeat under a key, whose first run left no answer, does not change a conversation created in between."""
    path, (method, where, body, _) = f"/conversations/{conversation}", ACTS[what]
    headers = {"Idempotency-Key": f"lost-{conversation}-{what}"}
    await append(client, conversation, user("old words"))
    assert (await client.request(method, path + where, json=body, headers=headers)).status_code < 300
    for claim in server.scan_iter(f"{PREFIX}{{default/request/*"):
        server.hdel(claim, "status")
        server.hset(claim, "until", 1)
    await client.delete(path)
    await append(client, conversation, user("new words"))

    again = await client.request(method, path + where, json=body, headers=headers)

    assert again.status_code in (204, 404)
    assert [entry["message"]["content"] for entry in await history(client, conversation)] == ["new words"]


async def test_a_key_ends_with_the_life_that_it_changed(client: httpx.AsyncClient, conversation: str) -> None:
    """An append to an erased conversation is 409 when it is repeated, and stores nothing in a new one with its id."""
    headers = {"Idempotency-Key": f"kept-{conversation}"}
    path = f"/conversations/{conversation}/messages?model=gpt-4o"
    body = {"messages": [user("old words")]}
    assert (await client.post(path, json=body, headers=headers)).status_code == 201
    await client.delete(f"/conversations/{conversation}")
    await append(client, conversation, user("new words"))

    problem(await client.post(path, json=body, headers=headers), 409, "conflict")
    assert [entry["message"]["content"] for entry in await history(client, conversation)] == ["new words"]


@pytest.mark.parametrize("lost", ["newest writes", "everything"])
async def test_a_store_that_lost_writes(tmp_path: Path, lost: str) -> None:
    """After the store restarts without its newest writes, or empty, ETags of lost states give no 304 and allow no write."""
    folder, copy = tmp_path / "data", tmp_path / "copy"
    with EmbeddedStore(folder, fsync="always") as own:
        async with applications(own.url) as (here, there):
            await append(here, "c", user("one"))
            kill(own)
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.sock", "*lock*"))
            own.start()
            await append(here, "c", user("lost words"))
            tags = {read: (await there.get(f"/conversations/c{read}")).headers["etag"] for read in READS}
            kill(own)
            for each in folder.glob("appendonlydir/*"):
                each.unlink()
            if lost == "newest writes":
                for each in copy.glob("appendonlydir/*"):
                    shutil.copy(each, folder / "appendonlydir")
            own.start()
            if lost == "everything":
                await append(here, "c", user("one"))
            await append(here, "c", user("other words"))

            for read, tag in tags.items():
                answer = await there.get(f"/conversations/c{read}", headers={"If-None-Match": tag})
                assert (answer.status_code, b"lost words" in answer.content) == (200, False), read
            rewound = await there.post("/conversations/c/rewind", json={"to_seq": 0}, headers={"If-Match": tags[""]})
            problem(rewound, 412, "precondition-failed")
            texts = [message["content"] for message in (await window(there, "c"))["request"]["messages"]]
            assert texts == ["one", "other words"]
