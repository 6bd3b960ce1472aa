"""Redaction removes the content of one message and keeps its place."""

import json
from typing import Any

import httpx
import pytest
import redis
from rigs.dialogue import append, etag_of

SECRET = "the secret is 4711"


def user(text: str, identity: str = "u", **fields: Any) -> dict[str, Any]:
    return {"id": identity, "message": {"role": "user", "content": text, "name": "secret-name"}, **fields}


async def test_content_is_gone(client: httpx.AsyncClient, conversation: str, store: Any) -> None:
    """A redacted message's text, name, documents and metadata are in no key; its seq, role, id and time remain."""
    documents = {"documents": [{"text": SECRET}]}
    await append(client, conversation, user(SECRET, grounding=documents, metadata={"k": SECRET}, pinned=True))
    before = (await client.get(f"/conversations/{conversation}/messages/1")).json()

    answer = await client.delete(f"/conversations/{conversation}/messages/1")

    assert (answer.status_code, answer.headers["etag"], answer.content) == (
        204,
        await etag_of(client, conversation),
        b"",
    )
    after = (await client.get(f"/conversations/{conversation}/messages/1")).json()
    assert after["message"] == {"role": "user", "content": "[redacted]"}
    assert after["redacted"] is True
    assert {name: before[name] for name in ("seq", "id", "created_at", "pinned")} == {
        name: after[name] for name in ("seq", "id", "created_at", "pinned")
    }
    assert not {"grounding", "grounding_tokens", "metadata"} & after.keys()
    with redis.Redis.from_url(store.url) as raw:
        everything = []
        for key in raw.scan_iter(f"sash:{{default/{conversation}}}:*"):
            readers = {b"list": lambda k: raw.lrange(k, 0, -1), b"hash": raw.hgetall, b"string": raw.get}
            everything.append(repr(readers[raw.type(key)](key)))
    assert SECRET not in "".join(everything)
    assert "secret-name" not in "".join(everything)


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ({"role": "system", "content": SECRET}, {"role": "system", "content": "[redacted]"}),
        (
            {"role": "user", "content": [{"type": "text", "text": SECRET}]},
            {"role": "user", "content": "[redacted]"},
        ),
        (
            {"role": "assistant", "content": SECRET, "reasoning_content": SECRET, "refusal": None},
            {"role": "assistant", "content": "[redacted]"},
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "look", "arguments": json.dumps({"at": SECRET})},
            },
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        ),
        (
            {"role": "function", "name": "look", "content": SECRET},
            {"role": "function", "name": "look", "content": "[redacted]"},
        ),
    ],
)
async def test_what_is_left_of_each_kind(client: httpx.AsyncClient, conversation: str, message: Any, left: Any) -> None:
    """A redacted message of each kind keeps its role and its function's name, and no content."""
    await append(client, conversation, {"message": message})

    await client.delete(f"/conversations/{conversation}/messages/1")

    assert (await client.get(f"/conversations/{conversation}/messages/1")).json()["message"] == left


CALLS: dict[str, Any] = {
    "role": "assistant",
    "content": SECRET,
    "tool_calls": [
        {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": json.dumps({"at": SECRET})}},
        {"id": "call-2", "type": "custom", "custom": {"name": "run", "input": SECRET}},
    ],
}


def result(call: str) -> dict[str, Any]:
    return {"message": {"role": "tool", "tool_call_id": call, "content": SECRET}}


async def test_a_tool_group_can_still_be_sent(client: httpx.AsyncClient, conversation: str) -> None:
    """Redacted calls and results keep their ids, and a redacted call still accepts its missing result."""
    await append(client, conversation, user("hello"), {"message": CALLS}, result("call-2"))

    await client.delete(f"/conversations/{conversation}/messages/2")
    await append(client, conversation, result("call-1"))
    await client.delete(f"/conversations/{conversation}/messages/4")

    window = (await client.get(f"/conversations/{conversation}/window?model=gpt-4o")).json()
    _, calls, first, second = window["request"]["messages"]
    assert SECRET not in json.dumps([calls, second])
    assert [call["id"] for call in calls["tool_calls"]] == ["call-1", "call-2"]
    assert calls["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
    assert (first["tool_call_id"], second["tool_call_id"]) == ("call-2", "call-1")


async def test_totals_follow(client: httpx.AsyncClient, conversation: str) -> None:
    """After a redaction, the conversation's totals still equal the sum of its messages' tokens."""
    await append(
        client, conversation, user("a " * 50, "a"), user("b " * 70, "b", grounding={"documents": [{"text": "x"}]})
    )

    await client.delete(f"/conversations/{conversation}/messages/2")

    total = (await client.get(f"/conversations/{conversation}")).json()["tokens"]
    messages = (await client.get(f"/conversations/{conversation}/messages")).json()["messages"]
    assert total == {name: sum(m["tokens"][name] for m in messages) for name in ("o200k_base", "cl100k_base")}
    window = (await client.get(f"/conversations/{conversation}/window?model=gpt-4o")).json()
    assert window["dropped"]["grounding_tokens"] == 0


async def test_a_retry_does_not_bring_it_back(client: httpx.AsyncClient, conversation: str) -> None:
    """An append under the id of a redacted message is answered as a duplicate, whatever its text, and stores nothing."""
    await append(client, conversation, user(SECRET, "a"))
    await client.delete(f"/conversations/{conversation}/messages/1")

    for text in (SECRET, "something else"):
        answer = await append(client, conversation, user(text, "a"))
        assert (answer["messages"][0]["seq"], answer["messages"][0]["duplicate"]) == (1, True)
    assert (await client.get(f"/conversations/{conversation}/messages/1")).json()["redacted"] is True


async def test_twice_is_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Redacting again changes nothing, not even the version."""
    await append(client, conversation, user(SECRET))
    first = await client.delete(f"/conversations/{conversation}/messages/1")
    second = await client.delete(f"/conversations/{conversation}/messages/1")
    assert (204, first.headers["etag"]) == (second.status_code, second.headers["etag"])


async def test_a_summary_of_it_goes(client: httpx.AsyncClient, conversation: str) -> None:
    """Redacting a message deletes a summary that covers it, since the summary may repeat it; other summaries stay."""
    await append(client, conversation, *(user(f"line {n}", f"m-{n}") for n in range(4)))
    await client.put(f"/conversations/{conversation}/summary", json={"text": SECRET, "through_seq": 2})

    await client.delete(f"/conversations/{conversation}/messages/3")
    assert (await client.get(f"/conversations/{conversation}")).json()["summary"]["text"] == SECRET
    await client.delete(f"/conversations/{conversation}/messages/2")
    assert (await client.get(f"/conversations/{conversation}")).json()["summary"] is None


async def test_absent_and_conditions(client: httpx.AsyncClient, conversation: str) -> None:
    """Redacting an absent message is 404, and with an outdated ``If-Match`` 412."""
    path = f"/conversations/{conversation}/messages"
    assert (await client.delete(f"{path}/1")).status_code == 404
    await append(client, conversation, user("x"))
    assert (await client.delete(f"{path}/2")).status_code == 404
    assert (await client.delete(f"{path}/x")).status_code == 404
    assert (await client.delete(f"{path}/1", headers={"If-Match": '"7"'})).status_code == 412
    tag = await etag_of(client, conversation)
    assert (await client.delete(f"{path}/1", headers={"If-Match": tag})).status_code == 204
    assert (await client.delete(f"{path}/1", headers={"If-Match": tag})).status_code == 412


async def test_what_stands_for_a_text_may_cost_more_than_text(client: httpx.AsyncClient, conversation: str) -> None:
    """Redacting an empty system message succeeds, although the placeholder costs more tokens than the empty text."""
    await append(client, conversation, {"id": "s", "message": {"role": "system", "content": ""}}, user("hello"))
    assert (await client.delete(f"/conversations/{conversation}/messages/1")).status_code == 204
    window = await client.get(f"/conversations/{conversation}/window?model=gpt-4o")
    assert window.status_code == 200
    assert window.json()["request"]["messages"][0] == {"role": "system", "content": "[redacted]"}
