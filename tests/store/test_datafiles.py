"""The embedded store's files under a running service: without them, the service is not ready and refuses writes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis
from conftest import Served
from rigs.dialogue import user
from rigs.servers import wait_until

from sash.store.redis import datafiles
from sash.store.redis.embedded import EmbeddedStore


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """Yield ``sash serve`` with its own data directory and two workers."""
    running = Served(tmp_path / "data", SASH_WORKERS="2")
    running.start()
    yield running
    running.stop()


def append(served: Served) -> httpx.Response:
    return httpx.post(f"{served.url}/conversations/d-1/messages", json={"messages": [user("hello")]}, timeout=10)


def refused(served: Served) -> str:
    """Return what /readyz says is refused; empty if nothing is."""
    return "; ".join(httpx.get(f"{served.url}/readyz", timeout=10).json().get("degraded", ["all"]))


@pytest.mark.parametrize("deleted", [".", "appendonlydir"])
def test_a_deleted_data_directory_is_noticed(own: Served, deleted: str) -> None:
    """When files are deleted, appends are 503 within 10 seconds and say what to do, as readiness does; exports work."""
    assert append(own).status_code == 201
    wait_until(lambda: not any(refused(own) for _ in range(16)), 10)  # each worker has its connections
    shutil.rmtree(own.data_dir / deleted)

    wait_until(lambda: all("export what you need" in refused(own) for _ in range(8)), 10)

    wait_until(lambda: {append(own).status_code for _ in range(8)} == {503}, 10)  # until each worker has checked again
    answer = append(own)
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/store-unavailable")
    assert "deleted" in answer.json()["detail"]
    assert "hello" in httpx.get(f"{own.url}/conversations/d-1/export", timeout=10).text


def test_a_directory_that_comes_back_is_well(own: Served) -> None:
    """After a data directory is moved away and back, the service is ready again: the server kept writing to its files."""
    own.data_dir.rename(own.data_dir.with_name("elsewhere"))
    wait_until(lambda: bool(refused(own)), 10)
    own.data_dir.with_name("elsewhere").rename(own.data_dir)
    wait_until(lambda: not any(refused(own) for _ in range(8)), 10)
    wait_until(lambda: append(own).status_code == 201, 10)  # another worker may check a second later


def test_files_are_told_from_others_and_a_rewrite_is_none_of_it(tmp_path: Path) -> None:
    """A copy in the place of the directory counts as replaced; the new files of an append-only file rewrite do not."""
    with EmbeddedStore(tmp_path / "a") as store, EmbeddedStore(tmp_path / "b"):
        identity = datafiles.identify(tmp_path / "a")
        assert datafiles.missing(identity) == datafiles.missing("") == ""
        before = {path.name for path in (tmp_path / "a" / "appendonlydir").iterdir()}
        assert store.url
        with redis.Redis.from_url(store.url) as link:
            link.bgrewriteaof()
            wait_until(lambda: not link.info("persistence")["aof_rewrite_in_progress"], 10)
            wait_until(lambda: {path.name for path in (tmp_path / "a" / "appendonlydir").iterdir()} != before, 10)
        assert datafiles.missing(identity) == ""
        shutil.move(tmp_path / "a" / "appendonlydir", tmp_path / "c")
        shutil.copytree(tmp_path / "c", tmp_path / "a" / "appendonlydir")
        assert "replaced" in datafiles.missing(identity)


def test_one_file_that_is_deleted_is_noticed(tmp_path: Path) -> None:
    """A deleted append-only file and an unreadable manifest are both reported as deleted."""
    with EmbeddedStore(tmp_path):
        identity = datafiles.identify(tmp_path)
        next((tmp_path / "appendonlydir").glob("*.incr.aof")).unlink()
        assert "deleted" in datafiles.missing(identity)
        (tmp_path / "appendonlydir" / "appendonly.aof.manifest").write_bytes(b"\xff\nfile")
        assert "deleted" in datafiles.missing(identity)
