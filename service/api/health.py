"""Is the process alive, and may it take traffic."""

from typing import Any

import msgspec
from litestar import Request, Response, get

from service.api.context import context_of
from service.api.conversations import JSON

Req = Request[Any, Any, Any]


@get("/livez", operation_id="live", sync_to_thread=False)
def live() -> Response[bytes]:
    """The process answers; the store is not asked."""
    return Response(b'{"status":"alive"}', media_type=JSON)


@get("/readyz", operation_id="ready")
async def ready(request: Req) -> Response[bytes]:
    """The store answers; 503 when it does not."""
    context = context_of(request)
    await context.client.commands([("PING",)])
    body = {"status": "ready", "durability": context.settings.durability}
    return Response(msgspec.json.encode(body), media_type=JSON)


HANDLERS = (live, ready)
