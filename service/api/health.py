"""Is the process alive, and may it take traffic."""

from typing import Any

import msgspec
from litestar import Request, Response, get

from service.api.context import Context, context_of
from service.api.conversations import JSON
from service.api.openapi.operation import documented
from service.api.schemas import Alive, Ready
from service.problems import StorePermissionDenied, StoreUnavailable
from service.store.durability import Found
from service.store.versions import stored_layout, too_new

Req = Request[Any, Any, Any]


@get("/livez", operation_id="live", sync_to_thread=False)
@documented("Is the process alive", "operations", gives=Alive)
def live() -> Response[bytes]:
    """The process answers; the store is not asked."""
    return Response(b'{"status":"alive"}', media_type=JSON)


@get("/readyz", operation_id="ready")
@documented("May it take traffic", "operations", gives=Ready)
async def ready(request: Req) -> Response[bytes]:
    """The store answers, takes every command, keeps what it is given as the settings ask; else 503, and what to change."""
    context = context_of(request)
    servers = await _judged(context)
    found = servers[0]
    store = {"appendonly": found.appendonly, "appendfsync": found.appendfsync, "how": found.how}
    body = {"status": "ready", "durability": context.settings.durability, "store": store}
    return Response(msgspec.json.encode(body), media_type=JSON)


async def _judged(context: Context) -> list[Found]:
    """What was found of the servers that may be written to. Raises StoreUnavailable, with what to change."""
    lost = context.client.lost_files  # its socket may be lost too, and then there is nobody to ask
    if lost:
        raise StoreUnavailable(f"Not ready: {lost}.")
    denied: StorePermissionDenied | None = None
    try:
        unfit = too_new(await stored_layout(context.client)) or await context.conversations.data_keys.refusal()
    except StorePermissionDenied as error:
        unfit, denied = "", error  # one command; the judgement of the server names every one
    if unfit:
        raise StoreUnavailable(f"Not ready: {unfit}.")
    servers = context.client.servers
    refused = next((found for found in servers if found.refused), None)
    if refused is not None:
        raise refused.problem("Not ready")
    if denied is not None:
        raise denied
    if not servers:
        raise StoreUnavailable("Not ready: no server was met yet.")
    return servers


HANDLERS = (live, ready)
