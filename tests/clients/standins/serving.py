"""Serves a provider's stand-in over HTTP on loopback, with a model whose replies follow the question.

A question says how many tool calls each reply makes: ``calls: 2 1`` gives two calls, then one call, then text.
Thinking is sealed with a keyed digest, so that a stand-in recognises its own thinking and notices changes.
"""

import hmac
import json
import re
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Protocol

Object = dict[str, Any]

_CALLS = re.compile(r"Question (\d+):.*calls:((?: \d)*)")
_SECRET = b"known to the stand-in alone"
_BYTES_A_TOKEN = 8
"""A limit that no prompt within its budget reaches, because a token is about 4 bytes."""


class RefusedError(Exception):
    """The provider answers 400."""


class Provider(Protocol):
    """Answers requests; ``error`` returns the body of a 400."""

    def reply(self, path: str, body: Object) -> Object: ...

    def error(self, message: str) -> Object: ...


def refuse_if(found: object, message: str) -> None:
    """Raise RefusedError if ``found`` is true or not empty."""
    if found:
        raise RefusedError(message)


class Plan:
    """The replies made so far to each question, counted here because a window may leave out a question's first calls."""

    def __init__(self) -> None:
        self._replies: Counter[str] = Counter()

    def calls(self, question: str) -> int:
        """Return the number of tool calls in the next reply to a question; 0 if the reply is a text."""
        found = _CALLS.search(question)
        steps = [int(step) for step in found[2].split()] if found else [0]
        done = self._replies[found[1] if found else question]
        self._replies[found[1] if found else question] += 1
        return steps[done] if done < len(steps) else 0


def seal(*said: Any) -> str:
    """Return a keyed digest of ``said``, which only the stand-in can make: base64, 88 characters."""
    return b64encode(hmac.digest(_SECRET, json.dumps(said, sort_keys=True).encode(), "sha512")).decode()


def words(count: int, number: int) -> str:
    """Return a text of about ``count`` tokens, which differs for each ``number``."""
    return " ".join(f"{number}-{index} and" for index in range(count // 4))


def refuse_too_long(body: Object, limit_tokens: int, message: str) -> None:
    """Refuse a request whose JSON has more bytes than ``limit_tokens`` tokens can have."""
    refuse_if(len(json.dumps(body, ensure_ascii=False).encode()) > limit_tokens * _BYTES_A_TOKEN, message)


@contextmanager
def serving(provider: Provider) -> Iterator[str]:
    """Serve the provider on a free port, and yield its URL."""
    with _Server(provider) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, provider: Provider) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout: ClassVar[int] = 30

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            status, answer = 200, self.server.provider.reply(self.path, body)
        except RefusedError as refused:
            status, answer = 400, self.server.provider.error(str(refused))
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a failed test shows the answer that the client received."""
