"""The calls of every turn, such as a window and an append, without the framework's routing, arguments and response.

The framework's part takes a sixth of a window's processor time, and a handler that reads its request and makes its
response by itself does not need it. All other requests go to the framework. Its response class, which checks headers,
cookies and media types for each answer, is not used either.
"""

from collections.abc import Sequence

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from sash.api.incoming import Incoming
from sash.api.middleware.asgi import App, Receive, Scope, Send
from sash.api.middleware.paths import template_of

_NAMES = {"conversations": "conversation_id", "owners": "owner_id"}
"""Names of a path's parameters."""


class Direct:
    """An ASGI application that calls ``handlers`` of ``/conversations/{id}/…``, ``/owners/{id}/…`` and of paths of one word
    directly, and the framework for the rest."""

    def __init__(self, framework: Litestar, app: App, handlers: Sequence[HTTPRouteHandler]) -> None:
        self._framework = framework
        self._app = app
        self._handlers = {
            (method, *path.split("/")[1::2]): (handler, handler.fn, template_of(path))
            for handler in handlers
            for path in handler.paths
            for method in handler.http_methods
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope.get("path", "").split("/")
        found = None
        if len(parts) == 2 or (len(parts) == 4 and parts[2]):
            found = self._handlers.get((scope["method"], *parts[1::2]))
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["litestar_app"] = self._framework
        handler, answer_to, scope["path_template"] = found
        scope["route_handler"] = handler
        scope["path_params"] = {_NAMES[parts[1]]: parts[2]} if len(parts) == 4 else {}
        answer = await answer_to(Incoming(scope, receive, send, parses=False))
        await answer(scope, receive, send)


class Answer:
    """An ASGI application that answers with ``body`` as JSON, and an ETag if it has one. A 304 is sent without a body."""

    def __init__(self, body: bytes, *, etag: str = "", status: int = 200) -> None:
        self._body = body
        self._status = status
        self._etag = etag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        headers = [(b"etag", f'"{self._etag}"'.encode())] if self._etag else []
        if self._status != 304:
            headers += ((b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._body)))
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})
