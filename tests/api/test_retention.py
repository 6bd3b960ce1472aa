"""Retention: all keys of a conversation expire a set time after its last change."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from conftest import http, lifespan
from rigs.dialogue import append
from rigs.everything import EVERYTHING, result

from sash.app import create_app
from sash.settings import Settings

NDJSON = {"Content-Type": "application/x-ndjson"}


def keys(server: Any, conversation: str) -> list[str]:
    return sorted(server.scan_iter(f"sash:{{default/{conversation}}}:*"))


def left(server: Any, conversation: str) -> dict[str, int]:
    """Return the milliseconds that each key has left, by the last part of its name; -1 if it never expires."""
    return {key.rpartition(":")[2]: server.pttl(key) for key in keys(server, conversation)}


async def test_expiry_is_told(client: httpx.AsyncClient, conversation: str) -> None:
    """``expires_at`` is the last change plus the conversation's time to live, or null without one."""
    body = (await client.post("/conversations", json={"id": conversation, "ttl_seconds": 600})).json()
    updated, expires = (datetime.fromisoformat(body[name]) for name in ("updated_at", "expires_at"))
    assert abs(expires - updated - timedelta(seconds=600)) < timedelta(seconds=2)
    assert (await client.patch(f"/conversations/{conversation}", json={"ttl_seconds": None})).json()[
        "expires_at"
    ] is None


async def test_an_append_keeps_all_of_it(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """Every append restarts the time to live of all keys, including those that it creates."""
    await client.post("/conversations", json={"id": conversation, "ttl_seconds": 600})
    await append(client, conversation, *EVERYTHING[:1])
    for key in keys(server, conversation):
        server.pexpire(key, 1000)

    await append(client, conversation, *EVERYTHING[1:])

    assert set(left(server, conversation)) == {
        "conversation",
        "log",
        "counts",
        "details",
        "ids",
        "grounding",
        "metadata",
        "pinned",
    }
    assert all(590_000 < milliseconds <= 600_000 for milliseconds in left(server, conversation).values())


async def rewind(client: httpx.AsyncClient, path: str) -> None:
    await client.post(f"{path}/rewind", json={"to_seq": 10})


async def redact(client: httpx.AsyncClient, path: str) -> None:
    await client.delete(f"{path}/messages/2")


async def summarize(client: httpx.AsyncClient, path: str) -> None:
    await client.put(f"{path}/summary", json={"text": "x", "through_seq": 2})


async def change(client: httpx.AsyncClient, path: str) -> None:
    await client.patch(path, json={"system": "x"})


@pytest.mark.parametrize("do", [rewind, redact, summarize, change])
async def test_every_change_keeps_all_of_it(
    client: httpx.AsyncClient, conversation: str, server: Any, do: Callable[..., Any]
) -> None:
    """Other changes restart the time to live of all keys as well, so that no key outlives the others."""
    await client.post("/conversations", json={"id": conversation, "ttl_seconds": 600})
    await append(client, conversation, *EVERYTHING)
    for key in keys(server, conversation):
        server.pexpire(key, 1000)

    await do(client, f"/conversations/{conversation}")

    assert all(590_000 < milliseconds <= 600_000 for milliseconds in left(server, conversation).values())


async def test_change_and_remove(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """PATCH sets and removes the time to live of every key; only ``done`` then still expires, after a day."""
    await append(client, conversation, *EVERYTHING)
    assert set(left(server, conversation).values()) == {-1}
    await client.patch(f"/conversations/{conversation}", json={"ttl_seconds": 60})
    assert all(50_000 < milliseconds <= 60_000 for milliseconds in left(server, conversation).values())
    await append(client, conversation, result("call-2"))
    assert all(50_000 < milliseconds <= 60_000 for milliseconds in left(server, conversation).values())
    await client.patch(f"/conversations/{conversation}", json={"ttl_seconds": None})
    for _ in range(2):
        kept = left(server, conversation)
        assert 86_000_000 < kept.pop("done") <= 86_400_000
        assert set(kept.values()) == {-1}
        await append(client, conversation, {"message": {"role": "user", "content": "x"}})


async def test_copies(client: httpx.AsyncClient, fresh: Callable[[], str], server: Any) -> None:
    """A fork and an import have the source's time to live, and the same keys, so no staged key is left."""
    source, copy, imported = fresh(), fresh(), fresh()
    await client.post("/conversations", json={"id": source, "ttl_seconds": 600})
    await append(client, source, *EVERYTHING)
    await client.post(f"/conversations/{source}/fork", json={"id": copy})
    exported = (await client.get(f"/conversations/{source}/export")).content
    await client.post(f"/conversations/import?id={imported}", content=exported, headers=NDJSON)

    for each in (copy, imported):
        assert set(left(server, each)) == set(left(server, source))
        assert all(590_000 < milliseconds <= 600_000 for milliseconds in left(server, each).values())
    await client.patch(f"/conversations/{source}", json={"ttl_seconds": None})
    forever = fresh()
    await client.post(f"/conversations/{source}/fork", json={"id": forever})
    assert set(left(server, forever).values()) == {-1}


async def test_it_is_gone(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """An expired conversation is 404, and none of its keys is left."""
    await client.post("/conversations", json={"id": conversation, "ttl_seconds": 1})
    await append(client, conversation, *EVERYTHING)
    await asyncio.sleep(1.1)
    assert (await client.get(f"/conversations/{conversation}")).status_code == 404
    assert keys(server, conversation) == []


async def test_a_default_for_all(
    store: Any, server: Any, fresh: Callable[[], str], encryption_key: tuple[bytes, ...]
) -> None:
    """SASH_RETENTION_SECONDS holds for every conversation without its own time to live, however it was created."""
    made, appended, own = fresh(), fresh(), fresh()
    settings = Settings(
        redis_url=store.url,
        store_connections=2,
        retention_seconds=300,
        durability="fast",
        encryption_key=encryption_key,
    )
    async with lifespan(create_app(settings)) as app, http(app) as client:
        await client.post("/conversations", json={"id": made})
        await append(client, made, *EVERYTHING)
        await append(client, appended, *EVERYTHING)
        await client.post("/conversations", json={"id": own, "ttl_seconds": 60})
        await client.post(f"/conversations/{made}/fork", json={"id": f"{made}-2"})

        for identity in (made, appended, f"{made}-2"):
            assert all(290_000 < milliseconds <= 300_000 for milliseconds in left(server, identity).values())
        assert all(50_000 < milliseconds <= 60_000 for milliseconds in left(server, own).values())
        await client.patch(f"/conversations/{own}", json={"ttl_seconds": None})
        assert all(290_000 < milliseconds <= 300_000 for milliseconds in left(server, own).values())
        expires = datetime.fromisoformat((await client.get(f"/conversations/{own}")).json()["expires_at"])
        assert timedelta(seconds=290) < expires - datetime.now(UTC) < timedelta(seconds=301)
        for identity in (made, appended, own, f"{made}-2"):
            await client.delete(f"/conversations/{identity}")


@pytest.mark.parametrize("how", ["append", "create", "import"])
async def test_a_new_conversation_inherits_no_tokens(
    client: httpx.AsyncClient, conversation: str, server: Any, how: str
) -> None:
    """Tokens of requests left over under an id are deleted when a new conversation with that id begins."""
    server.hset(f"sash:{{default/{conversation}}}:done", "token", "1")
    path = f"/conversations/{conversation}"
    turn = {"messages": [{"message": {"role": "user", "content": "hello"}}]}
    made = {
        "append": lambda: client.post(f"{path}/messages", json=turn),
        "create": lambda: client.post("/conversations", json={"id": conversation}),
        "import": lambda: client.post(f"/conversations/import?id={conversation}", content=b"{}\n", headers=NDJSON),
    }[how]

    assert (await made()).status_code == 201

    assert "done" not in left(server, conversation)
