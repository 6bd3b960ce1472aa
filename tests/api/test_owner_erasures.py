"""``DELETE /owners/{owner}`` of many conversations: answered at once, and done whatever happens to the service."""

import asyncio
import faulthandler
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served
from rigs.servers import wait_until
from test_serve import workers_of

from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, encode_settings
from sash.store.data.layout import target_at
from sash.store.data.stores import stores_of
from sash.store.redis.client import Client
from sash.store.redis.embedded import socket_url

OWNER = "ann@example.com"
PATH = "/owners/ann%40example.com"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """Yield a service with two workers and a store of its own."""
    running = Served(tmp_path / "data", SASH_WORKERS="2")
    running.start()
    yield running
    if running.process is not None and running.process.poll() is None:
        running.stop()


def create(served: Served, count: int, owner: str = OWNER) -> None:
    """Create conversations of an owner, 64 at once."""

    async def all_of_them() -> None:
        async with httpx.AsyncClient(base_url=served.url, timeout=60) as client:
            left = iter(range(count))

            async def some() -> None:
                for number in left:
                    body = {"id": f"{owner.partition('@')[0]}-{number}", "owner": owner}
                    assert (await client.post("/conversations", json=body)).status_code == 201

            await asyncio.gather(*(some() for _ in range(64)))

    asyncio.run(all_of_them())


async def create_in_store(served: Served, count: int) -> None:
    """Create conversations of the owner as the service does, but without requests, which takes a fraction of the time."""
    client = Client(str(socket_url(served.data_dir)), timeout_seconds=60)
    await client.open()
    stores = stores_of(client, retention_seconds=None, encryption_keys=())
    settings = encode_settings(ConversationSettings(owner=OWNER))
    for start in range(0, count, 200):
        targets = [target_at("default", f"ann-{number}") for number in range(start, start + 200)]
        made = (stores.conversations.create(each, settings, ttl_ms=None, now_ms=1, token=each.id) for each in targets)
        await asyncio.gather(*made)
        for target in targets:
            stores.owners.touch(target, settings)
    await stores.owners.close()
    await client.close()


def listed(served: Served, owner: str = OWNER) -> list[str]:
    page = httpx.get(f"{served.url}/conversations", params={"owner": owner, "limit": 1000}, timeout=60).json()
    return [each["id"] for each in page["conversations"]]


def progress(served: Served, identity: str) -> dict[str, Any]:
    answer = httpx.get(f"{served.url}/erasures/{identity}", timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def events(served: Served) -> list[dict[str, Any]]:
    lines = (served.data_dir.parent / "serve.log").read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [line for line in found if line["event"].startswith("erasure")]


def finished(served: Served, identity: str) -> Callable[[], bool]:
    return lambda: progress(served, identity)["finished_at"] is not None


def test_few_are_erased_at_once(own: Served) -> None:
    """An owner's 40 conversations are gone with the answer, which is 204 as ever."""
    create(own, 40)
    answer = httpx.delete(f"{own.url}{PATH}", timeout=60)
    assert (answer.status_code, answer.content) == (204, b"")
    assert listed(own) == []


def test_many_are_erased_while_workers_are_killed(own: Served) -> None:
    """Of 1,500 conversations the answer is 202 at once; killed workers are followed by others, to the end."""
    create(own, 1_500)
    create(own, 3, "bob")
    answer = httpx.delete(f"{own.url}{PATH}", timeout=60)
    told = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (202, f"/erasures/{told['id']}")
    assert (told["done"], told["left"], told["finished_at"]) == (0, 1_500, None)  # the answer waited for none of them
    again = httpx.delete(f"{own.url}{PATH}", timeout=60)
    assert (again.status_code, again.json()["id"]) == (202, told["id"])
    body = {"id": "began-later", "owner": OWNER}
    assert httpx.post(f"{own.url}/conversations", json=body, timeout=60).status_code == 201

    wait_until(lambda: progress(own, told["id"])["done"] > 50, 30)
    for worker in workers_of(own)[:1]:
        os.kill(worker, signal.SIGKILL)
    wait_until(finished(own, told["id"]), 90)

    assert listed(own) == ["began-later"]
    assert len(listed(own, "bob")) == 3
    last = progress(own, told["id"])
    assert (last["done"], last["left"]) == (1_500, 0)  # also those of a batch that the killed worker had not counted
    wait_until(lambda: events(own)[-1]["event"] == "erasure done")
    assert OWNER not in (own.data_dir.parent / "serve.log").read_text()


def test_an_erasure_goes_on_after_a_stop_and_a_start(own: Served) -> None:
    """SIGTERM in the middle is exit 0 and a line of the log; the next start goes on where it ended."""
    asyncio.run(create_in_store(own, 6_000))
    told = httpx.delete(f"{own.url}{PATH}", timeout=60).json()
    wait_until(lambda: progress(own, told["id"])["done"] > 50, 30)
    assert own.stop() == 0
    assert "erasure interrupted" in [line["event"] for line in events(own)]
    own.start()
    wait_until(finished(own, told["id"]), 90)
    assert listed(own) == []
    wait_until(lambda: [line["event"] for line in events(own)][-2:] == ["erasure goes on", "erasure done"])


def test_a_repeat_under_a_key_is_the_same_erasure(own: Served) -> None:
    """The same Idempotency-Key answers 202 with the same erasure, also when it is done."""
    create(own, 1_010)
    headers = {"Idempotency-Key": "erase-ann"}
    first = httpx.delete(f"{own.url}{PATH}", headers=headers, timeout=60)
    wait_until(finished(own, first.json()["id"]), 60)
    again = httpx.delete(f"{own.url}{PATH}", headers=headers, timeout=60)
    assert (first.status_code, again.status_code, again.headers["Idempotency-Replayed"]) == (202, 202, "true")
    assert again.json()["id"] == first.json()["id"]


def test_an_unknown_erasure_is_404(served: Served) -> None:
    """An erasure that does not exist is a 404 that says how long one is known."""
    answer = httpx.get(f"{served.url}/erasures/e-1", timeout=60)
    assert answer.status_code == 404
    assert "known for a day" in answer.json()["detail"]


@pytest.mark.nightly
def test_80_000_are_erased(own: Served) -> None:
    """An owner's 80,000 conversations are erased while the service stops and starts; prints the seconds (pytest -s)."""
    faulthandler.cancel_dump_traceback_later()  # it takes longer than a hanging test may
    asyncio.run(create_in_store(own, 80_000))
    started = time.monotonic()
    told = httpx.delete(f"{own.url}{PATH}", timeout=60).json()
    answered = time.monotonic()
    wait_until(lambda: progress(own, told["id"])["done"] > 20_000, 600)
    assert own.stop() == 0
    own.start()
    wait_until(finished(own, told["id"]), 900)
    assert listed(own) == []
    print(f"answered after {answered - started:.2f} s, erased after {time.monotonic() - started:.0f} s")
