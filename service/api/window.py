"""GET …/window, and POST /window for a history in the body."""

import time
from typing import Any

import msgspec
from litestar import Request, Response, get, post
from litestar.params import FromPath

from service.api.answer import Answer
from service.api.body import checked_id, if_none_match, query_of, read_body, worker
from service.api.budgets import likely_budget
from service.api.context import context_of, tenant_of
from service.api.conversations import JSON
from service.api.schemas import WindowQuery, WindowRequest
from service.api.stateless import observed_window
from service.api.windows import is_exact, stored_window
from service.core.messages import decode_json
from service.problems import WindowDoesNotFit
from service.store.scripts import Known

Req = Request[Any, Any, Any]
_request = msgspec.json.Decoder(WindowRequest)


@get("/conversations/{conversation_id:str}/window", operation_id="getWindow")
async def get_window(request: Req, conversation_id: FromPath[str]) -> Answer:
    """The messages to send: a window that fits the model exactly."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    query = query_of(request, WindowQuery)
    budget, column = likely_budget(query, context.models)
    known = if_none_match(request) if is_exact(query, context.models) else []
    tail = await context.reader.window(
        tenant, identity, known=known, budget=budget, column=column, limit=query.limit or 0
    )
    if isinstance(tail, Known):
        return Answer(b"", etag=tail.etag, status=304)
    if "*" in known:
        return Answer(b"", etag=tail.state.etag, status=304)
    body, state = await stored_window(context, tenant, identity, tail, query)
    return Answer(body, etag=state.etag)


@post("/window", operation_id="buildWindow", status_code=200)
async def build_window(request: Req) -> Response[bytes]:
    """The same for a history in the body; nothing is stored."""
    body = await read_body(request)
    wanted = await worker(len(body), decode_json, body, _request)
    context, started = context_of(request), time.perf_counter()
    try:
        models = await context.calibrations.correct(tenant_of(request), context.models, wanted.model)
        window, seen, counting = await worker(len(body), observed_window, wanted, models)
    except WindowDoesNotFit:
        if not wanted.explain:
            context.metrics.does_not_fit(wanted.model or "")
        raise
    context.metrics.counted(counting)
    seen.tell(context.metrics, time.perf_counter() - started)
    return Response(window, media_type=JSON)


HANDLERS = (get_window, build_window)
