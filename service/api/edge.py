"""One pure ASGI wrapper around the whole application.

What must hold for every answer, those of unknown paths included, is done here and nowhere else: whom it is for, whose
request it is, its id, its deadline, HEAD as GET without a body, headers of caches and browsers, and one log line that
tells what happened and nothing that anybody wrote.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import Any

from service.api.browsers import Cors
from service.api.connections import reset_when_closed
from service.api.errors import PROBLEM_TYPE, render
from service.api.incoming import Incoming
from service.api.keys import DEFAULT_TENANT, Keys
from service.api.paths import Paths
from service.operations.line import begin_line
from service.operations.logging import describe, get_logger
from service.operations.metrics import Metrics
from service.operations.tracing import PassOn, Span, Tracing, read_traceparent
from service.problems import DeadlineExceeded, Internal, MisdirectedRequest, NotFound, Problem, RequestTimeout
from service.store.entries import new_id
from service.store.limits import RateLimits

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/livez", "/readyz", "/openapi.json", "/docs", "/dashboard"})
"""What needs no key: nothing of a tenant's is behind these, nor behind the pages of problem types."""
FIGURES_PATHS = frozenset({"/metrics", "/stats"})
"""What needs the key of SASH_METRICS_KEY where keys are on: figures of all tenants."""

_STREAMED = "/conversations/import"  # never in memory, and bounded by itself
_ENCODED_SLASH = re.compile(rb"%(?:2f|5c)", re.IGNORECASE)
_SLASH_IN_NAME = b"/models/"  # a model's name may hold one, and clients encode names
_QUIET = OPEN_PATHS | {"/metrics"}  # asked for every few seconds by machines: no log line each
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")
_ASK_AGAIN = (b"cache-control", b"private, no-cache")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_log = get_logger()


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return path in OPEN_PATHS or path.startswith("/problems/")


class Edge:
    """The wrapper: an ASGI application around another."""

    def __init__(
        self,
        app: App,
        *,
        keys: Keys,
        paths: Paths,
        timeout_seconds: float,
        metrics: Metrics,
        tracing: Tracing | None = None,
        limits: RateLimits | None = None,
        hosts: re.Pattern[bytes] | None = None,
        cors: Cors | None = None,
    ) -> None:
        """``hosts`` are those that are answered, any where it is None; ``cors`` the origins whose pages may ask."""
        self._app = app
        self._metrics = metrics
        self._tracing = tracing or PassOn()
        self._keys = keys
        self._paths = paths
        self._limits = limits
        self._timeout_seconds = timeout_seconds
        self._hosts = hosts
        self._cors = cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        line = begin_line()
        scope["sash.line"] = line
        asked = Incoming(receive, self._timeout_seconds)
        span = self._tracing.begin(read_traceparent(_header(scope, b"traceparent")))
        answer = _Answer(send, request_id=_request_id(scope), method=scope["method"], span=span)
        if self._cors is not None:
            answer.more = self._cors.headers(_header(scope, b"origin"))
        self._metrics.in_progress += 1
        if answer.head:
            scope["method"] = "GET"
        try:
            async with asyncio.timeout(self._timeout_seconds) as deadline:
                self._check_address(scope)
                if self._cors is not None and _is_preflight(scope):
                    await answer.empty(self._cors.preflight)
                    return
                scope["sash.tenant"] = await self._tenant(scope, asked)
                scope["sash.deadline"] = deadline, self._timeout_seconds
                if scope["method"] == "OPTIONS" and (methods := self._paths.methods(scope["path"])):
                    await answer.options(methods)  # the framework knows those of one handler alone
                else:
                    await self._app(scope, asked.receive, answer.send)
        except TimeoutError:
            await self._fail(scope, answer, _too_slow(self._timeout_seconds, waiting=asked.waiting))
        except Problem as problem:
            await self._fail(scope, answer, problem)
        except Exception as error:  # noqa: BLE001 - the last place where a failure can become an answer
            _log.error("request failed", operation=_operation(scope), **describe(error))
            await self._fail(scope, answer, Internal("The service failed; nothing is known to be lost, try again."))
        finally:
            self._done(scope, answer, line, time.perf_counter() - started)

    async def _fail(self, scope: Scope, answer: "_Answer", problem: Problem) -> None:
        """Answer with the problem; where an answer has begun, see to it that nobody takes what came for the whole."""
        if answer.status:
            await reset_when_closed(scope)
        else:
            await answer.problem(problem, scope["path"])

    def _check_address(self, scope: Scope) -> None:
        """Raise MisdirectedRequest for a Host that is not ours, NotFound for a path with an encoded slash in an id."""
        if self._hosts is not None and not self._hosts.fullmatch(_header(scope, b"host")):
            raise MisdirectedRequest(
                "Without API keys the service answers to localhost and loopback addresses alone: ask it by one of them, "
                "or set SASH_API_KEYS or SASH_ALLOW_ANONYMOUS."
            )
        raw = scope.get("raw_path") or b""
        if b"%" in raw and _ENCODED_SLASH.search(raw) and not raw.startswith(_SLASH_IN_NAME):
            raise NotFound("There is nothing at this path: no id holds a slash.")

    async def _tenant(self, scope: Scope, asked: Incoming) -> str:
        """Whose request it is, counted and bounded by what the tenant may send."""
        if is_open(scope["path"]):
            return DEFAULT_TENANT
        if scope["path"] in FIGURES_PATHS:
            self._keys.check_figures(_header(scope, b"authorization"))
            return DEFAULT_TENANT
        caller = await self._keys.caller(_header(scope, b"authorization"))
        if self._limits is not None:
            await self._limits.take(caller.tenant, caller.rate, caller.rated_key)
        if caller.max_body_bytes is not None and scope["path"] != _STREAMED:
            asked.bound(caller.max_body_bytes, _header(scope, b"content-length"))
        return caller.tenant

    def _done(self, scope: Scope, answer: "_Answer", line: dict[str, Any], seconds: float) -> None:
        operation = _operation(scope)
        self._metrics.in_progress -= 1
        self._metrics.request(operation, answer.status, seconds)
        span = answer.span
        if span is not None:
            span.end(operation, answer.status)
            line |= {"trace_id": span.context.trace_id, "span_id": span.context.span_id}
        if scope["path"] in _QUIET:
            return
        _log.info(
            "request",
            request_id=answer.request_id,
            method="HEAD" if answer.head else scope["method"],
            operation=operation,
            status=answer.status,
            milliseconds=round(seconds * 1000, 2),
            bytes=answer.size_bytes,
            **line,
        )


def _is_preflight(scope: Scope) -> bool:
    """Whether a browser asks if a page may ask; it sends no key with that."""
    return scope["method"] == "OPTIONS" and _header(scope, b"access-control-request-method") != b""


def _with_head(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Allow names HEAD beside GET, because the edge answers it."""
    if name == b"allow" and b"GET" in value and b"HEAD" not in value:
        return name, value.replace(b"GET", b"GET, HEAD")
    return name, value


def _header(scope: Scope, name: bytes) -> bytes:
    for given, value in scope["headers"]:
        if given == name:
            return bytes(value)
    return b""


def _operation(scope: Scope) -> str | None:
    """The operation's id; None where nothing is at the path. The path itself holds ids, which are never logged."""
    operation: str | None = getattr(scope.get("route_handler"), "operation_id", None)
    return operation


def _request_id(scope: Scope) -> str:
    given = _header(scope, b"x-request-id")
    return given.decode("ascii") if _REQUEST_ID.fullmatch(given) else new_id()


def _too_slow(seconds: float, *, waiting: bool) -> Problem:
    """Whose fault it was: the client's, whose body did not come, or ours."""
    if waiting:
        return RequestTimeout(f"The body did not come within {seconds:g} seconds.")
    return DeadlineExceeded(f"The request was not done in {seconds:g} seconds; try again.")


class _Answer:
    """What is sent: watches the status and size, adds headers that every answer has, drops the body of a HEAD."""

    def __init__(self, send: Send, *, request_id: str, method: str, span: Span | None) -> None:
        self._send = send
        self.span = span
        self.request_id = request_id
        self.head = method == "HEAD"
        self.reads = self.head or method == "GET"
        self.status = 0
        self.size_bytes = 0
        self.more: Sequence[tuple[bytes, bytes]] = ()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            names = [name for name, _ in headers]
            if b"allow" in names:
                headers = [_with_head(name, value) for name, value in headers]
            if b"cache-control" not in names:
                headers.append(_ASK_AGAIN if b"etag" in names and self.reads else _NO_STORE)
            headers += ((b"x-request-id", self.request_id.encode()), _NO_SNIFFING, *self.more)
            if self.span is not None:
                headers.append((b"traceparent", self.span.context.traceparent.encode()))
            message["headers"] = headers
        elif message["type"] == "http.response.body":
            self.size_bytes += len(message.get("body", b""))
            if self.head:
                message = {**message, "body": b""}
        await self._send(message)

    async def options(self, methods: frozenset[str]) -> None:
        """Answer OPTIONS: the methods of a path are all that there is to say."""
        await self.empty([(b"allow", ", ".join(sorted({*methods, "OPTIONS"})).encode())])

    async def empty(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Answer 204."""
        await self.send({"type": "http.response.start", "status": 204, "headers": headers})
        await self.send({"type": "http.response.body", "body": b""})

    async def problem(self, problem: Problem, instance: str) -> None:
        """Answer with a problem; no answer has begun."""
        status, headers, body = render(problem, instance)
        headers = {"Content-Type": PROBLEM_TYPE, "Content-Length": str(len(body)), **headers}
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": pairs})
        await self.send({"type": "http.response.body", "body": body})
