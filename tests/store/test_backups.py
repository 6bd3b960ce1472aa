"""Backups of the embedded store: the commands of deploy/backups.md on a real service's data, and data that is refused."""

import os
import shutil
import subprocess
import threading
from pathlib import Path

import httpx
import pytest
import redis
from conftest import Served
from readme_blocks import blocks, section
from rigs.servers import free_port, wait_until
from rigs.warm import started

DATA = "sash-data"
PAGE = "deploy/backups.md"


def commands(heading: str) -> list[str]:
    return blocks("sh", section(PAGE, heading))


def run(folder: Path, script: str) -> None:
    subprocess.run(["sh", "-ec", script], cwd=folder, check=True, timeout=60)


def say(served: Served, *texts: str) -> None:
    for text in texts:
        body = {"messages": [{"role": "user", "content": text}]}
        assert httpx.post(f"{served.url}/conversations/c/messages", json=body, timeout=20).status_code == 201


def told(folder: Path) -> list[str]:
    """Start a service on the folder's data, and return its messages."""
    served = Served(folder / DATA)
    served.start()
    page = httpx.get(f"{served.url}/conversations/c/messages?limit=1000", timeout=20).json()
    assert served.stop() == 0
    return [each["message"]["content"] for each in page["messages"]]


def refusal(folder: Path) -> str:
    """Return the line with which a service refuses the folder's data; its status is 1."""
    log = folder / "refused.log"
    log.unlink(missing_ok=True)
    ended = started(["serve", "--port", str(free_port()), "--data-dir", str(folder / DATA)], os.environ, log)
    assert ended.wait(60) == 1
    return log.read_text()


def store_of(served: Served) -> redis.Redis:
    return redis.Redis(unix_socket_path=f"{served.data_dir}/valkey.sock")


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """A running service with two turns."""
    made = Served(tmp_path / DATA)
    made.start()
    say(made, "one", "two")
    return made


def test_a_copy_of_a_stopped_service(served: Served, tmp_path: Path) -> None:
    """A copy of the folder has what was there when the service was stopped."""
    served.stop()
    backup, restore = commands("## A copy of a stopped service")
    run(tmp_path, backup)
    served.start()
    say(served, "three")
    served.stop()
    run(tmp_path, restore)
    assert told(tmp_path) == ["one", "two"]


def test_a_copy_while_the_service_runs(served: Served, tmp_path: Path) -> None:
    """A copy that is made between writes and rewrites has a beginning of the conversation, without a gap."""
    over = threading.Event()

    def rewrite() -> None:
        with store_of(served) as store:
            while not over.wait(0.01):
                if not store.info("persistence")["aof_rewrite_in_progress"]:
                    store.bgrewriteaof()

    rewriting = threading.Thread(target=rewrite)
    rewriting.start()
    backup, restore = commands("## A copy while the service runs")
    try:
        copying = threading.Timer(0.2, run, (tmp_path, backup))
        copying.start()
        texts = [str(number) for number in range(100)]
        say(served, *texts)
        copying.join()
    finally:
        over.set()
        rewriting.join()
    served.stop()
    run(tmp_path, restore)
    kept = told(tmp_path)
    assert kept == ["one", "two", *texts][: len(kept)]
    assert kept[:2] == ["one", "two"]


def test_a_lone_snapshot_is_refused_and_restored(served: Served, tmp_path: Path) -> None:
    """A ``dump.rdb`` alone is refused by name, stays as it is, and is the store's data after the page's commands."""
    with store_of(served) as store:
        store.bgsave()
        wait_until((served.data_dir / "dump.rdb").exists, 10)
    served.stop()
    snapshot = served.data_dir / "dump.rdb"
    shutil.copy(snapshot, tmp_path)
    shutil.rmtree(served.data_dir / "appendonlydir")
    before = snapshot.read_bytes()
    assert str(snapshot) in refusal(tmp_path)
    assert snapshot.read_bytes() == before
    shutil.rmtree(served.data_dir)
    (restore,) = commands("## A snapshot, `dump.rdb`")
    run(tmp_path, restore)
    assert told(tmp_path) == ["one", "two"]
    assert told(tmp_path) == ["one", "two"]


def test_a_single_file_is_taken_over(served: Served, tmp_path: Path) -> None:
    """The append-only file of an older server is loaded."""
    served.stop()
    shutil.copy(served.data_dir / "appendonlydir" / "appendonly.aof.1.incr.aof", tmp_path / "appendonly.aof")
    shutil.rmtree(served.data_dir)
    (restore,) = commands("## A single `appendonly.aof`")
    run(tmp_path, restore)
    assert told(tmp_path) == ["one", "two"]


def test_a_lost_manifest_is_written_again(served: Served, tmp_path: Path) -> None:
    """Files without a manifest are refused by name, stay as they are, and load with the manifest of the page's commands."""
    with store_of(served) as store:
        store.bgrewriteaof()
        wait_until(lambda: list(served.data_dir.glob("appendonlydir/*.2.base.rdb")) != [], 10)
    say(served, "three")
    served.stop()
    folder = served.data_dir / "appendonlydir"
    (folder / "appendonly.aof.manifest").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "appendonly.aof.manifest is not" in refusal(tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (restore,) = commands("## Files without their manifest")
    run(tmp_path, restore)
    assert told(tmp_path) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "place", ["appendonlydir/appendonly.aof.1.incr.aof", "appendonlydir/appendonly.aof.1.base.rdb"]
)
def test_a_missing_file_is_named(served: Served, tmp_path: Path, place: str) -> None:
    """A manifest that names a file which is not there is refused, and the line names the file."""
    served.stop()
    (served.data_dir / place).unlink()
    assert str(served.data_dir / place) in refusal(tmp_path)


def test_a_copy_that_is_a_folder_too_deep_is_named(served: Served, tmp_path: Path) -> None:
    """``cp -a backup sash-data`` into an existing folder puts the data too deep; the start says where it is."""
    served.stop()
    shutil.move(served.data_dir, tmp_path / "backup")
    (tmp_path / DATA).mkdir()
    shutil.copytree(tmp_path / "backup", tmp_path / DATA / "backup")
    assert f"{tmp_path / DATA}/backup/appendonlydir/" in refusal(tmp_path)
