"""A proxy in front of ``sash serve`` that misbehaves: it loses answers, cuts them, or gives answers of its own."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

import httpx

_OWN_HEADERS = {"host", "connection", "content-length", "transfer-encoding", "date", "server"}


class Request(NamedTuple):
    """A request that the proxy received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    """An answer of the proxy itself, which does not ask the service."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


Act = Reply | Literal["pass", "drop", "lose", "cut"]
"""Pass a request on; drop it unread by the service; lose its answer after the service did it; or cut the answer's body."""


@contextmanager
def between(url: str, act: Callable[[int, Request], Act]) -> Iterator[tuple[str, list[Request]]]:
    """Yield the proxy's URL and the requests so far; ``act`` says what happens to each, by its number from 0."""
    seen: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, dict(self.headers), body)
            seen.append(request)
            match act(len(seen) - 1, request):
                case Reply() as own:
                    self._answer(own, len(own.body))
                case kind:
                    self.close_connection = kind != "pass"
                    if kind != "drop":
                        self._pass(request, kind)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that the base class calls

        def _pass(self, request: Request, kind: str) -> None:
            reply = _forward(url, request)
            if kind != "lose":
                self._answer(reply, len(reply.body) // (2 if kind == "cut" else 1))

        def _answer(self, reply: Reply, size: int) -> None:
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body[:size])

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with listening(Handler) as own_url:
        yield own_url, seen


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the URL of a server in a thread, whose requests the handler answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def first(act: Act) -> Callable[[int, Request], Act]:
    """Do this to the first request, and pass on the others."""
    return lambda number, _: act if number == 0 else "pass"


def always(act: Act) -> Callable[[int, Request], Act]:
    """Do this to every request."""
    return lambda *_: act


def _forward(url: str, request: Request) -> Reply:
    headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
    headers["Accept-Encoding"] = "identity"
    answer = httpx.request(request.method, url + request.path, content=request.body, headers=headers, timeout=60)
    kept = {name: value for name, value in answer.headers.items() if name not in _OWN_HEADERS}
    return Reply(answer.status_code, answer.content, kept)
