"""GET /livez: is the process alive; GET /readyz: may it take traffic."""

import asyncio

import msgspec
from litestar import Response, get

from service.api.context import Req, context_of
from service.api.conversations import JSON
from service.api.openapi.operation import documented
from service.api.schemas import Alive, Ready
from service.operations.readiness import judged
from service.problems import StoreUnavailable

_DOWN_SECONDS = 0.5  # the wait for a store that is known to be down


@get("/livez", operation_id="live", sync_to_thread=False)
@documented("Is the process alive", "operations", gives=Alive)
def live() -> Response[bytes]:
    """The process answers. The store is not checked."""
    return Response(b'{"status":"alive"}', media_type=JSON)


@get("/readyz", operation_id="ready")
@documented("May it take traffic", "operations", gives=Ready)
async def ready(request: Req) -> Response[bytes]:
    """The store answers, allows every command, and is as durable as required; otherwise 503, and what to change."""
    context = context_of(request)
    now = context.watch.condition
    try:
        async with asyncio.timeout(_DOWN_SECONDS if now.name == "down" else None):
            found = (await judged(context.client, context.conversations.data_keys))[0]
    except TimeoutError:
        raise StoreUnavailable(f"Not ready: {now.title[0].lower()}{now.title[1:]}. {now.look}") from None
    store = {"appendonly": found.appendonly, "appendfsync": found.appendfsync, "how": found.how}
    body = {"status": "ready", "durability": context.settings.durability, "store": store}
    return Response(msgspec.json.encode(body), media_type=JSON)


HANDLERS = (live, ready)
