"""What tests of the HTTP contract say over and over, said once."""

import asyncio
from typing import Any

import httpx

from service.operations.statistics import READ_SECONDS

PROBLEM_TYPE = "application/problem+json"


def user(text: str, **envelope: Any) -> dict[str, Any]:
    """An entry with a user message."""
    return {"message": {"role": "user", "content": text}, **envelope}


def assistant(text: str, **envelope: Any) -> dict[str, Any]:
    """An entry with an assistant message."""
    return {"message": {"role": "assistant", "content": text}, **envelope}


def calling(*calls: str, text: str | None = None, **envelope: Any) -> dict[str, Any]:
    """An entry with an assistant message that makes calls with these ids."""
    made = [{"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in calls]
    return {"message": {"role": "assistant", "content": text, "tool_calls": made}, **envelope}


def result(call: str, text: str = "found", **envelope: Any) -> dict[str, Any]:
    """An entry with the result of a call."""
    return {"message": {"role": "tool", "tool_call_id": call, "content": text}, **envelope}


async def append(
    client: httpx.AsyncClient, conversation: str, *entries: dict[str, Any], **query: Any
) -> dict[str, Any]:
    """Append entries, which must succeed; the answer."""
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": entries}, params=query)
    assert answer.status_code in (200, 201), answer.text
    body: dict[str, Any] = answer.json()
    return body


async def etag_of(client: httpx.AsyncClient, conversation: str) -> str:
    """The conversation's entity tag, as the header has it."""
    return (await client.get(f"/conversations/{conversation}")).headers["etag"]


async def history(client: httpx.AsyncClient, conversation: str) -> list[dict[str, Any]]:
    """All that is stored, oldest first; nothing when the conversation is not there."""
    stored: list[dict[str, Any]] = []
    url: str | None = f"/conversations/{conversation}/messages?limit=1000"
    while url:
        answer = await client.get(url)
        if answer.status_code == 404:
            return []
        stored += answer.json()["messages"]
        url = answer.links.get("next", {}).get("url")
    return stored


async def window(client: httpx.AsyncClient, conversation: str, **query: Any) -> dict[str, Any]:
    """A window, which must succeed."""
    answer = await client.get(f"/conversations/{conversation}/window", params={"model": "gpt-4o-mini", **query})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def statistics(client: httpx.AsyncClient) -> dict[str, Any]:
    """``GET /stats`` with all that was answered before; a worker serves the same answer for a second."""
    await asyncio.sleep(READ_SECONDS)
    answer = await client.get("/stats")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def indexed(client: httpx.AsyncClient, conversation: str) -> dict[str, Any]:
    """Wait until all messages of the conversation are indexed for recall; what is told of it then."""
    for _ in range(200):
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
    """The body of an answer that must be this problem, complete."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM_TYPE
    body: dict[str, Any] = answer.json()
    assert body["type"] == f"/problems/{slug}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"].endswith((".", "?"))
    assert body["instance"] == answer.request.url.path
    return body
