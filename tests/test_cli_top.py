"""``sash top``: its report with ``--once``, its errors, and its live display in a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from conftest import ROOT, Served
from rigs.servers import Server, binaries

from sash.store.redis.embedded import _bundled_binary

TOP = [sys.executable, "-m", "sash", "top"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a store that a test may kill."""
    running = Server(binaries()["valkey-9"] or _bundled_binary(), tmp_path_factory.mktemp("top")).start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def service(store: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service on ``store`` whose metrics need a key."""
    served = Served(
        tmp_path_factory.mktemp("top") / "data",
        SASH_REDIS_URL=store.url,
        SASH_API_KEYS="acme:k1",
        SASH_METRICS_KEY="m1",
    )
    served.start()
    served.data_dir.parent.joinpath("key").write_text("m1\n")
    yield served
    served.stop()


def once(url: str, *options: str) -> subprocess.CompletedProcess[str]:
    command, environment = [*TOP, "--url", url, "--once", *options], {**os.environ, "COLUMNS": "140"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, text=True)


def key_of(service: Served) -> tuple[str, str]:
    return "--metrics-key-file", str(service.data_dir.parent / "key")


def test_it_says_how_things_are(service: Served):
    """``sash top --once`` shows the store's state, requests, refusals with their cause, and tenants, but no message."""
    headers = {"Authorization": "Bearer k1"}
    body = {"messages": [{"message": {"role": "user", "content": "plover"}}]}
    with httpx.Client(base_url=service.url, headers=headers) as client:
        client.post("/conversations/c-1/messages?model=gpt-4o-mini", json=body).raise_for_status()
        client.get("/conversations/c-1/window?model=gpt-4o-mini&max_tokens=1")
    for _ in range(40):  # another worker's figures arrive with its next flush
        done = once(service.url, *key_of(service))
        if "acme" in done.stdout and done.returncode == 0:  # on a busy machine the store is slow at times
            break
        time.sleep(0.5)
    assert done.stdout.startswith("● The store"), done.stdout + done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert ["acme", "2", "1", "0"] in lines  # two requests, one refused, none failed
    assert ["window-does-not-fit", "1"] in lines
    (refused,) = [" ".join(line[1:]) for line in lines if line and line[-1] == "c-1"]
    assert refused == "422 What must be in the window does not fit getWindow c-1"
    assert re.search(r"^store +[\d.]+ [kM]B, \d+ keys, 0 evicted", done.stdout, re.MULTILINE)
    assert "plover" not in done.stdout + done.stderr


def test_without_the_key_it_says_which(service: Served):
    """Without the metrics key, ``sash top`` exits with status 1 and names SASH_METRICS_KEY."""
    done = once(service.url)
    assert (done.returncode, "SASH_METRICS_KEY" in done.stdout) == (1, True)


def test_a_service_that_is_not_there_is_said():
    """If the service does not answer, ``sash top`` says so and exits with status 1, without a traceback."""
    done = once("http://127.0.0.1:1")
    assert (done.returncode, "Sash does not answer" in done.stdout, done.stderr) == (1, True, "")


@pytest.mark.parametrize("url", ["nonsense", "http://127.0.0.1:800o", "http://[::1"])
def test_a_wrong_url_is_said(url: str):
    """If ``--url`` is no URL of a server, ``sash top`` says so and exits with status 2, without a traceback."""
    done = once(url)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        f"Error: {url} is no URL of a server: write http://127.0.0.1:8000",
    )


@pytest.mark.parametrize("body", [b'{"detail":"Not Found"}', b"[]"])
def test_another_server_is_said(body: bytes):
    """If another server answers, ``sash top`` says so and exits with status 1, without a traceback."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(body)

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        done = once(f"http://127.0.0.1:{other.server_port}")
        other.shutdown()
    assert (done.returncode, "another server answers there" in done.stdout, done.stderr) == (1, True, "")


def test_it_is_live_and_names_an_outage(service: Served, store: Server):
    """In a terminal ``sash top`` runs until SIGINT, and shows that the store was killed."""
    ours, theirs = pty.openpty()
    # As in a terminal: a shell that runs the tests in the background makes their child processes ignore SIGINT.
    command = ["env", "--default-signal=INT", *TOP, "--url", service.url, "--every", "0.3", *key_of(service)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs)
    try:
        assert "The store answers" in _until(ours, "The store answers", 100)
        store.kill()
        _until(ours, "The store is down", 30)
        process.send_signal(signal.SIGINT)
        _until_it_ends(ours, process, 100)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
        store.start()
        os.close(ours)
        os.close(theirs)


def _until_it_ends(terminal: int, process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Read the terminal until the process ends, because a full terminal buffer would block the process."""
    give_up = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < give_up:
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 65_536)


def _until(terminal: int, words: str, seconds: float) -> str:
    """Read the terminal until these words appear, and return its output."""
    shown, give_up = "", time.monotonic() + seconds
    while words not in shown and time.monotonic() < give_up:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 65_536).decode(errors="replace")
    assert words in shown, shown[-2000:]
    return shown
