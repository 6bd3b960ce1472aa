"""W3C trace context, and OpenTelemetry spans if they are configured.

A request with a ``traceparent`` is logged with its trace id, and answered with Sash's own ``traceparent`` in the same
trace. Spans need the extra ``otel`` and OpenTelemetry's variables that name an exporter; without these, OpenTelemetry is
not imported. A span is made after its work, from the time that metrics measure anyway, so the store, the windows and the
tokeniser contain no tracing code.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple, Self

from sash.store.data.layout import Target

_TRACEPARENT = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SERVER_ERROR = 500


class TraceContext(NamedTuple):
    """A place in a trace, as hexadecimal digits."""

    trace_id: str
    span_id: str
    flags: str

    @property
    def traceparent(self) -> str:
        """The ``traceparent`` header of W3C Trace Context."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"

    def child(self) -> Self:
        """A new span of the same trace."""
        return self._replace(span_id=os.urandom(8).hex())


HERE: ContextVar[TraceContext | None] = ContextVar("here", default=None)
"""The current request's span, also in the tasks that it began; None without a trace."""


def read_traceparent(value: bytes) -> TraceContext | None:
    """The trace context of a ``traceparent`` header; None if W3C's specification says to ignore the header."""
    match = _TRACEPARENT.fullmatch(value)
    if match is None or (value.startswith(b"00") and len(value) != 55):
        return None
    return TraceContext(*(part.decode() for part in match.groups()))


class PassedOn:
    """A span without an exporter, which only continues the caller's trace."""

    def __init__(self, parent: TraceContext) -> None:
        self.context = parent.child()

    def end(self, method: str, route: str, status: int) -> None:
        """Nothing is sent."""


class OpenTelemetry:
    """Makes spans for an OpenTelemetry exporter."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("sash")
        self._context = import_module("opentelemetry.context")
        self._trace = import_module("opentelemetry.trace")
        self.conversation_of: Callable[[Target], str | None] = lambda _: None
        """What a span calls a conversation: its hash, or its id where that is allowed."""
        self._propagator = import_module("opentelemetry.trace.propagation.tracecontext").TraceContextTextMapPropagator()

    @classmethod
    def from_environment(cls) -> Self:
        """Configured by OpenTelemetry's environment variables. Raises ImportError without the extra ``otel``."""
        sdk = import_module("opentelemetry.sdk.trace")
        export = import_module("opentelemetry.sdk.trace.export")
        exporter = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
        name = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "sash"}
        provider = sdk.TracerProvider(resource=import_module("opentelemetry.sdk.resources").Resource.create(name))
        provider.add_span_processor(export.BatchSpanProcessor(exporter))
        return cls(provider)

    def begin(self, parent: TraceContext | None) -> "Recorded":
        """A request's span, the parent of its task's other spans until it ends."""
        trace = self._trace
        within = self._propagator.extract({"traceparent": parent.traceparent}) if parent is not None else None
        span = self._tracer.start_span("request", context=within, kind=trace.SpanKind.SERVER)
        token = self._context.attach(trace.set_span_in_context(span))
        return Recorded(span, trace.StatusCode.ERROR, lambda: self._context.detach(token))

    def did(self, name: str, seconds: float, *, failed: bool = False, **options: Any) -> None:
        """Add a span for a part of the current request that ends now and took ``seconds``."""
        now = time.time_ns()
        span = self._tracer.start_span(name, start_time=now - int(seconds * 1e9), **options)
        if failed:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(now)

    def asked_store(self, call: str, seconds: float, *, failed: bool) -> None:
        """Add a span for a call of the store, with OpenTelemetry's attributes of databases."""
        attributes = {"db.system.name": "redis", "db.operation.name": call}
        self.did(f"store {call}", seconds, failed=failed, kind=self._trace.SpanKind.CLIENT, attributes=attributes)

    def built_window(self, target: Target | None, attributes: Mapping[str, Any], seconds: float) -> None:
        """Add a span for a window of the current request."""
        self.did("build window", seconds, attributes={**attributes, **self._conversation(target)})

    def searched(self, target: Target | None, seconds: float) -> None:
        """Add a span for a search of older messages; ``target`` is None for several conversations."""
        operation = {"gen_ai.operation.name": "search_memory"}
        self.did("search_memory", seconds, attributes={**operation, **self._conversation(target)})

    def billed(self, target: Target, attributes: Mapping[str, Any]) -> None:
        """Add a reported bill to the current request's span."""
        self._trace.get_current_span().set_attributes({**attributes, **self._conversation(target)})

    def ask(self, name: str) -> Any:
        """Begin a span for a call of an endpoint, under the request that caused it."""
        return self._tracer.start_span(name, kind=self._trace.SpanKind.CLIENT)

    def asked(self, span: Any, target: Target | None, attributes: Mapping[str, Any], *, failed: bool) -> None:
        """End such a span."""
        span.set_attributes({**attributes, **self._conversation(target)})
        if failed:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    def _conversation(self, target: Target | None) -> dict[str, str]:
        named = self.conversation_of(target) if target is not None else None
        return {"gen_ai.conversation.id": named} if named is not None else {}

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


def context_of(span: Any) -> TraceContext:
    """The place of an OpenTelemetry span."""
    at = span.get_span_context()
    return TraceContext(f"{at.trace_id:032x}", f"{at.span_id:016x}", f"{int(at.trace_flags):02x}")


class Recorded:
    """A request's span, which is sent after its end."""

    def __init__(self, span: Any, error: Any, detach: Callable[[], None]) -> None:
        self._span = span
        self._error = error
        self._detach = detach
        self.context = context_of(span)

    def end(self, method: str, route: str, status: int) -> None:
        """End the span. ``route`` is the path's template, empty at an unknown path; a path itself contains ids."""
        self._span.update_name(f"{method} {route}".rstrip())
        self._span.set_attributes({"http.request.method": method, "http.response.status_code": status})
        if route:
            self._span.set_attribute("http.route", route)
        if status >= _SERVER_ERROR:
            self._span.set_status(self._error)
        self._span.end()
        self._detach()


Span = PassedOn | Recorded
"""A request's span."""


def begin_span(spans: OpenTelemetry | None, traceparent: bytes) -> Span | None:
    """A request's span. Without an exporter, a span that continues the caller's trace; None without a trace."""
    parent = read_traceparent(traceparent)
    if spans is not None:
        span: Span | None = spans.begin(parent)
    else:
        span = PassedOn(parent) if parent is not None else None
    HERE.set(span.context if span is not None else None)
    return span


def wants_spans(environ: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables name an endpoint for spans."""
    off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(environ.get(name) for name in _ENDPOINTS)
