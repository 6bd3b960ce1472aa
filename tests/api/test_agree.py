"""PUT …/messages: the log agrees with the sender's chat."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, contents, etag_of, history, problem, result, user

MODEL = "gpt-4o-mini"


async def put(
    client: httpx.AsyncClient, conversation: str, *messages: Any, headers: Any = None, **query: Any
) -> dict[str, Any]:
    """Put a list, and return the answer's body."""
    answer = await put_answer(client, conversation, *messages, headers=headers, **query)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def put_answer(
    client: httpx.AsyncClient, conversation: str, *messages: Any, headers: Any = None, **query: Any
) -> httpx.Response:
    path = f"/conversations/{conversation}/messages"
    return await client.put(path, json={"messages": messages}, params=query, headers=headers)


async def texts(client: httpx.AsyncClient, conversation: str) -> list[Any]:
    """Return the text of each stored message."""
    return [each["message"]["content"] for each in await history(client, conversation)]


async def test_a_list_begins_a_conversation(client: httpx.AsyncClient, conversation: str) -> None:
    """The first list is stored, its answer has the window, and the same again changes nothing."""
    first = await put_answer(client, conversation, user("hello", id="u1"), model=MODEL)
    body = first.json()
    assert (first.status_code, body["version"], body["agreed"], body["displaced"]) == (201, 1, 0, None)
    assert body["messages"] == [{"seq": 1, "id": "u1", "duplicate": False}]
    assert contents(body["window"]) == ["hello"]
    assert first.headers["etag"] == await etag_of(client, conversation) == body["etag"]

    again = await put_answer(client, conversation, user("hello", id="u1"), model=MODEL)

    assert (again.status_code, again.json()["version"], again.json()["agreed"]) == (200, 1, 1)
    assert (again.json()["messages"], contents(again.json()["window"])) == ([], ["hello"])
    assert again.headers["etag"] == body["etag"]
