"""Providers on loopback: their wire, their refusals, and a model that does what the question says.

A question says how many calls each reply makes: ``calls: 2 1`` is answered with two calls, then with one, then with words.
Thoughts are sealed with a keyed digest, so that a stand-in knows its own, and sees what was changed.
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
"""A bound that no prompt of ours reaches within its budget: a token is about 4 bytes."""


class RefusedError(Exception):
    """The provider's answer is 400."""


class Provider(Protocol):
    """What answers requests; ``error`` is the body of a 400."""

    def reply(self, path: str, body: Object) -> Object: ...

    def error(self, message: str) -> Object: ...


def refuse_if(found: object, message: str) -> None:
    """Raise RefusedError if there is something in ``found``."""
    if found:
        raise RefusedError(message)


class Plan:
    """What questions ask for, and how far each has come: a window may have left its first calls out."""

    def __init__(self) -> None:
        self._replies: Counter[str] = Counter()

    def calls(self, question: str) -> int:
        """How many calls the next reply to a question makes; 0 for words."""
        found = _CALLS.search(question)
        steps = [int(step) for step in found[2].split()] if found else [0]
        done = self._replies[found[1] if found else question]
        self._replies[found[1] if found else question] += 1
        return steps[done] if done < len(steps) else 0


def seal(*said: Any) -> str:
    """What only the stand-in can make of this: base64, 88 characters."""
    return b64encode(hmac.digest(_SECRET, json.dumps(said, sort_keys=True).encode(), "sha512")).decode()


def words(count: int, number: int) -> str:
    """Some words, others for each number."""
    return " ".join(f"{number}-{index} and" for index in range(count // 4))


def refuse_too_long(body: Object, limit_tokens: int, message: str) -> None:
    """Refuse a request that cannot be within the model's window."""
    refuse_if(len(json.dumps(body, ensure_ascii=False).encode()) > limit_tokens * _BYTES_A_TOKEN, message)


@contextmanager
def serving(provider: Provider) -> Iterator[str]:
    """The provider on a free port: its URL."""
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
        """Say nothing: a failed test shows what the client was told."""
