"""A storage's no: each kind has its sentence in ``GET /status``, the log and ``sash doctor``, before a picture fails."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from api.test_media_storage import service
from click.testing import CliRunner
from rigs.storages import CREDENTIALS
from structlog.testing import capture_logs

from sash.cli import main
from sash.store.redis.embedded import EmbeddedStore

SECRET = "t/c-1/0123"
PROBE_SECONDS = 10


class Refusing(ThreadingHTTPServer):
    """An S3 server that answers every request with one refusal, or with silence."""

    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(BaseHTTPRequestHandler):
    server: Refusing

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.server.status:
            time.sleep(3)
            return
        body = f"<Error><Code>{self.server.code}</Code><Message>No {SECRET}</Message></Error>".encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An S3 endpoint of the environment that refuses in the way that the test names; None: nobody listens."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    if request.param is None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        yield
        return
    with Refusing(*request.param) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


REFUSALS = [
    ((403, "AccessDenied"), ("refuses Sash", "credentials", "403 Forbidden")),
    ((404, "NoSuchBucket"), ("lost its folder or bucket", "SASH_MEDIA_URL", "404 Not Found, NoSuchBucket")),
    (None, ("refuses the connection", "start it", "")),
    ((0, ""), ("did not answer within", "firewall", "")),
]


def each_refusal(test: Callable[..., Any]) -> Callable[..., Any]:
    """Run a test with an endpoint of each kind."""
    names = ["403", "404", "refused", "silence"]
    each = pytest.mark.parametrize(("endpoint", "words"), REFUSALS, ids=names, indirect=["endpoint"])
    return pytest.mark.usefixtures("endpoint")(each(test))


@each_refusal
async def test_a_refusal_is_said_before_a_picture_fails(own: EmbeddedStore, words: tuple[str, ...]) -> None:
    """The sentence, what to do and the storage's answer are in the status and the log, and the metric is 1; no path is."""
    with capture_logs() as logs:
        async with service(own, "s3://pictures/refused", store_timeout_seconds=0.8) as client:
            for _ in range(PROBE_SECONDS * 20):
                away: str | None = (await client.get("/status")).json()["store"]["media_storage_away"]
                if away and any(line["event"] == "object storage away" for line in logs):
                    break
                await asyncio.sleep(0.05)
            metrics = (await client.get("/metrics")).text
    assert away is not None
    assert [word for word in words if word.lower() not in away.lower()] == []
    assert SECRET not in repr(logs) + away
    assert "\nsash_media_storage_away 1.0\n" in metrics
    (line,) = [line for line in logs if line["event"] == "object storage away"]
    assert line["look"] == away


@each_refusal
def test_the_doctor_says_it(own: EmbeddedStore, words: tuple[str, ...]) -> None:
    """``sash doctor`` says the same of the storage."""
    environment: dict[str, Any] = {
        "SASH_REDIS_URL": own.url,
        "SASH_MEDIA_URL": "s3://pictures/refused",
        "SASH_STORE_TIMEOUT_SECONDS": "0.8",
    }
    printed = CliRunner().invoke(main, ["doctor", "--json"], env=environment).stdout
    assert [word for word in words if word.lower() not in printed.lower()] == []
    assert SECRET not in printed
