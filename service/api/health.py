"""Is the process alive, and may it take traffic."""

from typing import Any

import msgspec
from litestar import Request, Response, get

from service.api.context import context_of
from service.api.conversations import JSON
from service.problems import StoreUnavailable
from service.store.versions import stored_layout, too_new

Req = Request[Any, Any, Any]


@get("/livez", operation_id="live", sync_to_thread=False)
def live() -> Response[bytes]:
    """The process answers; the store is not asked."""
    return Response(b'{"status":"alive"}', media_type=JSON)


@get("/readyz", operation_id="ready")
async def ready(request: Req) -> Response[bytes]:
    """The store answers and can be as durable as the settings ask; 503 when it does not, or cannot."""
    context = context_of(request)
    newer = too_new(await stored_layout(context.client))
    if newer:
        raise StoreUnavailable(f"Not ready: {newer}.")
    locked = await context.conversations.data_keys.refusal()
    if locked:
        raise StoreUnavailable(f"Not ready: {locked}.")
    found = context.client.durability.latest
    if found is None or found.refusal:
        raise StoreUnavailable(f"Not ready: {found.refusal if found else 'no server was met yet'}.")
    store = {"appendonly": found.appendonly, "appendfsync": found.appendfsync, "how": found.how}
    body = {"status": "ready", "durability": context.settings.durability, "store": store}
    return Response(msgspec.json.encode(body), media_type=JSON)


HANDLERS = (live, ready)
