"""How a worker ends so that no client notices.

A server that is told to end and closes idle connections at once closes some on which a request is just arriving. So on
SIGTERM the worker goes on listening and answering for as long as requests come, says ``Connection: close`` with each
answer, so that clients go elsewhere by themselves, and is not ready, so that a balancer sends no more. When a second has
passed without a request, or four in any case, the server ends as it does on SIGINT: what runs is finished, and the
connections that are left are idle ones.
"""

import asyncio
import contextlib
import os
import signal
import time

from service.api.edge import OPEN_PATHS, App, Message, Receive, Scope, Send
from service.api.errors import PROBLEM_TYPE, render
from service.problems import StoreUnavailable

_QUIET_SECONDS = 1.0
_LONGEST_SECONDS = 4.0
_LOOK_SECONDS = 0.05


class Drain:
    """The wrapper: an ASGI application around another, one for each process. It takes SIGTERM when the lifespan begins."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._began: float | None = None
        self._latest = float("-inf")
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            with contextlib.suppress(NotImplementedError, RuntimeError):  # no signals on this loop: nothing to do
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.begin)
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] not in OPEN_PATHS:
            self._latest = time.monotonic()
        self._running += 1
        try:
            await self._answer(scope, receive, send)
        finally:
            self._running -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._began is not None:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        if self._began is not None and scope["path"] == "/readyz":
            await _not_ready(closing)
            return
        # HTTP/2 has no such header: its connections are told to go away by the server itself.
        await self._app(scope, receive, closing if scope["http_version"].startswith("1") else send)

    def begin(self) -> None:
        """Go on for a while, then end. Asked again, it changes nothing."""
        if self._began is None:
            self._began = time.monotonic()
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        quiet = self._running == 0 and now - self._latest > _QUIET_SECONDS
        if quiet or now - (self._began or now) > _LONGEST_SECONDS:
            os.kill(os.getpid(), signal.SIGINT)
        else:
            asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)


async def _not_ready(send: Send) -> None:
    status, headers, body = render(StoreUnavailable("Not ready: the service is stopping."), "/readyz")
    headers = {"Content-Type": PROBLEM_TYPE, "Content-Length": str(len(body)), **headers}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
