"""Messages that are appended in one request or one by one: the same log, and the same windows."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import append, history, window
from validators.conversations import conversations
from validators.divisions import as_bulk, divided
from validators.judges import JUDGES
from validators.logs import PIXEL, Group

Object = dict[str, Any]
TOLD = ("request", "tokens", "kept", "mended", "dropped", "exact", "stop_reason")
MODELS = {
    "openai": "gpt-4o-mini",
    "responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "interactions": "gemini-3-pro-preview",
    "converse": "claude-sonnet-4-5",
    "ollama": "qwen3:8b",
}


def _asked(*names: str) -> Object:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": name, "arguments": {"n": n}}} for n, name in enumerate(names)],
    }


def _found(text: str, name: str = "look") -> Object:
    return {"role": "tool", "tool_name": name, "content": text}


def _called(*names: str) -> Object:
    return {
        "role": "model",
        "parts": [{"functionCall": {"name": name, "args": {"n": n}}} for n, name in enumerate(names)],
    }


def _answered(text: str, name: str = "look") -> Object:
    return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"output": text}}}]}


def _step(identity: str) -> Object:
    return {"type": "function_call", "id": identity, "name": "look", "arguments": {"day": identity}}


def _result(identity: str) -> Object:
    return {"type": "function_result", "call_id": identity, "name": "look", "result": f"of {identity}"}


ASKS = {"role": "user", "content": "q"}
INPUT = {"type": "user_input", "content": [{"type": "text", "text": "q"}]}


async def _conversation(client: httpx.AsyncClient, groups: list[Group], **named: str) -> str:
    """Append each group in a request, and return the conversation's id."""
    made: str = (await client.post("/conversations", json=named)).json()["id"]
    for form, messages in groups:
        await append(client, made, *messages, format=form)
    return made


@pytest.mark.parametrize(
    ("form", "messages", "answered"),
    [
        ("ollama", [ASKS, _asked("look", "look"), _found("one"), _found("two")], ["call_look", "call_look_1"]),
        ("ollama", [_asked("look", "find"), _found("two", "find"), _found("one")], ["call_find", "call_look"]),
        ("ollama", [_asked("look"), _asked("look"), _found("one"), _found("two")], ["call_look", "call_look_1"]),
        ("ollama", [_asked("look"), _found("one"), _found("again")], ["call_look"] * 2),
        (
            "ollama",
            [_asked("look", "look"), _found("one"), _found("two"), _found("again")],
            ["call_look", "call_look_1", "call_look"],
        ),
        ("gemini", [_called("look", "look"), _answered("one"), _answered("two")], ["call_look", "call_look_1"]),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_result_without_an_id_answers_the_oldest_open_call_of_its_name(
    client: httpx.AsyncClient,
    form: str,
    messages: list[Object],
    answered: list[str],
    at_once: bool,  # noqa: FBT001
) -> None:
    """In one request or one by one; where no call of the name is open, it is one more result of the first."""
    made = await _conversation(client, [(form, messages)] if at_once else [(form, [each]) for each in messages])
    stored = [each["message"] for each in await history(client, made)]
    assert answered == [each["tool_call_id"] for each in stored if each["role"] == "tool"]


async def test_a_result_of_no_name_here_is_refused(client: httpx.AsyncClient, conversation: str) -> None:
    """A result of a tool that was not called has no call."""
    body = {"messages": [_asked("look"), _found("x", "find")]}
    answer = await client.post(f"/conversations/{conversation}/messages?format=ollama", json=body)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/orphan-tool-result"


@pytest.mark.parametrize(
    "steps",
    [
        [INPUT, _step("a"), _step("b"), _result("a"), _result("b")],
        [INPUT, _step("a"), _step("b"), _result("b"), _result("a"), INPUT],
        [INPUT, _step("a"), {"type": "thought", "signature": "c2ln"}, _step("b"), _result("a"), _result("b"), INPUT],
        [INPUT, _step("a"), _step("b"), _step("c"), _result("b"), INPUT],
        [INPUT, _step("a"), _result("a"), _step("b"), _result("b"), INPUT],
    ],
)
async def test_calls_of_one_reply_are_sent_together(client: httpx.AsyncClient, steps: list[Object]) -> None:
    """Steps of Interactions that were appended one by one give the request that they give in bulk."""
    bulk = await _conversation(client, [("interactions", steps)])
    alone = await _conversation(client, [("interactions", [each]) for each in steps])
    query = {"model": MODELS["interactions"], "format": "interactions", "reasoning": "all"}
    expected, found = [await window(client, each, **query) for each in (bulk, alone)]
    assert expected["request"]["input"] == found["request"]["input"]


@examples(0.3)
@given(conversations(), st.sampled_from([*JUDGES]))
async def test_one_request_and_many_give_the_same_window(
    client: httpx.AsyncClient, conversation: list[Group], form: str
) -> None:
    """Whatever is appended: in as few requests as its forms allow, or message by message, its windows are the same."""
    query, told = {"model": MODELS[form], "format": form, "uncarried": "drop"}, []
    for groups in (as_bulk(conversation), divided(conversation, lambda: True)):
        # One after the other under one name: a line in a picture's place says at which conversation the picture is.
        made = await _conversation(client, groups, id="divided")
        told.append(await window(client, made, **query))
        await client.delete(f"/conversations/{made}")
    expected, found = [{name: each.get(name) for name in TOLD} for each in told]
    for each in (expected, found):
        each["request"].pop("prompt_cache_key", None)
    assert expected == found


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("converse", {"role": "user", "content": [{"toolResult": " "}]}),
        ("converse", {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"type": "x"}]}}]}),
        ("converse", {"role": "user", "content": [{"text": "a"}, {"cachePoint": 1e308}]}),
        ("converse", {"role": "user", "content": [{"text": []}]}),
        ("converse", {"role": "user", "content": [{"video": {"format": "mp4"}}]}),
        ("converse", {"role": "user", "content": [{"document": {"name": "a", "source": {"s3Location": "a"}}}]}),
        ("converse", {"role": "assistant", "content": [{"citationsContent": "message"}]}),
        ("converse", {"role": "assistant", "content": [{"toolUse": " "}]}),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": 1e308}]}),
        ("anthropic", {"role": "user", "content": [{"type": "text", "text": "a", "citations": -1}]}),
        ("anthropic", {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": PIXEL}}]}),
        ("gemini", {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": [[]]}}]}),
        ("gemini", {"role": "model", "parts": [{"text": "a", "thoughtSignature": 1e308}]}),
        ("gemini", {"role": "user", "parts": [{"fileData": {"mimeType": [[]], "fileUri": "https://x.test/a"}}]}),
    ],
)
async def test_a_member_of_a_wrong_type_is_refused(
    client: httpx.AsyncClient, conversation: str, form: str, message: Object
) -> None:
    """A member of a type that the provider does not take, and an object that it does not have, are refused."""
    answer = await client.post(f"/conversations/{conversation}/messages?format={form}", json={"messages": [message]})
    assert 400 <= answer.status_code < 500
    assert answer.json()["errors"][0]["pointer"].startswith("#/messages/0")
    assert await history(client, conversation) == []


@pytest.mark.parametrize(
    ("form", "message", "place"),
    [
        ("gemini", {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]}, "inlineData"),
        ("converse", {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": PIXEL}}}]}, "image"),
        (
            "anthropic",
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}],
            },
            "source",
        ),
    ],
)
async def test_the_clients_own_members_of_a_picture_are_not_sent(
    client: httpx.AsyncClient, conversation: str, form: str, message: Object, place: str
) -> None:
    """They are kept and given back, and no request has them."""
    key = "parts" if form == "gemini" else "content"
    part = message[key][0]
    given = {**message, key: [{**part, place: {**part[place], "x_extra": {"a": 1}}}]}
    await append(client, conversation, given, format=form)
    made = await window(client, conversation, model=MODELS[form], format=form)
    assert "x_extra" not in str(made["request"])
    answer = await client.get(f"/conversations/{conversation}/messages", params={"format": form, "media": "inline"})
    assert "x_extra" in answer.text


@pytest.mark.parametrize(
    ("form", "room", "blocks"),
    [
        (
            "anthropic",
            30,
            [
                {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
                {"type": "tool_result", "tool_use_id": "t1", "content": "word " * 900},
                {"type": "text", "text": ""},
            ],
        ),
        (
            "converse",
            560,  # a tool is declared beside calls
            [
                {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}},
                {"toolResult": {"toolUseId": "t1", "content": [{"text": "word " * 900}]}},
                {"text": ""},
            ],
        ),
    ],
)
async def test_a_blank_text_beside_results_that_do_not_fit_is_sent(
    client: httpx.AsyncClient, conversation: str, form: str, room: int, blocks: list[Object]
) -> None:
    """A window has a message where its newest one is a blank text, whose results are not in it."""
    asked = {"role": "assistant", "content": blocks[:1]}
    question = {"role": "user", "content": [{**blocks[-1], "text": "word " * 900}]}
    await append(client, conversation, question, asked, {"role": "user", "content": blocks[1:]}, format=form)
    made = await window(client, conversation, model=MODELS[form], format=form, max_tokens=room, reserve=0)
    assert made["request"]["messages"]


async def test_results_stand_in_the_order_of_calls_where_names_come_again(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Ollama's results answer the oldest open calls, and stand in their order, where two replies call the same tools."""
    said = [_asked("look", "find"), _asked("see", "find", "look"), _found("1", "find"), _found("2"), _found("3", "see")]
    await append(client, conversation, *said, format="ollama")
    made = await window(client, conversation, model=MODELS["ollama"], format="ollama")
    names = [each["tool_name"] for each in made["request"]["messages"] if each["role"] == "tool"]
    assert names == ["look", "find", "see"]
