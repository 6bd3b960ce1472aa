"""The service, or its store, is killed while a long conversation is forked, and after an erasure."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
import redis
from conftest import Served
from rigs.servers import Server, binaries, wait_until

MESSAGES = 1_000


@contextmanager
def served_on(store: Server, folder: Path) -> Iterator[Served]:
    running = Served(folder / "data", SASH_REDIS_URL=store.url)
    running.start()
    yield running
    if running.process is not None and running.process.poll() is None:
        running.stop()


def staged(link: redis.Redis) -> list[str]:
    return sorted(link.scan_iter("*:staged-*", count=1000))


def length(served: Served, conversation: str) -> int | None:
    answer = httpx.get(f"{served.url}/conversations/{conversation}", timeout=20)
    return answer.json()["messages"]["count"] if answer.status_code == 200 else None


@pytest.mark.long
@pytest.mark.parametrize("killed", ["service", "store"])
def test_a_fork_that_is_killed_leaves_nothing_to_see(tmp_path: Path, killed: str) -> None:
    """In the middle of a fork nobody sees the copy; after the kill it is whole or not there, and the fork may be repeated.

    A service whose store was killed goes on when the store is back. What was staged expires. What was erased stays erased
    over another kill of the store.
    """
    binary = binaries()["valkey-9"]
    assert binary is not None
    store = Server(binary, tmp_path / "store")
    store.start()
    try:
        with served_on(store, tmp_path) as served:
            for first in range(0, MESSAGES, 100):
                entries = [{"id": f"m-{n}", "role": "user", "content": f"{n} " * 40} for n in range(first, first + 100)]
                path = f"{served.url}/conversations/long/messages"
                assert httpx.post(path, json={"messages": entries}, timeout=20).status_code == 201
            fork = threading.Thread(target=fork_of_long, args=(served,))
            fork.start()
            wait_until(lambda: bool(staged(store.connect())), 20)
            assert length(served, "copy") is None
            if killed == "service":
                assert served.process is not None
                served.stop(signal.SIGKILL)
            else:
                store.kill()
                store.start()
            fork.join()
        with served_on(store, tmp_path) as served:
            link = store.connect()
            whole = length(served, "copy")
            assert whole in ((None,) if killed == "service" else (None, MESSAGES))
            assert length(served, "long") == MESSAGES
            assert all(0 < link.pttl(key) <= 600_000 for key in staged(link))
            assert fork_of_long(served) == (201 if whole is None else 409)
            assert length(served, "copy") == MESSAGES
            assert httpx.delete(f"{served.url}/conversations/copy", timeout=20).status_code == 204
            store.kill()
            store.start()
            wait_until(lambda: length(served, "long") == MESSAGES, 20)
            assert length(served, "copy") is None
    finally:
        store.kill()


def fork_of_long(served: Served) -> int | None:
    with suppress(httpx.TransportError):
        body = {"id": "copy"}
        return httpx.post(f"{served.url}/conversations/long/fork", json=body, timeout=60).status_code
    return None
