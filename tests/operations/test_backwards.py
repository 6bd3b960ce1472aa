"""What goes back: an older store under running services, and a machine's clock."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from api.test_security import service
from conftest import Served, opened
from rigs.entries import said
from rigs.servers import Server, wait_until
from structlog.testing import capture_logs

from sash.operations.backwards import Backwards
from sash.store.data.layout import target_at
from sash.store.data.marks import Marks
from sash.store.redis.embedded import EmbeddedStore, _bundled_binary


def say(served: Served, text: str) -> str:
    body = {"messages": [{"role": "user", "content": text}]}
    answer = httpx.post(f"{served.url}/conversations/c/messages", json=body, timeout=20)
    assert answer.status_code == 201
    return str(answer.json()["etag"])


def mark(store: Server) -> int:
    return int(str(store.connect().hget("sash:{mark}:time", "time") or 0))


def say_and_mark(served: Served, store: Server, text: str) -> str:
    """Append a message; return its version when the mark has followed."""
    before = mark(store)
    etag = say(served, text)
    wait_until(lambda: mark(store) > before, 20)
    return etag


def status(served: Served) -> dict[str, Any]:
    return dict(httpx.get(f"{served.url}/status", timeout=20).json())


def lines(served: Served, event: str) -> list[dict[str, Any]]:
    text = (served.data_dir.parent / "serve.log").read_text()
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in found if line["event"] == event]


def test_a_restored_store_is_noticed(tmp_path: Path) -> None:
    """An older copy of the store is put in place under two workers: ``/status`` of both, the log and the metrics say so."""
    store = Server(_bundled_binary(), tmp_path / "store").start()
    served = Served(tmp_path / "service" / "data", SASH_REDIS_URL=store.url, SASH_WORKERS="2")
    served.data_dir.mkdir(parents=True)
    served.start()
    try:
        say_and_mark(served, store, "one")
        shutil.copytree(store.directory / "appendonlydir", tmp_path / "backup")
        time.sleep(1.1)
        etag = say_and_mark(served, store, "two")
        time.sleep(2.5)  # both workers look once a second
        assert status(served)["store"]["went_back"] is None
        store.kill()
        shutil.rmtree(store.directory / "appendonlydir")
        shutil.copytree(tmp_path / "backup", store.directory / "appendonlydir")
        store.start()

        wait_until(lambda: lines(served, "store went back") != [], 20)
        wait_until(lambda: all(status(served)["store"]["went_back"] for _ in range(12)), 20)
        went = status(served)["store"]["went_back"]
        assert 1_000 < went["from_ms"] - went["to_ms"] < 60_000
        (told,) = lines(served, "store went back")
        assert (told["level"], told["alert"]) == ("error", "SashStoreWentBack")
        counted = 'sash_store_turns_total{event="store went back"} 1.0'  # a worker tells the others once a second
        wait_until(lambda: counted in httpx.get(f"{served.url}/metrics", timeout=20).text)
        url, condition = f"{served.url}/conversations/c/messages", {"If-Match": etag}
        body = {"messages": [{"role": "user", "content": "three"}]}
        assert httpx.post(url, json=body, headers=condition, timeout=20).status_code == 412
    finally:
        served.stop()
        store.kill()


async def test_the_mark_follows_the_writes_of_every_process(own: EmbeddedStore, conversation: str) -> None:
    """What a process that does not lead its machine wrote moves the mark; while it writes nothing, the mark stands."""
    async with opened(own.url) as conversations, opened(own.url) as others:
        follows = Backwards(conversations._client, leads=False)
        watches = Marks(others._client)
        await follows.look()
        before = (await watches.look()).time_ms
        await follows.look()
        assert (await watches.look()).time_ms == before
        await conversations.append(target_at("default", conversation), said("one"), settings=b"", if_match="", now_ms=1)
        await follows.look()
        assert (await watches.look()).time_ms > before


def test_a_restart_of_the_store_is_not_one_that_went_back(tmp_path: Path) -> None:
    """A store that is killed and started again with its own files is as far as it was."""
    store = Server(_bundled_binary(), tmp_path / "store").start()
    served = Served(tmp_path / "service" / "data", SASH_REDIS_URL=store.url)
    served.data_dir.mkdir(parents=True)
    served.start()
    try:
        for text in ("one", "two"):
            say(served, text)
            time.sleep(1.5)
            store.kill()
            store.start()
        wait_until(lambda: status(served)["condition"]["name"] == "well", 20)
        time.sleep(2.5)
        assert status(served)["store"]["went_back"] is None
        assert lines(served, "store went back") == []
    finally:
        served.stop()
        store.kill()


async def test_ids_follow_the_largest_time_seen(
    store: EmbeddedStore, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the clock is an hour behind, ids sort behind the earlier ones, times are the clock's, and the log says so."""
    real: Callable[[], int] = time.time_ns
    async with service(store) as client:
        await asyncio.sleep(1.5)  # the watch has seen the store

        async def append(text: str) -> dict[str, Any]:
            body = {"messages": [{"role": "user", "content": text}]}
            answer = await client.post(f"/conversations/{conversation}/messages", json=body)
            seq = answer.json()["last_seq"]
            return dict((await client.get(f"/conversations/{conversation}/messages/{seq}")).json())

        before = [await append(str(number)) for number in range(5)]
        monkeypatch.setattr(time, "time_ns", lambda: real() - 3_600_000_000_000)
        with capture_logs() as logged:
            after = [await append(str(number)) for number in range(5)]
            await asyncio.sleep(2.5)
        monkeypatch.undo()
        again = [await append(str(number)) for number in range(5)]

    ids = [each["id"] for each in (*before, *after, *again)]
    assert ids == sorted(ids)
    assert after[0]["created_at"] < before[0]["created_at"]
    told = next(line for line in logged if line["event"] == "clock went back")
    assert 3_500 < told["seconds"] < 3_700
