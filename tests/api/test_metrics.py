"""GET /metrics and what else a request leaves: a trace, a log line."""

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
    """A series' value; 0 when it is not there."""
    match = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(match[1]) if match else 0.0


async def test_requests_are_counted_by_operation(client: httpx.AsyncClient, conversation: str):
    """By the operation's id and the status; never by a path, which holds ids."""
    series = 'sash_requests_total{operation="getConversation",status="404"}'
    before = value((await client.get("/metrics")).text, series)
    await client.get(f"/conversations/{conversation}")
    text = (await client.get("/metrics")).text
    assert value(text, series) == before + 1
    assert conversation not in text


async def test_the_format(client: httpx.AsyncClient):
    """Prometheus' text, or OpenMetrics for who asks for it."""
    plain = await client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    modern = await client.get("/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"})
    assert modern.headers["content-type"].startswith("application/openmetrics-text")
    assert modern.text.endswith("# EOF\n")


async def test_connections_to_the_store_are_counted_by_state(client: httpx.AsyncClient):
    """Idle, busy and down add up to what the process may have."""
    await client.get("/readyz")
    text = (await client.get("/metrics")).text
    states = [value(text, f'sash_store_connections{{state="{state}"}}') for state in ("idle", "busy", "down")]
    assert sum(states) == 2
    assert states[2] < 2


async def test_what_a_turn_leaves(client: httpx.AsyncClient, conversation: str):
    """An append, its messages, its window, the store's time: each is counted once."""
    series = [
        "sash_appended_messages_total",
        "sash_append_duration_seconds_count",
        "sash_tokenise_duration_seconds_count",
        'sash_windows_total{model="gpt-4o",stop_reason="complete"}',
        'sash_store_duration_seconds_count{call="append+read_window"}',
    ]
    before = (await client.get("/metrics")).text
    body = {"messages": [{"message": {"role": "user", "content": "Hello"}}]}
    answer = await client.post(f"/conversations/{conversation}/messages?model=gpt-4o", json=body)
    assert answer.status_code == 201
    after = (await client.get("/metrics")).text
    assert [value(after, name) - value(before, name) for name in series] == [1, 1, 1, 1, 1]


async def test_a_duplicate_is_no_message(client: httpx.AsyncClient, conversation: str):
    """What was there already is not stored again, and not counted."""
    body = {"messages": [{"id": "m-1", "message": {"role": "user", "content": "Hello"}}]}
    await client.post(f"/conversations/{conversation}/messages", json=body)
    before = (await client.get("/metrics")).text
    await client.post(f"/conversations/{conversation}/messages", json=body)
    after = (await client.get("/metrics")).text
    assert value(after, "sash_appended_messages_total") == value(before, "sash_appended_messages_total")


async def test_nothing_is_in_progress_but_the_question(client: httpx.AsyncClient):
    """Each request that began has ended, whatever became of it."""
    await client.get("/conversations/-no-id-")
    assert value((await client.get("/metrics")).text, "sash_requests_in_progress") == 1


async def test_a_trace_is_answered(client: httpx.AsyncClient):
    """In the caller's trace, with a span of ours; a request without a trace gets none."""
    answer = await client.get("/livez", headers={"traceparent": TRACEPARENT})
    version, trace, span, flags = answer.headers["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACEPARENT.split("-")[1], "01")
    assert span != TRACEPARENT.split("-")[2]
    assert "traceparent" not in (await client.get("/livez")).headers


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``sash serve`` with two workers, which the module's tests share in any order."""
    served = Served(tmp_path_factory.mktemp("two") / "data", SASH_WORKERS="2")
    served.start()
    yield served
    if served.process is not None and served.process.poll() is None:
        served.stop()


def scrape(url: str) -> str:
    """What Prometheus gets, over a connection of its own, so that any worker may answer."""
    return httpx.get(f"{url}/metrics", headers={"Connection": "close"}).text


def test_two_workers_count_as_one(two_workers: Served):
    """Every scrape tells of both; the count is right within a second, and never goes back meanwhile."""
    series = 'sash_requests_total{operation="countTokens",status="200"}'
    for _ in range(40):
        httpx.post(
            f"{two_workers.url}/count", json={"model": "gpt-4o", "text": "hello"}, headers={"Connection": "close"}
        )
    seen: list[float] = []
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up and (not seen or seen[-1] < 40):
        text = scrape(two_workers.url)
        seen.append(value(text, series))
        time.sleep(0.05)
    assert seen == sorted(seen)
    assert {value(scrape(two_workers.url), series) for _ in range(8)} == {40}
    assert value(scrape(two_workers.url), "sash_workers") == 2


def test_a_drain(tmp_path: Path):
    """Told to stop it ends with status 0, its figures' folder is gone, and what was counted is in the statistics."""
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
    """The line of a request, which is written when the answer has gone out."""
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        for text in (served.data_dir.parent / "serve.log").read_text().splitlines():
            line: dict[str, Any] = msgspec.json.decode(text) if text.startswith("{") and text.endswith("}") else {}
            if line.get("request_id") == request_id:
                return line
        time.sleep(0.05)
    raise AssertionError(f"no line for {request_id}")


def test_the_log_line(two_workers: Served):
    """One JSON object a request, with its operation, tokens and trace; no id of a person, no text, no path."""
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
    """Nothing of it is imported."""
    program = "import sys, service.operations.tracing; print([n for n in sys.modules if n.startswith('opentelemetry')])"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert output.stdout == b"[]\n"
