"""Tests traces: read and passed on as W3C specifies, and recorded if OpenTelemetry is configured."""

import pytest
from readme_blocks import blocks, read

from sash.operations.tracing import OpenTelemetry, TraceContext, begin_span, read_traceparent, wants_spans

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = TraceContext(TRACE, SPAN, "01")


def test_a_traceparent_is_read():
    """A traceparent of version 00 is read, and one of a later version with more fields."""
    assert read_traceparent(f"00-{TRACE}-{SPAN}-01".encode()) == PARENT
    assert read_traceparent(f"cc-{TRACE}-{SPAN}-01-more".encode()) == PARENT


@pytest.mark.parametrize(
    "value",
    [
        "",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}",
    ],
)
def test_what_is_none_is_ignored(value: str):
    """An invalid traceparent is ignored, as the specification says."""
    assert read_traceparent(value.encode()) is None


def test_a_trace_is_passed_on():
    """A request's span has the caller's trace id and flags, and its own span id."""
    span = begin_span(None, PARENT.traceparent.encode())
    assert span is not None
    assert (span.context.trace_id, span.context.flags) == (TRACE, "01")
    assert span.context.span_id != SPAN
    assert read_traceparent(span.context.traceparent.encode()) == span.context


def test_no_trace_is_begun_for_nobody():
    """Without OpenTelemetry, a request without a traceparent gets no trace."""
    assert begin_span(None, b"") is None


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_opentelemetrys_own_variables_decide(environ: dict[str, str], wanted: bool):  # noqa: FBT001 - a parameter of the test
    """OpenTelemetry's own environment variables decide whether spans are recorded."""
    assert wants_spans(environ) is wanted


@pytest.mark.parametrize("block", blocks("sh", read("deploy/tracing.md")))
def test_the_pages_settings_turn_spans_on(block: str):
    """Each block of the page on traces sets variables of OpenTelemetry that turn spans on, and no others."""
    given = dict(line.split("=", 1) for line in block.splitlines() if line)
    assert wants_spans(given)
    assert all(name.startswith("OTEL_EXPORTER_OTLP_") for name in given)


def test_spans():
    """A request is a SERVER span in the caller's trace; its work and its store calls (CLIENT) are spans under it."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the extra otel is not installed")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    tracing = OpenTelemetry(provider)

    span = tracing.begin(PARENT)
    tracing.did("build window", 0.5)
    tracing.asked_store("read_window", 0.25, failed=True)
    span.end("GET", "/conversations/{conversation}/window", 503)
    alone = tracing.begin(None)
    alone.end("GET", "", 404)
    tracing.close()

    window, store, request, other = memory.get_finished_spans()
    assert (request.kind.name, request.status.status_code.name) == ("SERVER", "ERROR")
    assert request.name == "GET /conversations/{conversation}/window"
    assert request.attributes == {
        "http.request.method": "GET",
        "http.route": "/conversations/{conversation}/window",
        "http.response.status_code": 503,
    }
    assert f"{request.context.trace_id:032x}" == TRACE == span.context.trace_id
    assert f"{request.parent.span_id:016x}" == SPAN
    assert (window.name, window.kind.name) == ("build window", "INTERNAL")
    assert (store.name, store.kind.name, store.status.status_code.name) == ("store read_window", "CLIENT", "ERROR")
    assert store.attributes == {"db.system.name": "redis", "db.operation.name": "read_window"}
    assert store.parent.span_id == request.context.span_id
    assert (store.end_time - store.start_time) / 1e9 == pytest.approx(0.25)
    assert other.parent is None
    assert other.name == "GET"
    assert "http.route" not in other.attributes
