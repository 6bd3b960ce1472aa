"""Entries, requests and checks that many tests of the HTTP contract share."""

import asyncio
from typing import Any

import httpx

from sash.operations.statistics import READ_SECONDS

PROBLEM_TYPE = "application/problem+json"


def user(text: str, **envelope: Any) -> dict[str, Any]:
    """An entry with a user message."""
    return {"message": {"role": "user", "content": text}, **envelope}


def assistant(text: str, **envelope: Any) -> dict[str, Any]:
    """An entry with an assistant message."""
    return {"message": {"role": "assistant", "content": text}, **envelope}


def calling(*calls: str, text: str | None = None, **envelope: Any) -> dict[str, Any]:
    """An entry with an assistant message that makes tool calls with these ids."""
    made = [{"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in calls]
    return {"message": {"role": "assistant", "content": text, "tool_calls": made}, **envelope}


def result(call: str, text: str = "found", **envelope: Any) -> dict[str, Any]:
    """An entry with the result of a tool call."""
    return {"message": {"role": "tool", "tool_call_id": call, "content": text}, **envelope}


async def append(
    client: httpx.AsyncClient, conversation: str, *entries: dict[str, Any], **query: Any
) -> dict[str, Any]:
    """Append entries, which must succeed, and return the answer."""
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": entries}, params=query)
    assert answer.status_code in (200, 201), answer.text
    body: dict[str, Any] = answer.json()
    return body


async def every_page(
    client: httpx.AsyncClient, conversation: str, media_type: str = "application/json", **query: Any
) -> list[dict[str, Any]]:
    """Return what a list of a conversation's messages gives, over all its pages."""
    found: list[dict[str, Any]] = []
    url: str | None = str(httpx.URL(f"/conversations/{conversation}/messages", params=query))
    while url:
        answer = await client.get(url)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == media_type
        found += answer.json()["messages"]
        url = answer.links.get("next", {}).get("url")
    return found


async def etag_of(client: httpx.AsyncClient, conversation: str) -> str:
    """Return the conversation's ETag, as in the header."""
    return (await client.get(f"/conversations/{conversation}")).headers["etag"]


async def history(client: httpx.AsyncClient, conversation: str, media: str = "described") -> list[dict[str, Any]]:
    """Return all stored messages, oldest first; an empty list when the conversation does not exist."""
    stored: list[dict[str, Any]] = []
    url: str | None = f"/conversations/{conversation}/messages?limit=1000&media={media}"
    while url:
        answer = await client.get(url)
        if answer.status_code == 404:
            return []
        stored += answer.json()["messages"]
        url = answer.links.get("next", {}).get("url")
    return stored


async def texts(client: httpx.AsyncClient, conversation: str) -> list[Any]:
    """Return the text of each stored message."""
    return [each["message"]["content"] for each in await history(client, conversation)]


async def window(client: httpx.AsyncClient, conversation: str, **query: Any) -> dict[str, Any]:
    """Return a window; the request must succeed."""
    answer = await client.get(f"/conversations/{conversation}/window", params={"model": "gpt-4o-mini", **query})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def statistics(client: httpx.AsyncClient) -> dict[str, Any]:
    """Return ``GET /stats`` with all earlier requests counted; a worker repeats its last answer for a second."""
    await asyncio.sleep(READ_SECONDS)
    answer = await client.get("/stats")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def indexed(client: httpx.AsyncClient, conversation: str) -> dict[str, Any]:
    """Wait until all messages of the conversation are indexed for recall, and return its state."""
    for _ in range(1200):
        got = (await client.get(f"/conversations/{conversation}")).json()
        progress = got["recall_progress"]
        if progress["words"] == progress["messages"]:
            return dict(got)
        await asyncio.sleep(0.05)
    raise AssertionError("the index is never whole")


def contents(window: dict[str, Any]) -> list[Any]:
    """The content of each message of a window."""
    return [message["content"] for message in window["request"]["messages"]]


def problem(answer: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    """Check that an answer is this problem, with all its members, and return its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM_TYPE
    body: dict[str, Any] = answer.json()
    assert body["type"] == f"/problems/{slug}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"].endswith((".", "?"))
    assert body["instance"] == answer.request.url.path
    if status == 400:
        assert body["errors"], "a 400 points to the wrong place"
        assert all(each["pointer"].startswith("#") and each["detail"] for each in body["errors"])
    return body


LATE_RESULT = [
    calling("c1", "c2", id="call"),
    result("c2", id="first"),
    user("meanwhile"),
    result("c1", id="late"),
]
"""A group of two calls, of which one is answered behind another message."""
OLD_CALL = [
    {
        "id": "call",
        "message": {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    },
    {"id": "first", "message": {"role": "function", "name": "f", "content": "x"}},
]
"""A call and its result in the form before tool calls."""
