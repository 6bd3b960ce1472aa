"""Follow a conversation: server-sent events."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import msgspec
from litestar import get
from msgspec import Meta

from sash.api.body import NoQuery, header, query_of, target_of
from sash.api.context import Context, Req, context_of, exchange_of, line_of, tenant_of
from sash.api.events.event_steps import NAMED, EventForm, ReaderPlace
from sash.api.events.event_stream import EventStream
from sash.api.events.event_texts import ConversationEvent
from sash.api.events.owner_feed import OwnerEvent, OwnerFeed, OwnerReader
from sash.api.openapi.operation import EVENTS, documented
from sash.api.owner_handlers import owner_in_path
from sash.api.ring.asgi import Receive, Scope, Send
from sash.core.law.parameters import AgentView
from sash.problems import BadRequest
from sash.store.data.layout import Target, owner_key

_PLACE = r"^\"?\d{1,15}(-[A-Za-z0-9_-]{0,64})?\"?$"
_LIFE_LENGTH = 16


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


@get("/conversations/{conversation_id:str}/events", operation_id="followConversation")
@documented(
    "Follow a conversation",
    "messages",
    query=FollowQuery,
    gives=ConversationEvent,
    gives_types=EVENTS,
    etag=False,
)
async def follow_conversation(request: Req) -> "Followed":
    """Server-sent events, one for each version, in order; none is missed, and none comes twice.

    The schema is that of an event's `data`; its `event` is the `type`, and its `id` is for `Last-Event-ID`. A reader that
    was away gets what came since, or `reset` where that is not known any more.
    """
    context, target = context_of(request), target_of(request)
    query = query_of(request, FollowQuery)
    given = header(request, b"last-event-id")
    place = _place(given, "#/header/last-event-id") if given else _place(query.after, "#/query/after")
    stream = _stream(request, EventForm(query.view, query.body))
    return Followed(context, target, stream, place, line_of(request))


@get("/owners/{owner_id:str}/events", operation_id="followOwner")
@documented("Follow an owner's conversations", "conversations", gives=OwnerEvent, gives_types=EVENTS)
async def follow_owner(request: Req) -> "FollowedOwner":
    """Server-sent events of all of an owner's conversations, for a sidebar.

    The first is `listed`, with the newest 100 and their versions; a change of another one comes with its state. A reader
    that comes back with `Last-Event-ID` gets the list only if something has changed meanwhile.
    """
    query_of(request, NoQuery)
    owner = owner_in_path(request.path_params["owner_id"])
    known = header(request, b"last-event-id") or ""
    return FollowedOwner(context_of(request), owner, _stream(request, NAMED), known, line_of(request))


def _stream(request: Req, form: EventForm) -> EventStream:
    return EventStream(
        exchange_of(request),
        keys=request.scope["sash.keys"],  # type: ignore[typeddict-item]
        authorization=(header(request, b"authorization") or "").encode("latin-1"),
        tenant=tenant_of(request),
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


class FollowedAnswer:
    """An answer of events, as long as its reader stays."""

    def __init__(self, context: Context, stream: EventStream, line: dict[str, object]) -> None:
        self._context = context
        self._followers = context.followers
        self._stream = stream
        self._line = line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises NotFound, TenantFollowers, TooManyFollowers, StoreUnavailable before the answer begins."""
        stream, exchange = self._stream, scope["sash.exchange"]
        self._followers.enter(stream)
        try:
            begun = partial(exchange.goes_on, self._context.watching.metrics.running)
            serve = partial(stream.serve, receive, send, begun)
            await (self._follow(serve) if stream.ended is None else serve())
        finally:
            self._followers.leave(stream)
            self._line |= {"events": stream.events, "ended": stream.ended or "gone"}
            self._line["open_seconds"] = round(time.monotonic() - exchange.started, 1)

    async def _follow(self, serve: Callable[[], Awaitable[None]]) -> None:
        """Have the stream get events, and serve it."""
        raise NotImplementedError


class Followed(FollowedAnswer):
    """The events of a conversation."""

    def __init__(
        self, context: Context, target: Target, stream: EventStream, place: ReaderPlace | None, line: dict[str, object]
    ) -> None:
        super().__init__(context, stream, line)
        self._target = target
        self._place = place

    async def _follow(self, serve: Callable[[], Awaitable[None]]) -> None:
        feed = await self._followers.feed(self._target)
        try:
            await feed.join(self._stream, self._place)
            await serve()
        finally:
            self._followers.release(feed, self._stream)


class FollowedOwner(FollowedAnswer):
    """The events of an owner's conversations."""

    def __init__(self, context: Context, owner: str, stream: EventStream, known: str, line: dict[str, object]) -> None:
        super().__init__(context, stream, line)
        self._owner = owner
        self._known = known

    async def _follow(self, serve: Callable[[], Awaitable[None]]) -> None:
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
        feed, reader = await self._followers.list_feed(channel, make), OwnerReader(self._stream)
        try:
            events.sent(await feed.join(reader, self._known))
            await serve()
        finally:
            feed.readers.discard(reader)
            self._followers.release_list(channel)
