"""Tests the built-in summariser with a real HTTP endpoint that is slow, fails, or sends malformed answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import redis
from conftest import http, lifespan
from structlog.testing import capture_logs

from sash.app import create_app
from sash.core.counts.costs.counting import message_tokens
from sash.core.counts.models.models import find_model
from sash.operations.summarizer import Summarizer
from sash.settings import Settings
from sash.store.data.conversations import Conversations
from sash.store.data.layout import Target, target_at
from sash.store.data.summaries import Summaries, make_summary
from sash.store.redis.client import Client

SECRET = "4711-secret"
MODEL = "gpt-4o-mini"
QUERY = f"model={MODEL}&max_tokens=600"
CALL = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; fail after a minute."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never was so")


class Endpoint:
    """A chat completions endpoint on this machine; it sends ``answers`` in turn and repeats the last one."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.answers: list[Any] = ["The story so far."]
        self.at_once = 0
        self.most_at_once = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                text = head.decode().lower()
                length = int(text.partition("content-length: ")[2].partition("\r\n")[0])
                self.asked.append(json.loads(await reader.readexactly(length)))
                self.headers.append(text)
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    await self.answer(writer)
                finally:
                    self.at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, writer: asyncio.StreamWriter) -> None:
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        status, body = 200, b""
        if isinstance(answer, asyncio.Event):
            await answer.wait()
            answer = "The story so far, late."
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            answer = "The story so far, late."
        if isinstance(answer, tuple):
            status, body = answer
        elif isinstance(answer, int):
            status, body = answer, b'{"error": "no"}'
        elif isinstance(answer, bytes):
            body = answer
        else:
            body = json.dumps({"choices": [{"message": {"role": "assistant", "content": answer}}]}).encode()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """A running endpoint; it sends a summary unless a test changes ``answers``."""
    endpoint = Endpoint()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/chat/completions"
    yield endpoint
    server.close()


class Served:
    """A client of an application, and the application's summariser."""

    def __init__(self, client: httpx.AsyncClient, summarizer: Summarizer) -> None:
        self.client = client
        self.summarizer = summarizer

    async def turn(self, conversation: str, text: str, *, query: str = QUERY) -> dict[str, Any]:
        """Append a question and its reply in one request; return the service's answer."""
        entries = [{"message": {"role": role, "content": f"{text} {'word ' * 30}"}} for role in ("user", "assistant")]
        answer = await self.client.post(f"/conversations/{conversation}/messages?{query}", json={"messages": entries})
        assert answer.status_code == 201, answer.text
        appended: dict[str, Any] = answer.json()
        return appended

    async def summary(self, conversation: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = (await self.client.get(f"/conversations/{conversation}")).json()["summary"]
        return found


@asynccontextmanager
async def served(store: Any, url: str, **options: Any) -> AsyncIterator[Served]:
    settings = Settings(
        redis_url=store.url,
        store_connections=2,
        durability="fast",
        summarizer_url=url,
        summarizer_kind=options.get("kind", "chat"),
        summarizer_model=options.get("model", "small"),
        summarizer_key="key-1",
    )
    app = create_app(settings)
    summarizer = summarizer_of(app)
    summarizer._endpoint.first_pause_seconds = options.get("pause", 0.02)
    summarizer._endpoint.timeout_seconds = options.get("timeout", 5.0)
    async with lifespan(app) as running, http(running) as client:
        yield Served(client, summarizer)


def summarizer_of(app: Any) -> Summarizer:
    """Return the application's summariser."""
    found = inside(app).state.context.summarizer
    assert isinstance(found, Summarizer)
    return found


def inside(app: Any) -> Any:
    """Return the application inside all of its wrappers."""
    while not hasattr(app, "state"):
        app = app._app
    return app


@pytest.fixture
async def talk(store: Any, endpoint: Endpoint) -> AsyncIterator[Served]:
    """An application whose summariser asks the endpoint."""
    async with served(store, endpoint.url) as running:
        yield running


async def test_it_writes_what_windows_leave_out(talk: Served, endpoint: Endpoint, conversation: str) -> None:
    """When enough messages are left out, a summary covers them; the next window begins after it and counts its tokens."""
    for n in range(12):
        answer = await talk.turn(conversation, f"line {n}")
        await talk.summarizer.idle()
        summary = await talk.summary(conversation)
        if summary:
            break

    assert summary is not None
    assert summary["text"] == "The story so far."
    assert summary["through_seq"] == answer["window"]["kept"]["first_seq"] - 1 >= 8
    window = (await talk.client.get(f"/conversations/{conversation}/window?{QUERY}")).json()
    assert window["tokens"]["summary"] == summary["tokens"]["o200k_base"]
    assert window["kept"]["first_seq"] > summary["through_seq"]
    assert "authorization: bearer key-1" in endpoint.headers[0]
    assert endpoint.asked[0]["model"] == "small"
    await talk.client.delete(f"/conversations/{conversation}")


ABANDONED = {"message": {"role": "assistant", "content": "half an answ"}, "status": "in_progress"}
UNANSWERED = {"role": "assistant", "content": None, "tool_calls": [CALL]}


@pytest.mark.parametrize(
    ("gap", "more"),
    [
        (ABANDONED, ""),
        (UNANSWERED, ""),
        ({"role": "user", "content": "ok"}, "&dedupe=messages"),
        ({"role": "user", "content": "too large " * 500}, "&overflow=skip"),
    ],
)
async def test_a_gap_in_a_window_does_not_begin_it(
    talk: Served, conversation: str, gap: dict[str, Any], more: str
) -> None:
    """A message that is left out by itself does not bring older messages, which are sent, into the summary."""
    for n in range(20):
        await talk.turn(conversation, f"line {n}", query="")
    await talk.client.post(f"/conversations/{conversation}/messages", json={"messages": [gap]})
    if more:
        await talk.client.post(f"/conversations/{conversation}/messages", json={"messages": [gap]})
    window = (await talk.turn(conversation, "at last", query=f"{QUERY}{more}"))["window"]
    await talk.summarizer.idle()
    summary = await talk.summary(conversation)
    assert summary is not None
    assert summary["through_seq"] == window["kept"]["first_seq"] - 1
    await talk.client.delete(f"/conversations/{conversation}")


async def test_it_is_incremental(talk: Served, endpoint: Endpoint, conversation: str) -> None:
    """Each summary request contains the old summary and the messages left out since, without a gap."""
    endpoint.answers = ["First part.", "Second part.", "Third part."]
    for n in range(30):
        await talk.turn(conversation, f"line-{n:02d}")
        await talk.summarizer.idle()

    asked = [each["messages"][1]["content"] for each in endpoint.asked]
    assert len(asked) >= 3
    assert "First part." in asked[1]
    assert "Second part." in asked[2]
    told = [[n for n in range(30) if f"line-{n:02d}" in text] for text in asked]
    for before, after in pairwise(told):
        assert after[0] in (before[-1], before[-1] + 1)
    messages = (await talk.client.get(f"/conversations/{conversation}")).json()["messages"]
    assert messages["count"] == 60
    await talk.client.delete(f"/conversations/{conversation}")


async def test_it_is_never_in_the_way(store: Any, endpoint: Endpoint, conversation: str) -> None:
    """Appends do not wait for an endpoint that does not answer."""
    answers = asyncio.Event()
    endpoint.answers = [answers]
    async with served(store, endpoint.url, timeout=60.0, pause=60.0) as talk:
        for n in range(14):
            await talk.turn(conversation, f"line {n}")
        await until(lambda: endpoint.at_once == 1)
        assert await talk.summary(conversation) is None
        answers.set()
        await talk.client.delete(f"/conversations/{conversation}")


async def test_its_timeout_is_logged_once(store: Any, endpoint: Endpoint, conversation: str) -> None:
    """An endpoint that is too slow writes no summary, and one line of the log says so, however many turns follow."""
    endpoint.answers = [2.0]
    async with served(store, endpoint.url, timeout=0.3, pause=60.0) as talk:
        with capture_logs() as logs:
            for n in range(14):
                await talk.turn(conversation, f"line {n}")
            await until(lambda: any(line["event"] == "summary not written" for line in logs))
        warnings = [line["why"] for line in logs if line["event"] == "summary not written"]
        assert len(warnings) == 1
        assert await talk.summary(conversation) is None
        await talk.client.delete(f"/conversations/{conversation}")


NONSENSE: list[Any] = [
    500,
    429,
    b"not json",
    b'{"choices": []}',
    b"[1]",
    b'{"choices": [{"message": {"content": 5}}]}',
    b"\xff\xfe",
    b"[" * 100_000,
    "",
    "   ",
    b"x" * (1024 * 1024 + 10),
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=range(len(NONSENSE)))
async def test_it_tries_again(talk: Served, endpoint: Endpoint, conversation: str, nonsense: Any) -> None:
    """After a failed answer the summariser pauses, twice as long each time, and retries; no log line has message text."""
    endpoint.answers = [nonsense, nonsense, "At last."]
    with capture_logs() as logs:
        for n in range(12):
            await talk.turn(conversation, f"{SECRET} {n}")
        await talk.summarizer.idle()

    summary = await talk.summary(conversation)
    assert summary is not None
    assert summary["text"] == "At last."
    failures = [line for line in logs if line["event"] == "summary not written"]
    assert [line["failures"] for line in failures] == [1, 2]
    assert failures[1]["pause_seconds"] == 2 * failures[0]["pause_seconds"]
    assert SECRET not in repr(logs)
    await talk.client.delete(f"/conversations/{conversation}")


async def test_nobody_there(store: Any, conversation: str) -> None:
    """If the endpoint refuses connections, one line is logged and appends succeed."""
    async with served(store, "http://127.0.0.1:9/v1/chat/completions", pause=60.0) as talk:
        with capture_logs() as logs:
            for n in range(12):
                await talk.turn(conversation, f"line {n}")
            await until(lambda: any(line["event"] == "summary not written" for line in logs))
        (why,) = [line["why"] for line in logs if line["event"] == "summary not written"]
        assert why.startswith("ConnectError: ")
        await talk.client.delete(f"/conversations/{conversation}")


async def test_a_call_is_traced_and_its_answer_is_told(store: Any, endpoint: Endpoint, conversation: str) -> None:
    """A call carries the request's id and trace; its line has conversation, tenant, model, tokens and price, and a refusal
    the endpoint's own error, which ``GET /status`` has too, without a key and without what was sent."""
    refusal = {"error": {"type": "insufficient_quota", "message": f"Key sk-4711 has no quota for {SECRET} 0 word word"}}
    served_answer = {"choices": [{"message": {"content": "So far."}}], "usage": {"prompt_tokens": 1000}}
    endpoint.answers = [(429, json.dumps(refusal).encode()), json.dumps(served_answer).encode()]
    async with served(store, endpoint.url, model="gpt-4o-mini", pause=2.0) as talk:
        talk.client.headers.update({"x-request-id": "r-4711", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
        with capture_logs() as logs:
            for n in range(12):
                await talk.turn(conversation, f"{SECRET} {n}")
            await until(lambda: any(line["event"] == "summary not written" for line in logs))
            away = (await talk.client.get("/status")).json()["upstreams_away"]
            await talk.summarizer.idle()
            assert (await talk.client.get("/status")).json()["upstreams_away"] == []
        await talk.client.delete(f"/conversations/{conversation}")

    assert all(f"traceparent: 00-{'a' * 32}-" in text and "x-request-id: r-4711" in text for text in endpoint.headers)
    failed = next(line for line in logs if line["event"] == "upstream failed")
    assert failed["why"].startswith("status 429: insufficient_quota, Key … has no quota")
    assert away == [{"upstream": "summarizer", "why": failed["why"]}]
    assert not any(word in repr(logs) for word in (SECRET, "sk-4711"))
    asked = next(line for line in logs if line["event"] == "upstream asked")
    assert (asked["tenant"], asked["model"], asked["input_tokens"], asked["request_id"]) == (
        *("default", "gpt-4o-mini", 1000, "r-4711"),
    )
    assert asked["input_usd"] == pytest.approx(1000 * 0.15 / 1e6)
    assert asked["trace_id"] == "a" * 32
    assert len(asked["conversation"]) == 16


async def test_at_most_its_share(talk: Served, endpoint: Endpoint, conversation: str) -> None:
    """A summary that is too long is cut to 40 % of the budget, including the tokens of its message."""
    endpoint.answers = ["long and longer " * 2000]
    for n in range(12):
        await talk.turn(conversation, f"line {n}")
        await talk.summarizer.idle()

    summary = await talk.summary(conversation)
    assert summary is not None
    cost = message_tokens(make_summary(summary["text"], 1).measure, find_model(MODEL))
    assert 200 < cost <= 0.4 * 600
    await talk.client.delete(f"/conversations/{conversation}")


async def test_one_at_a_time_over_all_replicas(
    store: Any, endpoint: Endpoint, conversation: str, server: redis.Redis
) -> None:
    """Two replicas never ask for a summary of the same conversation at the same time, and release the lease afterwards."""
    endpoint.answers = [0.3]
    async with served(store, endpoint.url) as one, served(store, endpoint.url) as two:
        for n in range(7):
            await one.turn(conversation, f"line {n}", query="")
        for n in range(7):
            await one.turn(conversation, f"line {n}")
            await two.client.get(f"/conversations/{conversation}/window?{QUERY}")
        await one.summarizer.idle()
        await two.summarizer.idle()
        assert endpoint.most_at_once == 1
        assert await two.summary(conversation) is not None
        assert server.hget(f"sash:{{default/{conversation}}}:conversation", "summarizer") is None
        await one.client.delete(f"/conversations/{conversation}")


async def test_what_was_edited_meanwhile_wins(talk: Served, endpoint: Endpoint, conversation: str) -> None:
    """A summary is discarded if its messages are redacted, or summarised by the client, while the endpoint writes it."""
    first, second = asyncio.Event(), asyncio.Event()
    endpoint.answers = [first, second]
    for n in range(12):
        await talk.turn(conversation, f"line {n}")
    await until(lambda: len(endpoint.asked) == 1)
    await talk.client.delete(f"/conversations/{conversation}/messages/1")
    first.set()
    await talk.summarizer.idle()
    assert await talk.summary(conversation) is None

    await talk.turn(conversation, "again")
    await until(lambda: len(endpoint.asked) == 2)
    await talk.client.put(f"/conversations/{conversation}/summary", json={"text": "Mine.", "through_seq": 3})
    second.set()
    await talk.summarizer.idle()
    summary = await talk.summary(conversation)
    assert summary is not None
    assert summary["text"] == "Mine."
    await talk.client.delete(f"/conversations/{conversation}")


async def test_an_erasure_before_the_messages_are_read_ends_it(
    talk: Served, endpoint: Endpoint, conversation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the conversation begins anew before its messages are read, nothing is sent to the endpoint, and nothing fails."""
    reader = talk.summarizer._reader

    async def erased_since(target: Target) -> Any:
        state = await reader.get(target)
        await talk.client.delete(f"/conversations/{conversation}")
        await talk.turn(conversation, "anew", query="")
        return state

    racing = SimpleNamespace(get=erased_since, page=reader.page)
    monkeypatch.setattr(talk.summarizer, "_reader", racing)
    with capture_logs() as lines:
        for n in range(12):
            await talk.turn(conversation, f"line {n}")
        await talk.summarizer.idle()
    assert endpoint.asked == []
    assert [line for line in lines if line["log_level"] == "error"] == []
    await talk.client.delete(f"/conversations/{conversation}")


async def test_a_lease_ends_by_itself(store: Any, conversation: str, fresh: Callable[[], str]) -> None:
    """A lease has one holder, who alone can release it; it can be taken once expired, but not for an absent conversation."""
    client = Client(store.url)
    await client.open()
    try:
        conversations = Conversations(client)
        summaries = Summaries(client, conversations)

        async def lease(holder: str, now_ms: int, until_ms: int) -> bool:
            return await summaries.lease(target_at("t", conversation), holder, now_ms=now_ms, until_ms=until_ms)

        assert not await lease("a", 0, 100)
        await conversations.create(target_at("t", conversation), b"{}", ttl_ms=None, now_ms=1, token=fresh())
        taken = [
            await lease("a", 0, 100),
            await lease("b", 50, 150),
            await lease("b", 50, 0),
            await lease("a", 50, 200),
        ]
        assert taken == [True, False, False, True]
        assert await lease("b", 200, 300)
        assert await lease("b", 250, 0)
        assert await lease("a", 250, 300)
        await conversations.erase(target_at("t", conversation), if_match="")
    finally:
        await client.close()


async def test_nothing_without_an_endpoint(app: Any) -> None:
    """Without an endpoint in the settings, the application has no summariser."""
    assert inside(app).state.context.summarizer is None


# ---- a vendor's own compaction


def compacted(number: int) -> dict[str, dict[str, Any]]:
    """The vendors' answers to a request to compact, as their documents have them."""
    retained = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"Retained {number}."}]}
    sealed = {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "gAAAAABpM0Yj" * 4}
    block = {"type": "compaction", "content": f"Part {number}.", "signature": "EqQBCgIY"}
    usage = {"input_tokens": 1000, "output_tokens": 100}
    return {
        "openai": {"object": "response.compaction", "id": "resp_1", "output": [retained, sealed], "usage": usage},
        "anthropic": {
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": "compaction",
            "usage": usage,
        },
    }


VENDORS = {
    "openai": ("format=responses&model=gpt-5.2&max_tokens=900", "gpt-5.2", "input"),
    "anthropic": ("format=anthropic&model=claude-opus-4-6&max_tokens=900", "claude-opus-4-6", "messages"),
}


@pytest.mark.parametrize("vendor", VENDORS)
async def test_a_vendor_s_own_compaction_takes_the_place_of_what_it_got(
    store: Any, endpoint: Endpoint, conversation: str, vendor: str
) -> None:
    """The vendor gets the item so far and the messages after it, up to a reply; windows begin with the newest item. Each
    call carries the request's id and trace, and its line says for whom it was and what it cost."""
    query, model, member = VENDORS[vendor]
    answers = [compacted(number)[vendor] for number in range(20)]
    endpoint.answers = [json.dumps(each).encode() for each in answers]
    async with served(store, endpoint.url, kind=vendor, model=None) as talk:
        talk.client.headers.update({"x-request-id": "r-4711", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
        with capture_logs() as logs:
            for n in range(30):
                await talk.turn(conversation, f"line-{n:02d}", query=query)
                await talk.summarizer.idle()
        summary = await talk.summary(conversation)
        window = (await talk.client.get(f"/conversations/{conversation}/window?{query}")).json()
        await talk.client.delete(f"/conversations/{conversation}")

    assert len(endpoint.asked) >= 3
    assert {each["model"] for each in endpoint.asked} == {model}
    items = [each["output"] if vendor == "openai" else each["content"] for each in answers]
    last = items[len(endpoint.asked) - 1]
    assert summary is not None
    assert summary["item"] == last[-1]
    assert summary.get("items", last) == last
    sent = window["request"][member]
    assert sent[: len(last)] == (last if vendor == "openai" else [{"role": "assistant", "content": last}])
    assert window["kept"]["first_seq"] > summary["through_seq"]
    for asked, before in zip(endpoint.asked[1:], items, strict=False):
        assert str(before[-1]) in str(asked[member][: len(before)])
    told = [[n for n in range(30) if f"line-{n:02d}" in str(each[member])] for each in endpoint.asked]
    for before, after in pairwise(told):
        assert after[0] in (before[-1], before[-1] + 1)
    assert all(each[member][-1]["role"] == "user" for each in endpoint.asked)
    assert all("instructions" not in each for each in endpoint.asked)
    if vendor == "anthropic":
        assert all(each["compaction"] == {"type": "summarize"} for each in endpoint.asked)
        assert "anthropic-beta: compact-2026-09-04" in endpoint.headers[0]
        assert "x-api-key: key-1" in endpoint.headers[0]
        assert "authorization" not in endpoint.headers[0]
    else:
        assert "authorization: bearer key-1" in endpoint.headers[0]
    assert all(f"traceparent: 00-{'a' * 32}-" in text and "x-request-id: r-4711" in text for text in endpoint.headers)
    asked = [line for line in logs if line["event"] == "upstream asked"]
    assert len(asked) == len(endpoint.asked)
    assert {(line["tenant"], line["model"], line["input_tokens"]) for line in asked} == {("default", model, 1000)}
    assert all(line["input_usd"] > 0 and len(line["conversation"]) == 16 for line in asked)


@pytest.mark.parametrize(
    "wrong",
    [
        b"{}",
        b'{"content": []}',
        b'{"content": [{"type": "text", "text": "no"}], "stop_reason": "max_tokens"}',
        b'{"content": [{"type": "compaction", "content": null}]}',
        500,
    ],
)
async def test_a_compaction_that_failed_is_tried_again(
    store: Any, endpoint: Endpoint, conversation: str, wrong: Any
) -> None:
    """An answer without a summary is a failure: the whole history stays, and the vendor is asked again."""
    query = VENDORS["anthropic"][0]
    endpoint.answers = [wrong, json.dumps(compacted(1)["anthropic"]).encode()]
    async with served(store, endpoint.url, kind="anthropic") as talk:
        with capture_logs() as logs:
            for n in range(14):
                await talk.turn(conversation, f"line-{n:02d}", query=query)
                await talk.summarizer.idle()
        summary = await talk.summary(conversation)
        await talk.client.delete(f"/conversations/{conversation}")
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["summary not written"]
    assert summary is not None
    assert summary["text"] == "Part 1."


async def test_windows_of_another_format_ask_no_vendor(store: Any, endpoint: Endpoint, conversation: str) -> None:
    """Only windows of the vendor's own format can begin with its item."""
    async with served(store, endpoint.url, kind="anthropic") as talk:
        for n in range(14):
            await talk.turn(conversation, f"line-{n:02d}")
            await talk.summarizer.idle()
        assert await talk.summary(conversation) is None
        await talk.client.delete(f"/conversations/{conversation}")
    assert endpoint.asked == []


async def test_a_chat_summary_takes_no_compaction_s_place(talk: Served, endpoint: Endpoint, conversation: str) -> None:
    """Where a provider compacts itself, another text would make the thoughts behind its item invalid."""
    query = VENDORS["anthropic"][0]
    await talk.turn(conversation, "first", query="")
    block = {"role": "assistant", "content": [{"type": "compaction", "content": "So far."}]}
    await talk.client.post(f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [block]})
    for n in range(20):
        window = (await talk.turn(conversation, f"line-{n:02d}", query=query))["window"]
        await talk.summarizer.idle()
    assert window["stop_reason"] == "budget"
    assert window["request"]["messages"][0] == block
    assert endpoint.asked == []
    await talk.client.delete(f"/conversations/{conversation}")
