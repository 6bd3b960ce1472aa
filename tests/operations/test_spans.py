"""Tests a real request's trace as a collector receives it: the request's span and the store's script under it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Served

from sash.operations.tracing import TraceContext

CLIENT = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "01")


class Collector(ThreadingHTTPServer):
    """Receives the requests of an OTLP exporter."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Taker)

    def spans(self) -> list[Any]:
        """Return all received spans, in the order of their end times."""
        trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
        exports = map(trace_service.ExportTraceServiceRequest.FromString, self.bodies)
        found = [s for export in exports for r in export.resource_spans for scope in r.scope_spans for s in scope.spans]
        return sorted(found, key=lambda span: span.end_time_unix_nano)


class _Taker(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def collecting() -> Iterator[Collector]:
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


def test_a_request_is_followed_from_its_caller_into_the_stores_scripts(tmp_path: Path) -> None:
    """An append that returns a window has one span under the caller's, with the store's script and other work under it."""
    with collecting() as collector:
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        served = Served(tmp_path / "data", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
        served.start()
        answer = httpx.post(
            f"{served.url}/conversations/c-1/messages",
            params={"model": "gpt-4o-mini"},
            json={"messages": [{"message": {"role": "user", "content": "a secret"}}]},
            headers={"traceparent": CLIENT.traceparent},
        )
        assert served.stop() == 0  # on stop, it sends the remaining spans

    assert answer.status_code == 201, answer.text
    ours = [span for span in collector.spans() if span.trace_id.hex() == CLIENT.trace_id]
    (request,) = [span for span in ours if span.parent_span_id.hex() == CLIENT.span_id]
    assert (request.name, request.kind) == ("POST /conversations/{conversation_id}/messages", 2)  # 2 is SERVER
    assert answer.headers["traceparent"] == f"00-{CLIENT.trace_id}-{request.span_id.hex()}-01"
    within = {span.name: span for span in ours if span.parent_span_id == request.span_id}
    assert len(within) == len(ours) - 1
    assert {"store append+read_window", "append", "build window"} <= within.keys()
    for span in within.values():
        assert request.start_time_unix_nano <= span.start_time_unix_nano + 1_000_000
        assert span.end_time_unix_nano <= request.end_time_unix_nano
    assert not any(b"secret" in body for body in collector.bodies)


def attributes(span: Any) -> dict[str, Any]:
    """Return a received span's attributes."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@pytest.mark.parametrize("named", ["0", "1"], ids=["hashed", "named"])
def test_spans_have_the_conventions_of_generative_ai(tmp_path: Path, named: str) -> None:
    """A window's span says what it has, a search is ``search_memory``, a bill is on its request; a conversation's id is
    there only if that is allowed."""
    with collecting() as collector:
        endpoint = f"http://127.0.0.1:{collector.server_port}"
        options = {"SASH_TRACE_CONVERSATION_IDS": named, "SASH_RECALL": "lexical"}
        served = Served(tmp_path / "data", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, **options)
        served.start()
        with httpx.Client(base_url=served.url) as client:
            entry = {"message": {"role": "user", "content": "gradle " * 20}}
            client.post("/conversations/anna-4711/messages", json={"messages": [entry, entry]}).raise_for_status()
            path = "/conversations/anna-4711"
            window = client.get(f"{path}/window", params={"model": "gpt-4o-mini", "max_tokens": 60})
            assert window.status_code == 200, window.text
            window = window.json()
            client.get(f"{path}/search", params={"query": "gradle"}).raise_for_status()
            bill = {"model": "gpt-4o-mini", "receipt": window["receipt"], "prompt_tokens": 60, "cached_tokens": 16}
            client.post(f"{path}/usage", json=bill).raise_for_status()
        assert served.stop() == 0

    spans = collector.spans()
    built = attributes(next(span for span in spans if span.name == "build window"))
    assert built["sash.window.budget"] == 60
    assert (built["sash.window.kept_messages"], built["sash.window.dropped_messages"]) == (1, 1)
    assert (built["sash.window.stop_reason"], built["gen_ai.conversation.compacted"]) == ("budget", False)
    assert built["sash.window.receipt"] == window["receipt"]
    searched = attributes(next(span for span in spans if span.name == "search_memory"))
    assert searched["gen_ai.operation.name"] == "search_memory"
    billed = attributes(next(span for span in spans if span.name.endswith("/usage")))
    assert (billed["gen_ai.usage.input_tokens"], billed["gen_ai.usage.cache_read.input_tokens"]) == (60, 16)
    ids = {each["gen_ai.conversation.id"] for each in (built, searched, billed)}
    assert len(ids) == 1
    assert (ids == {"anna-4711"}) is (named == "1")
    assert any(b"anna-4711" in body for body in collector.bodies) is (named == "1")
