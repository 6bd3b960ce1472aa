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


def _scope(request: Request, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = request.path.partition("?")
    sent = {"host": "sash", "content-type": request.media_type, "content-length": str(len(request.body)), **headers}
    return {
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


class Listener:
    """An open stream of server-sent events, and the events that came so far."""

    def __init__(
        self, app: App, request: Request, headers: Mapping[str, str], takes: asyncio.Semaphore | None = None
    ) -> None:
        """With ``takes``, the stream takes a piece whenever this is released; without it, all at once."""
        self.status = 0
        self._takes = takes
        self.events: list[dict[str, Any]] = []
        self._rest = b""
        self._news = asyncio.Event()
        self._leaves = asyncio.Event()
        self._task = asyncio.create_task(app(_scope(request, headers), self._receive, self._send))  # type: ignore[arg-type]

    @property
    def versions(self) -> list[int]:
        return [event["version"] for event in self.events]

    async def _receive(self) -> dict[str, Any]:
        await self._leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._takes is not None:
            await self._takes.acquire()
        self.status = message.get("status", self.status)
        *whole, self._rest = (self._rest + message.get("body", b"")).split(b"\n\n")
        data = [
            line.removeprefix(b"data: ") for each in whole for line in each.split(b"\n") if line.startswith(b"data: ")
        ]
        self.events += map(json.loads, data)
        self._news.set()

    async def until(self, holds: Callable[[], bool]) -> bool:
        """Wait until the condition holds, some seconds at most; returns whether it does."""
        try:
            async with asyncio.timeout(10):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def leave(self) -> None:
        """Close the stream."""
        self._leaves.set()
        await self._task


async def ask(app: App, request: Request, headers: Mapping[str, str]) -> Answer:
    """Send one request to the application, and return its whole response."""
    scope = _scope(request, headers)
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
