"""The middleware: one ASGI layer around the framework, for everything that holds for every request and answer.

::

    every request   request id, checks of Host and path, tenant, deadline, metrics, log line, safe headers
    HEAD            answered like GET, without the body
    OPTIONS         answered with the path's methods
    not a GET       the body's size and slowness are limited (request_body.py)
    a write         takes effect once under an Idempotency-Key (idempotency.py)
    a large body    is sent in pieces, and the slowest reader is cut (large.py)
    after SIGTERM   answers close their connections (drain.py)
    under a mount   the path of the other application is left out (mounted.py)

Only the first line applies to a plain read: it needs no task, no timer and no wrapped ``receive``.
"""

import asyncio
import math
import re
import time
from collections.abc import Awaitable
from contextlib import nullcontext
from contextvars import Context
from http import HTTPStatus
from itertools import cycle
from types import MethodType
from typing import Any
from uuid import uuid4

from sash.api.middleware.asgi import App, Headers, Lifespan, Message, Receive, Scope, Send
from sash.api.middleware.browsers import Cors, Hosts, misdirected
from sash.api.middleware.callers import DEFAULT_TENANT, Callers
from sash.api.middleware.connections import reset_when_closed
from sash.api.middleware.drain import Drain
from sash.api.middleware.errors import PROBLEM_TYPE, note, problem_of, render, slash_in_id
from sash.api.middleware.exchange import Exchange, Shared
from sash.api.middleware.large import WHOLE_BYTES, Making, Sending
from sash.api.middleware.mounted import within
from sash.api.middleware.paths import Paths, template_of, with_head
from sash.api.middleware.request_body import RequestBody
from sash.operations.logging import printable
from sash.operations.metrics import LINE, Metrics
from sash.operations.requests import READS, Requests
from sash.operations.tracing import OpenTelemetry, begin_span
from sash.problems import Problem
from sash.processor import TENANT
from sash.store.data.limits import RateLimits

OPEN_PATHS = frozenset(
    {"/", "/livez", "/readyz", "/openapi.json", "/docs", "/docs/pages", "/dashboard", "/runbook", "/clients/sash.ts"}
)
"""Paths that need no key, as they contain no tenant's data. Pages of problem types and of the project need none either."""
FIGURES_PATHS = frozenset({"/metrics", "/stats", "/status"})
"""Paths with figures of all tenants: they need the key of SASH_METRICS_KEY if API keys are on."""

_STREAMED = "/conversations/import"  # never whole in memory
_ENCODED_SLASH = re.compile(rb"%(?:2f|5c)", re.IGNORECASE)
_PERCENT = ord("%")
_OWNERS = b"/owners/"
_MODELS = b"/models/"
_QUIET = OPEN_PATHS | {"/metrics", "/status"}  # polled every few seconds by machines, so not logged
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
_ASK_AGAIN = (b"cache-control", b"private, no-cache")
_CLOSE = (b"connection", b"close")
_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOOK_SECONDS = 0.1


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return path in OPEN_PATHS or path.startswith(("/problems/", "/docs/pages/"))


class Middleware:
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
        hosts: Hosts | None = None,
        cors: Cors | None = None,
        lifespan: Lifespan = nullcontext,
        ends_on_sigterm: bool = False,
    ) -> None:
        """``hosts`` says which Host headers are answered; None answers all. ``cors`` has the origins allowed.

        ``lifespan`` makes a context manager in which requests are answered. An ASGI server enters it by its protocol; an
        application in which this one is mounted enters it by itself.
        """
        self.lifespan = lifespan
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
        self._numbers = cycle(range(0x7000, 0x8000))
        self._rest_of_ids = str(uuid4())[18:]
        self.drain = Drain(self.idle_seconds)
        self.shared = Shared(keys, timeout_seconds, self.drain, Making(), Sending())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan" and self._ends_on_sigterm:
                self.drain.take_sigterm()
            await self._app(scope, receive, send)
            return
        if scope.get("root_path"):
            scope, send = within(scope, send)
        exchange = self._begin(scope, send)
        try:
            await self._answer(exchange, scope, receive)
        except asyncio.CancelledError:
            if not exchange.ends_by_cut():
                raise
            await self._fail(exchange, exchange.too_slow(), scope)
        except Exception as error:  # noqa: BLE001 - the outermost layer: every failure becomes an answer
            # A variable for the problem would hold this frame, by its traceback, and so the client's connection.
            await self._fail(exchange, problem_of(error, scope), scope)
        finally:
            self._end(exchange, scope)
        if exchange.body is not None and not (exchange.body.ended or exchange.was_cut):
            await exchange.body.discard()

    def idle_seconds(self) -> float:
        """Seconds since the latest request, not counting probes; 0 while a request runs."""
        return 0.0 if self._running else time.monotonic() - self._latest

    def _begin(self, scope: Scope, send: Send) -> Exchange:
        """The exchange of a request, which runs from now on."""
        started, method = time.monotonic(), scope["method"]
        task: Any = asyncio.current_task()  # the server runs each request in a task
        headers = dict(reversed(scope["headers"]))  # the first header of a repeated name wins
        given = headers.get(b"x-request-id")
        if given and _REQUEST_ID.fullmatch(given):
            request_id = given.decode("ascii")
        else:  # a UUID of version 7: the time, a counter, and random digits that are the same for the whole process
            digits = (int(time.time() * 1000) << 16 | next(self._numbers)).to_bytes(8).hex()
            request_id = f"{digits[:8]}-{digits[8:12]}-{digits[12:]}{self._rest_of_ids}"
        line = {
            "request_id": request_id,
            "method": method if method in _METHODS else printable(method),
            "operation": None,
            "status": 0,
            "milliseconds": 0.0,
            "bytes": 0,
        }
        shared = self.shared
        more = [(b"x-request-id", request_id.encode()), _NO_SNIFFING]
        deadline = started + shared.timeout_seconds
        exchange = Exchange(shared, send, task, method, scope["http_version"], started, deadline, line, headers, more)
        LINE.set(line)
        scope["sash.exchange"] = exchange
        if scope["path"] not in OPEN_PATHS:
            self._latest = started
        if self._cors is not None:
            more += self._cors.headers(headers.get(b"origin", b""))
        if self._spans is not None or b"traceparent" in headers:
            exchange.span = span = begin_span(self._spans, headers.get(b"traceparent", b""))
            if span is not None:
                more.append((b"traceparent", span.context.traceparent.encode()))
        self._running.add(exchange)
        if self._timer is None:
            self._cut_late()
        return exchange

    async def _answer(self, exchange: Exchange, scope: Scope, receive: Receive) -> None:
        """Let the request in, and have the application answer it.

        Raises MisdirectedRequest for a foreign Host, and NotFound for a slash in an id.
        """
        path, method, headers, send = scope["path"], exchange.method, exchange.headers, MethodType(_send, exchange)
        if not (is_read := method in READS):
            limit_bytes = self._max_import_bytes if path == _STREAMED else self._max_body_bytes
            length = headers.get(b"content-length", b"")
            exchange.body = RequestBody(receive, self.shared.timeout_seconds, limit_bytes, length)
            receive = exchange.body.receive
        if self._hosts is not None and not self._hosts(host := headers.get(b"host", b"")):
            raise misdirected(host)
        if _PERCENT in (raw := scope.get("raw_path") or b""):
            _take_encoded(scope, raw)
        if self._cors is not None and method == "OPTIONS" and headers.get(b"access-control-request-method"):
            await _send_whole(exchange, 204, self._cors.preflight)  # a browser's CORS preflight, which has no key
            return
        if (self._free and path not in FIGURES_PATHS and b"authorization" not in headers) or is_open(path):
            scope["sash.tenant"] = DEFAULT_TENANT
        else:
            await self._let_in(scope, headers, exchange.body)
        TENANT.set(scope["sash.tenant"])
        if is_read:
            scope["method"] = "GET"
            await self._app(scope, receive, send)
        elif method == "OPTIONS" and (methods := self._paths.methods(path)):
            allowed = ", ".join(sorted({*methods, "OPTIONS"}))  # the framework would list one handler's methods only
            await _send_whole(exchange, 204, [(b"allow", with_head(allowed).encode())])
        else:
            app = self._once if b"idempotency-key" in headers else self._app
            await app(scope, receive, send)

    async def _let_in(self, scope: Scope, headers: dict[bytes, bytes], body: RequestBody | None) -> None:
        """Note the request's tenant, then count the request against its rate, and limit the body's size."""
        path, authorization = scope["path"], headers.get(b"authorization", b"")
        if path in FIGURES_PATHS:
            self._keys.check_figures(authorization)
            scope["sash.tenant"] = DEFAULT_TENANT
            return
        caller = await self._keys.caller(authorization)
        scope["sash.tenant"] = caller.tenant  # before the limit, so that a refusal's line names the tenant
        await self._limits.take(caller.tenant, caller.rate, caller.rated_key)
        if caller.max_body_bytes is not None and body is not None and path != _STREAMED:
            body.limit_bytes = min(body.limit_bytes, caller.max_body_bytes)

    async def _fail(self, exchange: Exchange, problem: Problem, scope: Scope) -> None:
        """Answer with the problem. If an answer has begun, break its connection, so that it does not seem whole."""
        exchange.deadline = math.inf
        if exchange.status:
            exchange.line["broke_off"] = problem.slug
            await reset_when_closed(scope)
            return
        note(problem, exchange.line)
        status, headers, body = render(problem, scope["path"])
        headers = {"Content-Type": PROBLEM_TYPE, "Content-Length": str(len(body)), **headers}
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await _send_whole(exchange, status, pairs, body)

    def _end(self, exchange: Exchange, scope: Scope) -> None:
        self._running.discard(exchange)
        if exchange.charge:
            exchange.made(None)
        line, span = exchange.line, exchange.span
        # A request may be refused before it is routed: by its key, or because the store is down.
        operation = getattr(scope.get("route_handler"), "operation_id", None)
        line["operation"] = operation or self._paths.operation(scope["method"], scope["path"])
        line["status"] = exchange.status
        line["bytes"] = exchange.size_bytes
        if span is not None:
            template = template_of(min(getattr(scope.get("route_handler"), "paths", ()), default=""))
            span.end(line["method"], template, exchange.status)
            line |= {"trace_id": span.context.trace_id, "span_id": span.context.span_id}
        path = scope["path"]
        if not self._keys.anonymous and (path in FIGURES_PATHS or is_open(path)):
            scope.pop("sash.tenant", None)  # no tenant's request
        quiet = path in _QUIET and exchange.status != HTTPStatus.UNAUTHORIZED
        seconds = exchange.begun_seconds or time.monotonic() - exchange.started
        self._requests.answered(line, seconds, scope, quiet=quiet)

    def _cut_late(self) -> None:
        """Cut requests past their deadline, and call this again after _LOOK_SECONDS while any request runs."""
        now = time.monotonic()
        for late in [each for each in self._running if each.deadline < now]:
            late.cut()
        self._timer = None
        if self._running:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_LOOK_SECONDS, self._cut_late, context=self._context)


def _send(exchange: Exchange, message: Message) -> Awaitable[None]:
    """ASGI's ``send``: pass the message on, with the headers of every answer; note the answer's status and size."""
    if message["type"] == "http.response.start":
        exchange.status = message["status"]
        headers, caching = [*message["headers"], *exchange.more], _NO_STORE
        for name, _ in message["headers"]:
            if name == b"etag" and exchange.method in READS:
                caching = _ASK_AGAIN
            elif name == b"cache-control":
                break
        else:
            headers.append(caching)
        if exchange.shared.drain.began and exchange.http_version.startswith("1"):
            headers.append(_CLOSE)  # in HTTP/2 the server itself ends connections (GOAWAY)
        message["headers"] = headers
    else:
        body = message.get("body", b"")
        size = len(body)
        if exchange.method == "HEAD":
            message = {**message, "body": b""}
        elif size > WHOLE_BYTES:
            return exchange.shared.sending.send(exchange, body, more=message.get("more_body", False))
        if exchange.charge and size:
            exchange.made(size)
        exchange.size_bytes += size
    return exchange.pass_on(message)


async def _send_whole(exchange: Exchange, status: int, headers: Headers, body: bytes = b"") -> None:
    await _send(exchange, {"type": "http.response.start", "status": status, "headers": headers})
    await _send(exchange, {"type": "http.response.body", "body": body})


def _take_encoded(scope: Scope, raw: bytes) -> None:
    """Take a path with encoded characters. Raises NotFound for a slash in an id; an owner or a model may contain one."""
    if raw.startswith(_OWNERS):
        scope["path"] = raw.decode("latin-1")  # the handler decodes the owner
    elif _ENCODED_SLASH.search(raw) and not raw.startswith(_MODELS):
        raise slash_in_id()
