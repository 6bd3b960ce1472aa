"""An erasure leaves no key at once, and no byte of the erased text after a rewrite of the append-only file."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import redis
from conftest import http, lifespan
from rigs.dialogue import append
from rigs.everything import EVERYTHING, said
from rigs.servers import binaries, server, wait_until

from sash.api.middleware.idempotency import _fingerprint
from sash.app import create_app
from sash.settings import Settings
from sash.store.data.claims import Claim, Claims
from sash.store.data.entries import wall_ms
from sash.store.redis.client import Client

PRESENT = {name: path for name, path in binaries().items() if path is not None}
WORDS = (b"zanzibar", b"secret-id", b"secret-owner", b"secret-entry", b"secret-key", b"secret-doc", b"secret-note")
"""The words to search for in every file: one for each kind of value that a client can give."""


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with lifespan(create_app(Settings(redis_url=url, store_connections=2))) as app, http(app) as client:
        yield client


async def fill(client: httpx.AsyncClient, identity: str) -> None:
    """Create a conversation with these words in every place that takes a client's words."""
    key = {"Idempotency-Key": f"secret-key-{identity}"}
    settings = {"id": identity, "owner": "secret-owner", "system": "zanzibar", "metadata": {"a": "zanzibar"}}
    assert (await client.post("/conversations", json=settings, headers=key)).status_code == 201
    grounding = {"documents": [{"id": "secret-doc", "text": "zanzibar"}]}
    await append(client, identity, *EVERYTHING, said("zanzibar", "secret-entry", grounding=grounding))
    keyed = {"messages": [said("zanzibar", None, metadata={"n": "secret-note"}, pinned=True)]}
    path = f"/conversations/{identity}"
    answer = await client.post(f"{path}/messages?model=gpt-4o", json=keyed, headers={"Idempotency-Key": "secret-key"})
    assert answer.status_code in {201, 422}, answer.text  # 422: another conversation has used the key
    assert (await client.put(f"{path}/summary", json={"text": "zanzibar", "through_seq": 3})).status_code == 200
    told = {"model": "gpt-4o", "prompt_tokens": 100, "window_tokens": 90}
    assert (await client.post(f"{path}/usage", json=told)).status_code < 300
    assert (await client.post(f"{path}/fork", json={"id": f"{identity}-fork"}, headers=key | {})).status_code in {
        201,
        422,
    }
    exported = (await client.get(f"{path}/export")).content
    half = exported + b'{"broken'  # staged, and then refused
    ndjson = {"Content-Type": "application/x-ndjson"}
    assert (
        await client.post(f"/conversations/import?id={identity}-half", content=half, headers=ndjson)
    ).status_code == 400


def found_in(folder: Path) -> dict[str, list[bytes]]:
    """Return the words that each file contains, by file name."""
    found = {}
    for file in folder.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            words = [word for word in WORDS if word in content]
            if words:
                found[file.name] = words
    return found


def rewrite(link: redis.Redis) -> None:
    """Rewrite the append-only file, and wait for its end."""

    def idle() -> bool:
        state = link.info("persistence")
        return not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]

    wait_until(idle)
    link.bgrewriteaof()
    wait_until(idle)
    assert link.info("persistence")["aof_last_bgrewrite_status"] == "ok"


@pytest.mark.parametrize("name", PRESENT)
@pytest.mark.parametrize("how", ["conversation", "owner"])
async def test_after_an_erasure_no_key_is_left_and_after_a_rewrite_no_byte(name: str, how: str, tmp_path: Path) -> None:
    """After an erasure no key's name, and after a rewrite no file, contains any word that the client gave.

    The words are in text, ids, documents, metadata, summary, kept answers, owners' lists and a staged import.
    """
    with server(PRESENT[name], tmp_path, rdbcompression="no", list_compress_depth="0") as running:
        link = running.connect()
        async with serving(running.url) as client:
            await fill(client, "secret-id")
            assert found_in(tmp_path)
            listed = (await client.get("/conversations?owner=secret-owner")).json()["conversations"]
            if how == "owner":
                assert (await client.delete("/owners/secret-owner")).status_code == 204
            else:
                for each in listed:
                    assert (await client.delete(f"/conversations/{each['id']}")).status_code == 204
            left = [key for key in link.scan_iter("*") if any(word.decode() in key for word in WORDS)]
            assert left == []
        rewrite(link)
        assert found_in(tmp_path) == {}


async def test_an_erasure_that_finds_nothing_where_something_was_is_one(tmp_path: Path) -> None:
    """Two erasures at once, as after a lost reply, both answer 204; a later one answers 404."""
    with server(PRESENT["valkey-9"], tmp_path) as running:
        async with serving(running.url) as client:
            await append(client, "c", said("hello"))
            both = await asyncio.gather(*(client.delete("/conversations/c") for _ in range(2)))
            assert [answer.status_code for answer in both] == [204, 204]
            assert (await client.delete("/conversations/c")).status_code == 404


async def test_an_erasure_that_nobody_knows_of_is_told_as_done_under_its_key(tmp_path: Path) -> None:
    """An erasure whose first run ended without a known result answers 204 when it is repeated under its key."""
    with server(PRESENT["valkey-9"], tmp_path) as running:
        async with serving(running.url) as client:
            await append(client, "c", said("hello"))
            claims = Claims(Client(running.url))
            await claims._client.open()
            try:
                fingerprint = _fingerprint(
                    {"method": "DELETE", "path": "/conversations/c", "query_string": b"", "headers": []}, b""
                )
                claim = await claims.take("default", "k", fingerprint, wall_ms())
                assert isinstance(claim, Claim)
                assert (await client.delete("/conversations/c")).status_code == 204
                await claims.release(claim, done=None)
            finally:
                await claims._client.close()
            again = await client.delete("/conversations/c", headers={"Idempotency-Key": "k"})
            assert again.status_code == 204
            assert (await client.delete("/conversations/c")).status_code == 404
