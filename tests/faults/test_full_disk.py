"""The embedded store's disk fills, as an operator meets it: a disk of 64 MB, real signals, and what is there afterwards."""

import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import redis
from conftest import Served
from faults.disks import fill, mount, unmount
from rigs.servers import wait_until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a disk of 64 MB."""
    folder = tmp_path / "disk"
    if not mount(folder, megabytes=64):
        pytest.skip("mounting a small disk is not allowed here")
    yield folder
    unmount(folder)


def served_on(disk: Path, durability: str) -> Served:
    running = Served(disk, SASH_DURABILITY=durability)
    running.start()
    return running


def say(served: Served, text: str, conversation: str = "c") -> httpx.Response:
    body = {"messages": [{"id": text.split(" ", 1)[0], "role": "user", "content": text}]}
    return httpx.post(f"{served.url}/conversations/{conversation}/messages", json=body, timeout=20)


def told(served: Served) -> list[str]:
    page = httpx.get(f"{served.url}/conversations/c/messages?limit=1000", timeout=20).json()
    return [each["message"]["content"].split(" ", 1)[0] for each in page["messages"]]


def condition(served: Served) -> dict[str, str]:
    return httpx.get(f"{served.url}/status", timeout=20).json()["condition"]


def events(disk: Path) -> list[str]:
    lines = (disk.parent / "serve.log").read_text().splitlines()
    return [json.loads(line)["event"] for line in lines if line.startswith("{")]


def talk_until_refused(served: Served) -> tuple[list[str], httpx.Response]:
    """Append turns of 3 kB until one is refused. Returns the acknowledged ones, and the refusal."""
    acknowledged: list[str] = []
    for number in itertools.count():
        answer = say(served, f"m-{number} {'word ' * 600}")
        if answer.status_code != 201:
            return acknowledged, answer
        acknowledged.append(f"m-{number}")
    raise AssertionError


each_durability = pytest.mark.parametrize("durability", [pytest.param("fast", marks=pytest.mark.nightly), "durable"])


@each_durability
def test_a_clean_stop_on_a_full_disk_keeps_what_was_acknowledged(disk: Path, durability: str) -> None:
    """The disk fills between two turns; every acknowledged turn is there after a stop, room and a start."""
    served = served_on(disk, durability)
    assert say(served, "first").status_code == 201
    ballast = fill(disk)
    acknowledged, refused = talk_until_refused(served)
    assert served.stop() == 0
    ballast.unlink()
    served.start()

    assert told(served)[: 1 + len(acknowledged)] == ["first", *acknowledged]
    assert refused.status_code in (503, 507)
    wait_until(lambda: say(served, "last").status_code in (200, 201), 10)
    assert served.stop() == 0


def test_what_not_even_the_reserve_holds_is_kept_elsewhere(disk: Path) -> None:
    """Somebody takes the reserve's room too: the stop is status 4 and says where all is kept; the next start has it."""
    served = served_on(disk, "fast")
    assert say(served, "first").status_code == 201
    assert served.process is not None
    served.process.send_signal(signal.SIGSTOP)  # the process that keeps the reserve is slower than the disk fills
    ballast = fill(disk)
    assert say(served, f"second {'word ' * 3000}").status_code == 201
    with redis.Redis(unix_socket_path=f"{disk}/valkey.sock") as link:
        store = int(link.info("server")["process_id"])
    os.kill(store, signal.SIGSTOP)
    for room in (disk / "sash.reserve", disk / "sash.erasures"):
        room.unlink()
    (disk / "more").mkdir()
    fill(disk / "more")
    os.kill(store, signal.SIGCONT)
    served.process.send_signal(signal.SIGCONT)
    time.sleep(0.5)  # a signal that comes at once may reach another thread than the one that waits for it
    assert served.stop() == 4
    last = (disk.parent / "serve.log").read_text().splitlines()[-1]
    assert "bytes of its append-only file; all is kept in /" in last
    kept = Path(last.partition("kept in ")[2].partition(",")[0])
    assert kept.is_file()

    with pytest.raises(AssertionError, match="No space left on device"):
        served.start()
    assert kept.is_file()
    ballast.unlink()
    served.start()
    assert told(served) == ["first", "second"]
    assert not kept.exists()
    assert say(served, "third").status_code == 201
    assert served.stop() == 0


@each_durability
def test_a_full_disk_refuses_writes_and_nothing_else(disk: Path, durability: str) -> None:
    """Once the disk is full, writes are 507 with the reason, at once; reads and erasures go on, and all places agree."""
    served = served_on(disk, durability)
    for number in range(20):
        assert say(served, "hello", f"c-{number}").status_code == 201
    ballast = fill(disk)
    talk_until_refused(served)
    wait_until(lambda: say(served, "again").status_code == 507, 10)
    with redis.Redis(unix_socket_path=f"{disk}/valkey.sock") as store:
        began = store.info("server")["run_id"]

    slowest, until = 0.0, time.monotonic() + 6
    while time.monotonic() < until:
        started = time.monotonic()
        refused = say(served, "again")
        slowest = max(slowest, time.monotonic() - started)
        assert (refused.status_code, refused.json()["type"]) == (507, "/problems/store-full")
        assert "disk" in refused.json()["detail"]
        assert int(refused.headers["Retry-After"]) > 0
        assert httpx.get(f"{served.url}/conversations/c-1/window?model=gpt-4o-mini", timeout=20).status_code == 200
    assert slowest < 1
    for number in range(10):
        assert httpx.delete(f"{served.url}/conversations/c-{number}", timeout=20).status_code == 204
    ready = httpx.get(f"{served.url}/readyz", timeout=20)
    now = condition(served)
    assert (ready.status_code, now["name"], now["alert"]) == (200, "full", "SashStoreFull")
    assert "disk" in ready.json()["degraded"][0]
    assert "disk" in now["title"]
    metrics = httpx.get(f"{served.url}/metrics", timeout=20).text
    assert 'sash_store_condition{condition="full"} 1.0' in metrics
    assert "sash_ready 1.0" in metrics
    assert 'sash_store_serves{shard="store",verb="append"} 0.0' in metrics
    assert 'sash_store_serves{shard="store",verb="read"} 1.0' in metrics
    with redis.Redis(unix_socket_path=f"{disk}/valkey.sock") as store:
        assert store.info("server")["run_id"] == began

    ballast.unlink()
    wait_until(lambda: say(served, "again").status_code in (200, 201), 10)
    wait_until(lambda: not httpx.get(f"{served.url}/readyz", timeout=20).json()["degraded"], 10)
    assert httpx.get(f"{served.url}/conversations/c-1", timeout=20).status_code == 404
    wait_until(lambda: {"store full", "store full: over"} <= set(events(disk)), 10)
    served.stop()


def test_a_start_on_a_full_disk_serves_reads(disk: Path) -> None:
    """A service that starts on a full disk answers reads and refuses writes, until there is room."""
    served = served_on(disk, "durable")
    assert say(served, "first").status_code == 201
    served.stop()
    ballast = fill(disk)
    served.start()

    assert told(served) == ["first"]
    wait_until(lambda: say(served, "second").status_code == 507, 10)
    ballast.unlink()
    wait_until(lambda: say(served, "second").status_code == 201, 10)
    served.stop()


@each_durability
def test_erasures_have_room_where_not_a_byte_is_free(disk: Path, durability: str) -> None:
    """Other programs take the room that the reserve gave back, to the last byte: erasures go on, and stay done."""
    served = served_on(disk, durability)
    for number in range(100):
        assert say(served, "hello", f"c-{number}").status_code == 201
    fill(disk)
    wait_until(lambda: not (disk / "sash.reserve").exists(), 10)
    (disk / "more").mkdir()
    fill(disk / "more")
    found = os.statvfs(disk)
    assert found.f_bavail * found.f_frsize < 4096 * 2
    wait_until(lambda: say(served, "again").status_code == 507, 10)
    erased = [httpx.delete(f"{served.url}/conversations/c-{number}", timeout=20) for number in range(50)]
    redacted = [httpx.delete(f"{served.url}/conversations/c-{n}/messages/1", timeout=20) for n in range(50, 60)]

    assert {each.status_code for each in (*erased, *redacted)} == {204}, erased[0].text
    assert say(served, "again").status_code == 507
    (disk / "more" / "ballast").unlink()
    (disk / "ballast").unlink()
    served.stop()
    served.start()
    assert httpx.get(f"{served.url}/conversations/c-1", timeout=20).status_code == 404
    assert httpx.get(f"{served.url}/conversations/c-99", timeout=20).status_code == 200
    wait_until(lambda: (disk / "sash.erasures").stat().st_size == (disk / "sash.reserve").stat().st_size // 2, 10)
    served.stop()
