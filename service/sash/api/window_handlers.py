"""GET …/window for a stored conversation, and POST /window for a history in the body."""

import time

from litestar import Response, get, post

from sash.api.body import (
    if_none_match,
    query_of,
    read_body,
    run_in_turn_if_large,
    target_of,
)
from sash.api.context import Req, context_of, line_of, tell_made, tenant_of
from sash.api.direct import Answer
from sash.api.openapi.operation import documented
from sash.api.schemas import Window
from sash.core.law.parameters import WindowQuery
from sash.operations.logging import best_effort
from sash.operations.served import tell_window
from sash.problems import WindowDoesNotFit
from sash.store.data.scripts import Known
from sash.windows.request import HistoryQuery, WindowRequest, decode_request
from sash.windows.stateless import window_of_request


@get("/conversations/{conversation_id:str}/window", operation_id="getWindow")
@documented("Read a window", "windows", query=WindowQuery, gives=Window, errors=(422,))
async def get_window(request: Req) -> Answer:
    """A window of the conversation: the messages to send, which fit the model exactly."""
    context, target = context_of(request), target_of(request)
    query = query_of(request, WindowQuery)
    started = time.perf_counter()
    try:
        found = await context.windows.read(target, query, if_none_match(request))
    except WindowDoesNotFit as problem:
        if not query.explain:
            context.watching.metrics.windows.does_not_fit(problem.model)
        raise
    if isinstance(found, Known):
        return Answer(b"", etag=found.etag, status=304)
    made, state = found
    if query.recall_max_tokens:
        context.recall.indexer.notice(target, state.settings)
    tell_made(request, context, target, made, state, time.perf_counter() - started)
    return Answer(made.body, etag=state.etag)


@post("/window", operation_id="buildWindow", status_code=200)
@documented(
    "Build a window from a history in the body",
    "windows",
    query=HistoryQuery,
    takes=WindowRequest,
    gives=Window,
    errors=(409, 422),
)
async def build_window(request: Req) -> Response[bytes]:
    """A window of a history in the body. Nothing is stored."""
    body = await read_body(request)
    form = query_of(request, HistoryQuery).format
    context = context_of(request)
    send, allowed = context.settings.send_members, context.settings.allow_items
    wanted, sent = await run_in_turn_if_large(len(body), decode_request, body, form, send, allowed)
    started = time.perf_counter()
    try:
        models = await context.store.calibrations.correct(tenant_of(request), context.models, wanted.model)
        made, counting_seconds = await run_in_turn_if_large(len(body), window_of_request, wanted, models, sent, send)
    except WindowDoesNotFit:
        if not wanted.explain:
            context.watching.metrics.windows.does_not_fit(wanted.model or "")
        raise
    with best_effort:
        context.watching.metrics.counted(counting_seconds)
        tell_window(context.watching.metrics, made, time.perf_counter() - started, line_of(request))
    return Response(made.body)
