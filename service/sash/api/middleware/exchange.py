"""One request and its answer, as the middleware keeps them while the request runs, and the answer of every turn."""

import asyncio
import math
import time
from typing import Any, NamedTuple

import msgspec

from sash.api.middleware.asgi import Headers, Message, Receive, Scope, Send
from sash.api.middleware.callers import Callers
from sash.api.middleware.connections import reset_when_closed
from sash.api.middleware.drain import Drain
from sash.api.middleware.errors import PROBLEM_TYPE, note, render
from sash.api.middleware.large import WHOLE_BYTES, Making, Sending
from sash.api.middleware.request_body import RequestBody
from sash.operations.requests import READS
from sash.operations.tracing import Span
from sash.problems import DeadlineExceeded, Problem, RequestTimeout
from sash.store.data.claims import Claim

_NO_STORE = (b"cache-control", b"no-store")
_ASK_AGAIN = (b"cache-control", b"private, no-cache")
_CLOSE = (b"connection", b"close")
_JSON = (b"content-type", b"application/json")


class Answer(NamedTuple):
    """An ASGI application that answers with ``body`` as JSON, and an ETag if it has one. A 304 is sent without a body.

    The framework's response checks headers, cookies and media types for each answer.
    """

    body: bytes
    etag: str = ""
    status: int = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        body, etag, status = self
        headers: Headers = [(b"etag", f'"{etag}"'.encode())] if etag else []
        if status != 304:
            headers += (_JSON, (b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Shared(msgspec.Struct, frozen=True):
    """What all exchanges of a process share: keys, the deadline, draining, and the budgets of large answers."""

    keys: Callers
    timeout_seconds: float
    drain: Drain
    making: Making
    sending: Sending


class Exchange(msgspec.Struct, eq=False):
    """One request and its answer. ``send`` records status and size, and adds the headers of every answer."""

    shared: Shared
    pass_on: Send
    task: asyncio.Task[Any]
    method: str
    http_version: str
    started: float
    deadline: float
    """In seconds of ``time.monotonic``, like ``started``."""
    line: dict[str, Any]
    headers: dict[bytes, bytes]
    """The request's headers; the first of a repeated name."""
    more: Headers
    """Headers of every answer, and those that this request adds."""
    claim: Claim | None = None
    """The claim of its Idempotency-Key, once it is taken."""
    shown: bytes = b""
    """A digest of the message that the answer shows, of an operation that a key binds to it."""
    body: RequestBody | None = None
    span: Span | None = None
    charge: int = 0
    """Bytes charged to the budget of answers being made (``large.Making``)."""
    is_page: bool = True
    """Whether the charge is that of a page, whose size was not known."""
    was_cut: bool = False
    cut_because: str = ""
    """Why it was cut, if not at the deadline."""
    begun_seconds: float = 0.0
    """Seconds until the answer began, of one that goes on for as long as its reader stays; else 0."""
    status: int = 0
    size_bytes: int = 0

    async def send(self, message: Message) -> None:
        """ASGI's ``send``: pass the message on, with the headers of every answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            names = dict(headers)
            if b"allow" in names:
                headers = [(name, _with_head(value) if name == b"allow" else value) for name, value in headers]
            if b"cache-control" not in names:
                headers.append(_ASK_AGAIN if b"etag" in names and self.method in READS else _NO_STORE)
            headers += self.more
            if self.shared.drain.began and self.http_version.startswith("1"):
                headers.append(_CLOSE)  # in HTTP/2 the server itself ends connections (GOAWAY)
            message["headers"] = headers
        else:
            body = message.get("body", b"")
            size = len(body)
            if size > WHOLE_BYTES and self.method != "HEAD":
                await self.shared.sending.send(self, body, more=message.get("more_body", False))
                return
            if self.charge and size:
                self.made(size)
            self.size_bytes += size
            if self.method == "HEAD":
                message = {**message, "body": b""}
        await self.pass_on(message)

    async def send_piece(self, body: bytes, *, more: bool) -> None:
        """Pass on a piece of a large body."""
        self.size_bytes += len(body)
        await self.pass_on({"type": "http.response.body", "body": body, "more_body": more})

    async def empty(self, headers: Headers) -> None:
        """Answer 204."""
        await self.send({"type": "http.response.start", "status": 204, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def fail(self, problem: Problem, scope: Scope) -> None:
        """Answer with the problem. If the answer has begun already, make its connection end as broken."""
        self.deadline = math.inf
        if self.status:
            self.line["broke_off"] = problem.slug
            await reset_when_closed(scope)
            return
        note(problem, self.line)
        status, headers, body = render(problem, scope["path"])
        headers = {"Content-Type": PROBLEM_TYPE, "Content-Length": str(len(body)), **headers}
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": pairs})
        await self.send({"type": "http.response.body", "body": body})

    def extend(self) -> None:
        """Move the deadline to a full timeout from now: a transfer that makes progress may go on."""
        if not self.was_cut:
            self.deadline = max(self.deadline, time.monotonic() + self.shared.timeout_seconds)

    def goes_on(self, running: set[Any]) -> None:
        """Note that the answer goes on for as long as its reader stays: it has no deadline, and is not in progress."""
        self.begun_seconds, self.deadline = time.monotonic() - self.started, math.inf
        running.discard(self)

    def cut(self, why: str = "") -> None:
        """Cancel the request's task, at the deadline or for another reason, which is a sentence."""
        if not self.was_cut:
            self.was_cut, self.deadline, self.cut_because = True, math.inf, why
            self.task.cancel()

    def ends_by_cut(self) -> bool:
        """Whether only ``cut`` cancelled the request's task. The cancellation is withdrawn."""
        return self.was_cut and self.task.uncancel() == 0

    def too_slow(self) -> Problem:
        """The problem of a request that was cut: RequestTimeout if the client's body did not arrive."""
        if self.cut_because:
            return DeadlineExceeded(self.cut_because)
        seconds = self.shared.timeout_seconds
        if self.body is not None and self.body.waiting:
            return RequestTimeout(f"The body did not arrive within {seconds:g} seconds.")
        return DeadlineExceeded(f"The request did not finish in {seconds:g} seconds; try again.")

    async def make_room(self, size_bytes: int) -> None:
        """Wait until the budget of answers being made has room for so many bytes of this one."""
        self.made(None)  # first: two answers that each hold a part, and wait for more, would wait for ever
        self.charge = await self.shared.making.take(size_bytes)
        self.is_page = False

    def made(self, size_bytes: int | None) -> None:
        """Give the charge back. ``size_bytes`` is the size of the answer, and None if none was made."""
        charge, self.charge = self.charge, 0
        if charge:
            self.shared.making.give(charge, size_bytes if self.is_page else None)


def _with_head(methods: bytes) -> bytes:
    """The Allow header with HEAD added to GET, because the middleware answers HEAD."""
    return methods if b"HEAD" in methods else methods.replace(b"GET", b"GET, HEAD")
