"""A minimal HTTP client that calls an ASGI application directly, on the caller's event loop."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""


class Answer(NamedTuple):
    """An application's response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def ok(self) -> bool:
        return self.status < 300

    @property
    def slug(self) -> str:
        """The last part of a problem's type; empty for a response that is no problem."""
        return "" if self.status < 400 else str(self.json["type"]).removeprefix("/problems/")


class Request(NamedTuple):
    """A request; ``path`` may end in a query."""

    method: str
    path: str
    body: bytes = b""
    media_type: str = "application/json"


async def ask(app: App, request: Request, headers: Mapping[str, str]) -> Answer:
    """Send one request to the application, and return its whole response."""
    path, _, query = request.path.partition("?")
    sent = {"host": "sash", "content-type": request.media_type, "content-length": str(len(request.body)), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "server": ("sash", 80),
        "client": ("127.0.0.1", 1),
        "state": {},
    }
    start: dict[str, Any] = {}
    parts: list[bytes] = []
    asked = False
    answered = asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await answered.wait()  # an earlier disconnect could cut the response short
            return {"type": "http.disconnect"}
        asked = True
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                answered.set()

    await app(scope, receive, send)
    told = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], told, b"".join(parts))
