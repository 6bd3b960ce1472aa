"""Messages, users' ids and API keys appear in no log, metric, statistic or trace."""

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import structlog
from api.test_security import ACME, KEYS, bearer, service
from operations.test_spans import collecting

from sash.api.middleware.layer import is_open
from sash.app import ROUTES
from sash.operations.logging import configure_logging
from sash.operations.requests import RequestLog, request_log
from sash.store.redis.embedded import EmbeddedStore

CANARY = "canary7x"
ENTRY: dict[str, Any] = {
    "id": f"{CANARY}-entry",
    "message": {"role": "user", "content": f"{CANARY} text", "name": CANARY},
    "metadata": {CANARY: CANARY},
    "grounding": {"documents": [{"id": CANARY, "text": f"{CANARY} document"}]},
}
TALK = f"/conversations/{CANARY}-talk"
BILL = {"model": CANARY, "prompt_tokens": 5, "window_tokens": 5}
PICTURE = CANARY + "A" * (12_000 - len(CANARY))
PICTURED = {
    "role": "user",
    "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "low"}}],
}
DONE: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/conversations", {"id": f"{CANARY}-made", "owner": f"{CANARY}-owner", "system": CANARY}),
    ("POST", f"{TALK}/messages?model=gpt-4o-mini", {"messages": [ENTRY, {"message": ENTRY["message"]}]}),
    ("POST", f"{TALK}/messages", {"messages": [PICTURED]}),
    ("GET", f"{TALK}/media/{hashlib.sha256(PICTURE.encode()).hexdigest()[:32]}", None),
    ("PATCH", TALK, {"owner": f"{CANARY}-owner", "metadata": {CANARY: CANARY}, "model": CANARY}),
    ("PUT", f"{TALK}/messages?list=end", {"messages": [{"message": {"role": "user", "content": f"{CANARY} again"}}]}),
    ("GET", TALK, None),
    ("GET", f"{TALK}/messages", None),
    ("GET", f"{TALK}/messages/1", None),
    ("GET", f"{TALK}/window?model={CANARY}&max_tokens=1000", None),
    ("GET", f"{TALK}/window?max_tokens=1000&explain=true", None),
    ("GET", f"{TALK}/window?model=ft:gpt-4o:{CANARY}::x", None),
    ("PUT", f"{TALK}/summary", {"text": CANARY, "through_seq": 1}),
    ("GET", f"{TALK}/window?max_tokens=1000&summary=always", None),
    ("PATCH", TALK, {"recall": "lexical"}),
    ("GET", f"{TALK}/search?query={CANARY}", None),
    ("GET", f"/owners/{CANARY}-owner/search?query={CANARY}", None),
    ("GET", f"/conversations?owner={CANARY}-owner&metadata.{CANARY}={CANARY}", None),
    ("POST", f"{TALK}/usage", BILL),
    *(("POST", f"{TALK}/usage", {**BILL, "model": f"ft:gpt-4o:{CANARY}::x", "prompt_tokens": 9}) for _ in range(12)),
    ("POST", f"{TALK}/fork", {"id": f"{CANARY}-copy"}),
    ("GET", f"{TALK}/export", None),
    (
        "POST",
        f"{TALK}/tools/history_read",
        {"call_id": CANARY, "arguments": {"first": 1, "x": CANARY}, "model": "gpt-4o"},
    ),
    ("POST", f"/mcp?owner={CANARY}", {"jsonrpc": "2.0", "id": CANARY, "method": "ping"}),
    (
        "POST",
        f"/conversations/import?id={CANARY}-in",
        json.dumps({"system": CANARY}).encode() + b"\n" + json.dumps(ENTRY).encode(),
    ),
    ("DELETE", f"{TALK}/summary", None),
    ("PATCH", f"{TALK}/messages/1", {"metadata": {CANARY: CANARY}}),
    ("DELETE", f"{TALK}/messages/1", None),
    ("POST", f"{TALK}/rewind", {"to_seq": 1}),
    ("GET", f"{TALK}/branches", None),
    ("POST", f"{TALK}/branches/b-1", None),
    ("POST", f"{TALK}/rewind", {"to_seq": 1}),
    ("DELETE", f"{TALK}/branches/b-2", None),
    ("GET", f"/conversations?owner={CANARY}-owner", None),
    ("POST", "/count", {"model": f"ft:gpt-4o:{CANARY}::x", "text": CANARY, "messages": [ENTRY["message"]]}),
    ("POST", "/window", {"model": CANARY, "max_tokens": 1000, "messages": [ENTRY]}),
    ("GET", "/models", None),
    ("GET", "/models/gpt-4o", None),
    ("DELETE", f"/owners/{CANARY}-owner", None),
    ("DELETE", f"/conversations/{CANARY}-in", None),
)
"""Requests that succeed, for every operation that takes or returns users' text; bytes are sent as they are."""
REFUSED: tuple[tuple[str, str, Any], ...] = (
    ("GET", f"/erasures/{CANARY}", None),
    ("POST", f"{TALK}/messages", {"messages": [{**ENTRY, "message": {"role": CANARY, "content": CANARY}}]}),
    ("POST", f"{TALK}/messages", f'{{"messages": [{{"message": "{CANARY}'.encode()),
    (
        "POST",
        f"{TALK}/messages",
        {"messages": [{"message": {"role": "tool", "tool_call_id": CANARY, "content": CANARY}}]},
    ),
    (
        "POST",
        f"/conversations/import?id={CANARY}-in",
        f'{{"system":"{CANARY}"}}\n{{"message":{{"role":"{CANARY}"}}}}'.encode(),
    ),
    ("GET", f"{TALK}/window?model={CANARY}", None),
    ("GET", f"{TALK}/window?{CANARY}={CANARY}", None),
    ("POST", "/window", {"model": "gpt-4o", "max_tokens": 2, "messages": [ENTRY]}),
    ("GET", f"{TALK}/window?receipt={CANARY}", None),
    ("GET", f"{TALK}/window/diff?from={CANARY}", None),
    ("GET", f"{TALK}/messages?cursor={CANARY}", None),
    ("GET", f"{TALK}/search?query={CANARY}", None),
    ("GET", f"/models/{CANARY}", None),
    ("GET", f"/{CANARY}", None),
    ("PUT", f"/owners/{CANARY}", None),
)


@contextmanager
def logging_everything() -> Iterator[RequestLog | None]:
    """Log as in production, at level debug; yield the request log."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure_logging("json", "debug")
    structlog.configure(cache_logger_on_first_use=False)  # other tests use these loggers too
    for client in ("httpx", "httpcore"):  # the test's own client, in the same process
        logging.getLogger(client).setLevel(logging.ERROR)
    try:
        yield request_log("json", "debug")
    finally:
        structlog.reset_defaults()
        root.handlers[:], root.level = handlers, level
        for client in ("httpx", "httpcore"):
            logging.getLogger(client).setLevel(logging.NOTSET)


async def test_nothing_that_people_wrote_is_in_logs_metrics_or_traces(
    store: EmbeddedStore, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A canary string in every text and id of requests that succeed or fail is in no log, metric, statistic or trace."""
    with collecting() as collector, logging_everything() as log:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        async with service(store, log=log, api_keys=KEYS, metrics_key="m1") as client:
            for number, (method, path, body) in enumerate(DONE + REFUSED):
                given = {"content": body} if isinstance(body, bytes) else {"json": body}
                form = "application/x-ndjson" if "import" in path else "application/json"
                headers = {**ACME, "Idempotency-Key": f"{CANARY}-{number}", "Content-Type": form}
                answer = await client.request(method, path, headers=headers, **given)
                assert answer.status_code in (range(200, 300) if number < len(DONE) else range(400, 500)), path
            assert (await client.get(TALK, headers=bearer(CANARY))).status_code == 401
            # An internal error: the stored conversation is not valid JSON.
            await client.post("/conversations", json={"id": f"{CANARY}-bad"}, headers=ACME)
            with redis.Redis.from_url(store.url) as raw:
                raw.hset(f"sash:{{acme/{CANARY}-bad}}:conversation", "s", f'{{"system": {CANARY}')
            failed = await client.get(f"/conversations/{CANARY}-bad/window?model=gpt-4o", headers=ACME)
            with redis.Redis.from_url(store.url) as raw:
                raw.delete(f"sash:{{acme/{CANARY}-bad}}:conversation")
            figures, stats = [
                (await client.get(path, headers=bearer("m1"))).raise_for_status().text
                for path in ("/metrics", "/stats")
            ]
    written = capfd.readouterr()
    lines = [json.loads(line) for line in (written.out + written.err).splitlines() if line.startswith("{")]
    requests = [line for line in lines if line.get("event") == "request"]
    assert failed.status_code == 500
    assert any(line["event"] == "request failed" for line in lines)
    assert any("drifts" in line["event"] for line in lines)
    assert len(requests) >= len(DONE + REFUSED)
    assert {line["model"] for line in requests if "model" in line} == {"gpt-4o-mini", "other"}
    spoken = {handler.operation_id for handler in ROUTES if not is_open(next(iter(handler.paths)))}
    too_often = {"getMetrics", "getStatus"}  # to log each request
    endless = {"followConversation", "followOwner"}  # a line is written when a stream ends
    assert spoken - {line["operation"] for line in requests} - endless == too_often
    assert len(collector.spans()) > len(DONE + REFUSED)
    for text in (written.out, written.err, figures, stats, *(body.decode("latin-1") for body in collector.bodies)):
        assert CANARY not in text
        assert KEYS[0].key not in text
