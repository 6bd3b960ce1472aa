"""Forks: copies of a conversation that change independently."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, etag_of
from rigs.everything import EVERYTHING, result, said, seen

from sash.problems import StoreUnavailable
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import State
from sash.store.data.staging import Staging

SETTINGS = {"owner": "ann", "model": "gpt-4o-mini", "system": "Hello.", "metadata": {"k": 1}, "ttl_seconds": 3600}


async def filled(client: httpx.AsyncClient, conversation: str, entries: Any = EVERYTHING) -> None:
    await client.post("/conversations", json={"id": conversation, **SETTINGS})
    if entries:
        await append(client, conversation, *entries)


async def test_a_whole_copy(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """A fork answers 201 with its location; it equals the original, ids and times of entries included."""
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
    """A fork at a message equals a conversation that ends with that message, and appends to both have equal effects."""
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
    """An append to a fork does not change the original; a retry of an entry from before the fork is a duplicate."""
    source, copy = fresh(), fresh()
    await filled(client, source)
    await client.post(f"/conversations/{source}/fork", json={"id": copy, "at_seq": 3})
    before = await seen(client, source)

    answer = await append(client, copy, EVERYTHING[1], said("another way"))

    assert [(m["seq"], m["duplicate"]) for m in answer["messages"]] == [(2, True), (4, False)]
    assert await seen(client, source) == before


async def test_an_id_of_ours(client: httpx.AsyncClient, conversation: str) -> None:
    """A fork without an id gets a generated one."""
    await filled(client, conversation)
    answer = await client.post(f"/conversations/{conversation}/fork", json={})
    assert answer.status_code == 201
    assert answer.json()["id"] != conversation


async def test_what_cannot_be(client: httpx.AsyncClient, fresh: Callable[[], str], server: Any) -> None:
    """A fork is 404 without its source, 409 if the target exists, 412 at another version, 422 beyond the end."""
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
    """A fork copies a history of many chunks whole, including tool groups across their borders."""
    source, copy = fresh(), fresh()
    group = [{"message": EVERYTHING[2]["message"]}, result("call-1"), result("call-2", pinned=True)]
    for n in range(20):
        await append(
            client, source, *[said(f"line {n} {i} " + "x" * 300, metadata={"n": i}) for i in range(37)], *group
        )

    answer = await client.post(f"/conversations/{source}/fork", json={"id": copy})

    assert answer.json()["messages"]["count"] == 800
    assert await seen(client, copy) == await seen(client, source)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/owners/ann-of-{0}", 404),
        ("DELETE", "/conversations/{0}", 404),
        ("DELETE", "/conversations/{0}/messages/1", 409),
        ("POST", "/conversations/{0}/rewind", 409),
        ("PUT", "/conversations/{0}/summary", 409),
        ("DELETE", "/conversations/{0}/summary", 409),
    ],
)
async def test_what_is_erased_before_the_copy_appears_does_not_come_back(
    client: httpx.AsyncClient,
    fresh: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    status: int,
) -> None:
    """If the original or its summary is erased or edited just before the copy appears, the fork leaves no copy."""
    source, copy, publish = fresh(), fresh(), Staging.publish
    await client.post("/conversations", json={"id": source, "owner": f"ann-of-{source}"})
    await append(client, source, said("a secret"), said("more", None, "assistant"))
    await client.put(f"/conversations/{source}/summary", json={"text": "A secret.", "through_seq": 1})
    bodies = {"POST": {"to_seq": 1}, "PUT": {"text": "Nothing.", "through_seq": 1}}

    async def later(staging: Staging, **fields: Any) -> None:
        answer = await client.request(method, path.format(source), json=bodies.get(method))
        assert answer.status_code in (200, 204)
        await publish(staging, **fields)

    monkeypatch.setattr(Staging, "publish", later)
    assert (await client.post(f"/conversations/{source}/fork", json={"id": copy})).status_code == status
    assert (await client.get(f"/conversations/{copy}")).status_code == 404
    listed = (await client.get(f"/conversations?owner=ann-of-{source}")).json()["conversations"]
    assert copy not in [each["id"] for each in listed]


async def test_a_copy_whose_original_cannot_be_read_again_is_erased(
    client: httpx.AsyncClient, fresh: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the original's server does not answer once the copy appeared, the fork is 503 and leaves no copy."""
    source, copy, get, publish = fresh(), fresh(), Reader.get, Staging.publish
    await append(client, source, said("a secret"))

    async def lost(reader: Reader, target: Target) -> State:
        if target.id == source:
            raise StoreUnavailable("The store did not answer.")
        return await get(reader, target)

    async def then_lost(staging: Staging, **fields: Any) -> None:
        await publish(staging, **fields)
        monkeypatch.setattr(Reader, "get", lost)

    monkeypatch.setattr(Staging, "publish", then_lost)
    assert (await client.post(f"/conversations/{source}/fork", json={"id": copy})).status_code == 503
    assert (await client.get(f"/conversations/{copy}")).status_code == 404
