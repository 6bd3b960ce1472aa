"""GET …/window for a stored conversation, and POST /window for a history in the body."""

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated

from litestar import get, post
from msgspec import Meta

from sash.api.context import Context
from sash.api.headers import if_none_match
from sash.api.incoming import LONG_BYTES, Answer, Incoming, run_in_turn_if_large
from sash.api.message_formats import window_form
from sash.api.openapi.operation import documented
from sash.api.schemas import Window
from sash.core.chat.messages import ReceiptText
from sash.core.counts.models.models import Model
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers.messages.members import Names
from sash.core.providers.reading.native_entries import ReadEntries
from sash.operations.logging import best_effort
from sash.problems import ReceiptGone, Unprocessable, WindowDoesNotFit
from sash.processor import PROCESSOR
from sash.store.data.layout import Target
from sash.store.data.usage import estimated
from sash.windows.answer import Made
from sash.windows.difference import WindowDifference, difference
from sash.windows.receipts import Receipt, query_of_receipt, read_receipt, require_of
from sash.windows.request import TextsRequest, WindowRequest, decode_request
from sash.windows.stateless import window_of_request


class StoredWindowQuery(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a stored conversation's window, or the receipt of one that was served."""

    receipt: Annotated[
        ReceiptText | None,
        Meta(
            description="Give the window of this receipt again, with the same bytes, or 410 with the reason why not. A "
            "receipt has the window's parameters, so it is given alone, or with `explain=true`: then the answer also tells "
            "each message, kept or not. Where they were too long, or `recall_query` is one, they are given beside it."
        ),
    ] = None


@get("/conversations/{conversation_id:str}/window", operation_id="getWindow")
@documented("Read a window", "windows", query=StoredWindowQuery, gives=Window, errors=(410, 422))
async def get_window(request: Incoming) -> Answer:
    """A window of the conversation: the messages to send, which fit the model exactly; or one that was served before."""
    context, target = request.context, request.target
    query = request.query(StoredWindowQuery)
    if query.receipt is not None:
        return await _served_again(request, context, target, query, query.receipt)
    started = time.perf_counter()
    try:
        given = request.exchange.headers.get(b"if-none-match")
        known = if_none_match(given) if given is not None else ()
        found = await context.windows.read_unless(target, query, known, request.exchange.make_room)
    except WindowDoesNotFit as problem:
        if not query.explain:
            context.watching.metrics.windows.does_not_fit(problem.model)
        raise
    if not isinstance(found, tuple):
        return Answer(b"", found.etag, 304)
    made, state = found
    request.tell_made(target, made, state, time.perf_counter() - started)
    return Answer(made.body, state.etag)


_NAMES = {"earlier": "from", "later": "to"}


class DifferenceQuery(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True, rename=_NAMES):
    """The receipts of two windows. Parameters are only given beside a receipt for which they were too long."""

    earlier: Annotated[ReceiptText, Meta(description="The receipt of the earlier window.")]
    later: Annotated[
        ReceiptText | None,
        Meta(description="That of the later window; by default the window now, with the earlier one's parameters."),
    ] = None


@get("/conversations/{conversation_id:str}/window/diff", operation_id="compareWindows")
@documented(
    "Compare two windows",
    "windows",
    query=DifferenceQuery,
    gives=WindowDifference,
    is_open=True,
    etag=False,
    errors=(410, 422),
)
async def compare_windows(request: Incoming) -> WindowDifference:
    """What changed between two windows, message by message, and where the provider's prompt cache broke."""
    context, target = request.context, request.target
    query = request.query(DifferenceQuery)
    place = "#/query/from"
    if query.explain:
        raise Unprocessable.at("#/query/explain", "A comparison tells what changed: ask for a window with explain=true")
    earlier, receipt = await window_of_receipt(request, context, target, query.earlier, query, place)
    if query.later is not None:
        later, _ = await window_of_receipt(request, context, target, query.later, query, "#/query/to")
    else:
        again, _ = query_of_receipt(receipt, window_parameters(query), place)
        later, _ = await context.windows.read(target, again, request.exchange.make_room)
    return await PROCESSOR.run(difference, target.id, earlier, later)


def window_parameters(query: WindowQuery) -> WindowQuery:
    """The query's parameters that are a window's, without its other ones."""
    given = {name: getattr(query, name) for name in WindowQuery.__struct_fields__}
    return WindowQuery(**{**given, "format": window_form(query.format)})


@lru_cache(maxsize=1024)
def window_beside(raw: bytes, query: WindowQuery, own: tuple[bytes, ...]) -> WindowQuery | None:
    """The parameters of the window that a write is answered with; None if its query has none beside its ``own``.

    Cached, as every turn has the same query.
    """
    return window_parameters(query) if any(each and not each.startswith(own) for each in raw.split(b"&")) else None


async def _served_again(request: Incoming, context: Context, target: Target, query: WindowQuery, text: str) -> Answer:
    """The answer with the window of a receipt."""
    made, receipt = await window_of_receipt(request, context, target, text, query, "#/query/receipt")
    return Answer(made.body, etag=receipt.then.etag)


async def window_of_receipt(
    request: Incoming, context: Context, target: Target, text: str, given: WindowQuery, pointer: str
) -> tuple[Made, Receipt]:
    """The window of the receipt at ``pointer``, and the receipt. ``given`` are the parameters beside it.

    Raises BadRequest, Unprocessable, ReceiptGone.
    """
    receipt = read_receipt(text, pointer)
    require_of(receipt, target, pointer)
    query, explain = query_of_receipt(receipt, window_parameters(given), pointer)
    room = request.exchange.make_room
    try:
        made = await context.served.again(target, receipt, query, room, explain=explain)
    except ReceiptGone as problem:
        context.watching.metrics.windows.asked_again(problem.members["reason"])
        raise
    context.watching.metrics.windows.asked_again("same")
    return made, receipt


@post("/window", operation_id="buildWindow", status_code=200)
@documented(
    "Build a window from a history in the body",
    "windows",
    query=WindowQuery,
    takes=WindowRequest,
    gives=Window,
    errors=(409, 422),
)
async def build_window(request: Incoming) -> Answer:
    """A window of a history in the body. Nothing is stored. A parameter may stand in the query, or in the body."""
    body = await request.read_body()
    asked = request.query(WindowQuery)
    context = request.context
    send, allowed = context.settings.send_members, context.settings.allow_items
    started = time.perf_counter()
    read = await run_in_turn_if_large(len(body), _read_and_built, body, asked, context.models, send, allowed)
    wanted, sent, built = read
    if built is None:
        models = await context.store.calibrations.correct(request.tenant, context.models, wanted.model)
        model = estimated(wanted.model, models)
        size = LONG_BYTES if model is not None and model.waits else len(body)
        built = await run_in_turn_if_large(size, _built, wanted, models, sent, send)
    if isinstance(built, WindowDoesNotFit):
        if not wanted.explain:
            context.watching.metrics.windows.does_not_fit(wanted.model or "")
        raise built
    made, counting_seconds = built
    metrics = context.watching.metrics
    with best_effort:
        metrics.counted(counting_seconds)
    metrics.windows.record_window(made, time.perf_counter() - started, request.line)
    return Answer(made.body)


_Built = tuple[Made, float] | WindowDoesNotFit
"""A window and the seconds spent on counting, or why there is none."""


def _read_and_built(
    body: bytes, asked: WindowQuery, models: Mapping[str, Model], send: Names, allowed: Sequence[str]
) -> tuple[WindowRequest | TextsRequest, ReadEntries | None, _Built | None]:
    """The request, its entries, and its window in the same turn; None if reports may correct its model first."""
    wanted, sent = decode_request(body, asked.format, send, allowed, asked)
    built = None if estimated(wanted.model, models) else _built(wanted, models, sent, send)
    return wanted, sent, built


def _built(
    wanted: WindowRequest | TextsRequest, models: Mapping[str, Model], sent: ReadEntries | None, send: Names
) -> _Built:
    try:
        return window_of_request(wanted, models, sent, send)
    except WindowDoesNotFit as problem:
        return problem
