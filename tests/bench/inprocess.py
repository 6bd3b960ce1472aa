"""Sash in this process, as a worker runs it but without the HTTP server, so that requests need no network."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from sash.serve import application
from tests.bench.rig import ROOT, nothing_held

if TYPE_CHECKING:  # earlier versions, which stages.py measures, have no such module
    from sash.api.middleware.asgi import App


@asynccontextmanager
async def running(app: "App") -> AsyncIterator["App"]:
    """Yield the application between its startup and its shutdown."""
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    task = asyncio.ensure_future(app(scope, inbox.get, outbox.put))
    inbox.put_nowait({"type": "lifespan.startup"})
    await outbox.get()
    yield app
    inbox.put_nowait({"type": "lifespan.shutdown"})
    await task


@asynccontextmanager
async def worker(url: str) -> AsyncIterator["App"]:
    """Yield what a worker of ``sash serve`` runs, on the store at ``url``; its log lines go to /dev/null."""
    os.environ |= {"SASH_REDIS_URL": url, "SASH_LOG_LEVEL": "info", **nothing_held(ROOT)}
    with _stdout_nowhere():
        async with running(application()) as app:
            yield app


@contextmanager
def _stdout_nowhere() -> Any:
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


async def ask(app: "App", method: str, target: str, body: bytes = b"") -> bytes:
    """Send one request, which must succeed, and return the answer's body."""
    status, answer = await answered(app, method, target, body)
    assert 200 <= status < 300, (status, answer)
    return answer


async def indexed(app: "App", identity: str) -> None:
    """Wait until all messages of a conversation can be recalled."""
    state: Any = {}
    while state.get("recall_progress", {}).get("words", 0) < state.get("recall_progress", {}).get("messages", 1):
        state = json.loads(await ask(app, "GET", f"/conversations/{identity}"))


async def answered(app: "App", method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
    """Send one request, and return the answer's status and body."""
    path, _, query = target.partition("?")
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    received: list[bytes] = []
    status = 0

    async def receive() -> dict[str, Any]:
        return sent.pop() if sent else await asyncio.Event().wait() or {}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        received.append(message.get("body", b""))

    headers = [(b"host", b"localhost")]
    if body:
        headers += (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("sash", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": headers,
        "state": {},
        "extensions": {},
    }
    await app(scope, receive, send)
    return status, b"".join(received)
