"""What a refused request leaves in memory."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from sash.api.middleware.asgi import App


class Connection:
    """Stands for the server's object of a connection, which ``receive`` and ``send`` hold."""

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"x", "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        """Take the answer."""


async def ask(app: App, method: str, path: str) -> "weakref.ref[Connection]":
    """Send a request in a task of its own, as the server does. Returns a weak reference to its connection."""
    connection = Connection()
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"text/plain")],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("localhost", 8000),
        "client": ("localhost", 9000),
        "root_path": "",
    }
    await asyncio.create_task(app(scope, connection.receive, connection.send))  # type: ignore[arg-type]
    return weakref.ref(connection)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/conversations/import"),
        ("PUT", "/conversations/c/summary"),
        ("POST", "/conversations/c/messages"),
        ("GET", "/conversations/absent/window"),
        ("GET", "/nothing/here"),
    ],
)
async def test_a_refused_request_holds_no_connection(app: App, method: str, path: str) -> None:
    """After a refusal nothing refers to the request's connection: no cycle keeps it until garbage is collected."""
    gc.collect()
    gc.disable()
    try:
        connection = await ask(app, method, path)
        for _ in range(3):
            await asyncio.sleep(0)
        assert connection() is None
    finally:
        gc.enable()
