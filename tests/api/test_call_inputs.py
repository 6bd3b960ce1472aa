"""The input of a call that came cut, as text, or as an empty list: it is stored as it came, and an object is sent."""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import httpx
import pytest
from conftest import Served
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import history, problem, window


class Form(NamedTuple):
    """A provider's form: a model, the history of a question, a call and its result, and the way to the call's input."""

    model: str
    said: Callable[[Any], list[dict[str, Any]]]
    sent: Callable[[dict[str, Any]], Any]


def claude(given: Any) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": "t1", "name": "edit", "input": given}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": "done"}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "text", "text": "I edit."}, use]},
        {"role": "user", "content": [answer]},
    ]


def converse(given: Any) -> list[dict[str, Any]]:
    use = {"toolUse": {"toolUseId": "t1", "name": "edit", "input": given}}
    answer = {"toolResult": {"toolUseId": "t1", "content": [{"text": "done"}]}}
    turns = [("user", [{"text": "q"}]), ("assistant", [use]), ("user", [answer])]
    return [{"role": role, "content": content} for role, content in turns]


def gemini(given: Any) -> list[dict[str, Any]]:
    call = {"functionCall": {"id": "t1", "name": "edit", "args": given}}
    answer = {"functionResponse": {"id": "t1", "name": "edit", "response": {"result": "done"}}}
    turns = [("user", [{"text": "q"}]), ("model", [call]), ("user", [answer])]
    return [{"role": role, "parts": parts} for role, parts in turns]


def interactions(given: Any) -> list[dict[str, Any]]:
    return [
        {"type": "user_input", "content": [{"type": "text", "text": "q"}]},
        {"type": "function_call", "id": "t1", "name": "edit", "arguments": given},
        {"type": "function_result", "call_id": "t1", "name": "edit", "result": "done"},
    ]


def ollama(given: Any) -> list[dict[str, Any]]:
    call = {"function": {"name": "edit", "arguments": given}}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "thinking": "Look.", "tool_calls": [call]},
        {"role": "tool", "tool_name": "edit", "content": "done"},
    ]


def in_ollama(request: dict[str, Any]) -> Any:
    return next(m for m in request["messages"] if m.get("tool_calls"))["tool_calls"][0]["function"]["arguments"]


FORMS: Final = {
    "anthropic": Form("claude-sonnet-4-5", claude, lambda r: r["messages"][1]["content"][-1]["input"]),
    "converse": Form(
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        converse,
        lambda r: r["messages"][1]["content"][-1]["toolUse"]["input"],
    ),
    "gemini": Form("gemini-2.5-flash", gemini, lambda r: r["contents"][1]["parts"][-1]["functionCall"]["args"]),
    "interactions": Form(
        "gemini-2.5-flash",
        interactions,
        lambda r: next(step for step in r["input"] if step["type"] == "function_call")["arguments"],
    ),
    "ollama": Form("qwen3:8b", ollama, in_ollama),
}
CUT: Final = '{"path": "a.p'
GIVEN: Final = [
    (CUT, {"INVALID_JSON": CUT}),
    ("", {}),
    ([], {}),
    ("[]", {}),
    ('{"a": 1}', {"a": 1}),
    ({"a": 1}, {"a": 1}),
]


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("given", "expected"), GIVEN)
async def test_an_input_that_is_no_object_is_stored_and_an_object_is_sent(
    client: httpx.AsyncClient, conversation: str, name: str, given: Any, expected: Any
) -> None:
    """A call with a cut input is accepted and kept as it came; its window has the object, and tells so."""
    form = FORMS[name]
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, params={"format": name}, json={"messages": form.said(given)})
    assert answer.status_code == 201, answer.text

    stored = (await history(client, conversation))[1]["message"]
    made = await window(client, conversation, model=form.model, format=name)

    assert form.sent(made["request"]) == expected
    assert made.get("mended", {"reasons": {}})["reasons"].get("broken_arguments", 0) == (given != expected)
    assert isinstance(given, dict) or json.dumps(given) in json.dumps(stored)
    in_chat = await window(client, conversation, model="gpt-4o")
    arguments = in_chat["request"]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert arguments == (given if isinstance(given, str) else json.dumps(given or {}, separators=(",", ":")))


@pytest.mark.parametrize("name", ["anthropic", "converse", "interactions"])
async def test_an_input_that_is_null_is_an_empty_object(
    client: httpx.AsyncClient, conversation: str, name: str
) -> None:
    """A form that requires the input is sent an object where a program wrote null."""
    form = FORMS[name]
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, params={"format": name}, json={"messages": form.said(None)})
    assert answer.status_code == 201, answer.text
    made = await window(client, conversation, model=form.model, format=name)

    assert form.sent(made["request"]) == {}
    assert made["mended"]["reasons"]["broken_arguments"] == 1


@pytest.mark.parametrize(("given", "text"), [({"a": 1}, '{"a":1}'), ([], "{}"), (None, "{}"), ('{"a', '{"a')])
async def test_arguments_of_an_item_are_a_text(
    client: httpx.AsyncClient, conversation: str, given: Any, text: str
) -> None:
    """A Responses item whose arguments came as an object, a list or null is sent with their text."""
    call = {"type": "function_call", "call_id": "c1", "name": "edit", "arguments": given}
    found = {"type": "function_call_output", "call_id": "c1", "output": "done"}
    path = f"/conversations/{conversation}/messages"
    body = {"messages": [{"role": "user", "content": "q"}, call, found]}
    answer = await client.post(path, params={"format": "responses"}, json=body)
    assert answer.status_code == 201, answer.text
    made = await window(client, conversation, model="gpt-5", format="responses")

    assert made["request"]["input"][1]["arguments"] == text


@pytest.mark.parametrize("given", [[], None, {}])
async def test_arguments_of_a_chat_call_are_a_text(client: httpx.AsyncClient, conversation: str, given: Any) -> None:
    """PHP's programs write an empty object as a list: chat completions get the text of an object."""
    call = {"id": "c1", "type": "function", "function": {"name": "edit", "arguments": given}}
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": messages})
    assert answer.status_code == 201, answer.text
    made = await window(client, conversation, model="gpt-4o")

    assert made["request"]["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


WORDS = st.characters(exclude_categories=["Cc", "Cs"])
"""Of control characters, JSON makes digits that an estimate of Qwen's vocabulary does not see."""
VALUES = st.dictionaries(
    st.text(WORDS, max_size=4), st.text(WORDS, max_size=8) | st.integers(-9, 9) | st.none(), max_size=3
)
INPUTS = (
    VALUES
    | st.just([])
    | st.text(WORDS, max_size=20)
    | st.tuples(VALUES.map(json.dumps), st.integers(0, 30)).map(lambda cut: cut[0][: cut[1]])
)


@given(name=st.sampled_from([*FORMS]), value=INPUTS, reader=st.sampled_from([*FORMS]))
@examples(1)
def test_what_is_sent_is_an_object_and_is_never_undercounted(
    served: Served, name: str, value: Any, reader: str
) -> None:
    """Any text, a cut object and an empty list are an object in every form that has one, and cost what it costs."""
    to = FORMS[reader]
    body = {"messages": FORMS[name].said(value), "model": to.model, "format": reader}
    with httpx.Client(base_url=served.url) as client:
        made = client.post("/window", params={"format": name}, json=body)
        assert made.status_code == 200, made.text
        found = made.json()
        counted = client.post("/count", params={"format": reader}, json={"model": to.model, **found["request"]})
    assert isinstance(to.sent(found["request"]), dict)
    assert counted.json()["tokens"] <= found["tokens"]["total"], counted.text


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("wrong", [7, True, [1], [{}], 1.5])
async def test_an_input_that_nobody_writes_is_refused(
    client: httpx.AsyncClient, conversation: str, name: str, wrong: Any
) -> None:
    """A number, a truth value and a list with elements are no input of a call: 400 with the place, and nothing is stored."""
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, params={"format": name}, json={"messages": FORMS[name].said(wrong)})
    problem(answer, 400, "invalid-entry")
    assert await history(client, conversation) == []
