"""Summaries from the client: a text in place of the oldest messages."""

from typing import Any

import httpx
import pytest
from dialogue import etag_of


async def filled(client: httpx.AsyncClient, conversation: str, messages: int = 10) -> None:
    entries = [
        {"message": {"role": "user" if n % 2 == 0 else "assistant", "content": f"line {n} " + "word " * 40}}
        for n in range(messages)
    ]
    await client.post(f"/conversations/{conversation}/messages", json={"messages": entries})


async def test_put(client: httpx.AsyncClient, conversation: str) -> None:
    """A summary is part of the conversation, is counted as the message that carries it, and makes a new version."""
    await filled(client, conversation)

    answer = await client.put(f"/conversations/{conversation}/summary", json={"text": "Ten lines.", "through_seq": 6})

    body = answer.json()
    assert (answer.status_code, answer.headers["etag"], body["version"]) == (
        200,
        await etag_of(client, conversation),
        2,
    )
    assert (body["summary"]["text"], body["summary"]["through_seq"]) == ("Ten lines.", 6)
    window = (await client.get(f"/conversations/{conversation}/window?model=gpt-4o&summary=always")).json()
    assert window["tokens"]["summary"] == body["summary"]["tokens"]["o200k_base"]
    assert window["request"]["messages"][0]["content"].endswith("Ten lines.")
    assert window["kept"] == {"messages": 4, "first_seq": 7, "last_seq": 10}


async def test_windows_use_it_when_they_must(client: httpx.AsyncClient, conversation: str) -> None:
    """It stands in when messages that it covers are left out, and not before."""
    await filled(client, conversation)
    await client.put(f"/conversations/{conversation}/summary", json={"text": "Ten lines.", "through_seq": 6})
    path = f"/conversations/{conversation}/window?model=gpt-4o"

    assert (await client.get(path)).json()["tokens"]["summary"] == 0
    assert (await client.get(f"{path}&max_tokens=250")).json()["tokens"]["summary"] > 0


@pytest.mark.parametrize("how", ["delete", "empty text", "nothing covered"])
async def test_take_away(client: httpx.AsyncClient, conversation: str, how: str) -> None:
    """A summary goes by DELETE, by an empty text, or by covering nothing."""
    await filled(client, conversation)
    path = f"/conversations/{conversation}/summary"
    await client.put(path, json={"text": "Ten lines.", "through_seq": 6})

    if how == "delete":
        assert (await client.delete(path)).status_code == 204
    else:
        empty = {"text": "", "through_seq": 6} if how == "empty text" else {"text": "x", "through_seq": 0}
        assert (await client.put(path, json=empty)).status_code == 200

    body = (await client.get(f"/conversations/{conversation}")).json()
    assert (body["summary"], body["version"]) == (None, 3)


async def test_beyond_the_end(client: httpx.AsyncClient, conversation: str) -> None:
    """A summary of messages that are not there yet is 422."""
    await filled(client, conversation, 3)

    answer = await client.put(f"/conversations/{conversation}/summary", json={"text": "x", "through_seq": 4})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "#/through_seq"


@pytest.mark.parametrize("body", [{}, {"text": "x"}, {"text": 1, "through_seq": 1}, {"text": "x", "through_seq": -1}])
async def test_wrong_bodies(client: httpx.AsyncClient, conversation: str, body: Any) -> None:
    """What is no summary is 400."""
    await filled(client, conversation, 1)
    assert (await client.put(f"/conversations/{conversation}/summary", json=body)).status_code == 400


async def test_conditions_and_absence(client: httpx.AsyncClient, conversation: str) -> None:
    """412 for a version that moved, 404 for what is not there."""
    body = {"text": "x", "through_seq": 1}
    path = f"/conversations/{conversation}/summary"
    assert (await client.put(path, json=body)).status_code == 404
    assert (await client.delete(path)).status_code == 404
    await filled(client, conversation, 2)
    assert (await client.put(path, json=body, headers={"If-Match": '"9"'})).status_code == 412
    tag = await etag_of(client, conversation)
    assert (await client.put(path, json=body, headers={"If-Match": tag})).status_code == 200
    assert (await client.delete(path, headers={"If-Match": tag})).status_code == 412
