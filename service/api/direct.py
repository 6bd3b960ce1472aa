"""The two calls of every turn, a window and an append, without the framework's routing, arguments and response.

These take a sixth of a window's processor time, and do nothing for a handler that reads its request and answers by itself
(answer.py). Everything else goes to the framework, and so does every path that is not written as ours are.
"""

from collections.abc import Sequence

from litestar import Litestar, Request
from litestar.handlers import HTTPRouteHandler

from service.api.asgi import App, Receive, Scope, Send


class Direct:
    """An ASGI application: ``handlers`` of ``/conversations/{id}/…`` are called at once, all else by the framework."""

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
