"""Following a conversation as AG-UI's events: who applies them has the messages that a page has."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest_asyncio
from conftest import Served
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rigs.ag_ui_client import Screen
from rigs.dialogue import assistant, calling, result, user
from rigs.reading_events import Followed, following
from rigs.screens import shown

Object = dict[str, Any]


@pytest_asyncio.fixture
async def one(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
        yield client


async def say(client: httpx.AsyncClient, name: str, *entries: Object, **query: Any) -> None:
    """Append entries, which must succeed."""
    path = f"/conversations/{name}/messages"
    (await client.post(path, json={"messages": entries}, params=query)).raise_for_status()


def half(text: str, status: str = "in_progress", **more: Any) -> Object:
    """A reply that is being written, so far."""
    return {"id": "R", "message": {"role": "assistant", "content": text, **more}, "status": status}


def followed(client: httpx.AsyncClient, name: str, **headers: str) -> Any:
    """Open the stream."""
    return following(client, f"/conversations/{name}/events", headers, format="ag-ui")


def version(heard: Followed) -> int:
    """The version that a reader has."""
    customs = [event for event in heard.events if event.get("name") == "sash.version"]
    return customs[-1]["value"]["version"] if customs else 0


async def up_to_date(client: httpx.AsyncClient, name: str, heard: Followed) -> None:
    """Return when a reader has the conversation's version."""
    now = (await client.get(f"/conversations/{name}")).json()["version"]
    await heard.until(lambda: version(heard) == now)


async def test_a_reply_grows_on_a_screen(one: httpx.AsyncClient, conversation: str) -> None:
    """A snapshot comes first, then a question, and the pieces of its reply, which is open until it ends."""
    await say(one, conversation, user("hello", id="u"), assistant("hi"))
    async with followed(one, conversation) as heard:
        await up_to_date(one, conversation, heard)
        assert heard.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "CUSTOM"]
        await say(one, conversation, user("and?", id="v"), half("At"))
        await up_to_date(one, conversation, heard)
        for text in ("At no", "At noon"):
            await say(one, conversation, half(text))
            await up_to_date(one, conversation, heard)
        await say(one, conversation, half("At noon.", "completed"))
        await up_to_date(one, conversation, heard)
        told = [event for event in heard.events[3:] if event["type"] != "CUSTOM"]
        assert [event["type"].removeprefix("TEXT_MESSAGE_") for event in told] == [
            *("START", "CONTENT", "END"),
            *("START", "CONTENT", "CONTENT", "CONTENT", "CONTENT", "END"),
        ]
        assert [event["delta"] for event in told if "delta" in event] == ["and?", "At", " no", "on", "."]
        assert Screen().take(heard.events).messages == await shown(one, conversation, form="ag-ui")


async def test_calls_and_thoughts_come_as_events(one: httpx.AsyncClient, conversation: str) -> None:
    """A thought, a call with its arguments, its result and the line for a call that nobody answered need no snapshot."""
    await say(one, conversation, user("look", id="u"))
    async with followed(one, conversation) as heard:
        await up_to_date(one, conversation, heard)
        thinking = {"message": {"role": "assistant", "content": "hm", "reasoning_content": "why not"}, "id": "r"}
        await say(one, conversation, thinking)
        await say(one, conversation, calling("c1", "c2", id="s"))
        await say(one, conversation, result("c1", "here", id="t"))
        await say(one, conversation, user("never mind", id="v"))
        await up_to_date(one, conversation, heard)
        assert heard.types.count("MESSAGES_SNAPSHOT") == 1
        assert {"REASONING_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT"} <= {*heard.types}
        assert Screen().take(heard.events).messages == await shown(one, conversation, form="ag-ui")


async def test_a_displaced_tail_is_a_new_snapshot(one: httpx.AsyncClient, conversation: str) -> None:
    """A regenerated reply, a redacted message and a reply taken from its writer are told by a snapshot."""
    await say(one, conversation, user("q", id="u"), assistant("a1"), user("r"), half("so"))
    async with followed(one, conversation) as heard:
        await up_to_date(one, conversation, heard)
        await say(one, conversation, assistant("a2"), after_seq=1)
        await up_to_date(one, conversation, heard)
        assert heard.types.count("MESSAGES_SNAPSHOT") == 2
        await one.delete(f"/conversations/{conversation}/messages/1")
        await up_to_date(one, conversation, heard)
        assert Screen().take(heard.events).messages == await shown(one, conversation, form="ag-ui")
        await one.delete(f"/conversations/{conversation}")
        await heard.until(lambda: heard.ended)
        assert heard.types[-2:] == ["MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert Screen().take(heard.events).messages == []


async def test_who_comes_back_gets_what_is_new(one: httpx.AsyncClient, conversation: str) -> None:
    """With the last id and nothing new there is no snapshot, and a half reply goes on; what was missed comes as one."""
    await say(one, conversation, user("q", id="u"), half("so"))
    async with followed(one, conversation) as heard:
        await up_to_date(one, conversation, heard)
        screen = Screen().take(heard.events)
    async with followed(one, conversation, **{"Last-Event-ID": heard.ids[-1]}) as again:
        await up_to_date(one, conversation, again)
        assert again.types == ["RUN_STARTED", "TEXT_MESSAGE_START", "CUSTOM"]
        await say(one, conversation, half("so far", "completed"))
        await up_to_date(one, conversation, again)
        there = await shown(one, conversation, form="ag-ui")
        assert Screen(screen.messages).take(again.events).messages == there
    async with followed(one, conversation, **{"Last-Event-ID": heard.ids[-1]}) as late:
        await up_to_date(one, conversation, late)
        assert Screen(screen.messages).take(late.events).messages == there


async def test_of_a_long_chat_the_newest_are_told(one: httpx.AsyncClient, conversation: str) -> None:
    """A snapshot has the newest 1,000 questions and turns, and says with which cursor the others are read."""
    for first in range(0, 1100, 100):
        await say(one, conversation, *(user(f"q{number}") for number in range(first, first + 100)))
    async with followed(one, conversation) as heard:
        await up_to_date(one, conversation, heard)
        _, snapshot, older, _ = heard.events
    whole = await shown(one, conversation, form="ag-ui", limit=1000)
    assert snapshot["messages"] == whole[100:]
    path = f"/conversations/{conversation}/messages"
    query = {"format": "ag-ui", "order": "desc", "limit": 1000, "cursor": older["value"]["next_cursor"]}
    assert (await one.get(path, params=query)).json()["messages"] == whole[:100][::-1]


async def take(client: httpx.AsyncClient, name: str, step: str, number: int, writing: str) -> str:  # noqa: C901 - one for each step
    """Take a step; returns the id of the reply that is being written."""
    length = (await client.get(f"/conversations/{name}")).json()["messages"]["count"]
    if step == "ask":
        await say(client, name, user(f"q{number}"))
    elif step == "reply":
        await say(client, name, assistant(f"a{number}"))
    elif step == "begin":
        writing = f"R{number}"
        await say(client, name, half("") | {"id": writing})
    elif step in ("grow", "end") and writing:
        text = "x" * (number + 1)
        status = "in_progress" if step == "grow" else "completed"
        path = f"/conversations/{name}/messages"
        entry = half(text, status) | {"id": writing, "continues": True}
        await client.post(path, json={"messages": [entry]})  # it may be gone
    elif step == "call":
        await say(client, name, calling(f"c{number}"))
    elif step == "answer":
        path = f"/conversations/{name}/messages"
        await client.post(path, json={"messages": [result(f"c{number - 1}", "found")]})  # there may be no such call
    elif step == "again":
        await say(client, name, assistant(f"b{number}"), after_seq=max(1, length - 1))
    elif step == "go":
        await client.post(f"/conversations/{name}/branches/b-1")
    elif step == "redact":
        await client.delete(f"/conversations/{name}/messages/{max(1, length - 1)}")
    elif step == "picture":
        part = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
        await say(client, name, {"message": {"role": "user", "content": [part]}})
    return writing


_steps = st.lists(
    st.sampled_from(["ask", "reply", "begin", "grow", "end", "call", "answer", "again", "go", "redact", "picture"]),
    min_size=2,
    max_size=12,
)


@given(_steps)
@example(["begin", "ask", "ask", "ask", "ask", "grow", "grow"])  # a reply that grows is none of the newest
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_a_screen_has_what_a_page_has(one: httpx.AsyncClient, conversation: str, steps: list[str]) -> None:
    """Whatever happens, and wherever its stream is cut, a screen that applies the events has the messages of a page."""
    await one.delete(f"/conversations/{conversation}")
    await say(one, conversation, user("begin"))
    writing = ""
    async with followed(one, conversation) as heard:
        for number, step in enumerate(steps):
            writing = await take(one, conversation, step, number, writing)
            if number % 3 == 2:
                await up_to_date(one, conversation, heard)
        await up_to_date(one, conversation, heard)
        there = await shown(one, conversation, form="ag-ui")
        screen = Screen().take(heard.events)
        assert screen.messages == there
    async with followed(one, conversation, **{"Last-Event-ID": heard.ids[-1]}) as again:
        await up_to_date(one, conversation, again)
        assert Screen(screen.messages).take(again.events).messages == there
