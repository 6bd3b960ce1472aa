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
holds message text; ``errors`` point into the request (RFC 6901 in a URI fragment); ``members`` are figures for programs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec


class Pointer(msgspec.Struct, frozen=True):
    """One wrong place of a request: an RFC 6901 pointer as a URI fragment, and what is wrong there."""

    pointer: str
    detail: str


class Problem(Exception):  # noqa: N818 - RFC 9457's word
    """The root. ``slug`` ends the stable ``type`` URI reference ``/problems/{slug}``."""

    slug: ClassVar[str] = "problem"
    title: ClassVar[str] = "Something went wrong"
    status: ClassVar[int] = 500
    retry_after_seconds: ClassVar[int | None] = None

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
    slug, title, status = "bad-request", "The request cannot be read", 400


class InvalidCursor(BadRequest):
    slug, title = "invalid-cursor", "The cursor is not one of ours"


class InvalidEntry(BadRequest):
    slug, title = "invalid-entry", "An entry is not a chat message"


class Unauthorized(Problem):
    slug, title, status = "unauthorized", "An API key is needed", 401


class NotFound(Problem):
    slug, title, status = "not-found", "There is nothing here", 404


class MethodNotAllowed(Problem):
    slug, title, status = "method-not-allowed", "This resource has no such method", 405


class RequestTimeout(Problem):
    slug, title, status = "request-timeout", "The request took too long", 408


class Conflict(Problem):
    slug, title, status = "conflict", "The request does not agree with what is stored", 409


class ConversationExists(Conflict):
    slug, title = "conversation-exists", "A conversation with this id exists"


class EntryConflict(Conflict):
    slug, title = "entry-conflict", "This entry id is stored with other content"


class KeyInProgress(Conflict):
    slug, title = "idempotency-key-in-progress", "A request under this key is still running"
    retry_after_seconds = 1


class PreconditionFailed(Problem):
    slug, title, status = "precondition-failed", "The conversation has moved on", 412


class TooLarge(Problem):
    slug, title, status = "too-large", "The request is over a limit", 413


class UnsupportedMediaType(Problem):
    slug, title, status = "unsupported-media-type", "The body must be plain JSON", 415


class MisdirectedRequest(Problem):
    slug, title, status = "misdirected-request", "The service does not answer to this host", 421


class Unprocessable(Problem):
    slug, title, status = "unprocessable", "The request is understood but wrong", 422


class OrphanToolResult(Unprocessable):
    slug, title = "orphan-tool-result", "A tool result has no open call"


class UnknownModel(Unprocessable):
    slug, title = "unknown-model", "The model is not known"


class WindowDoesNotFit(Unprocessable):
    slug, title = "window-does-not-fit", "What must be in the window does not fit"
    model = ""
    """The id of the model that it does not fit."""


class FormatCannotCarry(Unprocessable):
    slug, title = "format-cannot-carry", "The format has no place for a message"


class TooManyPinned(Unprocessable):
    slug, title = "too-many-pinned", "The conversation has as many pinned messages as it may have"


class KeyReused(Unprocessable):
    slug, title = "idempotency-key-reused", "This key came with another request"


class TooManyRequests(Problem):
    slug, title, status = "too-many-requests", "Too many requests", 429
    retry_after_seconds = 1


class Internal(Problem):
    slug, title, status = "internal", "The service failed", 500
    retry_after_seconds = 1


class CannotOpen(Internal):
    """To a client it is ``internal``, and the detail says more: no client can do anything about it."""


class ConversationDamaged(Problem):
    slug, title, status = "conversation-damaged", "The store lost a part of this conversation", 500
    retry_after_seconds = 60


class DeadlineExceeded(Problem):
    slug, title, status = "deadline-exceeded", "The answer took too long", 503
    retry_after_seconds = 1


class StoreUnavailable(Problem):
    slug, title, status = "store-unavailable", "The store does not answer", 503
    retry_after_seconds = 1


class StorePermissionDenied(StoreUnavailable):
    slug, title = "store-permission-denied", "The store's user lacks a permission"
    retry_after_seconds = 5


class StoreFull(Problem):
    slug, title, status = "store-full", "The store is out of memory", 507
    retry_after_seconds = 30
