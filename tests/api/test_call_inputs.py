"""The input of a call that came cut, as text, or as another value: it is stored as it came, and an object is sent."""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import httpx
import pytest
from conftest import Served
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import history, window


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
    (None, {}),
    (7, {"INVALID_JSON": "7"}),
    (1.5, {"INVALID_JSON": "1.5"}),
    (True, {"INVALID_JSON": "true"}),
    (False, {"INVALID_JSON": "false"}),
    (0, {"INVALID_JSON": "0"}),
    ([1], {"INVALID_JSON": "[1]"}),
    ([{}], {"INVALID_JSON": "[{}]"}),
]


def text_of(value: Any) -> str:
    """Return the arguments of a chat completion's call that stand for an input."""
    if isinstance(value, str):
        return value
    return json.dumps({} if value is None or value == [] else value, separators=(",", ":"))


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
    is_regular = name == "ollama" and given is None  # null is an empty object there from the door on
    is_mended = given != expected and not is_regular
    assert made.get("mended", {"reasons": {}})["reasons"].get("broken_arguments", 0) == is_mended
    assert isinstance(given, dict) or is_regular or json.dumps(given) in json.dumps(stored)
    in_chat = await window(client, conversation, model="gpt-4o")
    arguments = in_chat["request"]["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert arguments == text_of(given)


@pytest.mark.parametrize(("given", "text"), [({"a": 1}, '{"a":1}'), ([], "{}"), (None, "{}"), ('{"a', '{"a'), (3, "3")])
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


def asked(call: dict[str, Any], answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a question, a reply with this call, and the result."""
    return [{"role": "user", "content": "q"}, {"role": "assistant", **call}, {"content": "done", **answer}]


TEXTS: Final[dict[str, Callable[[Any], tuple[str, str, list[dict[str, Any]]]]]] = {
    "function": lambda given: (
        "openai",
        "gpt-4o",
        asked(
            {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "edit", "arguments": given}}]},
            {"role": "tool", "tool_call_id": "c1"},
        ),
    ),
    "custom": lambda given: (
        "openai",
        "gpt-4o",
        asked(
            {"tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "edit", "input": given}}]},
            {"role": "tool", "tool_call_id": "c1"},
        ),
    ),
    "legacy": lambda given: (
        "openai",
        "gpt-4o",
        asked({"function_call": {"name": "edit", "arguments": given}}, {"role": "function", "name": "edit"}),
    ),
    "cohere": lambda given: (
        "cohere",
        "command-a-03-2025",
        asked(
            {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "edit", "arguments": given}}]},
            {"role": "tool", "tool_call_id": "c1"},
        ),
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("given", [[], None, {}, {"a": 1}, 3, 0, True, [1]])
async def test_arguments_that_are_a_text_in_their_form(
    client: httpx.AsyncClient, conversation: str, given: Any, kind: str
) -> None:
    """Chat completions and Cohere have arguments as text: they get the JSON of any other value, and of nothing ``{}``."""
    form, model, messages = TEXTS[kind](given)
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, params={"format": form}, json={"messages": messages})
    assert answer.status_code == 201, answer.text
    made = await window(client, conversation, model=model, format=form)

    reply = made["request"]["messages"][1]
    called = (
        reply["function_call"] if kind == "legacy" else reply["tool_calls"][0][{"cohere": "function"}.get(kind, kind)]
    )
    is_nothing = kind == "custom" and given in (None, []) and given is not False
    assert called["input" if kind == "custom" else "arguments"] == ("" if is_nothing else text_of(given))


@pytest.mark.parametrize(("form", "empty"), [("gemini", {}), ("interactions", "")])
async def test_a_result_that_is_null_is_empty(
    client: httpx.AsyncClient, conversation: str, form: str, empty: Any
) -> None:
    """A program that returns nothing writes null, where Google's forms require a value."""
    messages = FORMS[form].said({})
    holder = messages[2]["parts"][0]["functionResponse"] if form == "gemini" else messages[2]
    holder["response" if form == "gemini" else "result"] = None
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, params={"format": form}, json={"messages": messages})
    assert answer.status_code == 201, answer.text
    request = (await window(client, conversation, model="gemini-2.5-flash", format=form))["request"]

    sent = request["contents"][2]["parts"][0]["functionResponse"]["response"] if form == "gemini" else None
    assert (sent if form == "gemini" else request["input"][2]["result"]) == empty


WORDS = st.characters(exclude_categories=["Cc", "Cs"])
"""Of control characters, JSON makes digits that an estimate of Qwen's vocabulary does not see."""
VALUES = st.dictionaries(
    st.text(WORDS, max_size=4), st.text(WORDS, max_size=8) | st.integers(-9, 9) | st.none(), max_size=3
)
INPUTS = (
    VALUES
    | st.sampled_from([[], None, True, False])
    | st.integers(-9, 9)
    | st.lists(VALUES, max_size=2)
    | st.text(WORDS, max_size=20)
    | st.tuples(VALUES.map(json.dumps), st.integers(0, 30)).map(lambda cut: cut[0][: cut[1]])
)


@given(name=st.sampled_from([*FORMS]), value=INPUTS, reader=st.sampled_from([*FORMS]))
@examples(1)
def test_what_is_sent_is_an_object_and_is_never_undercounted(
    served: Served, name: str, value: Any, reader: str
) -> None:
    """Any value is an object in every form that has one, and costs what it costs."""
    to = FORMS[reader]
    body = {"messages": FORMS[name].said(value), "model": to.model, "format": reader}
    with httpx.Client(base_url=served.url) as client:
        made = client.post("/window", params={"format": name}, json=body)
        assert made.status_code == 200, made.text
        found = made.json()
        counted = client.post("/count", params={"format": reader}, json={"model": to.model, **found["request"]})
    assert isinstance(to.sent(found["request"]), dict)
    assert counted.json()["tokens"] <= found["tokens"]["total"], counted.text
