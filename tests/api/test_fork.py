"""Forks: a copy that goes its own way."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from dialogue import append, etag_of
from everything import EVERYTHING, result, said, seen

SETTINGS = {"owner": "ann", "model": "gpt-4o-mini", "system": "Hello.", "metadata": {"k": 1}, "ttl_seconds": 3600}


async def filled(client: httpx.AsyncClient, conversation: str, entries: Any = EVERYTHING) -> None:
    await client.post("/conversations", json={"id": conversation, **SETTINGS})
    if entries:
        await append(client, conversation, *entries)


async def test_a_whole_copy(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """A fork is 201 with its place; everything in it is as in the original, ids and times of entries included."""
    source, copy = fresh(), fresh()
    await filled(client, source)
    await client.put(f"/conversations/{source}/summary", json={"text": "So far.", "through_seq": 4})

    answer = await client.post(f"/conversations/{source}/fork", json={"id": copy})

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/conversations/{copy}"
    tag = await etag_of(client, copy)
    assert (answer.headers["etag"], answer.json()["version"], answer.json()["id"]) == (tag, 1, copy)
    assert answer.json()["expires_at"] is not None
    assert await seen(client, copy) == await seen(client, source)


@pytest.mark.parametrize("at_seq", range(len(EVERYTHING) + 1))
async def test_a_copy_up_to_a_message(client: httpx.AsyncClient, fresh: Callable[[], str], at_seq: int) -> None:
    """A fork at a message is what was there right after it, and goes on as that did."""
    source, copy, short = fresh(), fresh(), fresh()
    await filled(client, source)
    await filled(client, short, EVERYTHING[:at_seq])
    rest = [*EVERYTHING[at_seq:], result("call-2", "z")]

    await client.post(f"/conversations/{source}/fork", json={"id": copy, "at_seq": at_seq})
    await append(client, copy, *rest)
    await append(client, short, *rest)

    one, other = await seen(client, copy), await seen(client, short)
    for message in (*one["messages"], *other["messages"]):
        message["created_at"] = ""
    assert one == other


async def test_they_go_their_own_ways(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """Neither sees what the other does; a retry of an entry that both have is a duplicate in both."""
    source, copy = fresh(), fresh()
    await filled(client, source)
    await client.post(f"/conversations/{source}/fork", json={"id": copy, "at_seq": 3})
    before = await seen(client, source)

    answer = await append(client, copy, EVERYTHING[1], said("another way"))

    assert [(m["seq"], m["duplicate"]) for m in answer["messages"]] == [(2, True), (4, False)]
    assert await seen(client, source) == before


async def test_an_id_of_ours(client: httpx.AsyncClient, conversation: str) -> None:
    """Without an id the copy gets one."""
    await filled(client, conversation)
    answer = await client.post(f"/conversations/{conversation}/fork", json={})
    assert answer.status_code == 201
    assert answer.json()["id"] != conversation


async def test_what_cannot_be(client: httpx.AsyncClient, fresh: Callable[[], str], server: Any) -> None:
    """404 for an absent source, 409 for a target that exists, 412 for a version that moved, 422 beyond the end."""
    source, taken, free = fresh(), fresh(), fresh()
    path = f"/conversations/{source}/fork"
    assert (await client.post(path, json={"id": free})).status_code == 404
    await filled(client, source)
    await filled(client, taken, ())

    assert (await client.post(path, json={"id": taken})).status_code == 409
    assert (await client.post(path, json={"id": source})).status_code == 409
    assert (await client.post(path, json={"id": free}, headers={"If-Match": '"1"'})).status_code == 412
    assert (await client.post(path, json={"id": free, "at_seq": 12})).status_code == 422
    assert (await client.post(path, json={"id": free, "x": 1})).status_code == 400
    assert list(server.scan_iter(f"sash:{{default/{free}}}:*")) == []


async def test_a_long_one(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """A history of many chunks is copied whole, tool groups across their borders included."""
    source, copy = fresh(), fresh()
    group = [{"message": EVERYTHING[2]["message"]}, result("call-1"), result("call-2", pinned=True)]
    for n in range(20):
        await append(
            client, source, *[said(f"line {n} {i} " + "x" * 300, metadata={"n": i}) for i in range(37)], *group
        )

    answer = await client.post(f"/conversations/{source}/fork", json={"id": copy})

    assert answer.json()["messages"]["count"] == 800
    assert await seen(client, copy) == await seen(client, source)
