"""Follow a conversation: server-sent events."""

import time
from functools import partial
from typing import Annotated

import msgspec
from litestar import get
from msgspec import Meta

from sash.api.body import header, query_of, target_of
from sash.api.context import Context, Req, context_of, exchange_of, line_of
from sash.api.events.event_bodies import ConversationEvent
from sash.api.events.event_steps import ReaderPlace
from sash.api.events.event_stream import EventStream
from sash.api.openapi.operation import EVENTS, documented
from sash.api.ring.asgi import Receive, Scope, Send
from sash.api.ring.exchange import Exchange
from sash.problems import BadRequest
from sash.store.data.layout import Target

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
    stream = EventStream(
        exchange_of(request),
        keys=request.scope["sash.keys"],  # type: ignore[typeddict-item]
        authorization=(header(request, b"authorization") or "").encode("latin-1"),
        tenant=target.tenant,
        whole=query.body,
    )
    return Followed(context, target, stream, place, line_of(request))


def _place(given: str | None, pointer: str) -> ReaderPlace | None:
    """The place that a reader names. Raises BadRequest."""
    if given is None:
        return None
    version, _, rest = given.strip('"').partition("-")
    if not (version.isascii() and version.isdigit() and len(version) <= 15):
        raise BadRequest.at(
            pointer, "Name a version, an event's id or an ETag, as an answer of this conversation gave it"
        )
    return ReaderPlace(int(version), rest[:_LIFE_LENGTH], None, rest[_LIFE_LENGTH + 1 :])


class Followed:
    """The answer: the events of a conversation, as long as the reader stays."""

    def __init__(
        self, context: Context, target: Target, stream: EventStream, place: ReaderPlace | None, line: dict[str, object]
    ) -> None:
        self._context = context
        self._target = target
        self._stream = stream
        self._place = place
        self._line = line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Follow the conversation. Raises NotFound, TooManyFollowers, StoreUnavailable before the answer begins."""
        followers, stream = self._context.followers, self._stream
        exchange: Exchange = scope["sash.exchange"]
        followers.enter(stream)
        try:
            feed = await followers.feed(self._target)
            try:
                await feed.join(stream, self._place)
                await stream.serve(receive, send, partial(exchange.goes_on, self._context.watching.metrics.running))
            finally:
                followers.release(feed, stream)
        finally:
            followers.leave(stream)
            self._line |= {"events": stream.events, "ended": stream.ended or "gone"}
            self._line["open_seconds"] = round(time.monotonic() - exchange.started, 1)
