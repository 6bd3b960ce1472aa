"""GET /metrics, and the trace header and the log line of a request."""

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from conftest import Served

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def value(text: str, series: str) -> float:
    """Return a series' value, or 0 if the series is missing."""
    match = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(match[1]) if match else 0.0


async def test_requests_are_counted_by_operation(client: httpx.AsyncClient, conversation: str):
    """Requests are counted by operation id and status, never by path, because paths contain ids."""
    series = 'sash_requests_total{operation="getConversation",status="404"}'
    before = value((await client.get("/metrics")).text, series)
    await client.get(f"/conversations/{conversation}")
    text = (await client.get("/metrics")).text
    assert value(text, series) == before + 1
    assert conversation not in text


async def test_the_format(client: httpx.AsyncClient):
    """The format is Prometheus' text, or OpenMetrics if the client asks for it."""
    plain = await client.get("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    modern = await client.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")


async def test_connections_to_the_store_are_counted_by_state(client: httpx.AsyncClient):
    """Idle, busy and down connections add up to the limit of the process."""
    await client.get("/conversations")  # so that a connection is open, whichever test came before
    text = (await client.get("/metrics")).text
    states = [value(text, f'sash_store_connections{{state="{state}"}}') for state in ("idle", "busy", "down")]
    assert sum(states) == 2
    assert states[2] < 2


async def test_what_a_turn_leaves(new_client: httpx.AsyncClient, conversation: str):
    """An append with a window counts one append, message, tokenisation, window and store call."""
    series = [
        "sash_appended_messages_total",
        "sash_append_duration_seconds_count",
        "sash_tokenise_duration_seconds_count",
        'sash_windows_total{model="gpt-4o",stop_reason="complete"}',
        'sash_store_duration_seconds_count{call="append+read_window"}',
    ]
    before = (await new_client.get("/metrics")).text
    body = {"messages": [{"message": {"role": "user", "content": "Hello"}}]}
    answer = await new_client.post(f"/conversations/{conversation}/messages?model=gpt-4o", json=body)
    assert answer.status_code == 201
    after = (await new_client.get("/metrics")).text
    assert [value(after, name) - value(before, name) for name in series] == [1, 1, 1, 1, 1]


async def test_a_duplicate_is_no_message(client: httpx.AsyncClient, conversation: str):
    """A duplicate is not counted as an appended message."""
    body = {"messages": [{"id": "m-1", "message": {"role": "user", "content": "Hello"}}]}
    await client.post(f"/conversations/{conversation}/messages", json=body)
    before = (await client.get("/metrics")).text
    await client.post(f"/conversations/{conversation}/messages", json=body)
    after = (await client.get("/metrics")).text
    assert value(after, "sash_appended_messages_total") == value(before, "sash_appended_messages_total")


async def test_nothing_is_in_progress_but_the_question(client: httpx.AsyncClient):
    """After a refused request, the scrape itself is the only request in progress."""
    await client.get("/conversations/-no-id-")
    assert value((await client.get("/metrics")).text, "sash_requests_in_progress") == 1


async def test_a_trace_is_answered(client: httpx.AsyncClient):
    """The answer continues the request's trace with a new span; an answer to a request without a trace has none."""
    answer = await client.get("/livez", headers={"traceparent": TRACEPARENT})
    version, trace, span, flags = answer.headers["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACEPARENT.split("-")[1], "01")
    assert span != TRACEPARENT.split("-")[2]
    assert "traceparent" not in (await client.get("/livez")).headers


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield ``sash serve`` with two workers, which the module's tests share in any order."""
    served = Served(tmp_path_factory.mktemp("two") / "data", SASH_WORKERS="2")
    served.start()
    yield served
    if served.process is not None and served.process.poll() is None:
        served.stop()


def scrape(url: str) -> str:
    """Return the metrics, read over a new connection so that any worker may answer."""
    return httpx.get(f"{url}/metrics", headers={"Connection": "close"}).text


def test_two_workers_count_as_one(two_workers: Served):
    """Every scrape covers both workers; the count becomes right soon and never decreases meanwhile."""
    series = 'sash_requests_total{operation="countTokens",status="200"}'
    for _ in range(40):
        httpx.post(
            f"{two_workers.url}/count", json={"model": "gpt-4o", "text": "hello"}, headers={"Connection": "close"}
        )
    seen: list[float] = []
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up and (not seen or seen[-1] < 40):
        text = scrape(two_workers.url)
        seen.append(value(text, series))
        time.sleep(0.05)
    assert seen == sorted(seen)
    assert {value(scrape(two_workers.url), series) for _ in range(8)} == {40}
    assert value(scrape(two_workers.url), "sash_workers") == 2


def test_a_drain(tmp_path: Path):
    """A drained service exits with status 0, and its counts are in the statistics after the next start."""
    served = Served(tmp_path / "data", SASH_WORKERS="2")
    served.start()
    body = {"model": "gpt-4o", "messages": [{"message": {"role": "user", "content": "Hello"}}]}
    for _ in range(10):
        assert httpx.post(f"{served.url}/window", json=body, headers={"Connection": "close"}).status_code == 200
    assert served.stop() == 0
    served.start()
    assert httpx.get(f"{served.url}/stats").json()["start"]["all"]["windows"] == 10
    assert served.stop() == 0


def logged(served: Served, request_id: str) -> dict[str, Any]:
    """Return the log line of a request; wait for it, since it is written after the answer is sent."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        for text in (served.data_dir.parent / "serve.log").read_text().splitlines():
            line: dict[str, Any] = msgspec.json.decode(text) if text.startswith("{") and text.endswith("}") else {}
            if line.get("request_id") == request_id:
                return line
        time.sleep(0.05)
    raise AssertionError(f"no line for {request_id}")


def test_the_log_line(two_workers: Served):
    """A request's log line is a JSON object with its operation, tokens and trace; the log has no user's id and no text."""
    body = {"messages": [{"message": {"role": "user", "content": "my secret wish"}}]}
    headers = {"traceparent": TRACEPARENT, "X-Request-ID": "r-1"}
    httpx.post(f"{two_workers.url}/conversations/anna/messages?model=gpt-4o", json=body, headers=headers)
    httpx.get(f"{two_workers.url}/owners/anna/unknown", headers={"X-Request-ID": "r-2"})
    line, unknown = logged(two_workers, "r-1"), logged(two_workers, "r-2")
    log = (two_workers.data_dir.parent / "serve.log").read_text()
    wanted = {"operation": "appendMessages", "status": 201, "kept": 1, "dropped": 0, "model": "gpt-4o"}
    assert wanted.items() <= line.items()
    assert line["window_tokens"] > 3
    assert line["trace_id"] == TRACEPARENT.split("-")[1]
    assert unknown["status"] == 404
    assert unknown["operation"] is None
    assert "window_tokens" not in unknown
    assert "anna" not in log
    assert "wish" not in log


def test_opentelemetry_costs_nothing_where_it_is_not_asked_for():
    """The tracing module imports nothing of OpenTelemetry."""
    program = "import sys, sash.operations.tracing; print([n for n in sys.modules if n.startswith('opentelemetry')])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert output.stdout == b"[]\n"
