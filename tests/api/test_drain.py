"""After SIGTERM a server answers while requests come, closes connections, and ends; slow clients are disconnected."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import Served
from rigs.servers import wait_until


def test_a_service_that_stops_answers_until_nobody_asks(tmp_path: Path) -> None:
    """After SIGTERM, open connections get ``Connection: close``, /readyz is 503, and the server ends when requests stop."""
    served = Served(tmp_path / "data")
    served.start()
    assert served.process is not None
    with httpx.Client(base_url=served.url) as client:
        before = client.get("/models/gpt-4o")
        assert (before.status_code, before.headers.get("connection")) == (200, None)
        served.process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.get("/models/gpt-4o").headers.get("connection") == "close")
        for _ in range(9):
            time.sleep(0.1)
            answer = client.get("/models/gpt-4o")
            assert (answer.status_code, answer.headers.get("connection")) == (200, "close")
        ready = client.get("/readyz")
        assert (ready.status_code, ready.headers["content-type"]) == (503, "application/problem+json")
        assert ready.headers["retry-after"] == "1"
    asked_last = time.monotonic()
    assert served.process.wait(timeout=100) == 0
    assert time.monotonic() - asked_last > 0.5


def test_requests_that_never_end_do_not_keep_it(tmp_path: Path) -> None:
    """A server ends some seconds after SIGTERM even if requests never stop."""
    served = Served(tmp_path / "data")
    served.start()
    assert served.process is not None
    answers: list[int] = []
    stopping = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=served.url, timeout=50) as client, contextlib.suppress(httpx.TransportError):
            while True:
                told = stopping.is_set()
                status = client.get("/models/gpt-4o").status_code
                answers.extend([status] * told)
                time.sleep(0.01)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.5)
    try:
        served.process.send_signal(signal.SIGTERM)
        stopping.set()
        assert served.process.wait(timeout=100) == 0
    finally:
        served._end()
        asking.join()
    assert set(answers) == {200}


@pytest.mark.parametrize("order", [(signal.SIGTERM, signal.SIGCONT), (signal.SIGCONT, signal.SIGTERM)])
def test_a_service_that_was_paused_ends_on_sigterm(tmp_path: Path, order: tuple[signal.Signals, ...]) -> None:
    """A process that was stopped may get SIGTERM in any of its threads; it ends all the same."""
    served = Served(tmp_path / "data", SASH_WORKERS="2")
    served.start()
    assert served.process is not None
    served.process.send_signal(signal.SIGSTOP)
    time.sleep(0.3)
    try:
        for each in order:
            served.process.send_signal(each)
        assert served.process.wait(timeout=60) == 0
    finally:
        served._end()


@pytest.mark.parametrize("bytes_a_piece", [0, 1, 4_000])
def test_a_client_that_reads_too_slowly_is_cut_at_the_deadline(impatient: Served, bytes_a_piece: int) -> None:
    """A client that reads nothing, or a little at a time, is disconnected before it gets the whole answer."""
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", int(impatient.url.rpartition(":")[2])))
        slow.sendall(b"GET /conversations/large/messages HTTP/1.1\r\nHost: localhost\r\n\r\n")
        came, end = 0, time.monotonic() + 2.5
        with contextlib.suppress(ConnectionResetError):
            while time.monotonic() < end:
                time.sleep(0.1)
                came += len(slow.recv(bytes_a_piece))
            while piece := slow.recv(1 << 20):
                came += len(piece)
        assert came < 1_000_000


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service with a request timeout of one second, which holds a large conversation."""
    served = Served(tmp_path_factory.mktemp("impatient") / "data", SASH_REQUEST_TIMEOUT_SECONDS="1")
    served.start()
    try:
        entries = [{"message": {"role": "user", "content": "large " * 5000}}] * 5
        for _ in range(12):
            answer = httpx.post(f"{served.url}/conversations/large/messages", json={"messages": entries}, timeout=100)
            assert answer.status_code == 201
        yield served
    finally:
        served.stop()
