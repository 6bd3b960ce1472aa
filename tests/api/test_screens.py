"""Histories in a screen's form, and screens' messages that are appended and agreed with."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rigs.dialogue import append, assistant, calling, etag_of, history, problem, result, user, window
from rigs.pictures import picture_part
from rigs.screens import plain, put, shown

Object = dict[str, Any]


def asks(text: str, name: str) -> Object:
    """A question as ``useChat`` sends it."""
    return {"id": name, "role": "user", "parts": [{"type": "text", "text": text}]}


def replies(text: str, name: str) -> Object:
    """A reply as ``useChat`` sends it."""
    parts = [{"type": "step-start"}, {"type": "text", "text": text, "state": "done"}]
    return {"id": name, "role": "assistant", "parts": parts}


TOOL_TURN: Object = {
    "id": "a-2",
    "role": "assistant",
    "metadata": {"model": "m"},
    "parts": [
        {"type": "step-start"},
        {"type": "reasoning", "text": "I must look.", "state": "done"},
        {"type": "text", "text": "Let me look.", "state": "done", "providerMetadata": {"x": {"y": 1}}},
        {"type": "data-progress", "id": "p", "data": {"done": 1}},
        {
            "type": "tool-look",
            "toolCallId": "c1",
            "state": "output-available",
            "input": {"day": 3},
            "output": {"talks": [1]},
            "callProviderMetadata": {"x": {"z": 2}},
        },
        {
            "type": "dynamic-tool",
            "toolName": "find",
            "toolCallId": "c2",
            "state": "output-error",
            "input": {},
            "errorText": "no",
        },
        {"type": "step-start"},
        {"type": "text", "text": "At noon.", "state": "done"},
        {"type": "source-url", "sourceId": "s", "url": "https://a.example/", "title": "A"},
    ],
}
ASKED: list[Object] = [
    {
        "id": "u-1",
        "role": "user",
        "metadata": {"at": 5},
        "parts": [
            {"type": "text", "text": "What is this?"},
            {"type": "file", "mediaType": "image/png", "url": "https://a.example/b.png", "filename": "b.png"},
        ],
    },
    TOOL_TURN,
    asks("Thanks. More?", "u-3"),
]


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_what_came_from_a_screen_comes_back(client: httpx.AsyncClient, conversation: str, method: str) -> None:
    """All parts, metadata and ids of a chat of UIMessages are given back, and sent again they change nothing."""
    path = f"/conversations/{conversation}/messages?format=ui"
    answer = await client.request(method, path, json={"messages": ASKED})
    assert answer.status_code == 201, answer.text
    told = await shown(client, conversation)
    tag = await etag_of(client, conversation)

    assert plain(told) == ASKED
    await put(client, conversation, told)
    await put(client, conversation, ASKED)
    assert await etag_of(client, conversation) == tag
    roles = [(each["message"]["role"], each["message"]["content"]) for each in await history(client, conversation)]
    assert roles[1:] == [
        ("assistant", "Let me look."),
        ("tool", '{"talks":[1]}'),
        ("tool", "no"),
        ("assistant", "At noon."),
        ("user", "Thanks. More?"),
    ]


async def test_a_window_has_the_models_part_alone(client: httpx.AsyncClient, conversation: str) -> None:
    """What only a screen knows is in no window, and a turn is one call, which gives the window in chat form."""
    begun = {"id": "R", "role": "assistant", "parts": [], "status": "in_progress"}
    told = await put(client, conversation, [*ASKED, begun], model="gpt-4o-mini")

    assert [each["role"] for each in told["window"]["request"]["messages"]] == [
        *("user", "assistant", "tool", "tool", "assistant", "user")
    ]
    said = json.dumps(told["window"]["request"])
    assert not any(word in said for word in ("progress", 'a.example/"', "providerMetadata", "I must look"))
    newest = (await shown(client, conversation))[-1]
    assert (newest["id"], newest["parts"], newest["metadata"]["sash"]["status"]) == ("R", [], "in_progress")


async def test_what_a_chat_log_says_is_shown(client: httpx.AsyncClient, conversation: str) -> None:
    """A turn with calls is one message; a call nobody answered is an error in the past, and waits at the end."""
    await append(
        client,
        conversation,
        {"message": {"role": "system", "content": "be brief"}},
        {"message": {"role": "user", "content": [{"type": "text", "text": "look"}, picture_part(1)]}, "id": "q"},
        {"message": {"role": "assistant", "content": "hm", "reasoning_content": "why not"}, "id": "r"},
        calling("c1", "c2", id="s"),
        result("c2", '{"a":1}', id="t"),
        user("and?", id="v"),
        calling("c3", id="w"),
    )
    asked, turn, more, waits = await shown(client, conversation)

    assert [part["type"] for part in asked["parts"]] == ["text", "file"]
    assert [part["type"] for part in turn["parts"]] == [
        *("step-start", "reasoning", "text", "step-start", "tool-look", "tool-look")
    ]
    assert turn["parts"][1]["text"] == "why not"
    assert [part.get("output", part.get("errorText")) for part in turn["parts"][4:]] == [
        "No result was recorded: the call was interrupted.",
        {"a": 1},
    ]
    assert (turn["id"], turn["metadata"]["sash"]["seq"], turn["metadata"]["sash"]["last_seq"]) == ("r", 3, 5)
    assert [part.get("state") for part in waits["parts"]] == [None, "input-available"]
    tag = await etag_of(client, conversation)
    await put(client, conversation, [asked, turn, more, waits])
    assert await etag_of(client, conversation) == tag
    await put(
        client,
        conversation,
        [
            asked,
            turn,
            more,
            {
                **waits,
                "parts": [
                    {"type": "step-start"},
                    {
                        "type": "tool-look",
                        "toolCallId": "c3",
                        "state": "output-available",
                        "input": {},
                        "output": "here",
                    },
                ],
            },
        ],
    )
    assert (await history(client, conversation))[-1]["message"] == {
        "role": "tool",
        "tool_call_id": "c3",
        "content": "here",
    }


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_a_page_never_cuts_a_turn(client: httpx.AsyncClient, conversation: str, order: str, limit: int) -> None:
    """Pages of any size, from either end, have the same messages as the whole; a turn may be longer than what is read."""
    long = [each for n in range(150) for each in (calling(f"c{n}", id=f"l-{n}"), result(f"c{n}", "x"))]
    turns = [
        [user("one", id="u")],
        long,
        [user("two", id="v"), user("three", id="w")],
        [assistant("a", id="r")],
        [user("four")],
    ]
    for entries in turns:
        for at in range(0, len(entries), 100):
            await append(client, conversation, *entries[at : at + 100])
    whole = await shown(client, conversation)
    pages = await shown(client, conversation, order=order, limit=limit)

    assert [each["id"] for each in whole][:5] == ["u", "l-0", "v", "w", "r"]
    assert (pages if order == "asc" else pages[::-1]) == whole


async def test_a_button_doubles_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """Send, regenerate, edit, retry: what is seen afterwards is what the screen sent."""
    chat = [asks("one", "u"), replies("two", "x"), asks("three", "v")]
    await put(client, conversation, chat)
    await append(client, conversation, calling("c", id="s-1"), result("c"), assistant("four", id="s-2"))
    regenerated = await put(client, conversation, chat)
    edited = [asks("one", "u"), replies("two", "y"), asks("other", "v")]
    again = await put(client, conversation, edited)
    retried = await put(client, conversation, edited)

    assert (regenerated["branch"]["messages"], again["agreed"], retried["version"]) == (3, 2, again["version"])
    assert [each["message"]["content"] for each in await history(client, conversation)] == ["one", "two", "other"]


async def test_a_redacted_message_shows_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """Its place stays, and what was kept for the screen is gone with it."""
    await put(client, conversation, ASKED)
    seqs = [each["seq"] for each in await history(client, conversation)]
    for seq in seqs:
        assert (await client.delete(f"/conversations/{conversation}/messages/{seq}")).status_code == 204
    told = json.dumps(await shown(client, conversation))

    assert not any(word in told for word in ("noon", "talks", "progress", "What", "source", "day"))
    assert '"redacted": true' in told


async def test_messages_tell_whether_a_window_has_them(client: httpx.AsyncClient, conversation: str) -> None:
    """By a receipt, or by the window of a model as it is now; also in the history as it is stored."""
    await append(client, conversation, user("one", id="u"), assistant("two", id="r"), user("three", id="v"))
    receipt = (await window(client, conversation, limit=1))["receipt"]
    await client.patch(f"/conversations/{conversation}/messages/2", json={"sent": False})
    path = f"/conversations/{conversation}/messages"

    by_model = await shown(client, conversation, model="gpt-4o-mini")
    assert [each["metadata"]["sash"]["in_window"] for each in by_model] == [True, False, True]
    stored = (await client.get(path, params={"model": "gpt-4o-mini"})).json()["messages"]
    assert [each["in_window"] for each in stored] == [True, False, True]
    assert "in_window" not in (await client.get(path)).json()["messages"][0]
    problem(await client.get(path, params={"model": "gpt-4o-mini", "receipt": receipt}), 422, "unprocessable")
    problem(await client.get(path, params={"model": "no-such-model"}), 422, "unknown-model")
    problem(await client.get(path, params={"receipt": "w1.x"}), 400, "bad-request")


async def test_what_is_no_message_is_refused_with_its_place(client: httpx.AsyncClient, conversation: str) -> None:
    """Each fault has a pointer into what was sent; a chat message among UIMessages is one."""
    path = f"/conversations/{conversation}/messages?format=ui"
    faults: Mapping[str, Object] = {
        "#/messages/1/role": {"role": "robot", "parts": []},
        "#/messages/1/parts/0/type": {"role": "user", "parts": [{"text": "a"}]},
        "#/messages/1/parts/0/text": {"role": "user", "parts": [{"type": "text"}]},
        "#/messages/1/parts/0/url": {"role": "user", "parts": [{"type": "file", "mediaType": "a/b"}]},
        "#/messages/1/parts/0/toolCallId": {"role": "assistant", "parts": [{"type": "tool-x", "state": "s"}]},
    }
    for pointer, message in faults.items():
        answer = await client.post(path, json={"messages": [asks("one", "u"), message]})
        assert answer.status_code == 422, answer.text
        assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]
    chat = {
        "messages": [{"role": "user", "content": "one", "id": "a"}, {"message": replies("two", "b"), "pinned": True}]
    }
    assert (await client.post(path, json=chat)).status_code == 201
    assert [(each["id"], each["pinned"]) for each in await history(client, conversation)] == [("a", False), ("b", True)]


_texts = st.sampled_from(["a", "b c", "  d", "é", "{}", "5", "No result was recorded: the call was interrupted.", ""])
_outputs = st.sampled_from(
    [
        {"state": "input-available"},
        {"state": "output-available", "output": {"a": [1]}},
        {"state": "output-available", "output": "t"},
        {"state": "output-error", "errorText": "e"},
        {"state": "approval-requested", "approval": {"id": "p"}},
        {"state": "input-streaming"},
    ]
)
_parts = st.one_of(
    st.just({"type": "step-start"}),
    st.builds(lambda text: {"type": "text", "text": text, "state": "done"}, _texts),
    st.builds(lambda text: {"type": "reasoning", "text": text, "state": "done"}, _texts),
    st.just({"type": "data-x", "data": {"n": 1}}),
    st.just({"type": "source-url", "sourceId": "s", "url": "https://a.example"}),
    st.builds(
        lambda n, more: {"type": "tool-look", "toolCallId": f"c{n}", "input": {"n": n}, **more},
        st.integers(0, 99),
        _outputs,
    ),
)
_replies = st.lists(_parts, max_size=6)
_chats = st.lists(
    st.one_of(
        _texts.map(lambda text: ("user", [{"type": "text", "text": text}])),
        _replies.map(lambda parts: ("assistant", parts)),
    ),
    min_size=1,
    max_size=6,
)


@given(_chats)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_what_a_screen_is_given_changes_nothing(client: httpx.AsyncClient, conversation: str, chat: Any) -> None:
    """Whatever was put, the chat that is given back agrees, and so does what was put; pages are the whole."""
    seen: set[str] = set()
    messages = []
    for place, (role, parts) in enumerate(chat):
        fresh = [part for part in parts if part.get("toolCallId", "") not in seen]
        once = {part["toolCallId"]: part for part in fresh if "toolCallId" in part}
        kept = [part for part in fresh if "toolCallId" not in part or once[part["toolCallId"]] is part]
        seen |= once.keys()
        messages.append({"id": f"m{place}", "role": role, "parts": kept})
    await client.delete(f"/conversations/{conversation}")
    path = f"/conversations/{conversation}/messages?format=ui"
    answer = await client.put(path, json={"messages": messages})
    if answer.status_code in (404, 422):  # there is nothing with which it could begin
        return
    assert answer.status_code == 201, answer.text
    tag = await etag_of(client, conversation)
    given_back = await shown(client, conversation, limit=2)
    await put(client, conversation, messages)
    assert await etag_of(client, conversation) == tag
    if given_back:
        await put(client, conversation, given_back)
    assert await etag_of(client, conversation) == tag
