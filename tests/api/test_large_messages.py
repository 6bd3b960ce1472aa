"""Histories of large messages: each reply of the store is limited in bytes, and no message is missing."""

import base64
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, history, result, user, window

MEGABYTE = 1024 * 1024
MOST = 4 * MEGABYTE


def picture(number: int, size: int = MEGABYTE, **envelope: Any) -> dict[str, Any]:
    """Return an entry whose message costs few tokens and has about ``size`` bytes."""
    data = base64.b64encode(number.to_bytes(2, "big") + b"\0" * (size * 3 // 4)).decode()
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "low"}}
    return {"message": {"role": "user", "content": [part]}, **envelope}


async def begun(client: httpx.AsyncClient, conversation: str, *entries: dict[str, Any]) -> list[dict[str, Any]]:
    """Append the entries one by one and return their messages."""
    for entry in entries:
        await append(client, conversation, entry)
    return [entry["message"] for entry in entries]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("what", ["bodies", "documents", "metadata"])
async def test_pages_by_bytes(client: httpx.AsyncClient, conversation: str, order: str, what: str) -> None:
    """A page ends at its limit of bytes, in bodies, documents or metadata; the next page continues without a gap."""
    heavy = {
        "bodies": [picture(n) for n in range(6)],
        "documents": [user("?", grounding={"documents": [{"text": f"{n}" + "." * MEGABYTE}]}) for n in range(6)],
        "metadata": [user("?", metadata={"note": f"{n}" + "." * MEGABYTE}) for n in range(6)],
    }
    await begun(client, conversation, user("first"), *heavy[what], user("last"))

    pages, url = [], f"/conversations/{conversation}/messages?limit=1000&media=inline&order={order}"
    while url:
        answer = await client.get(url)
        assert len(answer.content) < MOST + 10_000
        pages.append([message["seq"] for message in answer.json()["messages"]])
        url = answer.links["next"]["url"] if "next" in answer.links else ""

    assert [seq for page in pages for seq in page] == sorted(range(1, 9), reverse=order == "desc")
    assert [len(page) for page in pages] == [4, 4]


async def test_a_copy_is_whole(client: httpx.AsyncClient, conversation: str, fresh: Any) -> None:
    """A fork and an export of a history that is larger than one page are complete."""
    sent = await begun(client, conversation, *[picture(n) for n in range(5)])
    copy = fresh()
    forked = await client.post(f"/conversations/{conversation}/fork", json={"id": copy})
    exported = await client.get(f"/conversations/{conversation}/export")

    assert forked.status_code == 201
    assert [entry["message"] for entry in await history(client, copy, media="inline")] == sent
    assert len(exported.text.splitlines()) == 6


async def test_a_window_of_large_messages_is_whole(client: httpx.AsyncClient, conversation: str) -> None:
    """The first window holds all large messages, and so does the second, made when the size of the first read is known."""
    sent = await begun(client, conversation, *[picture(n) for n in range(9)], user("What is on them?"))

    for _ in range(2):
        body = await window(client, conversation)
        assert body["kept"]["messages"] == 10
        assert body["request"]["messages"] == sent


async def test_what_does_not_fit_is_not_read_for_it(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``overflow=skip``, large messages are left out, and the short ones around them are in the window, in order."""
    long = [assistant("word " * 200_000) for _ in range(6)]
    sent = await begun(client, conversation, user("a"), assistant("b"), *long[:3], user("c"), *long[3:], user("d"))

    body = await window(client, conversation, overflow="skip", max_tokens=1000)

    assert body["request"]["messages"] == [sent[0], sent[1], sent[5], sent[9]]


async def test_large_pinned_messages(client: httpx.AsyncClient, conversation: str) -> None:
    """Large pinned messages before the tail are in the window, although the store's first reply lacks their bodies."""
    sent = await begun(client, conversation, *[picture(n, pinned=True) for n in range(7)])
    for _ in range(3):
        await append(client, conversation, *[user("word " * 20)] * 100)

    body = await window(client, conversation, model="gpt-4o", max_tokens=2000)
    assert body["request"]["messages"][:7] == sent


async def test_a_large_group_is_rewound(client: httpx.AsyncClient, conversation: str) -> None:
    """A rewind reads a large tool group in steps; afterwards the call whose result was removed waits again."""
    group = [calling(*"abcdef"), *[result(call, "x" * MEGABYTE) for call in "abcdef"]]
    await append(client, conversation, user("?"))
    for entry in group:
        await append(client, conversation, entry)

    assert (await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 7})).status_code == 200

    again = await append(client, conversation, result("a"))
    assert again["waiting_for"] == ["f"]
    assert "waiting_for" not in await append(client, conversation, result("f"))
