"""One dialogue with every call of the HTTP contract that touches the store, on any deployment."""

import asyncio
import time
from pathlib import Path

import httpx
from conftest import http, lifespan
from rigs.dialogue import append, history, user, window
from rigs.dialogue import append as append_entries
from rigs.everything import EVERYTHING, seen

from sash.app import create_app
from sash.settings import Settings
from sash.store.data.api_keys import ApiKeys
from sash.store.redis.checks import check_store
from sash.store.redis.client import Client


async def whole_dialogue(url: str, folder: Path, **settings: object) -> None:
    """Make every call to a service on the store at ``url``; check each answer, and that the doctor finds no problem."""
    given = {"durability": "durable", "store_connections": 2, "rate_limit": 10_000.0, **settings}
    async with lifespan(create_app(Settings(redis_url=url, **given))) as app, http(app) as client:  # type: ignore[arg-type]
        await until_ready(client)
        for part in (_conversations, _histories, _copies, _owners, _figures):
            await part(client)
        assert (await client.get("/stats")).status_code == 200
        assert (await client.get("/metrics")).status_code == 200
    await _keys(url)
    problems = [finding for finding in await check_store(url, folder, "fast") if finding.verdict == "problem"]
    assert problems == [], problems


async def one_turn(url: str, **settings: object) -> None:
    """Append a message and erase its conversation, on the store at ``url``."""
    async with lifespan(create_app(Settings(redis_url=url, **settings))) as app, http(app) as client:  # type: ignore[arg-type]
        await append(client, "w-6", user("hello"))
        assert (await client.delete("/conversations/w-6")).status_code == 204


async def until_ready(client: httpx.AsyncClient, *, refused: str = "") -> httpx.Response:
    """Return the answer of /readyz once it is 200 and what is ``refused`` is named, or nothing is; fail after a minute."""
    give_up = time.monotonic() + 60
    while not _is_as(answer := await client.get("/readyz"), refused):
        assert time.monotonic() < give_up, answer.text
        await asyncio.sleep(0.05)
    return answer


async def until_named(client: httpx.AsyncClient, what: str) -> None:
    """Wait until the answer of /readyz has this text, whether it is 200 or 503; fail after a minute."""
    async with asyncio.timeout(60):
        while what not in (await client.get("/readyz")).text:  # noqa: ASYNC110 - seen over HTTP
            await asyncio.sleep(0.05)


def _is_as(answer: httpx.Response, refused: str) -> bool:
    degraded = str(answer.json().get("degraded"))
    return answer.status_code == 200 and (refused in degraded if refused else degraded == "[]")


async def _conversations(client: httpx.AsyncClient) -> None:
    made = {"id": "w-1", "system": "Be brief.", "owner": "ann", "ttl_seconds": 1000}
    key = {"Idempotency-Key": "k-1"}
    first = await client.post("/conversations", json=made, headers=key)
    assert first.status_code == 201, first.text
    again = await client.post("/conversations", json=made, headers=key)
    assert (again.status_code, again.content) == (201, first.content)
    assert (await client.post("/conversations", json=made)).status_code == 409
    changed = await client.patch("/conversations/w-1", json={"metadata": {"a": 1}, "ttl_seconds": None})
    assert changed.status_code == 200
    stale = await client.patch("/conversations/w-1", json={}, headers={"If-Match": '"77"'})
    assert stale.status_code == 412


async def _histories(client: httpx.AsyncClient) -> None:
    await append_entries(client, "w-1", *EVERYTHING)
    keyed = {"messages": [user("under a key")]}
    path = "/conversations/w-1/messages?model=gpt-4o"
    answers = [await client.post(path, json=keyed, headers={"Idempotency-Key": "k-2"}) for _ in range(2)]
    assert [answer.json()["messages"][0]["seq"] for answer in answers] == [len(EVERYTHING) + 1] * 2
    assert (await append_entries(client, "w-1", EVERYTHING[0]))["messages"][0]["duplicate"]
    for query in ({}, {"max_tokens": 110, "overflow": "skip"}, {"stable": "true", "max_tokens": 130}, {"limit": 2}):
        await window(client, "w-1", **query)
    assert len(await history(client, "w-1")) == len(EVERYTHING) + 1
    assert (await client.get("/conversations/w-1/messages?order=desc&limit=3")).status_code == 200
    assert (await client.get("/conversations/w-1/messages/8")).json()["pinned"]
    assert (await client.delete("/conversations/w-1/messages/8")).status_code == 204
    put = await client.put("/conversations/w-1/summary", json={"text": "Greetings.", "through_seq": 3})
    assert put.status_code == 200, put.text
    await window(client, "w-1", summary="always")
    assert (await client.delete("/conversations/w-1/summary")).status_code == 204
    assert (await client.post("/conversations/w-1/rewind", json={"to_seq": 10})).status_code == 200
    await append(client, "w-1", EVERYTHING[1], user("after the rewind", id="j"))


async def _copies(client: httpx.AsyncClient) -> None:
    forked = await client.post("/conversations/w-1/fork", json={"id": "w-2", "at_seq": 9})
    assert forked.status_code == 201, forked.text
    exported = await client.get("/conversations/w-1/export")
    imported = await client.post(
        "/conversations/import?id=w-3", content=exported.content, headers={"Content-Type": "application/x-ndjson"}
    )
    assert imported.status_code == 201, imported.text
    assert await seen(client, "w-3") == await seen(client, "w-1")
    await append(client, "w-2", *(user(f"line {i}") for i in range(90)))
    await append(client, "w-2", *(user(f"line {i}") for i in range(90)))
    assert (await client.post("/conversations/w-2/fork", json={"id": "w-4"})).status_code == 201


async def _owners(client: httpx.AsyncClient) -> None:
    assert len((await client.get("/conversations?owner=ann")).json()["conversations"]) == 4
    assert (await client.delete("/conversations/w-1")).status_code == 204
    assert len((await client.get("/conversations?owner=ann")).json()["conversations"]) == 3
    listed = (await client.get("/conversations")).json()["conversations"]
    assert sorted(each["id"] for each in listed) == ["w-2", "w-3", "w-4"]
    assert (await client.delete("/owners/ann")).status_code == 204
    assert (await client.get("/conversations?owner=ann")).json()["conversations"] == []
    for name in ("w-1", "w-2", "w-3", "w-4"):
        assert (await client.get(f"/conversations/{name}")).status_code == 404


async def _figures(client: httpx.AsyncClient) -> None:
    await append(client, "w-5", user("hello"))
    told = {"model": "claude-sonnet-4-5", "prompt_tokens": 20, "window_tokens": 18}
    assert (await client.post("/conversations/w-5/usage", json=told)).status_code < 300
    assert (await client.get("/models/claude-sonnet-4-5")).status_code == 200
    assert (await client.delete("/conversations/w-5")).status_code == 204


async def _keys(url: str) -> None:
    client = Client(url)
    await client.open()
    try:
        keys = ApiKeys(client)
        key, kept = await keys.create("acme", 1)
        assert (await keys.find(key)).tenant == "acme"
        assert [each.id for each in await keys.all()] == [kept.id]
        assert await keys.revoke(kept.id)
    finally:
        await client.close()
