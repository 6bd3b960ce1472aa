"""Everything that can go wrong for a caller; each class is one problem type of RFC 9457.

::

    Problem
    ├── BadRequest              400  the request cannot be read
    │   ├── InvalidCursor       400
    │   └── InvalidEntry        400  an entry is not a chat message
    ├── Unauthorized            401
    ├── NotFound                404  absent and foreign look the same
    ├── MethodNotAllowed        405
    ├── RequestTimeout          408  the body took too long
    ├── Conflict                409
    │   ├── ConversationExists  409
    │   ├── EntryConflict       409  an entry id came back with other content
    │   └── KeyInProgress       409  a request under this Idempotency-Key is still running
    ├── PreconditionFailed      412  If-Match names another version
    ├── TooLarge                413
    ├── UnsupportedMediaType    415
    ├── MisdirectedRequest      421  Host is not a name of this service
    ├── Unprocessable           422  readable, but wrong
    │   ├── OrphanToolResult    422
    │   ├── UnknownModel        422
    │   ├── WindowDoesNotFit    422
    │   ├── FormatCannotCarry   422
    │   ├── TooManyPinned       422
    │   ├── RecallIsOff         422
    │   └── KeyReused           422  an Idempotency-Key came back with another body
    ├── TooManyRequests         429
    ├── Internal                500
    │   └── CannotOpen          500  what is stored is encrypted, and does not open
    ├── ConversationDamaged     500  the store lost one of a conversation's keys
    ├── DeadlineExceeded        503  the answer took too long
    ├── StoreUnavailable        503
    │   └── StorePermissionDenied  503  the store's user may not run a command
    └── StoreFull               507

A problem is raised where it is found and rendered once, on its way out. ``detail`` is a sentence for people and never
holds message text; ``errors`` point into the request (RFC 6901 in a URI fragment); ``members`` are figures for programs,
which a class declares as ``Figures``. A class's docstring is the page behind its ``type``: what it means, then what to do.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

Count = Annotated[int, Meta(ge=0)]
Near = Annotated[
    list[str], Meta(description="Models whose names look alike, nearest first.", examples=[["gpt-4o-mini"]])
]
Line = Annotated[Count, Meta(description="The line of an import, from 1.")]


class Pointer(msgspec.Struct, frozen=True):
    """One wrong place of a request: an RFC 6901 pointer as a URI fragment, and what is wrong there."""

    pointer: str
    detail: str


class ProblemDocument(msgspec.Struct):
    """What every problem says (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="A sentence for people, without anybody's messages.")]
    instance: Annotated[str, Meta(description="The path of the request.")]
    errors: Annotated[list[Pointer], Meta(description="The places that are wrong.")] = []


class OfLine(msgspec.Struct):
    line: Line | UnsetType = UNSET


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """The root. ``slug`` ends the stable ``type`` URI reference ``/problems/{slug}``."""

    slug: ClassVar[str] = "problem"
    title: ClassVar[str] = "Something went wrong"
    status: ClassVar[int] = 500
    retry_after_seconds: ClassVar[int | None] = None
    example: ClassVar[str] = ""
    """A ``detail``, for the OpenAPI document."""
    Figures: ClassVar[Any] = None
    """The members that are the class's own."""

    def __init__(
        self,
        detail: str,
        *,
        errors: Sequence[Pointer] = (),
        members: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = tuple(errors)
        self.members = dict(members or {})
        self.headers = dict(headers or {})

    def document(self, instance: str) -> dict[str, Any]:
        """The problem as the object that ``application/problem+json`` carries."""
        body: dict[str, Any] = {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            **self.members,
        }
        if self.errors:
            body["errors"] = [{"pointer": e.pointer, "detail": e.detail} for e in self.errors]
        return body


class BadRequest(Problem):
    """The request is not in the form that the operation takes: not JSON in UTF-8, a field that is unknown, missing or of
    the wrong type, a parameter out of its bounds.

    Correct the places that ``errors`` points to. Sending the same request again gets the same answer.
    """

    slug, title, status = "bad-request", "The request cannot be read", 400
    Figures = OfLine


class InvalidCursor(BadRequest):
    """The cursor was not given by this listing, or the conversation has ended and begun anew since.

    List again without ``cursor``, and send each ``next_cursor`` back as it came.
    """

    slug, title = "invalid-cursor", "The cursor is not one of ours"


class InvalidEntry(BadRequest):
    """A message is not an OpenAI chat message: its role is unknown, a field is missing or of the wrong type, or a part
    is of an unknown kind.

    Correct the places that ``errors`` points to. Nothing of the request was stored.
    """

    slug, title = "invalid-entry", "An entry is not a chat message"
    Figures = OfLine


class Unauthorized(Problem):
    """The request has no API key, or one that is not known here.

    Send ``Authorization: Bearer <key>``. ``sash keys create --tenant NAME`` makes a key.
    """

    slug, title, status = "unauthorized", "An API key is needed", 401


class NotFound(Problem):
    """There is no such path, conversation, message or model. A conversation of another tenant looks as if it were
    absent, and so does one that has expired.

    Check the id, and whether the key is of the tenant that made the conversation.
    """

    slug, title, status = "not-found", "There is nothing here", 404

    class Figures(msgspec.Struct):
        near: Near | UnsetType = UNSET


class MethodNotAllowed(Problem):
    """The path exists and does not take this method.

    Use one that the header ``Allow`` names.
    """

    slug, title, status = "method-not-allowed", "This resource has no such method", 405


class RequestTimeout(Problem):
    """The body did not arrive in time.

    Send it again, over a better connection or in smaller requests. Nothing of it was stored.
    """

    slug, title, status = "request-timeout", "The request took too long", 408


class Conflict(Problem):
    """What is stored changed while the request was at work, or no longer allows it.

    Read the conversation again and decide anew; with ``Retry-After``, the same request may be sent again.
    """

    slug, title, status = "conflict", "The request does not agree with what is stored", 409


class ConversationExists(Conflict):
    """A conversation with this id exists, so none can be created, imported or forked under it.

    Choose another id, leave the id out, or append to the conversation that exists.
    """

    slug, title = "conversation-exists", "A conversation with this id exists"


class EntryConflict(Conflict):
    """An entry with this id is stored with other content. The same id with the same content would have been a retry.

    Give each message an id of its own, and do not change a message that is stored.
    """

    slug, title = "entry-conflict", "This entry id is stored with other content"


class KeyInProgress(Conflict):
    """The first request under this Idempotency-Key is still running.

    Wait as long as ``Retry-After`` says, and send the request again to get its answer.
    """

    slug, title = "idempotency-key-in-progress", "A request under this key is still running"
    retry_after_seconds = 1


class PreconditionFailed(Problem):
    """The conversation is no longer in the state that ``If-Match`` names: somebody else changed it. Nothing was done.

    Read it again, decide anew, and send the new ETag.
    """

    slug, title, status = "precondition-failed", "The conversation has moved on", 412
    example = "The conversation is at version 9 now: read it again and decide anew."

    class Figures(msgspec.Struct):
        version: Annotated[Count, Meta(description="The conversation's version now.", examples=[9])]


class TooLarge(Problem):
    """The request is over the limit that ``limit`` and ``unit`` name. Nothing of it was stored.

    Send less at once: append in several requests, or import a long history. The operator sets the limits.
    """

    slug, title, status = "too-large", "The request is over a limit", 413
    example = "A body may have 4194304 bytes."

    class Figures(msgspec.Struct):
        limit: Annotated[Count, Meta(description="What is allowed.", examples=[4194304])]
        unit: Annotated[str, Meta(description="What `limit` counts, such as `bytes` or `entries`.", examples=["bytes"])]
        line: Line | UnsetType = UNSET


class UnsupportedMediaType(Problem):
    """The body is not of a media type that the operation takes, or it is compressed.

    Send plain JSON with ``Content-Type: application/json``, an import with ``application/x-ndjson``, and no
    ``Content-Encoding``.
    """

    slug, title, status = "unsupported-media-type", "The body must be plain JSON", 415


class MisdirectedRequest(Problem):
    """A service without API keys answers on its own machine alone, and the header ``Host`` names another one.

    Ask it at ``localhost`` or a loopback address, or set API keys and use them.
    """

    slug, title, status = "misdirected-request", "The service does not answer to this host", 421


class Unprocessable(Problem):
    """The request can be read, and asks for what cannot be: a message that is not there, documents on a message that is
    not a user's, a reserve that leaves no room, a window without a model.

    Correct what ``detail`` and ``errors`` name.
    """

    slug, title, status = "unprocessable", "The request asks for what cannot be", 422

    class Figures(msgspec.Struct):
        reserve: Annotated[Count, Meta(description="The reserve that leaves nothing, in tokens.")] | UnsetType = UNSET
        context_window: Annotated[Count, Meta(description="The model's context window, in tokens.")] | UnsetType = UNSET


class OrphanToolResult(Unprocessable):
    """A tool result has a ``tool_call_id`` for which no call is open: never made, answered already, or overtaken by
    another message. Providers refuse such a history.

    Append the assistant message with its ``tool_calls`` first, then one result for each call right behind it. Results may
    come in requests of their own. Calls of one reply come together: a second message with calls overtakes the first. To
    store a reply item by item, send its entry again under its ``id``, with ``"status": "in_progress"`` until it is whole.
    """

    slug, title = "orphan-tool-result", "A tool result has no open call"

    class Figures(OfLine):
        pass


class UnknownModel(Unprocessable):
    """No model has this name, so its context window and its way of counting are unknown.

    Correct the name: ``near`` lists similar ones, and ``GET /models`` all. For a model that is not listed give
    ``max_tokens``, and its tokens are estimated.
    """

    slug, title = "unknown-model", "The model is not known"
    example = "No model is called 'gtp-4o-mini'; did you mean 'gpt-4o-mini'?"

    class Figures(msgspec.Struct):
        near: Near


class RecallIsOff(Unprocessable):
    """The conversation's messages are not indexed, so they cannot be searched.

    Set ``recall`` to ``lexical`` by ``PATCH /conversations/{id}``, or ``SASH_RECALL`` for all conversations that do not say.
    What is there is indexed in the background.
    """

    slug, title = "recall-is-off", "The conversation is not indexed"


class WindowDoesNotFit(Unprocessable):
    """The parts that every window must have cost more than its budget: system and developer messages, few-shots, tools,
    pinned messages, and the newest question with its tool calls. ``costs`` says what each takes.

    Ask for a smaller ``reserve`` or another model, or shorten what costs most. Older history is not the cause: it is
    left out by itself.
    """

    slug, title = "window-does-not-fit", "What must be in the window does not fit"
    example = "What is always in the window costs 1210 tokens and the budget is 976: 234 over."
    model = ""
    """The id of the model that it does not fit."""

    class Figures(msgspec.Struct):
        budget: Annotated[Count, Meta(description="The tokens that the window may have.", examples=[976])]
        needed: Annotated[Count, Meta(description="The tokens that it cannot do without.", examples=[1210])]
        shortfall: Annotated[Count, Meta(description="The tokens by which it is over.", examples=[234])]
        costs: Annotated[
            dict[str, Count],
            Meta(
                title="Costs",
                description="The tokens of what must be in the window, by what it is.",
                examples=[{"priming": 3, "system": 21, "question": 1186}],
            ),
        ]


class FormatCannotCarry(Unprocessable):
    """A message of the window has a part, such as audio, for which the provider's format has no place.

    Ask for another ``format``, or for a window without the message that ``errors`` points to.
    """

    slug, title = "format-cannot-carry", "The format has no place for a message"
    example = "The anthropic format cannot carry #/messages/3/content/1."


class TooManyPinned(Unprocessable):
    """Pinned messages are in every window, so a conversation may have only so many; its system and developer messages
    count as pinned.

    Append without ``pinned``, or put what must always be there into the conversation's ``system``.
    """

    slug, title = "too-many-pinned", "The conversation has as many pinned messages as it may have"
    example = "A conversation may have 1000 pinned messages."

    class Figures(msgspec.Struct):
        limit: Annotated[Count, Meta(description="How many a conversation may have.", examples=[1000])]


class KeyReused(Unprocessable):
    """The Idempotency-Key came before with another request, so an answer to that one would be wrong for this one.

    Make a new key for each new request, and keep it for retries of the same request alone.
    """

    slug, title = "idempotency-key-reused", "This key came with another request"


class TooManyRequests(Problem):
    """The tenant, or its key, sent more requests than it may.

    Wait as long as ``Retry-After`` says, then send the request again.
    """

    slug, title, status = "too-many-requests", "Too many requests", 429
    retry_after_seconds = 1
    example = "A tenant may send 50 requests a second: try again in 1 s."

    class Figures(msgspec.Struct):
        limit: Annotated[float, Meta(description="What a tenant may send.", examples=[50])]
        unit: Annotated[str, Meta(description="What `limit` counts.", examples=["requests a second"])]


class Internal(Problem):
    """The service met a defect of its own. The operator finds it in the log by the header ``X-Request-ID``.

    Try again after ``Retry-After``; an entry's ``id`` or an Idempotency-Key makes sure that nothing is stored twice.
    """

    slug, title, status = "internal", "The service failed", 500
    retry_after_seconds = 1

    class Figures(msgspec.Struct):
        key: (
            Annotated[str, Meta(description="The id of the data key that what is stored needs, and lacks.")] | UnsetType
        ) = UNSET


class CannotOpen(Internal):
    """To a client it is ``internal``, and the detail says more: no client can do anything about it."""


class ConversationDamaged(Problem):
    """The store has lost a part of this conversation, so it cannot be read or changed.

    Tell the operator, who may restore a backup. The conversation can be erased, and its id used again.
    """

    slug, title, status = "conversation-damaged", "The store lost a part of this conversation", 500
    retry_after_seconds = 60
    example = "The store lost a part of this conversation (details)."

    class Figures(msgspec.Struct):
        part: Annotated[str, Meta(description="The key that is missing or too short.", examples=["details"])]


class DeadlineExceeded(Problem):
    """The service did not finish in the time that a request may take. A change may or may not have been stored.

    Try again after ``Retry-After``; an entry's ``id`` or an Idempotency-Key makes sure that nothing is stored twice.
    """

    slug, title, status = "deadline-exceeded", "The answer took too long", 503
    retry_after_seconds = 1


class StoreUnavailable(Problem):
    """The store (Redis or Valkey) does not answer, or is not fit to keep what it is given. A change may or may not have
    been stored.

    Try again after ``Retry-After``. The operator finds the reason in ``GET /readyz`` and in the log.
    """

    slug, title, status = "store-unavailable", "The store does not answer", 503
    retry_after_seconds = 1


class StorePermissionDenied(StoreUnavailable):
    """The user that the service has at the store may not run a command that the service needs.

    The operator grants the permission that ``detail`` names.
    """

    slug, title = "store-permission-denied", "The store's user lacks a permission"
    retry_after_seconds = 5


class StoreFull(Problem):
    """The store has no memory left for more. What is stored can be read and erased.

    Erase conversations that are no longer needed, or try again later. The operator adds memory or shortens retention.
    """

    slug, title, status = "store-full", "The store is out of memory", 507
    retry_after_seconds = 30


def problem_types(root: type[Problem] = Problem) -> Iterator[type[Problem]]:
    """Every problem type, in the order in which they are declared, parents first.

    A class without a slug of its own is of its parent's type.
    """
    for kind in root.__subclasses__():
        if "slug" in vars(kind):
            yield kind
        yield from problem_types(kind)
