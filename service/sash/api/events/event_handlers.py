"""Follow a conversation: server-sent events."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Literal, Protocol

import msgspec
from litestar import get
from msgspec import Meta

from sash.api.context import Context
from sash.api.events.ag_ui_reader import AgUiReader
from sash.api.events.conversation_reader import ConversationReader
from sash.api.events.event_steps import NAMED, EventForm, ReaderPlace
from sash.api.events.event_stream import EventStream
from sash.api.events.event_texts import ConversationEvent
from sash.api.events.feed import AGAIN_SECONDS, LOOK_SECONDS, Feed, ended_by
from sash.api.events.owner_feed import OwnerFeed
from sash.api.events.owner_reader import OwnerEvent, OwnerReader
from sash.api.headers import header
from sash.api.incoming import Incoming
from sash.api.message_handlers import PageQuery, history_page
from sash.api.middleware.asgi import Receive, Scope, Send
from sash.api.middleware.large import Making
from sash.api.openapi.operation import EVENTS, documented
from sash.api.owner_handlers import owner_in_path
from sash.api.queries import NoQuery
from sash.api.screen_pages import ScreenPage, screen_page
from sash.core.law.records.parameters import AgentView
from sash.core.screens.ag_ui_messages import AG_UI
from sash.problems import BadRequest
from sash.store.data.layout import Target, owner_key

_PLACE = r"^\"?\d{1,15}(-[A-Za-z0-9_-]{0,64})?\"?$"
_LIFE_LENGTH = 16
_PULLED_BYTES = 128 * 1024
"""Estimated memory of making what one reader pulls at once."""


class FollowQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What to follow, and from where on."""

    after: Annotated[
        Annotated[str, Meta(extra_json_schema={"pattern": _PLACE})] | None,
        Meta(
            description="The version that the reader has: a number, an event's id, or an ETag. The events after it come "
            "first. Without it the first event is `reset`, with the state. The header `Last-Event-ID` takes its place.",
            examples=["8"],
        ),
    ] = None
    body: Annotated[bool, Meta(description="Give each message whole, as `entry`.")] = False
    view: AgentView = None
    format: Annotated[
        Literal["ag-ui"] | None,
        Meta(
            title="EventFormat",
            description="Events of AG-UI: a snapshot of the messages, unless the reader has the state now, and then what "
            "is new in each version; its end is a `CUSTOM` event `sash.version`, with the id.",
        ),
    ] = None


@get("/conversations/{conversation_id:str}/events", operation_id="followConversation")
@documented(
    "Follow a conversation",
    "messages",
    query=FollowQuery,
    gives=ConversationEvent,
    gives_types=EVENTS,
    etag=False,
)
async def follow_conversation(request: Incoming) -> "Followed":
    """Server-sent events, one for each version, in order; none is missed, and none comes twice.

    The schema is that of an event's `data`; its `event` is the `type`, and its `id` is for `Last-Event-ID`. A reader that
    was away gets what came since, or `reset` where that is not known any more.
    """
    context, target = request.context, request.target
    query = request.query(FollowQuery)
    given = header(request.exchange.headers, b"last-event-id")
    place = _place(given, "#/header/last-event-id") if given else _place(query.after, "#/query/after")
    if query.format is None:
        stream = _stream(request, EventForm(query.view, query.body))
        make: Callable[[Feed], ConversationReader | AgUiReader] = partial(
            ConversationReader, stream=stream, place=place
        )
    else:
        stream = _stream(request, NAMED)
        read = partial(_newest, request, target, PageQuery(order="desc", view=query.view))
        make = partial(AgUiReader, stream=stream, place=place, thread=target.id, read=read)
    return Followed(context, target, stream, make, request.line)


async def _newest(request: Incoming, target: Target, query: PageQuery, limit: int) -> ScreenPage:
    """So many of the newest of AG-UI's messages and turns."""
    read = partial(history_page, request, target, query)
    return await screen_page(
        request, target, AG_UI.name, read, order=query.order, start=None, limit=limit, in_window=None
    )


@get("/owners/{owner_id:str}/events", operation_id="followOwner")
@documented("Follow an owner's conversations", "conversations", gives=OwnerEvent, gives_types=EVENTS)
async def follow_owner(request: Incoming) -> "FollowedOwner":
    """Server-sent events of all of an owner's conversations, for a sidebar.

    The first is `listed`, with the newest 100 and their versions; a change of another one comes with its state. A reader
    that comes back with `Last-Event-ID` gets the list only if something has changed meanwhile.
    """
    request.query(NoQuery)
    owner = owner_in_path(request.path_params["owner_id"])
    known = header(request.exchange.headers, b"last-event-id") or ""
    return FollowedOwner(request.context, owner, _stream(request, NAMED), known, request.line)


def _stream(request: Incoming, form: EventForm) -> EventStream:
    return EventStream(
        request.exchange,
        keys=request.exchange.shared.keys,
        authorization=(header(request.exchange.headers, b"authorization") or "").encode("latin-1"),
        tenant=request.tenant,
        form=form,
    )


def _place(given: str | None, pointer: str) -> ReaderPlace | None:
    """The place that a reader names. Raises BadRequest."""
    if given is None:
        return None
    version, _, rest = given.strip('"').partition("-")
    if not (version.isascii() and version.isdigit() and len(version) <= 15):
        what = "Name a version, an event's id or an ETag, as an answer of this conversation gave it"
        raise BadRequest.at(pointer, f"{what}, or leave the parameter out")
    return ReaderPlace(int(version), rest[:_LIFE_LENGTH], None, rest[_LIFE_LENGTH + 1 :])


class Serve(Protocol):
    """Serves a stream, with what its reader pulls."""

    async def __call__(self, *, pull: Callable[[], Awaitable[None]]) -> None:
        """Serve it until it ends."""


class PullingReader(Protocol):
    """A reader that pulls what it lacks."""

    async def pull(self) -> None:
        """Put what comes next into the reader's stream."""


class FollowedAnswer:
    """An answer of events, as long as its reader stays."""

    def __init__(self, context: Context, stream: EventStream, line: dict[str, object]) -> None:
        self._context = context
        self._followers = context.followers
        self._stream = stream
        self._line = line
        self._making: Making

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises NotFound, TenantFollowers, TooManyFollowers, StoreUnavailable before the answer begins."""
        stream, exchange = self._stream, scope["sash.exchange"]
        self._making = exchange.shared.making
        self._followers.enter(stream)
        try:
            begun = partial(exchange.goes_on, self._context.watching.metrics.running)
            serve = partial(stream.serve, receive, send, begun=begun)
            await (self._follow(serve) if stream.ended is None else serve(pull=_nothing))
        finally:
            self._followers.leave(stream)
            self._line |= {"events": stream.events, "ended": stream.ended or "gone"}
            self._line["open_seconds"] = round(time.monotonic() - exchange.started, 1)

    async def _follow(self, serve: Serve) -> None:
        """Have a reader follow, and serve its stream."""
        raise NotImplementedError

    async def _serve(self, reader: PullingReader, serve: Serve) -> None:
        """Serve a reader's stream. The first events are pulled before the answer begins, so that it may be a refusal."""
        await self._pull(reader)
        await serve(pull=partial(self._pull_on, reader))

    async def _pull(self, reader: PullingReader) -> None:
        """Pull what comes next, when there is memory to make it."""
        charge = await self._making.take(_PULLED_BYTES)
        try:
            await reader.pull()
        finally:
            self._making.give(charge, None)

    async def _pull_on(self, reader: PullingReader) -> None:
        """Pull what comes next for an answer that has begun."""
        try:
            await self._pull(reader)
        except Exception as error:  # noqa: BLE001 - its reader comes back
            if (why := ended_by(error)) is not None:
                self._stream.end(why)
            else:
                await asyncio.sleep(AGAIN_SECONDS)
        if self._stream.is_behind and self._stream.is_idle:
            await asyncio.sleep(LOOK_SECONDS)  # until the feed is where the reader is


async def _nothing() -> None:
    """Nothing is pulled for a stream that has ended."""


class Followed(FollowedAnswer):
    """The events of a conversation."""

    def __init__(
        self,
        context: Context,
        target: Target,
        stream: EventStream,
        make: Callable[[Feed], ConversationReader | AgUiReader],
        line: dict[str, object],
    ) -> None:
        super().__init__(context, stream, line)
        self._target = target
        self._make = make

    async def _follow(self, serve: Serve) -> None:
        feed = await self._followers.feed(self._target)
        reader = self._make(feed)
        try:
            await self._serve(reader, serve)
        finally:
            self._followers.release(feed, reader)


class FollowedOwner(FollowedAnswer):
    """The events of an owner's conversations."""

    def __init__(self, context: Context, owner: str, stream: EventStream, known: str, line: dict[str, object]) -> None:
        super().__init__(context, stream, line)
        self._owner = owner
        self._known = known

    async def _follow(self, serve: Serve) -> None:
        store, events = self._context.store, self._context.watching.metrics.events
        make = partial(
            OwnerFeed,
            self._stream.tenant,
            self._owner,
            self._followers,
            store.owners,
            state_of=store.reader.get,
            sent=events.sent,
        )
        channel = owner_key(self._stream.tenant, self._owner)
        feed = await self._followers.list_feed(channel, make)
        reader = OwnerReader(self._stream, self._known, look=feed.look, sent=events.sent)
        feed.readers.add(reader)
        try:
            await self._serve(reader, serve)
        finally:
            feed.readers.discard(reader)
            self._followers.release_list(channel)
