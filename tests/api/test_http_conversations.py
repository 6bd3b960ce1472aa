"""Conversations over HTTP: create, read, change, erase."""

import re
from typing import Any

import httpx
import pytest
from rigs.dialogue import etag_of

SETTINGS: dict[str, Any] = {
    "owner": "user-42",
    "model": "gpt-4o-mini",
    "reserve": 512,
    "system": "Answer in one line.",
    "few_shots": [{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}],
    "tool_choice": "auto",
    "grounding_template": "{content}\n\nRead this:\n{documents}",
    "document_separator": "\n***\n",
    "metadata": {"channel": "web", "nested": {"kept": [1, 2.5, None]}},
    "ttl_seconds": 3600,
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


async def test_create_gives_everything_back(client: httpx.AsyncClient, conversation: str) -> None:
    """Creating a conversation answers 201 with its location, its version and every setting that was sent."""
    answer = await client.post("/conversations", json={"id": conversation, **SETTINGS})

    assert answer.status_code == 201
    assert f"/conversations/{conversation}" == answer.headers["location"]
    assert answer.headers["etag"] == await etag_of(client, conversation)
    body = answer.json()
    assert {name: body[name] for name in SETTINGS} == SETTINGS
    assert (conversation, 1) == (body["id"], body["version"])
    assert body["messages"] == {"count": 0, "first_seq": None, "last_seq": None}
    assert body["tokens"] == {"o200k_base": 0, "cl100k_base": 0}
    assert body["summary"] is None
    assert all(TIME.fullmatch(body[name]) for name in ("created_at", "updated_at", "expires_at"))
    assert body == (await client.get(answer.headers["location"])).json()


async def test_create_with_nothing(client: httpx.AsyncClient) -> None:
    """Every field is optional: an empty object creates a conversation with a generated id that sorts by time."""
    first = (await client.post("/conversations", json={})).json()
    second = (await client.post("/conversations", json={})).json()

    assert ID.fullmatch(first["id"])
    assert first["id"][:13] <= second["id"][:13]
    assert first["id"] != second["id"]
    assert first["expires_at"] is None


async def test_create_twice_is_a_conflict(client: httpx.AsyncClient, conversation: str) -> None:
    """Creating a conversation with an id that exists is 409 and does not change it."""
    await client.post("/conversations", json={"id": conversation, "system": "first"})

    answer = await client.post("/conversations", json={"id": conversation, "system": "second"})

    assert answer.status_code == 409
    assert answer.json()["type"] == "/problems/conversation-exists"
    assert (await client.get(f"/conversations/{conversation}")).json()["system"] == "first"


async def test_absent_is_404(client: httpx.AsyncClient, conversation: str) -> None:
    """Reading, changing and erasing an absent conversation are 404 and create nothing."""
    path = f"/conversations/{conversation}"
    answers = [
        await client.get(path),
        await client.patch(path, json={"system": "x"}),
        await client.delete(path),
        await client.get(f"{path}/messages"),
        await client.get(f"{path}/messages/1"),
        await client.get(f"{path}/window?model=gpt-4o"),
    ]

    assert [404] * len(answers) == [answer.status_code for answer in answers]
    assert {"/problems/not-found"} == {answer.json()["type"] for answer in answers}


async def test_counts_grow_with_messages(client: httpx.AsyncClient, conversation: str) -> None:
    """A conversation's state has the number of its messages and the sum of their tokens in the appends' answers."""
    path = f"/conversations/{conversation}"
    appended = []
    for text in ("how are you?", "Fine, thank you. 谢谢"):
        entry = {"message": {"role": "user", "content": text}}
        appended += (await client.post(f"{path}/messages", json={"messages": [entry, entry]})).json()["messages"]

    body = (await client.get(path)).json()

    assert body["messages"] == {"count": 4, "first_seq": 1, "last_seq": 4}
    for encoding in ("o200k_base", "cl100k_base"):
        assert sum(message["tokens"][encoding] for message in appended) == body["tokens"][encoding]


async def test_patch_merges(client: httpx.AsyncClient, conversation: str) -> None:
    """A merge patch changes the members it names, null removes, nested objects merge, lists are replaced (RFC 7396)."""
    await client.post("/conversations", json={"id": conversation, **SETTINGS})
    changes = {"reserve": 99, "system": None, "few_shots": [], "metadata": {"channel": None, "nested": {"more": 1}}}

    answer = await client.patch(f"/conversations/{conversation}", json=changes)

    assert answer.status_code == 200
    body = answer.json()
    assert (body["reserve"], body["version"]) == (99, 2)
    assert "system" not in body
    assert body.get("few_shots", []) == []
    assert body["metadata"] == {"nested": {"kept": [1, 2.5, None], "more": 1}}
    assert SETTINGS["tools"] == body["tools"]
    assert answer.headers["etag"] == await etag_of(client, conversation)
    assert body == (await client.get(f"/conversations/{conversation}")).json()


async def test_patch_takes_its_own_media_type(client: httpx.AsyncClient, conversation: str) -> None:
    """A merge patch may be sent as application/merge-patch+json."""
    await client.post("/conversations", json={"id": conversation})

    answer = await client.patch(
        f"/conversations/{conversation}",
        content=b'{"reserve": 5}',
        headers={"content-type": "application/merge-patch+json"},
    )

    assert (answer.status_code, answer.json()["reserve"]) == (200, 5)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"id": "other"}, "#/id"),
        ({"version": 7}, "#/version"),
        ({"reserve": -1}, "#/reserve"),
        ({"few_shots": [{"role": "clown", "content": ""}]}, "#/few_shots/0/role"),
        ({"tools": [{"type": "function"}]}, "#/tools/0"),
    ],
)
async def test_patch_refuses(
    client: httpx.AsyncClient, conversation: str, changes: dict[str, Any], pointer: str
) -> None:
    """An invalid patch is 400, names the place, and changes nothing."""
    await client.post("/conversations", json={"id": conversation, **SETTINGS})
    before = (await client.get(f"/conversations/{conversation}")).json()

    answer = await client.patch(f"/conversations/{conversation}", json=changes)

    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["pointer"].startswith(pointer)
    assert before == (await client.get(f"/conversations/{conversation}")).json()


async def test_retention_moves_with_each_change(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """With a time to live every key of the conversation expires; a patch changes the time of all keys, or removes it."""
    await client.post("/conversations", json={"id": conversation, "ttl_seconds": 1000})
    entry = {
        "message": {"role": "user", "content": "q"},
        "grounding": {"documents": [{"text": "d"}]},
        "metadata": {"a": 1},
        "pinned": True,
    }
    await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})
    keys = list(server.scan_iter(f"sash:*/{conversation}}}:*"))
    assert len(keys) == 8
    assert all(990_000 < server.pttl(key) <= 1_000_000 for key in keys)

    await client.patch(f"/conversations/{conversation}", json={"ttl_seconds": 5000})
    assert all(4_990_000 < server.pttl(key) <= 5_000_000 for key in keys)

    body = (await client.patch(f"/conversations/{conversation}", json={"ttl_seconds": None})).json()
    assert body["expires_at"] is None
    assert [server.pttl(key) for key in keys] == [-1] * 8


async def test_delete_leaves_nothing(client: httpx.AsyncClient, conversation: str, server: Any) -> None:
    """Erasing answers 204 without a body; no key of the conversation remains, and a new one under its id starts at 1."""
    path = f"/conversations/{conversation}"
    entry = {"message": {"role": "user", "content": "secret"}, "pinned": True, "metadata": {"a": 1}}
    await client.post(f"{path}/messages", json={"messages": [entry]})

    answer = await client.delete(path)

    assert (answer.status_code, answer.content) == (204, b"")
    assert list(server.scan_iter(f"*{conversation}*")) == []
    assert (await client.get(path)).status_code == 404
    assert (await client.post(f"{path}/messages", json={"messages": [entry]})).json()["first_seq"] == 1
