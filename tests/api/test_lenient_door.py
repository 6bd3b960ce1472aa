"""Whatever a provider or its SDK emits, and whatever a tool returned, is stored: an append is 201, and so is each window."""

import typing
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import UnionType
from typing import Any, Final

import httpx
import ollama
import pytest
from anthropic.types import ContentBlock, Message
from anthropic.types.beta import BetaContentBlock, BetaMessage
from conftest import Served
from core.provider_types import NAMED, contents
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseOutputItem
from profiles import examples
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Object = dict[str, Any]
WORDS: Final = st.characters(exclude_categories=["Cs"])
LETTERS: Final = "abc_-"
MODELS: Final = {
    "openai": "gpt-4o",
    "responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "interactions": "gemini-2.5-flash",
    "converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "ollama": "qwen3:8b",
}


def dumped(kind: Any) -> st.SearchStrategy[Any]:
    """Draw a value of an SDK's type as ``model_dump`` writes it: an object has all members, and null where one is not."""
    kind = typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind
    origin, inner = typing.get_origin(kind), [each for each in typing.get_args(kind) if each is not type(None)]
    if origin in (typing.Union, UnionType):
        drawn = st.sampled_from(inner).flatmap(dumped)
        return drawn | st.none() if type(None) in typing.get_args(kind) else drawn
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return st.fixed_dictionaries(
            {field.alias or name: of_field(name, field) for name, field in kind.model_fields.items()}
        )
    if origin in (list, Sequence):
        return st.lists(dumped(inner[0]), max_size=2)
    if origin in (dict, Mapping) or kind in (dict, Any, object):
        return st.dictionaries(st.text(WORDS, max_size=3), st.text(WORDS, max_size=3), max_size=2)
    return st.text(WORDS, max_size=8) if kind is str else st.from_type(kind).map(as_text)


def as_text(value: Any) -> Any:
    """Return a value as the SDKs' JSON has it: bytes in base64, a time as text."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else value


def of_field(name: str, field: FieldInfo) -> st.SearchStrategy[Any]:
    """Draw a field's value: no id and no name is empty, and ``type`` is written though it has a default."""
    if name in NAMED:
        return st.text(LETTERS, min_size=1, max_size=8)
    drawn = dumped(field.annotation)
    return drawn if field.is_required() or name in ("type", "role") else st.just(field.get_default()) | drawn


def claudes(whole: Any, blocks: Any) -> st.SearchStrategy[Object]:
    content = st.lists(dumped(blocks), max_size=3)
    return st.builds(lambda reply, said: {**reply, "content": said}, dumped(whole), content)


def is_answer(part: Object) -> bool:
    """Whether an item or a part is a tool's result: it needs its call before it."""
    is_item = str(part.get("type")).endswith(("_output", "mcp_approval_response"))
    return is_item or not {"function_response", "functionResponse"}.isdisjoint(part)


def identity(item: Object) -> str | None:
    """The id that the provider gives an item: no two of a reply have one."""
    return item.get("call_id", item.get("id"))


def without_answers(parts: list[Object]) -> list[Object]:
    return [part for part in parts if not is_answer(part)]


REPLIES: Final[dict[str, st.SearchStrategy[list[Object]]]] = {
    "openai": dumped(ChatCompletionMessage).map(lambda each: [each]),
    "responses": st.lists(dumped(ResponseOutputItem), max_size=3, unique_by=identity).map(without_answers),
    "anthropic": (claudes(Message, ContentBlock) | claudes(BetaMessage, BetaContentBlock)).map(lambda each: [each]),
    "gemini": contents().map(
        lambda said: [{"role": "model", "parts": without_answers(each["parts"])} for each in said]
    ),
    "ollama": st.fixed_dictionaries(
        {name: of_field(name, field) for name, field in ollama.Message.model_fields.items()}
        | {"role": st.just("assistant"), "images": st.none()}
    ).map(lambda each: [each]),
}


@pytest.mark.parametrize("form", REPLIES)
@settings(examples(0.3), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_reply_of_an_sdk_is_stored(served: Served, form: str, data: st.DataObject) -> None:
    """A reply as its provider's SDK dumps it, with nulls and with what the SDK adds, is 201 and told nothing of."""
    messages = data.draw(REPLIES[form].filter(bool))
    with httpx.Client(base_url=served.url) as client:
        answer = client.post("/conversations", json={})
        path = f"/conversations/{answer.json()['id']}"
        answer = client.post(f"{path}/messages", params={"format": form}, json={"messages": messages})
        assert answer.status_code == 201, answer.text
        made = client.get(f"{path}/window", params={"format": form, "model": MODELS[form], "uncarried": "drop"})
        assert made.status_code == 200, made.text
        assert "foreign_members" not in made.json().get("mended", {}).get("reasons", {}), messages
        client.delete(path)


RETURNED: Final[list[Any]] = [None, "", [], {}, 7, 1.5, True, ["a"], [1, {"a": 1}], {"a": 1}, {"rows": [{"a": None}]}]
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def called(form: str, value: Any) -> list[Object]:
    """Return a question, a call and its result in a form, where the result's content is ``value``."""
    function: Object = {"name": "look", "arguments": {}}
    match form:
        case "openai":
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            reply = {"role": "assistant", "content": None, "tool_calls": [call]}
            return [user("q"), reply, {"role": "tool", "tool_call_id": "c1", "content": value}]
        case "responses":
            call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
            return [user("q"), call, {"type": "function_call_output", "call_id": "c1", "output": value}]
        case "anthropic":
            use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
            answer = {"type": "tool_result", "tool_use_id": "c1", "content": value}
            return [user("q"), {"role": "assistant", "content": [use]}, user([answer])]
        case "gemini":
            said = [{"text": "q"}], [{"functionCall": {"name": "look", "args": {}}}]
            answer = {"functionResponse": {"name": "look", "response": value}}
            return [{"role": role, "parts": parts} for role, parts in zip(("user", "model"), said, strict=True)] + [
                {"role": "user", "parts": [answer]}
            ]
        case "interactions":
            call = {"type": "function_call", "id": "c1", **function}
            asked = {"type": "user_input", "content": [{"type": "text", "text": "q"}]}
            return [asked, call, {"type": "function_result", "call_id": "c1", "name": "look", "result": value}]
        case "converse":
            use, answer = (
                {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
                {"toolUseId": "c1", "content": value},
            )
            return [user([{"text": "q"}]), {"role": "assistant", "content": [use]}, user([{"toolResult": answer}])]
    reply = {"role": "assistant", "content": "", "tool_calls": [{"function": function}]}
    return [user("q"), reply, {"role": "tool", "tool_name": "look", "content": value}]


def user(content: Any) -> Object:
    return {"role": "user", "content": content}


@pytest.mark.parametrize("form", MODELS)
def test_whatever_a_tool_returned_is_a_result(served: Served, form: str) -> None:
    """A number, an object or a list as a result is stored, and each format gets its words, counted as sent."""
    for value in RETURNED:
        body = {"messages": [*called(form, value), *called(form, "z")[:1]]}
        with httpx.Client(base_url=served.url) as client:
            for to, model in MODELS.items():
                made = client.post("/window", params={"format": form}, json={**body, "model": model, "format": to})
                assert made.status_code == 200, (value, to, made.text)
                counted = client.post("/count", params={"format": to}, json={"model": model, **made.json()["request"]})
                assert counted.status_code == 200, (value, to, counted.text)
                assert counted.json()["tokens"] <= made.json()["tokens"]["total"]
                sent = str(made.json()["request"])
                assert all(word in sent for word in ("rows", "None")[: 2 * ("rows" in str(value))]) or "null" in sent


MCPS: Final[list[Object]] = [
    {"type": "text", "text": "a map", "annotations": None},
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///notes", "text": "the notes", "mimeType": "text/plain"}},
    {"type": "resource_link", "uri": "file:///more", "name": "more"},
]


def test_mcps_content_is_a_result(served: Served) -> None:
    """The blocks of an MCP tool's result are a chat result's parts: the picture is a picture, texts and links are words."""
    with httpx.Client(base_url=served.url) as client:
        body = {"messages": called("openai", MCPS), "model": "claude-sonnet-4-5", "format": "anthropic"}
        made = client.post("/window", json=body)
        assert made.status_code == 200, made.text
    sent = str(made.json()["request"]["messages"][2])
    assert all(each in sent for each in ("a map", PIXEL, "the notes", "more: file:///more")), sent
    assert "'type': 'image'" in sent


NAMELESS: Final[dict[str, list[Object]]] = {
    "openai": [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "7"},
    ],
    "anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "7"}]},
    ],
    "responses": [
        {"type": "function_call", "call_id": "call_1", "name": "", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "7"},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "", "response": {"output": "7"}}}]},
    ],
    "converse": [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "tooluse_1", "name": " ", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "7"}]}}]},
    ],
    "ollama": [
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "", "arguments": {}}}]},
        {"role": "tool", "tool_name": "", "content": "7"},
    ],
}


@pytest.mark.parametrize("window", MODELS)
@pytest.mark.parametrize("form", NAMELESS)
async def test_a_call_without_a_name_is_stored_and_sent_with_one(
    client: httpx.AsyncClient, conversation: str, form: str, window: str
) -> None:
    """A cut stream leaves a call whose name is empty, which every provider refuses: both it and its result get one."""
    path = f"/conversations/{conversation}"
    for message in NAMELESS[form]:
        answer = await client.post(f"{path}/messages", params={"format": form}, json={"messages": [message]})
        assert answer.status_code == 201, answer.text
    asked = {"format": window, "model": MODELS[window]}
    made = await client.get(f"{path}/window", params=asked)
    assert made.status_code == 200, made.text
    assert "unnamed_tool" in made.text
    assert '"name":""' not in made.text
    assert '"tool_name":""' not in made.text
    assert "7" in str(made.json()["request"])
    assert "waiting_for" not in made.json()


async def test_a_result_without_a_name_answers_the_oldest_call(client: httpx.AsyncClient, conversation: str) -> None:
    """A result whose name a program left empty has the name of the call that it answers (binaricat/Netcatty 350)."""
    path, query = f"/conversations/{conversation}", {"format": "gemini", "model": "gemini-2.5-flash"}
    call = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "", "response": {"output": "7"}}}]}
    for message in (call, result):
        answer = await client.post(f"{path}/messages", params={"format": "gemini"}, json={"messages": [message]})
        assert answer.status_code == 201, answer.text
    made = (await client.get(f"{path}/window", params=query)).json()["request"]["contents"]
    assert made[-1]["parts"][0]["functionResponse"]["name"] == "look"


GEMINIS_CALL: Final[Object] = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}


def found(value: str) -> Object:
    """A result of Gemini's without an id."""
    return {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": value}}}]}


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 2), (2, 1, 1), (4,)])
@pytest.mark.parametrize("window", ["gemini", "openai", "anthropic"])
async def test_two_calls_of_one_function_in_two_contents_keep_their_results(
    client: httpx.AsyncClient, conversation: str, sizes: tuple[int, ...], window: str
) -> None:
    """A reply that comes as two contents makes two calls, and each gets its own result, however they are appended."""
    path, given = f"/conversations/{conversation}", [GEMINIS_CALL, GEMINIS_CALL, found("one"), found("two")]
    for size in sizes:
        body = {"messages": given[:size]}
        del given[:size]
        answer = await client.post(f"{path}/messages", params={"format": "gemini"}, json=body)
        assert answer.status_code == 201, answer.text
    made = (await client.get(f"{path}/window", params={"format": window, "model": MODELS[window]})).json()
    sent = str(made["request"])
    assert 0 < sent.index("one") < sent.index("two")
    assert "unanswered_call" not in made.get("mended", {}).get("reasons", {})
    assert "waiting_for" not in made


async def test_a_call_that_is_appended_again_under_its_id_is_the_same(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A retry of the append of an open call makes no second call."""
    body = {"messages": [{"id": "r1", "message": GEMINIS_CALL}]}
    path, query = f"/conversations/{conversation}/messages", {"format": "gemini"}
    answers = [await client.post(path, params=query, json=body) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200]
    other = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"day": 1}}}]}
    changed = await client.post(path, params=query, json={"messages": [{"id": "r1", "message": other}]})
    assert changed.status_code == 409
    assert len((await client.get(path)).json()["messages"]) == 1
