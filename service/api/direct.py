"""A window and an append, the two calls of every turn, without the framework's routing, arguments and response.

The framework's part takes a sixth of a window's processor time, and a handler that reads its request and makes its
response by itself (answer.py) does not need it. All other requests go to the framework.
"""

from collections.abc import Sequence

from litestar import Litestar, Request
from litestar.handlers import HTTPRouteHandler

from service.api.asgi import App, Receive, Scope, Send


class Direct:
    """An ASGI application that calls ``handlers`` of ``/conversations/{id}/…`` directly, and the framework for the rest."""

    def __init__(self, framework: Litestar, app: App, handlers: Sequence[HTTPRouteHandler]) -> None:
        self._framework = framework
        self._app = app
        self._handlers = {
            (method, path.rpartition("/")[2]): (handler, path.replace(":str", ""))
            for handler in handlers
            for path in handler.paths
            for method in handler.http_methods
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope.get("path", "").split("/")
        found = None
        if len(parts) == 4 and parts[1] == "conversations" and parts[2]:
            found = self._handlers.get((scope["method"], parts[3]))
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["litestar_app"] = self._framework
        handler, scope["path_template"] = found
        scope["route_handler"] = handler
        answer = await handler.fn(Request(scope, receive, send), parts[2])  # type: ignore[arg-type]
        await answer(scope, receive, send)
