"""A receipt after a failover: the same bytes, or a 410 that is true."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
from conftest import http, lifespan
from redis.crc import key_slot
from rigs.dialogue import append, assistant, user
from rigs.servers import Cluster, Sentinels, Server, binaries, wait_until

from sash.app import create_app
from sash.settings import Settings
from sash.store.data.layout import keys_of

BINARY = binaries()["valkey-9"]
QUERIES = (
    "model=gpt-4o-mini",
    "model=gpt-4o-mini&max_tokens=200&note=true",
    "model=claude-sonnet-4-5&format=anthropic&cache=auto&price=auto",
    "model=gemini-2.5-pro&format=gemini&max_tokens=150&overflow=skip",
)
Rig = tuple[str, Callable[[str], Server]]
"""A store's address, and the server that has a conversation now."""


@contextmanager
def sentinel(folder: Path) -> Iterator[Rig]:
    assert BINARY is not None
    store = Sentinels(BINARY, folder)
    try:
        store.start()
        yield store.url, lambda _: next(each for each in (store.primary, store.replica) if _leads(each))
    finally:
        store.kill()


@contextmanager
def cluster(folder: Path) -> Iterator[Rig]:
    assert BINARY is not None
    store = Cluster(BINARY, folder)
    try:
        store.start()
        yield store.url, lambda name: store.primary_of(key_slot(keys_of(f"default/{name}").log.encode()))
    finally:
        store.kill()


def _leads(each: Server) -> bool:
    return each.process is not None and each.connect().info("replication")["role"] == "master"


@asynccontextmanager
async def service(url: str, durability: str) -> AsyncIterator[httpx.AsyncClient]:
    patient = {"SASH_STORE_TIMEOUT_SECONDS": "60", "SASH_REQUEST_TIMEOUT_SECONDS": "60"}
    settings = Settings.read({"SASH_REDIS_URL": url, "SASH_DURABILITY": durability, **patient})
    async with lifespan(create_app(settings)) as app, http(app, timeout=90) as client:
        yield client


def fail_over(server_of: Callable[[str], Server], name: str) -> Server:
    """Kill the server that has a conversation, and wait until another one leads. Returns the killed one."""
    killed = server_of(name)
    killed.kill()

    def is_led() -> bool:
        try:
            return server_of(name) is not killed
        except (StopIteration, AssertionError):
            return False

    wait_until(is_led, 90)
    return killed


async def served(client: httpx.AsyncClient, name: str) -> dict[str, bytes]:
    """The bytes of some windows, by receipt."""
    found = {}
    for query in QUERIES:
        answer = await client.get(f"/conversations/{name}/window?{query}")
        assert answer.status_code == 200, answer.text
        found[answer.json()["receipt"]] = answer.content
    return found


async def asked(client: httpx.AsyncClient, name: str, receipt: str) -> httpx.Response:
    return await client.get(f"/conversations/{name}/window", params={"receipt": receipt})


@pytest.mark.parametrize("rig", [sentinel, cluster])
async def test_a_receipt_gives_the_same_bytes_after_a_failover(rig: Callable[[Path], Rig], tmp_path: Path) -> None:
    """Windows that were served before a failover come again: in the same process, and in one that starts after it."""
    names = [f"c-{number}" for number in range(6)]
    with rig(tmp_path) as (url, server_of):
        async with service(url, "replicated") as client:
            kept = {}
            for name in names:
                for turn in range(4):
                    await append(client, name, user(f"question {turn} " + "word " * 30), assistant(f"answer {turn}"))
                kept[name] = await served(client, name)
                await append(client, name, user("the next one"))
            changed = await client.delete(f"/conversations/{names[0]}/messages/8")
            assert changed.status_code == 204
            killed = fail_over(server_of, names[0])
            async with service(url, "fast") as other:
                for each in (client, other):
                    for name in names[1:]:
                        for receipt, body in kept[name].items():
                            answer = await asked(each, name, receipt)
                            assert (answer.status_code, answer.content) == (200, body)
                    for receipt in kept[names[0]]:
                        problem = (await asked(each, names[0], receipt)).json()
                        assert (problem["status"], problem["reason"], problem["seq"]) == (410, "redacted", 8)
            killed.start()
