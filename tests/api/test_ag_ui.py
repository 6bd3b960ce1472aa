"""Histories as AG-UI's messages, and such messages that are appended and agreed with."""

from functools import partial
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, calling, etag_of, history, problem, result, user
from rigs.screens import plain
from rigs.screens import put as put_in
from rigs.screens import shown as shown_in

Object = dict[str, Any]
put, shown = partial(put_in, form="ag-ui"), partial(shown_in, form="ag-ui")
CHAT: list[Object] = [
    {"id": "u1", "role": "user", "content": "look", "metadata": {"at": 1}},
    {"id": "t1", "role": "reasoning", "content": "I should look", "encryptedValue": "c2ln"},
    {
        "id": "m1",
        "role": "assistant",
        "content": "Let me look.",
        "toolCalls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "look", "arguments": '{"q":"x"}'},
                "encryptedValue": "eA==",
            }
        ],
    },
    {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "found"},
    {"id": "m2", "role": "assistant", "content": "At noon."},
    {"id": "x1", "role": "activity", "activityType": "plan", "content": {"steps": 2}},
    {
        "id": "u2",
        "role": "user",
        "content": [
            {"type": "text", "text": "and this?"},
            {"type": "image", "source": {"type": "url", "value": "https://a.example/b.png", "mimeType": "image/*"}},
        ],
    },
]


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_what_came_comes_back(client: httpx.AsyncClient, conversation: str, method: str) -> None:
    """Ids, thoughts, activities and metadata are given back, in pages of any size, and sent again they change nothing."""
    path = f"/conversations/{conversation}/messages?format=ag-ui"
    answer = await client.request(method, path, json={"messages": CHAT})
    assert answer.status_code == 201, answer.text
    tag = await etag_of(client, conversation)
    told = await shown(client, conversation)

    assert plain(told) == CHAT
    assert await shown(client, conversation, limit=1) == told
    await put(client, conversation, told)
    await put(client, conversation, CHAT)
    assert await etag_of(client, conversation) == tag
    roles = [each["message"]["role"] for each in await history(client, conversation)]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


async def test_each_call_of_the_past_has_a_result(client: httpx.AsyncClient, conversation: str) -> None:
    """One constant line stands for a missing one, and is never taken for a result; the newest calls wait."""
    await append(
        client,
        conversation,
        user("look", id="u", grounding={"documents": [{"id": "d", "text": "A page."}]}),
        {"message": {"role": "assistant", "content": "hm", "reasoning_content": "why not"}, "id": "r"},
        calling("c1", "c2", id="s"),
        result("c2", "here", id="t"),
        user("and?", id="v"),
        calling("c3", id="w"),
    )
    told = await shown(client, conversation)
    tag = await etag_of(client, conversation)
    await put(client, conversation, told)

    assert [(each["id"], each["role"]) for each in told] == [
        ("u", "user"),
        ("u-sources", "activity"),
        ("r-r", "reasoning"),
        ("r", "assistant"),
        ("s", "assistant"),
        ("t", "tool"),
        ("s-1", "tool"),
        ("v", "user"),
        ("w", "assistant"),
    ]
    assert told[6]["content"] == "No result was recorded: the call was interrupted."
    assert await etag_of(client, conversation) == tag
    await put(client, conversation, [*told, {"id": "z", "role": "tool", "toolCallId": "c3", "content": "clicked"}])
    assert (await history(client, conversation))[-1]["message"]["content"] == "clicked"


async def test_a_regenerate_and_an_edit_double_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """What is seen afterwards is what the frontend sent."""
    await put(client, conversation, CHAT)
    again = await put(client, conversation, CHAT[:1])
    assert (again["agreed"], again["branch"]["messages"]) == (1, 4)
    await put(client, conversation, [{**CHAT[0], "content": "look there"}])
    assert [each["content"] for each in plain(await shown(client, conversation))] == ["look there"]


async def test_what_is_no_message_is_refused(client: httpx.AsyncClient, conversation: str) -> None:
    """The problem points to what is wrong."""
    path = f"/conversations/{conversation}/messages?format=ag-ui"
    for message, pointer in (
        ({"role": "user", "content": [{"type": "hologram"}]}, "#/messages/0/content/0"),
        ({"role": "user", "content": [{"type": "image"}]}, "#/messages/0/content/0/source"),
    ):
        answer = await client.post(path, json={"messages": [message]})
        assert [each["pointer"] for each in problem(answer, 422, "unprocessable")["errors"]] == [pointer]
