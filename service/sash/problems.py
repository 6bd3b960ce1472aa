"""The errors that clients receive; each class is one problem type of RFC 9457.

::

    Problem
    ├── BadRequest              400  the request cannot be read
    │   ├── InvalidCursor       400
    │   └── InvalidEntry        400  an entry is not a chat message
    ├── Unauthorized            401
    ├── NotFound                404  absent, or another tenant's
    ├── MethodNotAllowed        405
    ├── RequestTimeout          408  the body took too long
    ├── Conflict                409
    │   ├── ConversationExists  409
    │   ├── EntryConflict       409  an entry id was sent again with other content
    │   ├── PartOfTheChat       409  a list begins in the middle of the chat, and does not say so
    │   └── KeyInProgress       409  a request under this Idempotency-Key is still running
    ├── ReplyGone               410  the reply in progress to continue was rewound or erased
    ├── PreconditionFailed      412  If-Match names another state
    ├── TooLarge                413
    ├── UnsupportedMediaType    415
    ├── RangeNotSatisfiable     416
    ├── MisdirectedRequest      421  Host is not a name of this service
    ├── Unprocessable           422  readable, but cannot be done
    │   ├── OrphanToolResult    422
    │   ├── UnknownModel        422
    │   ├── WindowDoesNotFit    422
    │   │   └── GroundingDoesNotFit  422  the question would fit without its documents
    │   ├── FormatCannotCarry   422
    │   ├── TooManyPinned       422
    │   ├── RecallIsOff         422
    │   └── KeyReused           422  an Idempotency-Key was sent again with another request
    ├── TooManyRequests         429
    │   └── TenantFollowers     429  the tenant has its share of a worker's followers
    ├── Internal                500
    │   └── CannotOpen          500  stored data cannot be decrypted
    ├── ConversationDamaged     500  the store lost one of a conversation's keys
    ├── DeadlineExceeded        503  the answer took too long
    ├── StoreUnavailable        503
    │   └── StorePermissionDenied  503  the store's user may not run a command
    └── StoreFull               507

A problem is raised where it is found, and ``api/middleware/errors.py`` renders it. ``detail`` is a sentence for people and
never contains message text. ``errors`` point into the request (RFC 6901 in a URI fragment). ``members`` are figures for
programs; a class declares its own as ``Figures``. A class's docstring is the page at its ``type``: the meaning,
then what to do.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Meta, UnsetType

Count = Annotated[int, Meta(ge=0)]
Near = Annotated[
    list[str], Meta(description="Models whose names look alike, nearest first.", examples=[["gpt-4o-mini"]])
]
Line = Annotated[Count, Meta(description="The line of an import, from 1.")]

_OF_ONE = frozenset({"image_bytes", "image_side", "tool_name"})
"""Limits of one picture or name, of which the largest counts."""
MOST_CALLED: Mapping[str, str] = {
    "bytes": "bytes of JSON",
    "images": "pictures",
    "image_bytes": "bytes in one picture",
    "image_side": "pixels on one picture's side",
    "pages": "pages of PDFs",
    "tools": "tools",
    "tool_name": "characters in a tool's name",
}
"""What a problem calls the things that a limit counts."""
_FRAGMENT = "#/~!$&'()*+,;=:@?"
"""Characters that a fragment may have as they are (RFC 3986), besides letters, digits and ``-._``."""


class Pointer(msgspec.Struct, frozen=True):
    """A wrong place in the request: an RFC 6901 pointer as a URI fragment, and the mistake."""

    pointer: str
    detail: str


class ProblemDocument(msgspec.Struct):
    """The members of every problem (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: Annotated[str, Meta(description="A sentence for people. It never contains message text.")]
    instance: Annotated[str, Meta(description="The path of the request.")]
    errors: Annotated[list[Pointer], Meta(description="The wrong places in the request.")] = []


class OfLine(msgspec.Struct):
    line: Line | UnsetType = UNSET


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """The root of the hierarchy. The ``type`` is the stable URI reference ``/problems/{slug}``."""

    slug: ClassVar[str] = "problem"
    title: ClassVar[str] = "Something went wrong"
    status: ClassVar[int] = 500
    retry_after_seconds: ClassVar[int | None] = None
    example: ClassVar[str] = ""
    """An example of ``detail`` for the OpenAPI document; by default the title."""
    Figures: ClassVar[Any] = None
    """A Struct of the class's own members."""

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

    @classmethod
    def at(cls, pointer: str, detail: str, members: Mapping[str, Any] | None = None) -> Self:
        """The problem of one wrong place in the request. ``detail`` is a sentence without its full stop."""
        return cls(f"{detail}.", errors=[Pointer(pointer, detail)], members=members)

    def document(self, instance: str) -> dict[str, Any]:
        """The body of ``application/problem+json``; ``instance`` is the request's path."""
        body: dict[str, Any] = {
            "type": f"/problems/{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
            **self.members,
        }
        if self.errors:
            body["errors"] = [{"pointer": quote(e.pointer, _FRAGMENT), "detail": e.detail} for e in self.errors]
        return body


class BadRequest(Problem):
    """The request is not valid: the body is not JSON in UTF-8, a field is unknown, missing or of the wrong type, or a
    parameter is out of its bounds.

    Correct the places that ``errors`` names. The same request will fail again.
    """

    slug, title, status = "bad-request", "The request cannot be read", 400
    Figures = OfLine


class InvalidCursor(BadRequest):
    """The cursor is not from this listing, the conversation was erased and created again since, or a rewind took away the
    messages that followed.

    List again without ``cursor``, and send each ``next_cursor`` unchanged.
    """

    slug, title = "invalid-cursor", "The cursor is not valid"


class InvalidEntry(BadRequest):
    """A message is not an OpenAI chat message: its role is unknown, a field is missing or of the wrong type, or a part
    has an unknown type.

    Correct the places that ``errors`` names. Nothing was stored.
    """

    slug, title = "invalid-entry", "An entry is not a chat message"
    Figures = OfLine


class Unauthorized(Problem):
    """The request has no API key, or an unknown one.

    Send ``Authorization: Bearer <key>``. ``sash keys create --tenant NAME`` makes a key.
    """

    slug, title, status = "unauthorized", "An API key is needed", 401


class NotFound(Problem):
    """There is no such path, conversation, message or model. The answer is the same for an expired conversation, and for
    one of another tenant.

    Check the id, and whether the key belongs to the tenant that created the conversation.
    """

    slug, title, status = "not-found", "There is nothing here", 404

    class Figures(msgspec.Struct):
        near: Near | UnsetType = UNSET


class MethodNotAllowed(Problem):
    """The path exists, but does not take this method.

    Use a method that the header ``Allow`` names.
    """

    slug, title, status = "method-not-allowed", "This resource has no such method", 405


class RequestTimeout(Problem):
    """The request's body did not arrive in time.

    Send the request again, over a faster connection or in smaller parts. Nothing was stored.
    """

    slug, title, status = "request-timeout", "The request took too long", 408


class Conflict(Problem):
    """The stored data changed while the request ran, or no longer allows the request.

    Read the conversation and decide again. If the answer has ``Retry-After``, the same request may be sent again.
    """

    slug, title, status = "conflict", "The request does not agree with what is stored", 409


class ConversationExists(Conflict):
    """A conversation with this id exists, so no other can be created, imported or forked with the same id.

    Choose another id, leave the id out, or append to the existing conversation.
    """

    slug, title = "conversation-exists", "A conversation with this id exists"


class EntryConflict(Conflict):
    """An entry with this id is stored with other content. The same id with the same content would be a retry.

    Give each message its own id, and do not change a stored message. A reply in progress may grow: a shorter text of it is a
    late retry, which can be left.
    """

    slug, title = "entry-conflict", "This entry id is stored with other content"


class PartOfTheChat(Conflict):
    """A list that was put begins in the middle of the chat, and does not say that it is a part. Taken for the whole chat it
    would put away all that stands before.

    Say ``list=end`` where it is the end of the chat, or ``after_seq=`` and the message behind which it begins. Where the
    person has deleted what stands before, say ``list=whole``.
    """

    slug, title = "part-of-the-chat", "The list is a part of the chat, and does not say so"


class KeyInProgress(Conflict):
    """The first request under this Idempotency-Key is still running.

    Wait for the seconds of ``Retry-After``, and send the request again to get its answer.
    """

    slug, title = "idempotency-key-in-progress", "A request under this key is still running"
    retry_after_seconds = 1


class ReplyGone(Problem):
    """An entry with ``continues`` continues a reply that is not in the conversation, or was interrupted: a rewind, an
    agreement or an erasure took it away while it was written, or it was never begun. Nothing of the request was stored.
    ``branch`` is the branch that has the reply now, if one has.

    Stop writing the reply. To store it all the same, send it without ``continues``, which appends it at the end.
    """

    slug, title, status = "reply-gone", "The reply to continue is not here any more", 410

    class Figures(msgspec.Struct):
        branch: Annotated[
            str | UnsetType, Meta(description="The branch that has the reply, if one has.", examples=["b-1"])
        ] = UNSET


ReceiptReason = Annotated[
    Literal[
        "redacted",
        "rewound",
        "replaced",
        "amended",
        "erased",
        "settings",
        "summary",
        "rules",
        "index",
        "history",
        "medium",
    ],
    Meta(title="ReceiptReason", description="Why the window of a receipt cannot be made again.", examples=["redacted"]),
]
RECEIPT_REASONS: tuple[str, ...] = ReceiptReason.__origin__.__args__  # type: ignore[attr-defined] # an Annotated Literal


class MediumGone(Problem):
    """A message has this picture or file, but the storage has lost its bytes, or has other bytes than were stored. Windows
    have one line of text in its place, told as `lost_medium`; exports and forks go on without it.

    Append the same picture again, in any message of the conversation: it is then written anew, for all messages that have
    it. The operator may restore it from a backup.
    """

    slug, title, status = "medium-gone", "The storage has lost this picture or file", 410


class ReceiptGone(Problem):
    """The window that a receipt names cannot be made again with the same bytes. ``reason`` says why: a message of its
    history was `redacted`, `rewound` away, `replaced` (a reply that was in progress) or `amended` (its pin or its
    metadata); the conversation was `erased`, and may have begun anew; its `settings` or its `summary` of that day are not
    kept any more; the storage has lost a `medium` of it, such as a picture; the `rules` of this release differ, or the
    `index` of recall; or the `history` was changed too often since to say more, or the store lost its newest messages.

    It does not come back, except with a picture that was lost. Keep the answers themselves where they must outlive such
    changes.
    """

    slug, title, status = "receipt-gone", "The window of this receipt cannot be made again", 410
    example = "Message 3 was redacted at version 9, after this window was made."

    class Figures(msgspec.Struct):
        reason: ReceiptReason
        version: Annotated[
            Count | UnsetType, Meta(description="The version that the change made, if it is known.", examples=[9])
        ] = UNSET
        seq: Annotated[Count | UnsetType, Meta(description="The message that it was about.", examples=[3])] = UNSET
        at: Annotated[
            str | UnsetType,
            Meta(description="When it was made (RFC 3339), if known.", examples=["2026-11-26T12:10:00.000+00:00"]),
        ] = UNSET


class PreconditionFailed(Problem):
    """The conversation has changed since the state that ``If-Match`` names. Nothing was done.

    Read the conversation, decide again, and send the new ETag.
    """

    slug, title, status = "precondition-failed", "If-Match does not name the present state", 412
    example = "The conversation is at version 9 now: read it again, then decide."

    class Figures(msgspec.Struct):
        version: Annotated[Count, Meta(description="The conversation's version now.", examples=[9])]
        etag: Annotated[
            str, Meta(description='The conversation\'s ETag now; `"0"` where there is none.', examples=['"9-nB3p"'])
        ]


class TooLarge(Problem):
    """The request is over a limit, which ``limit`` and ``unit`` name. Nothing was stored.

    Send less at once: append in several requests, or import a long history. The operator sets the limits.
    """

    slug, title, status = "too-large", "The request is over a limit", 413
    example = "The body is over 4194304 bytes: send less at once."

    class Figures(msgspec.Struct):
        limit: Annotated[Count, Meta(description="The limit, in units of `unit`.", examples=[4194304])]
        unit: Annotated[str, Meta(description="The unit of `limit`, such as `bytes` or `entries`.", examples=["bytes"])]
        line: Line | UnsetType = UNSET


class UnsupportedMediaType(Problem):
    """The body has a media type that the operation does not take, or is compressed.

    Send plain JSON with ``Content-Type: application/json``, or an import with ``application/x-ndjson``. Do not send
    ``Content-Encoding``.
    """

    slug, title, status = "unsupported-media-type", "The body must be plain JSON", 415


class RangeNotSatisfiable(Problem):
    """The header ``Range`` asks for bytes behind the end of the picture or file.

    Ask for a part of it, or leave the header out: ``Content-Range`` has its size.
    """

    slug, title, status = "range-not-satisfiable", "The range is behind the end", 416


class MisdirectedRequest(Problem):
    """The header ``Host`` names another machine. A service without API keys answers only on its own machine.

    Use ``localhost`` or a loopback address, or set API keys and send one.
    """

    slug, title, status = "misdirected-request", "The service does not answer to this host", 421


class Unprocessable(Problem):
    """The request can be read, but cannot be done: a message does not exist, a message that is not a user's has
    documents, the reserve leaves no room, or a window has no model.

    Correct the places that ``detail`` and ``errors`` name.
    """

    slug, title, status = "unprocessable", "The request cannot be done", 422

    class Figures(msgspec.Struct):
        reserve: Annotated[Count, Meta(description="The reserve, which leaves no tokens.")] | UnsetType = UNSET
        context_window: Annotated[Count, Meta(description="The model's context window, in tokens.")] | UnsetType = UNSET


class OrphanToolResult(Unprocessable):
    """A tool result's ``tool_call_id`` belongs to no call of this conversation.

    Append the assistant message with its ``tool_calls`` first, then the results: at once, in later requests, or after other
    messages. The newest result of a call counts. Windows send each result behind its call.
    """

    slug, title = "orphan-tool-result", "A tool result has no call"

    class Figures(OfLine):
        pass


class UnknownModel(Unprocessable):
    """No model has this name, so its context window and its way of counting are unknown.

    Correct the name: ``near`` has similar names, and ``GET /models`` lists all. For another model give ``max_tokens``; its
    tokens are then estimated.
    """

    slug, title = "unknown-model", "The model is not known"
    example = "No model is called 'gtp-4o-mini'; did you mean 'gpt-4o-mini'?"

    class Figures(msgspec.Struct):
        near: Near


class RecallIsOff(Unprocessable):
    """The conversation's messages are not indexed, so they cannot be searched.

    Set ``recall`` to ``lexical`` with ``PATCH /conversations/{id}``, or set ``SASH_RECALL``, the default of all
    conversations. Stored messages are then indexed in the background.
    """

    slug, title = "recall-is-off", "The conversation is not indexed"


class WindowDoesNotFit(Unprocessable):
    """The parts that every window must contain cost more than its budget: system and developer messages, few-shots, tools,
    pinned messages, and the newest question with its tool calls. ``costs`` has the tokens of each. Or they are over another
    limit of the model's provider, which ``limit`` names: ``budget`` is then the limit, and ``costs`` has the bytes,
    pictures, pages or tools of each part.

    Request a smaller ``reserve`` or another model, or shorten the most expensive part. Older history is not the cause:
    the window leaves it out. A stored question that is too long stays: append a shorter one in its place with ``after_seq``,
    or ask for ``overflow=skip``, as windows of later questions would end at it.
    """

    slug, title = "window-does-not-fit", "What must be in the window does not fit"
    example = "What is always in the window costs 1210 tokens and the budget is 976: 234 over."
    model = ""
    """The id of the window's model."""

    class Figures(msgspec.Struct):
        limit: Annotated[
            str,
            Meta(description="What is too large: `tokens`, or the name of a limit of the model.", examples=["tokens"]),
        ]
        budget: Annotated[Count, Meta(description="The largest number of tokens for the window.", examples=[976])]
        needed: Annotated[Count, Meta(description="The tokens of the required parts.", examples=[1210])]
        shortfall: Annotated[Count, Meta(description="`needed` minus `budget`, in tokens.", examples=[234])]
        costs: Annotated[
            dict[str, Count],
            Meta(
                title="Costs",
                description="The tokens of the required parts, by kind of part.",
                examples=[{"priming": 3, "system": 21, "question": 1186}],
            ),
        ]

    @classmethod
    def over(cls, limit: str, most: int, costs: Mapping[str, int], pointer: str = "") -> Self:
        """The problem of required parts that are over a limit other than tokens; ``pointer`` is their place, if known."""
        costs = {name: cost for name, cost in costs.items() if cost}
        needed = max(costs.values()) if limit in _OF_ONE else sum(costs.values())
        detail = (
            f"What must be in the window has {needed} {MOST_CALLED.get(limit, limit)}, and the model takes {most}: "
            f"{needed - most} over"
        )
        members = {"limit": limit, "budget": most, "needed": needed, "shortfall": needed - most, "costs": costs}
        return cls(f"{detail}.", errors=[Pointer(pointer, detail)] if pointer else (), members=members)


class GroundingDoesNotFit(WindowDoesNotFit):
    """The newest question fits, but not with its documents, and the request has ``grounding_overflow=error``.

    Ask the user to refine the question, retrieve fewer documents, or give them shorter levels. The other values of
    ``grounding_overflow`` send what fits.
    """

    slug, title = "grounding-does-not-fit", "The question's documents do not fit"
    example = "The documents cost 5210 tokens and there is room for 976: 4234 over."
    Figures = WindowDoesNotFit.Figures


class FormatCannotCarry(Unprocessable):
    """A message of the window has a part, such as audio, that does not exist in the provider's format; or a tool has a name
    in characters that the provider does not take, which ``errors`` names.

    Request another ``format``, or a window without the message that ``errors`` names; or rename the tool.
    """

    slug, title = "format-cannot-carry", "The format cannot express a message"
    example = "The anthropic format cannot carry #/messages/3/content/1."


class TooManyPinned(Unprocessable):
    """The conversation has as many pinned messages as ``limit`` allows. They are limited because every window contains
    them. System and developer messages count as pinned.

    Append without ``pinned``, or put permanent instructions into the conversation's ``system``.
    """

    slug, title = "too-many-pinned", "The conversation has too many pinned messages"
    example = "A conversation may have 1000 pinned messages."

    class Figures(msgspec.Struct):
        limit: Annotated[
            Count, Meta(description="A conversation's largest number of pinned messages.", examples=[1000])
        ]


class KeyReused(Unprocessable):
    """The Idempotency-Key was used before with another request, whose answer would be wrong for this one.

    Make a new key for each new request, and send it again only to retry the same request.
    """

    slug, title = "idempotency-key-reused", "This key was used with another request"


class TooManyRequests(Problem):
    """The tenant or its key is over its rate limit, or the tenant has its share of the followers that a worker takes.

    Wait for the seconds of ``Retry-After``, then send the request again. To follow less: one stream of an owner has the
    events of all of the owner's conversations. The operator sets the share in ``SASH_MAX_TENANT_FOLLOWERS``.
    """

    slug, title, status = "too-many-requests", "Too many requests", 429
    retry_after_seconds = 1
    example = "A tenant may send 50 requests a second: try again in 1 s."

    class Figures(msgspec.Struct):
        limit: Annotated[float, Meta(description="The tenant's limit.", examples=[50])]
        unit: Annotated[
            str, Meta(description="The unit of `limit`, such as `bytes` or `entries`.", examples=["requests a second"])
        ]


class TenantFollowers(TooManyRequests):
    """Clients receive the type ``too-many-requests``; ``limit`` is the tenant's share of a worker's followers."""

    retry_after_seconds = 5


class Internal(Problem):
    """The service has a defect. The operator finds it in the log by the answer's header ``X-Request-ID``.

    Try again after ``Retry-After``. An entry's ``id`` or an Idempotency-Key ensures that nothing is stored twice.
    """

    slug, title, status = "internal", "The service failed", 500
    retry_after_seconds = 1

    class Figures(msgspec.Struct):
        key: (
            Annotated[str, Meta(description="The id of a data key that the stored data needs and that is missing.")]
            | UnsetType
        ) = UNSET


class CannotOpen(Internal):
    """Clients receive the type ``internal``, as they can do nothing about it; ``detail`` names the cause."""


class ConversationDamaged(Problem):
    """The store has lost a part of this conversation, so the conversation cannot be read or changed.

    Tell the operator, who may restore a backup. The conversation can be erased, and its id used again.
    """

    slug, title, status = "conversation-damaged", "The store lost a part of this conversation", 500
    retry_after_seconds = 60
    example = "The store lost a part of this conversation (details)."

    class Figures(msgspec.Struct):
        part: Annotated[str, Meta(description="The store's key that is missing or too short.", examples=["details"])]


class DeadlineExceeded(Problem):
    """The service did not finish before the request's deadline. A change may or may not be stored.

    Try again after ``Retry-After``. An entry's ``id`` or an Idempotency-Key ensures that nothing is stored twice.
    """

    slug, title, status = "deadline-exceeded", "The answer took too long", 503
    retry_after_seconds = 1


class StoreUnavailable(Problem):
    """The store (Redis or Valkey) does not answer, or cannot store safely. A change may or may not be stored.

    Try again after ``Retry-After``. The operator finds the reason in ``GET /readyz`` and in the log.
    """

    slug, title, status = "store-unavailable", "The store cannot be used now", 503
    retry_after_seconds = 1


def edited_too_fast() -> StoreUnavailable:
    """The problem of a read that has tried several times, and each time found the history edited meanwhile."""
    return StoreUnavailable("The history is edited faster than it can be read; try again.")


class TooManyFollowers(Problem):
    """The worker has as many followers of conversations as it takes.

    Come back after ``Retry-After``: another worker may have room. The operator sets the limit in ``SASH_MAX_FOLLOWERS``.
    """

    slug, title, status = "too-many-followers", "There are too many followers", 503
    retry_after_seconds = 5

    class Figures(msgspec.Struct):
        limit: Annotated[int, Meta(description="Followers that a worker takes.", examples=[4000])]


class StorePermissionDenied(StoreUnavailable):
    """The service's user in the store has no permission for a command that the service needs.

    The operator must grant the permission that ``detail`` names.
    """

    slug, title = "store-permission-denied", "The store's user lacks a permission"
    retry_after_seconds = 5


class StoreFull(Problem):
    """The store has no free memory, or its disk is full; ``detail`` says which. Stored conversations can still be read and
    erased.

    Erase conversations that are no longer needed, or try again later. The operator can add memory, make room on the disk, or
    shorten retention.
    """

    slug, title, status = "store-full", "The store is full", 507
    retry_after_seconds = 30


def problem_types(root: type[Problem] = Problem) -> Iterator[type[Problem]]:
    """Every problem type in the order of declaration, parents first. A class without its own slug has its parent's type."""
    for kind in root.__subclasses__():
        if "slug" in vars(kind):
            yield kind
        yield from problem_types(kind)


def all_figures() -> dict[str, Any]:
    """The type of each member that problems have of their own, by name; a union where types of problems differ in it."""
    found: dict[str, Any] = {}
    for kind in problem_types():
        figures = vars(kind).get("Figures")
        if figures is not None:
            fields = {field.name: field.type for field in msgspec.structs.fields(figures)}
            for name, each in fields.items():
                known = found.get(name, each)
                found[name] = known if known == each else known | each
    return found
