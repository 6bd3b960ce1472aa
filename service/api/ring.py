"""The ring: one ASGI layer around the framework, for everything that holds for every request and answer.

::

    every request   request id, checks of Host and path, tenant, deadline, metrics, log line, safe headers
    HEAD            answered like GET, without the body
    OPTIONS         answered with the path's methods
    not a GET       the body's size and slowness are limited (incoming.py)
    a write         takes effect once under an Idempotency-Key (idempotency.py)
    a page          of messages waits until there is memory to make it (large.py)
    a large body    is sent in pieces, and the slowest reader is cut (large.py)
    after SIGTERM   answers close their connections (drain.py)

Only the first line applies to a plain read: it needs no task, no timer and no wrapped ``receive``.
"""

import asyncio
import math
import re
import time
from contextvars import Context
from itertools import count
from typing import Any
from uuid import uuid4

import msgspec

from service.api.asgi import App, Headers, Message, Receive, Scope, Send
from service.api.browsers import Cors
from service.api.connections import reset_when_closed
from service.api.drain import Drain
from service.api.errors import PROBLEM_TYPE, render
from service.api.incoming import Incoming
from service.api.keys import DEFAULT_TENANT, Callers
from service.api.large import WHOLE_BYTES, Making, Sending
from service.api.paths import Paths, template_of
from service.operations.logging import describe, get_logger, printable
from service.operations.metrics import LINE, Metrics
from service.operations.requests import Requests
from service.operations.tracing import OpenTelemetry, Span, begin_span
from service.problems import (
    DeadlineExceeded,
    Internal,
    MisdirectedRequest,
    NotFound,
    Problem,
    RequestTimeout,
    StoreUnavailable,
)
from service.store.limits import RateLimits

OPEN_PATHS = frozenset({"/livez", "/readyz", "/openapi.json", "/docs", "/dashboard"})
"""Paths that need no key, as they contain no tenant's data. The pages of problem types need none either."""
FIGURES_PATHS = frozenset({"/metrics", "/stats", "/status"})
"""Paths with figures of all tenants: they need the key of SASH_METRICS_KEY if API keys are on."""

_STREAMED = "/conversations/import"  # never whole in memory
_PAGE = "/messages"  # the end of a path that lists a history
_ENCODED_SLASH = re.compile(rb"%(?:2f|5c)", re.IGNORECASE)
_SLASH_IN_NAME = b"/models/"  # a model's name may contain a slash, which clients encode
_QUIET = OPEN_PATHS | {"/metrics", "/status"}  # polled every few seconds by machines, so not logged
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_READS = frozenset({"GET", "HEAD"})
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
_ASK_AGAIN = (b"cache-control", b"private, no-cache")
_CLOSE = (b"connection", b"close")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOOK_SECONDS = 0.1
_log = get_logger()


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return path in OPEN_PATHS or path.startswith("/problems/")


class Exchange(msgspec.Struct, eq=False):
    """One request and its answer. ``send`` records status and size, and adds the headers of every answer."""

    ring: "Ring"
    pass_on: Send
    task: asyncio.Task[Any]
    method: str
    http_version: str
    request_id: str
    started: float
    deadline: float
    """In seconds of ``time.monotonic``, like ``started``."""
    line: dict[str, Any]
    more: Headers = []
    """Headers of this answer only."""
    body: Incoming | None = None
    span: Span | None = None
    charge: int = 0
    """Bytes charged to the budget of answers being made (``large.Making``)."""
    was_cut: bool = False
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
                headers.append(_ASK_AGAIN if b"etag" in names and self.method in _READS else _NO_STORE)
            headers += ((b"x-request-id", self.request_id.encode()), _NO_SNIFFING, *self.more)
            if self.ring.drain.began and self.http_version.startswith("1"):
                headers.append(_CLOSE)  # in HTTP/2 the server itself ends connections (GOAWAY)
            message["headers"] = headers
        else:
            body = message.get("body", b"")
            size = len(body)
            if size > WHOLE_BYTES and self.method != "HEAD":
                await self.ring.sending.send(self, body, more=message.get("more_body", False))
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
        self.line["problem"] = problem.slug
        status, headers, body = render(problem, scope["path"])
        headers = {"Content-Type": PROBLEM_TYPE, "Content-Length": str(len(body)), **headers}
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": pairs})
        await self.send({"type": "http.response.body", "body": body})

    def extend(self) -> None:
        """Move the deadline to a full timeout from now: a transfer that makes progress may go on."""
        if not self.was_cut:
            self.deadline = time.monotonic() + self.ring.timeout_seconds

    def cut(self) -> None:
        """Cancel the request's task, as at the deadline."""
        if not self.was_cut:
            self.was_cut, self.deadline = True, math.inf
            self.task.cancel()

    def ends_by_cut(self) -> bool:
        """Whether only ``cut`` cancelled the request's task. The cancellation is withdrawn."""
        return self.was_cut and self.task.uncancel() == 0

    def too_slow(self) -> Problem:
        """The problem of a request that was cut: RequestTimeout if the client's body did not arrive."""
        seconds = self.ring.timeout_seconds
        if self.body is not None and self.body.waiting:
            return RequestTimeout(f"The body did not arrive within {seconds:g} seconds.")
        return DeadlineExceeded(f"The request did not finish in {seconds:g} seconds; try again.")

    def made(self, size_bytes: int | None) -> None:
        """Give the charge back. ``size_bytes`` is the size of the answer, and None if none was made."""
        charge, self.charge = self.charge, 0
        if charge:
            self.ring.making.give(charge, size_bytes)


class Ring:
    """An ASGI application around ``app``, and around ``once``, which takes requests with an Idempotency-Key."""

    def __init__(
        self,
        app: App,
        *,
        once: App,
        keys: Callers,
        paths: Paths,
        limits: RateLimits,
        timeout_seconds: float,
        max_body_bytes: int,
        max_import_bytes: int,
        metrics: Metrics,
        requests: Requests,
        spans: OpenTelemetry | None = None,
        hosts: re.Pattern[bytes] | None = None,
        cors: Cors | None = None,
        ends_on_sigterm: bool = False,
    ) -> None:
        """``hosts`` matches the Host headers that are answered; None answers all. ``cors`` has the origins allowed."""
        self._app = app
        self._once = once
        self._keys = keys
        self._paths = paths
        self._limits = limits
        self._max_body_bytes = max_body_bytes
        self._max_import_bytes = max_import_bytes
        self._free = keys.anonymous and limits.rate is None
        self._hosts = hosts
        self._cors = cors
        self._spans = spans
        self._requests = requests
        self._running: set[Exchange] = metrics.running
        self._timer: asyncio.TimerHandle | None = None
        self._context = Context()  # empty: the timer would otherwise keep the context of the request that set it
        self._ends_on_sigterm = ends_on_sigterm
        self._latest = -math.inf
        self._numbers = count()
        self._rest_of_ids = str(uuid4())[18:]
        self.timeout_seconds = timeout_seconds
        self.drain = Drain(self.idle_seconds)
        self.making = Making()
        self.sending = Sending()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan" and self._ends_on_sigterm:
                self.drain.take_sigterm()
            await self._app(scope, receive, send)
            return
        headers = dict(reversed(scope["headers"]))  # the first header of a repeated name wins
        scope["sash.headers"] = headers
        exchange = self._begin(scope, headers, send)
        self._running.add(exchange)
        if self._timer is None:
            self._cut_late()
        try:
            await self._answer(exchange, scope, headers, receive)
        except asyncio.CancelledError:
            if not exchange.ends_by_cut():
                raise
            await exchange.fail(exchange.too_slow(), scope)
        except Exception as error:  # noqa: BLE001 - the outermost layer: every failure becomes an answer
            # A variable for the problem would hold this frame, by its traceback, and so the client's connection.
            await exchange.fail(_problem_of(error, scope), scope)
        finally:
            self._end(exchange, scope)
        if exchange.body is not None and not (exchange.body.ended or exchange.was_cut):
            await exchange.body.discard()

    def idle_seconds(self) -> float:
        """Seconds since the latest request, not counting probes; 0 while a request runs."""
        return 0.0 if self._running else time.monotonic() - self._latest

    def _new_id(self) -> str:
        """A UUID of version 7: the time, a counter, and random digits that are the same for the whole process."""
        milliseconds, number = time.time_ns() // 1_000_000, next(self._numbers) & 0xFFF
        return f"{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7{number:03x}{self._rest_of_ids}"

    def _begin(self, scope: Scope, headers: dict[bytes, bytes], send: Send) -> Exchange:
        started, method = time.monotonic(), scope["method"]
        task: Any = asyncio.current_task()  # the server runs each request in a task
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode("ascii") if given and _REQUEST_ID.fullmatch(given) else self._new_id()
        line = {
            "request_id": request_id,
            "method": method if method in _METHODS else printable(method),
            "operation": None,
            "status": 0,
            "milliseconds": 0.0,
            "bytes": 0,
        }
        deadline = started + self.timeout_seconds
        exchange = Exchange(self, send, task, method, scope["http_version"], request_id, started, deadline, line)
        LINE.set(line)
        scope["sash.line"] = line
        scope["sash.exchange"] = exchange
        if scope["path"] not in OPEN_PATHS:
            self._latest = started
        if self._cors is not None:
            exchange.more += self._cors.headers(headers.get(b"origin", b""))
        if self._spans is not None or b"traceparent" in headers:
            exchange.span = span = begin_span(self._spans, headers.get(b"traceparent", b""))
            if span is not None:
                exchange.more.append((b"traceparent", span.context.traceparent.encode()))
        return exchange

    async def _answer(self, exchange: Exchange, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> None:
        path, method = scope["path"], exchange.method
        if method not in _READS:
            limit_bytes = self._max_import_bytes if path == _STREAMED else self._max_body_bytes
            exchange.body = Incoming(receive, self.timeout_seconds, limit_bytes, headers.get(b"content-length", b""))
            receive = exchange.body.receive
        self._check(scope, headers)
        if self._cors is not None and method == "OPTIONS" and headers.get(b"access-control-request-method"):
            await exchange.empty(self._cors.preflight)  # a browser's CORS preflight, which has no key
            return
        if (self._free and path not in FIGURES_PATHS and b"authorization" not in headers) or is_open(path):
            scope["sash.tenant"] = DEFAULT_TENANT
        else:
            scope["sash.tenant"] = await self._tenant(path, headers, exchange.body)
        if method in _READS:
            scope["method"] = "GET"
            if path.endswith(_PAGE):
                exchange.charge = await self.making.take()
            await self._app(scope, receive, exchange.send)
        elif method == "OPTIONS" and (methods := self._paths.methods(path)):
            allowed = ", ".join(sorted({*methods, "OPTIONS"}))  # the framework would list one handler's methods only
            await exchange.empty([(b"allow", allowed.encode())])
        else:
            app = self._once if b"idempotency-key" in headers else self._app
            await app(scope, receive, exchange.send)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise MisdirectedRequest for a foreign Host, NotFound for a slash in an id, StoreUnavailable if not ready."""
        if self._hosts is not None and not self._hosts.fullmatch(headers.get(b"host", b"")):
            raise MisdirectedRequest(
                "Without API keys the service answers only at localhost and loopback addresses: use one of them, "
                "or set SASH_API_KEYS or SASH_ALLOW_ANONYMOUS."
            )
        raw = scope.get("raw_path") or b""
        if b"%" in raw and _ENCODED_SLASH.search(raw) and not raw.startswith(_SLASH_IN_NAME):
            raise NotFound("There is nothing at this path: an id cannot contain a slash.")
        if self.drain.began and scope["path"] == "/readyz":
            raise StoreUnavailable("Not ready: the service is stopping.")

    async def _tenant(self, path: str, headers: dict[bytes, bytes], body: Incoming | None) -> str:
        """The request's tenant. Counts the request against the tenant's rate, and limits the body's size."""
        authorization = headers.get(b"authorization", b"")
        if path in FIGURES_PATHS:
            self._keys.check_figures(authorization)
            return DEFAULT_TENANT
        caller = await self._keys.caller(authorization)
        await self._limits.take(caller.tenant, caller.rate, caller.rated_key)
        if caller.max_body_bytes is not None and body is not None and path != _STREAMED:
            body.limit_bytes = min(body.limit_bytes, caller.max_body_bytes)
        return caller.tenant

    def _end(self, exchange: Exchange, scope: Scope) -> None:
        self._running.discard(exchange)
        if exchange.charge:
            exchange.made(None)
        line, span = exchange.line, exchange.span
        line["operation"] = _operation(scope)
        line["status"] = exchange.status
        line["bytes"] = exchange.size_bytes
        if span is not None:
            span.end(line["method"], _route(scope), exchange.status)
            line |= {"trace_id": span.context.trace_id, "span_id": span.context.span_id}
        self._requests.answered(line, time.monotonic() - exchange.started, scope, quiet=scope["path"] in _QUIET)

    def _cut_late(self) -> None:
        """Cut requests past their deadline, and call this again after _LOOK_SECONDS while any request runs."""
        now = time.monotonic()
        for late in [each for each in self._running if each.deadline < now]:
            late.cut()
        self._timer = None
        if self._running:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_LOOK_SECONDS, self._cut_late, context=self._context)


def _problem_of(error: Exception, scope: Scope) -> Problem:
    """The problem that was raised. The framework's error for a stream has a group as cause. Another error is logged."""
    found: BaseException | None = error.__cause__ if isinstance(error.__cause__, ExceptionGroup) else error
    while isinstance(found, ExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    if isinstance(found, Problem):
        return found
    _log.error("request failed", operation=_operation(scope), **describe(error))
    return Internal("The service failed; nothing is known to be lost, try again.")


def _operation(scope: Scope) -> str | None:
    """The operation's id for the log; None at an unknown path. A path itself contains ids, which are never logged."""
    operation: str | None = getattr(scope.get("route_handler"), "operation_id", None)
    return operation


def _route(scope: Scope) -> str:
    """The path's template; empty at an unknown path."""
    paths = getattr(scope.get("route_handler"), "paths", ())
    return template_of(min(paths, default=""))


def _with_head(methods: bytes) -> bytes:
    """The Allow header with HEAD added to GET, because the ring answers HEAD."""
    return methods if b"HEAD" in methods else methods.replace(b"GET", b"GET, HEAD")
