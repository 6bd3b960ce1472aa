"""All conversations of a tenant, listed without an index: in order, page by page, and nothing of other tenants."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import redis
from conftest import http, lifespan, opened
from rigs.dialogue import append, problem, user

from sash.app import create_app
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, encode_settings
from sash.settings import ApiKey, Settings
from sash.store.data.layout import target_at
from sash.store.data.tenants import Tenants
from sash.store.redis.embedded import EmbeddedStore

TENANTS = ("acme", "acme.eu", "acm", "owner")


@pytest.fixture
def raw(own: EmbeddedStore) -> Iterator[redis.Redis]:
    """A client of the store's server, which is emptied before the test."""
    with redis.Redis.from_url(own.url, decode_responses=True) as raw:
        raw.flushall()
        yield raw


@asynccontextmanager
async def service(url: str, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a new application on the store at ``url``."""
    wanted = Settings(redis_url=url, store_connections=2, durability="fast", **settings)
    async with lifespan(create_app(wanted)) as app, http(app) as client:
        yield client


async def create(client: httpx.AsyncClient, identity: str, **settings: Any) -> None:
    answer = await client.post("/conversations", json={"id": identity, **settings})
    assert answer.status_code == 201, answer.text
    await asyncio.sleep(0.002)  # times are in milliseconds


async def pages(client: httpx.AsyncClient, limit: int) -> list[list[str]]:
    """Return the ids on each page, by the links to the next ones."""
    found, path = [], f"/conversations?limit={limit}"
    while path:
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        found.append([each["id"] for each in answer.json()["conversations"]])
        path = answer.links["next"]["url"] if "next" in answer.links else ""
        assert bool(path) == (answer.json()["next_cursor"] is not None)
    return found


async def test_newest_activity_first(own: EmbeddedStore, raw: redis.Redis) -> None:
    """The list has all conversations, with an owner and without, the last changed first, and is 304 while unchanged."""
    async with service(own.url) as client:
        assert (await client.get("/conversations")).json() == {"conversations": [], "next_cursor": None}
        await create(client, "a", owner="ann", system="Hello.")
        await create(client, "b")
        await create(client, "c", owner="bob")
        raw.set("sash:{default/x/y}:conversation", "no conversation's key")
        assert await pages(client, 100) == [["c", "b", "a"]]

        await append(client, "a", user("hello"))

        answer = await client.get("/conversations")
        assert answer.json()["conversations"][0] == (await client.get("/conversations/a")).json()
        assert await pages(client, 100) == [["a", "c", "b"]]
        known = {"If-None-Match": answer.headers["etag"]}
        assert (await client.get("/conversations", headers=known)).status_code == 304
        assert (await client.delete("/conversations/c")).status_code == 204
        assert await pages(client, 100) == [["a", "b"]]
        problem(await client.get("/conversations?cursor=MTI"), 400, "invalid-cursor")


@pytest.mark.usefixtures("raw")
async def test_pages(own: EmbeddedStore, raw: redis.Redis) -> None:
    """Pages have each conversation once, also those that were active in the same millisecond."""
    async with service(own.url) as client:
        wanted = [f"c-{n:03}" for n in range(50)]
        for identity in wanted:
            await append(client, identity, user("hello"))
            raw.hset(f"sash:{{default/{identity}}}:conversation", "updated", 1_000 + int(identity[2:]) // 20)
        for limit in (1, 7, 50, 1000):
            found = await pages(client, limit)
            assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
            assert [each for page in found for each in page] == wanted[::-1]


@pytest.mark.usefixtures("raw")
async def test_large_settings(own: EmbeddedStore) -> None:
    """If settings are large, a page ends at its limit of bytes, and the next one continues without a gap."""
    async with service(own.url) as client:
        for n in range(20):
            await create(client, f"c-{n:03}", metadata={"note": "x" * 600_000})
        found = await pages(client, 1000)
    assert [len(page) for page in found] == [6, 6, 6, 2]
    assert [each for page in found for each in page] == [f"c-{n:03}" for n in range(20)][::-1]


@pytest.mark.usefixtures("raw")
async def test_only_the_tenants_own(own: EmbeddedStore) -> None:
    """A tenant's list has no conversation of a tenant whose name begins with its name, or is part of other keys."""
    keys = tuple(ApiKey(tenant, f"key-of-{tenant}-0123456789") for tenant in TENANTS)
    async with service(own.url, api_keys=keys) as client:
        for key in keys:
            client.headers["Authorization"] = f"Bearer {key.key}"
            await create(client, f"of-{key.tenant}", owner="owner")
            await create(client, "same")
        for key in keys:
            client.headers["Authorization"] = f"Bearer {key.key}"
            assert await pages(client, 1) == [["same"], [f"of-{key.tenant}"]]


@pytest.mark.usefixtures("raw")
async def test_encrypted_ones(own: EmbeddedStore) -> None:
    """Encrypted conversations are listed; where the key is missing they are left out, and the pages go on."""
    async with service(own.url, encryption_key=(b"master".ljust(32),)) as client:
        for identity in ("a", "b", "c"):
            await create(client, identity, system="secret")
        assert await pages(client, 2) == [["c", "b"], ["a"]]
    async with service(own.url) as client:
        await create(client, "open")
        assert await pages(client, 2) == [["open"], []]


async def test_what_ends_meanwhile(own: EmbeddedStore, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation that expires between the scan and the reading of its state is left out."""
    newest = Tenants._newest

    async def overtaken(self: Tenants, *arguments: Any) -> Any:
        places = await newest(self, *arguments)
        for key in raw.keys("sash:{default/b}:*"):
            raw.delete(key)
        return places

    async with service(own.url) as client:
        for identity in ("a", "b", "c"):
            await create(client, identity)
        monkeypatch.setattr(Tenants, "_newest", overtaken)
        assert await pages(client, 2) == [["c"], ["a"]]


@pytest.mark.usefixtures("raw")
async def test_a_long_scan_goes_on(own: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing that makes progress may take longer than the request's timeout."""
    times = Tenants._times

    async def slow(self: Tenants, tenant: str, ids: list[str]) -> Any:
        await asyncio.sleep(0.7)
        return await times(self, tenant, ids)

    monkeypatch.setattr(Tenants, "_times", slow)
    monkeypatch.setattr("sash.store.redis.client._SCANNED", 10)
    async with service(own.url) as patient, service(own.url, request_timeout_seconds=2.0) as client:
        for n in range(40):
            await create(patient, f"c-{n}")
        assert len((await pages(client, 100))[0]) == 40


async def test_without_the_permission(own: EmbeddedStore, raw: redis.Redis) -> None:
    """If the store's user may not run SCAN, the answer is 503 and names the permission; an owner's list needs none."""
    raw.execute_command("ACL", "SETUSER", "blind", "reset", "on", ">pw", "~sash:*", "&sash:*", "+@all", "-scan")
    try:
        async with service(own.url.replace("unix://", "unix://blind:pw@")) as client:
            await create(client, "a", owner="ann")
            refused = problem(await client.get("/conversations"), 503, "store-permission-denied")
            assert "+scan" in refused["detail"]
            assert (await client.get("/conversations?owner=ann")).status_code == 200
    finally:
        raw.execute_command("ACL", "DELUSER", "blind")


async def test_further_pages_scan_nothing(
    own: EmbeddedStore, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first page no page scans, also those of another process; what changes meanwhile is in its place."""
    async with service(own.url) as one, service(own.url) as other:
        for n in range(30):
            await create(one, f"c-{n:02}")
        assert sum(map(len, await pages(one, 7))) == 30

        async def never(*_: Any) -> Any:
            raise AssertionError("a page scanned")

        monkeypatch.setattr(Tenants, "_newest", never)
        await append(other, "c-03", user("hello"))
        await create(other, "new", owner="ann")
        await other.post("/conversations/c-05/fork", json={"id": "copy"})
        assert (await other.delete("/conversations/c-29")).status_code == 204
        await asyncio.sleep(1)
        for client in (one, other):
            found = [each for page in await pages(client, 7) for each in page]
            assert found[:2] in (["new", "c-03"], ["copy", "new"])
            assert sorted(found) == sorted([*(f"c-{n:02}" for n in range(29)), "new", "copy"])
        assert raw.pttl("sash:{default/list/all}:conversations") > 0
        assert raw.pttl("sash:{lists}:tenants") > 0


async def test_a_process_that_takes_anothers_place_has_the_next_page_scan(
    own: EmbeddedStore, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed process created and could not tell the index is on the first page after another took its place."""

    async def killed_before(_: Tenants) -> None:
        """Write nothing."""

    async with service(own.url) as one:
        await create(one, "a")
        assert await pages(one, 10) == [["a"]]
        with monkeypatch.context() as patched:
            patched.setattr(Tenants, "_flush", killed_before)
            await create(one, "b")
            await asyncio.sleep(0.5)
        async with service(own.url) as successor:
            wanted = [["b", "a"]]
            for _ in range(600):
                if await pages(successor, 10) == wanted:
                    break
                await asyncio.sleep(0.1)
            assert await pages(one, 10) == await pages(successor, 10) == wanted
    assert raw.zscore("sash:{default/list/all}:conversations", ":whole") is not None


@pytest.mark.nightly
async def test_80_000_conversations_are_listed(own: EmbeddedStore, raw: redis.Redis) -> None:
    """Of 80,000 conversations, each page after the first takes under a tenth of the first one's time."""
    settings = encode_settings(ConversationSettings())
    async with opened(own.url) as conversations:
        for start in range(0, 80_000, 500):
            targets = [target_at("default", f"c-{n:05}") for n in range(start, start + 500)]
            made = (conversations.create(each, settings, ttl_ms=None, now_ms=start, token=each.id) for each in targets)
            await asyncio.gather(*made)
    async with service(own.url) as client:
        took: list[float] = []
        path = "/conversations?limit=100"
        for _ in range(20):
            started = time.perf_counter()
            answer = await client.get(path)
            took.append(time.perf_counter() - started)
            path = answer.links["next"]["url"]
        print("first page", took[0], "then", sorted(took[1:])[9], "memory", raw.memory_usage(INDEX))
    assert sorted(took[1:])[9] < took[0] / 10


INDEX = "sash:{default/list/all}:conversations"
