"""The log line of a request: its durations and token counts, and no text that a user wrote."""

from collections.abc import Callable
from itertools import count
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, user
from store.whole import until_ready
from structlog.testing import capture_logs

from sash.operations.metrics import Metrics
from sash.operations.requests import Pseudonyms, Requests
from sash.store.data.reading import Reader

Line = dict[str, Any]


async def line_of(client: httpx.AsyncClient, method: str, path: str, **request: Any) -> tuple[Line, Any]:
    """Send a request and return its log line and the body of its answer; None without one."""
    with capture_logs() as logs:
        answer = await client.request(method, path, **request)
    (line,) = [each for each in logs if each["event"] == "request"]
    assert line["status"] == answer.status_code < 300, answer.text
    return dict(line), answer.json() if answer.content else None


@pytest.fixture
async def begun(client: httpx.AsyncClient, fresh: Callable[[], str]) -> str:
    identity = fresh()
    await append(client, identity, user("is there a talk about gradle?"))
    return identity


@pytest.mark.parametrize(("edit", "why"), [("expire", "not-found"), ("rewind", "conflict")])
async def test_an_export_that_breaks_off_says_why(
    client: httpx.AsyncClient, begun: str, server: Any, monkeypatch: pytest.MonkeyPatch, edit: str, why: str
) -> None:
    """An export whose conversation ends or is edited meanwhile has the reason in its line, and is no failure."""
    for _ in range(3):
        await append(client, begun, *[user("hello")] * 100)
    page, pages = Reader.page, count()

    async def overtaken(self: Reader, *place: Any, **rest: Any) -> Any:
        if next(pages) == 1:
            if edit == "expire":
                server.delete(*server.keys(f"sash:{{default/{begun}}}:*"))
            else:
                await client.post(f"/conversations/{begun}/rewind", json={"to_seq": 250})
        return await page(self, *place, **rest)

    monkeypatch.setattr(Reader, "page", overtaken)
    with capture_logs() as logs, pytest.raises(AssertionError):  # httpx asserts that the answer is whole
        await client.get(f"/conversations/{begun}/export")
    (line,) = [each for each in logs if each.get("operation") == "exportConversation"]
    assert (line["event"], line["log_level"], line["broke_off"]) == ("request", "info", why)


async def test_an_append_says_what_it_counted(client: httpx.AsyncClient, begun: str) -> None:
    """An append's line has its new messages and tokens, 0 for duplicates, and the durations of counting and the store."""
    body = {"messages": [user("is there a talk about gradle?", id="a"), user("and about uv?", id="b")]}
    line, answer = await line_of(client, "POST", f"/conversations/{begun}/messages", json=body)
    counted = sum(entry["tokens"]["o200k_base"] for entry in answer["messages"])
    assert (line["operation"], line["appended"], line["appended_tokens"]) == ("appendMessages", 2, counted)
    assert 0 < line["tokenise_milliseconds"] + line["store_milliseconds"] <= line["milliseconds"]
    assert "model" not in line
    times = [value for name, value in line.items() if name.endswith("milliseconds")]
    assert times == [round(value, 2) for value in times]

    again, _ = await line_of(client, "POST", f"/conversations/{begun}/messages", json=body)
    assert (again["appended"], again["appended_tokens"]) == (0, 0)


async def test_an_append_that_answers_with_a_window_says_both(client: httpx.AsyncClient, begun: str) -> None:
    """The line of an append with a window has the tokens of the new messages and of the window."""
    path = f"/conversations/{begun}/messages?model=gpt-4o-mini"
    line, answer = await line_of(client, "POST", path, json={"messages": [user("and about uv?")]})
    assert line["appended_tokens"] == answer["messages"][0]["tokens"]["o200k_base"]
    assert (line["model"], line["window_tokens"]) == ("gpt-4o-mini", answer["window"]["tokens"]["total"])


@pytest.mark.parametrize("way", ["GET", "POST", "PUT"], ids=["window", "append", "agreement"])
async def test_each_way_to_a_window_names_whose_it_is(client: httpx.AsyncClient, begun: str, way: str) -> None:
    """The line of a window has the conversation's hash, the tenant and the receipt, whichever request it answers."""
    await until_ready(client)
    place, told = ("window", None) if way == "GET" else ("messages", {"messages": [user("is there a talk about uv?")]})
    line, answer = await line_of(client, way, f"/conversations/{begun}/{place}?model=gpt-4o-mini", json=told)
    assert line["tenant"] == "default"
    assert len(line["conversation"]) == 16
    assert line["receipt"] == answer.get("window", answer)["receipt"]


async def test_each_change_names_whose_it_is(client: httpx.AsyncClient, begun: str) -> None:
    """The line of a request that adds or takes away has the tenant and the conversation's hash, as its windows' lines do."""
    await until_ready(client)
    path = f"/conversations/{begun}"
    window, _ = await line_of(client, "GET", f"{path}/window?model=gpt-4o-mini")
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", f"{path}/messages", {"json": {"messages": [user("is there a talk about uv?")]}}),
        ("DELETE", f"{path}/messages/1", {}),
        ("POST", f"{path}/rewind", {"json": {"to_seq": 1}}),
        ("PATCH", path, {"json": {"metadata": {"kind": "talks"}}}),
        ("DELETE", path, {}),
    ]
    for method, place, options in asked:
        line, _ = await line_of(client, method, place, **options)
        assert (line["tenant"], line["conversation"]) == ("default", window["conversation"])


def test_a_window_behind_many_tenants_is_named() -> None:
    """Where there are more tenants than figures are kept of, a window's line has its tenant and its conversation's hash."""
    said: list[Line] = []
    requests = Requests(Metrics(), Pseudonyms(b"key"), said.append)
    for number in range(1_100):
        line = {"operation": "getWindow", "method": "GET", "status": 200, "window_tokens": 9, "kept": 1, "dropped": 0}
        scope = {"path": "/conversations/c-1/window", "sash.tenant": f"t-{number}"}
        requests.answered(line, 0.001, scope, quiet=False)
    assert [line["tenant"] for line in said] == [f"t-{number}" for number in range(1_100)]
    assert len({line["conversation"] for line in said}) == 1_100


async def test_a_window_says_how_long_the_store_took(client: httpx.AsyncClient, begun: str) -> None:
    """A window's line has its tokens and the duration of the store, and no duration of counting."""
    line, answer = await line_of(client, "GET", f"/conversations/{begun}/window?model=gpt-4o-mini")
    assert (line["window_tokens"], line["kept"]) == (answer["tokens"]["total"], 1)
    assert 0 < line["store_milliseconds"] <= line["milliseconds"]
    assert "tokenise_milliseconds" not in line


async def test_a_count_says_model_and_tokens(client: httpx.AsyncClient) -> None:
    """A count's line has the model and the tokens of messages and text together."""
    body = {"model": "gpt-4o-mini", "messages": [user("Hello")["message"]], "text": "and a text"}
    line, answer = await line_of(client, "POST", "/count", json=body)
    assert (line["model"], line["tokens"]) == ("gpt-4o-mini", answer["tokens"] + answer["text"])
    assert 0 <= line["tokenise_milliseconds"] <= line["milliseconds"]


async def test_a_window_of_a_body_says_what_counting_took(client: httpx.AsyncClient) -> None:
    """The line of a stateless window has its tokens and the duration of counting."""
    body = {"model": "gpt-4o-mini", "messages": [user("Hello")]}
    line, answer = await line_of(client, "POST", "/window", json=body)
    assert (line["model"], line["window_tokens"]) == ("gpt-4o-mini", answer["tokens"]["total"])
    assert 0 <= line["tokenise_milliseconds"] <= line["milliseconds"]


async def test_no_line_holds_a_word_of_what_was_said(client: httpx.AsyncClient, begun: str) -> None:
    """A log line holds neither message text nor the conversation's id, which may identify a person."""
    path = f"/conversations/{begun}/messages?model=gpt-4o-mini"
    line, _ = await line_of(client, "POST", path, json={"messages": [user("plover")]})
    assert not any(word in str(line) for word in ("plover", begun))
