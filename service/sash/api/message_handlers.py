"""Read messages: page by page, or one alone."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote

import msgspec
from litestar import Response, get
from litestar.params import FromPath
from msgspec import Meta

from sash.api.cursors import Cursor, cursor_of, place_in
from sash.api.headers import etag
from sash.api.incoming import Incoming
from sash.api.message_formats import MessageFormat
from sash.api.openapi.operation import SCREEN_TYPE, documented
from sash.api.schemas import MessagePage, ScreenMessages, StoredMessage
from sash.api.screen_pages import screen_page
from sash.api.shown_messages import MediaForm, stored_message, with_media
from sash.api.window_handlers import window_of_receipt
from sash.core.chat.bounds import IDS
from sash.core.chat.messages import ReceiptText
from sash.core.law.records.parameters import AgentView, Name, WindowQuery
from sash.core.providers import CHAT
from sash.core.screens import SCREENS
from sash.problems import InvalidCursor, Unprocessable, edited_too_fast
from sash.store.data.changing import no_entry
from sash.store.data.layout import Target
from sash.store.data.replies import Page
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.stored_messages import STEP_BYTES
from sash.windows.seen_pages import seen_page

_AT_ONCE = 32
_ATTEMPTS = 8


class PageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The page of history to read."""

    order: Annotated[
        Literal["asc", "desc"], Meta(title="Order", description="Oldest first (`asc`), or newest first.")
    ] = "asc"
    limit: Annotated[int, Meta(ge=1, le=1000, description="The largest number of messages on a page.")] = 100
    cursor: Annotated[Cursor | None, Meta(description="The previous page's `next_cursor`.")] = None
    format: Annotated[
        MessageFormat,
        Meta(
            description="A provider's format, in which each message is given too, as `own`; or a screen's, in which the "
            "page has its messages alone, and `limit` counts these."
        ),
    ] = CHAT
    media: MediaForm = "described"
    view: AgentView = None
    receipt: Annotated[
        ReceiptText | None, Meta(description="Tell of each message whether the window of this receipt has it.")
    ] = None
    model: Annotated[
        Name | None, Meta(description="Tell of each message whether the window for this model, as it is now, has it.")
    ] = None


class MessageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The form of a message in the answer."""

    media: MediaForm = "described"
    view: AgentView = None


@get("/conversations/{conversation_id:str}/messages", operation_id="listMessages")
@documented(
    "Read the history", "messages", query=PageQuery, gives=MessagePage, gives_screens=ScreenMessages, errors=(410, 422)
)
async def list_messages(request: Incoming) -> Response[bytes]:
    """The history in pages. Pages of long messages are shorter than ``limit``; only the last ``next_cursor`` is null.

    With ``view`` a page has what this agent sees of so many messages, which may be none.
    """
    target, query = request.target, request.query(PageQuery)
    await request.exchange.make_room()
    in_window = await _in_window(request, target, query)
    if query.format in SCREENS:
        return await _screen(request, target, query, in_window)
    start, life = _place(query.cursor, query.order) if query.cursor is not None else (None, None)
    if query.order == "asc":
        first = start or 1
        page, seen = await history_page(request, target, query, first, first + query.limit - 1)
        last = page.messages[-1].seq if page.messages else page.length
        following = last + 1 if last < page.length else None
    else:
        span = (max(1, start - query.limit + 1), start) if start else (-query.limit, -1)
        page, seen = await history_page(request, target, query, *span)
        first = page.messages[0].seq if page.messages else 1
        following = first - 1 if first > 1 else None
    if life not in (None, page.life):
        raise _no_cursor()
    if query.order == "asc" and start and start > page.length:  # a cursor is given only where a message follows
        what = "A rewind took away the messages that followed this cursor: list again without one"
        raise InvalidCursor.at("#/query/cursor", what)
    headers = {"ETag": etag(page.etag)}
    if request.is_known(page.etag):
        return Response(b"", status_code=304, headers=headers)
    stored: list[StoredMessage] = []
    for message in seen.messages:
        if len(stored) % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)  # a page may have a thousand messages: let other requests run between them
        one = stored_message(message, page, target, query.format)
        stored.append(one if in_window is None else msgspec.structs.replace(one, in_window=message.seq in in_window))
    cursor = cursor_of(f"{query.order[0]}{following}:{page.life}") if following else None
    headers |= _next(target, query, cursor)
    body = msgspec.json.encode(MessagePage(stored if query.order == "asc" else stored[::-1], cursor))
    return Response(body, headers=headers)


async def _screen(
    request: Incoming, target: Target, query: PageQuery, in_window: Collection[int] | None
) -> Response[bytes]:
    """A page in a screen's form, which has whole turns."""
    order = query.order.upper()  # of cursors, which lead to whole turns
    start, life = _place(query.cursor, order) if query.cursor is not None else (None, None)
    found = await screen_page(
        request,
        target,
        query.format,
        partial(history_page, request, target, query),
        order=query.order,
        start=start,
        limit=query.limit,
        in_window=in_window,
    )
    page = found.state
    if life not in (None, page.life):
        raise _no_cursor()
    if query.order == "asc" and start and start > page.length:
        what = "A rewind took away the messages that followed this cursor: list again without one"
        raise InvalidCursor.at("#/query/cursor", what)
    headers = {"ETag": etag(page.etag)}
    if request.is_known(page.etag):
        return Response(b"", status_code=304, headers=headers)
    cursor = cursor_of(f"{order[0]}{found.following}:{page.life}") if found.following else None
    headers |= _next(target, query, cursor)
    messages = found.messages if query.order == "asc" else found.messages[::-1]
    body = msgspec.json.encode(ScreenMessages(messages, cursor, found.ways))
    return Response(body, headers=headers, media_type=SCREEN_TYPE)


def _next(target: Target, query: PageQuery, cursor: str | None) -> dict[str, str]:
    """The header that leads to the next page, if there is one."""
    if cursor is None:
        return {}
    path = f"/conversations/{target.id}/messages?order={query.order}&limit={query.limit}&cursor={cursor}"
    path += "" if query.format == CHAT else f"&format={query.format}"
    path += "" if query.media == "described" else f"&media={query.media}"
    for name, value in (("view", query.view), ("receipt", query.receipt), ("model", query.model)):
        path += "" if value is None else f"&{name}={quote(value, safe='')}"
    return {"Link": f'<{path}>; rel="next"'}


async def _in_window(request: Incoming, target: Target, query: PageQuery) -> Collection[int] | None:
    """The seqs of the messages in the window that the query names; None if it names none."""
    if query.receipt is None and query.model is None:
        return None
    if query.receipt is not None and query.model is not None:
        raise Unprocessable.at("#/query/model", "Give receipt or model: a receipt has the parameters of its window")
    context = request.context
    wanted = WindowQuery(model=query.model, view=query.view)
    if query.receipt is not None:
        made, _ = await window_of_receipt(request, context, target, query.receipt, WindowQuery(), "#/query/receipt")
    else:
        made, _ = await context.windows.read(target, wanted, request.exchange.make_room)
    return frozenset(made.window.seqs)


@get("/conversations/{conversation_id:str}/messages/{seq:str}", operation_id="getMessage")
@documented("Read a message", "messages", query=MessageQuery, gives=StoredMessage)
async def get_message(request: Incoming, seq: FromPath[str]) -> Response[bytes]:
    """One entry. With ``view`` it is 404 where this agent does not see it."""
    target, name = request.target, named_entry(seq)
    # Whether the request asks if the entry with the client's own id is stored.
    request.scope["sash.asks_whether"] = isinstance(name, str)  # type: ignore[typeddict-unknown-key]
    query = request.query(MessageQuery)
    read = partial(request.context.store.reader.entry, target, name)
    _, page = await _read(request, target, read, query.view, media=query.media)
    if not page.messages:
        raise no_entry()
    headers = {"ETag": etag(page.etag)}
    if request.is_known(page.etag):
        return Response(b"", status_code=304, headers=headers)
    return Response(msgspec.json.encode(stored_message(page.messages[0], page, target)), headers=headers)


async def history_page(request: Incoming, target: Target, query: PageQuery, first: int, last: int) -> tuple[Page, Page]:
    """A page of messages, and what the view sees of it. With pictures and files in their places it may be shorter."""
    newest_first = query.order == "desc"
    read = partial(request.context.store.reader.page, target, first, last, newest_first=newest_first)
    return await _read(request, target, read, query.view, media=query.media, newest_first=newest_first)


async def _read(
    request: Incoming,
    target: Target,
    read: Callable[[], Awaitable[Page]],
    view: str | None,
    *,
    media: MediaForm,
    newest_first: bool = False,
) -> tuple[Page, Page]:
    """Read a page. Returns the whole page, and the page with what the view sees."""
    for _ in range(_ATTEMPTS):
        page = await _shown(request, target, read, media=media, newest_first=newest_first)
        with suppress(HistoryEdited):
            return page, await seen_page(request.context.store.reader, target, page, view)
    raise edited_too_fast()


async def _shown(
    request: Incoming,
    target: Target,
    read: Callable[[], Awaitable[Page]],
    *,
    media: MediaForm,
    newest_first: bool = False,
) -> Page:
    for _ in range(_ATTEMPTS):
        page = await read()
        if media == "described":
            return page
        with suppress(HistoryEdited):
            return await with_media(request, target, page, STEP_BYTES, newest_first=newest_first)
    raise edited_too_fast()


def named_entry(value: str) -> int | str:
    """The entry that a path names: its seq, or ``id:`` and its own id. Raises NotFound if it is neither."""
    if value.startswith("id:") and IDS.fullmatch(value, 3):
        return value
    if not value.isascii() or not value.isdigit() or not 0 < len(value) <= 15 or int(value) == 0:
        raise no_entry()
    return int(value)


def _place(cursor: str, order: str) -> tuple[int, str]:
    """The seq at which the page begins, and the conversation's life when the cursor was made. Raises InvalidCursor."""
    text = place_in(cursor)
    seq, _, life = text[1:].partition(":")
    if text[:1] != order[0] or not seq.isdigit() or len(seq) > 15:
        raise _no_cursor()
    return int(seq), life


def _no_cursor() -> InvalidCursor:
    return InvalidCursor.at(
        "#/query/cursor", "The cursor is not from this listing of this conversation: begin without one"
    )
