"""Every string in a request is in its window's tokens: over recorded requests, and over messages of every kind.

Some strings are left out, because recorded bills show less for them than their tokens:

* ids, which join a call with its result, are free: bills with tool history
* images, sounds and files are billed by their size, not by their base64, and what names their kind is free
* sealed thoughts (signatures, encrypted content) are billed by their characters or not at all: core/native/seals.py
* ``role`` and ``type`` are free for Gemini and search-preview models, which bill the content alone

No recording shows what generated messages have besides, and no model reads as text: ``status``, ``caller``, ``logprobs``.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import httpx
import msgspec
import pytest
from core.provider_types import anthropic_messages, contents, items
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recordings import NO_TRUTH, TRUTH

from service.core.native import read_request
from service.core.native.seals import SIGNATURES, is_of_vertex
from service.core.text import count_text

MESSAGES = {"openai": "messages", "responses": "input", "anthropic": "messages", "gemini": "contents"}
MODELS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
RECORDED = {
    "vcr_chat": "openai",
    "kani_chat": "openai",
    "cookbook": "openai",
    "openai_chat_tokens": "openai",
    "openai_messages_token_helper": "openai",
    "more_chat": "openai",
    "kani_responses": "responses",
    "more_anthropic": "anthropic",
    "more_gemini": "gemini",
}
UNASKED = {
    "dd-trace-py-0020",  # a result answers a call that nobody made
    "langchaingo-0013",  # a tool's parameters have numbers for types
}

MEDIA = {"image_url", "input_audio", "file", "source", "inlineData", "inline_data", "fileData", "file_data"}
MEDIA_KINDS = {"input_image", "input_file", "image_generation_call", "computer_screenshot"}
SEALED = {"signature", "thoughtSignature", "thought_signature", "fingerprint"}
STRUCTURE = {"role", "type"}
JSON = {"content-type": "application/json"}
HANDLING = {"status", "caller", "logprobs"}


def texts(value: Any, free: Collection[str] = (), key: str = "") -> Iterator[str]:
    """Every string in a JSON value but the exceptions, and but the members named ``free``."""
    if key in free or key in SEALED | STRUCTURE or key == "id" or key.endswith("_id") or key.startswith("encrypted_"):
        return
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from texts(each, free, key)
        case {"type": "redacted_thinking"}:
            return
        case {"type": str(kind)} if kind in MEDIA_KINDS:
            return
        case dict() if key in MEDIA and value.get("type") not in ("text", "content"):
            return
        case dict():
            for name, each in value.items():
                yield from texts(each, free, name)


def tokens(value: Any, encoding: Any, free: Collection[str] = ()) -> int:
    return sum(count_text(text, encoding) for text in texts(value, free))


def is_behind_vertex(request: Mapping[str, Any]) -> bool:
    """Whether a part of a Gemini request has a seal of Vertex."""
    parts = (part for content in request.get("contents", ()) for part in content["parts"])
    return any(is_of_vertex(part.get(name)) for part in parts for name in SIGNATURES)


async def asked(client: httpx.AsyncClient, form: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """A window of messages in ``form``; None where the history is refused, or does not fit."""
    content = msgspec.json.encode({"reserve": 0, "reasoning": "all", **body})  # an infinite number becomes null
    answer = await client.post("/window", params={"format": form}, content=content, headers=JSON)
    assert answer.status_code < 500, answer.text
    made: dict[str, Any] = answer.json()
    return made if answer.status_code == 200 else None


async def counted(client: httpx.AsyncClient, form: str, window: Mapping[str, Any]) -> int:
    """The tokens of a window's request, counted as a request of its own."""
    answer = await client.post("/count", params={"format": form}, json={"model": window["model"], **window["request"]})
    assert answer.status_code == 200, answer.text
    total: int = answer.json()["tokens"]
    return total


def history(form: str, request: dict[str, Any]) -> dict[str, Any]:
    """The body of a window of a recorded request: its messages as they were sent, its system text and its tools."""
    body: dict[str, Any] = {"messages": request[MESSAGES[form]]}
    if form == "openai":
        tools, choice = request.get("tools"), request.get("tool_choice")
    else:
        chat = read_request(form, request)
        tools, choice = lower_types(chat.tools), chat.tool_choice
        system = [message for message in chat.messages if message["role"] == "system" and "native" not in message]
        body |= {"system": "\n\n".join(texts([message["content"] for message in system]))} if system else {}
    return body | ({"tools": tools} if tools else {}) | ({"tool_choice": choice} if tools and choice else {})


def lower_types(value: Any) -> Any:
    """A schema with JSON Schema's names of types, where Gemini has its own."""
    match value:
        case {"type": str(kind), **rest}:
            return {"type": kind.lower(), **lower_types(rest)}
        case dict():
            return {name: lower_types(each) for name, each in value.items()}
        case list():
            return [lower_types(each) for each in value]
        case _:
            return value


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize("name", RECORDED)
async def test_recorded_requests(client: httpx.AsyncClient, name: str) -> None:
    """In its own format, whole and at three quarters: the strings are within the total, and the total is within the budget.

    Unless the request is Vertex's, /count of the request is the total.
    """
    form, refused, wrong = RECORDED[name], set(), []
    for row in json.loads((TRUTH / f"{name}.json").read_bytes()):
        body = {"model": row["model"], **history(form, row["request"] | (row.get("also_sent") or {}))}
        whole = await asked(client, form, {**body, "max_tokens": 10_000_000})
        if whole is None:
            refused.add(row["id"])
            continue
        smaller = await asked(client, form, {**body, "max_tokens": max(1, whole["tokens"]["total"] * 3 // 4)})
        for made in (whole, smaller):
            if made is not None:
                total, strings = made["tokens"]["total"], tokens(made["request"], made["encoding"])
                count = await counted(client, form, made)
                # Only /count looks at the seals, which tell that Vertex billed them: its Gemini 3 bills less.
                is_same = count == total or (count < total and is_behind_vertex(made["request"]))
                if not (strings <= total <= made["budget"] and is_same):
                    wrong.append((row["id"], strings, total, made["budget"]))
    assert wrong == []
    assert refused <= UNASKED


DRAWN: dict[str, st.SearchStrategy[list[dict[str, Any]]]] = {
    "responses": items(),
    "anthropic": anthropic_messages(),
    "gemini": contents(),
}
drawn = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("form", DRAWN)
@pytest.mark.parametrize("out", MESSAGES)
@drawn
@given(data=st.data())
async def test_generated_messages(client: httpx.AsyncClient, form: str, out: str, data: st.DataObject) -> None:
    """Whatever parts a provider's messages have, their strings are within the total in every format that carries them.

    In their own format, the total is what /count says of the request. Messages of one role in a row are joined there,
    and may cost less together.
    """
    messages = data.draw(DRAWN[form])
    made = await asked(client, form, {"model": MODELS[out], "messages": messages, "format": out})
    if made is not None:
        strings = tokens(made["request"], "o200k_base", HANDLING)
        assert strings <= made["tokens"]["total"] <= made["budget"]
        if form == out:
            count, joined = await counted(client, form, made), len(made["request"][MESSAGES[form]]) < len(messages)
            assert count == made["tokens"]["total"] or (joined and count < made["tokens"]["total"])


async def test_a_result_that_no_call_asked_for(client: httpx.AsyncClient) -> None:
    """Gemini's result repeats its call's name, which is counted with the call; without a call, with the result."""
    contents = [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [{"functionResponse": {"name": "a_function_of_many_words", "response": {}}}]},
    ]
    made = await asked(client, "gemini", {"model": MODELS["gemini"], "messages": contents})
    assert made is not None
    assert tokens(made["request"], "o200k_base") <= made["tokens"]["total"]


ARGUMENTS = ["", "{}", "{", "null", "[1]", '"x"', "not JSON", '{"a":  1.50}', '{"city": "Zürich"}', '{"s": "\\u00fc"}']


@pytest.mark.parametrize("form", MESSAGES)
@pytest.mark.parametrize("kind", ["function", "custom"])
async def test_arguments_that_are_no_object(client: httpx.AsyncClient, form: str, kind: str) -> None:
    """Anthropic and Gemini take objects alone: what is sent in the place of other arguments is counted."""
    for text in ARGUMENTS:
        called = {"type": kind, kind: {"name": "look", "input" if kind == "custom" else "arguments": text}}
        messages = [
            {"role": "user", "content": "Which?"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **called}]},
            {"role": "tool", "tool_call_id": "a", "content": "This one."},
            {"role": "user", "content": "And now?"},
        ]
        made = await asked(client, "openai", {"model": MODELS[form], "messages": messages, "format": form})
        assert made is not None
        assert await counted(client, form, made) == made["tokens"]["total"], text


LONG = {
    "words": "word " * 3000,
    "json": json.dumps([{"id": number, "price": number * 1.5} for number in range(600)]),
    "scripts": "a line\nslovo část\nहिन्दी\n日本語のテキスト。\n" * 400,
    "escapes": 'he said "no"\\ and\tleft\n' * 600,
}


def with_result(form: str, text: str, shape: int) -> list[dict[str, Any]]:
    """A history with a tool result as a provider's API takes it, in one of three shapes."""
    half = len(text) // 2
    match form:
        case "gemini":
            response: Any = [{"result": text}, {"output": text, "status": "ok"}, {"rows": [text[:half], text[half:]]}][
                shape
            ]
            return [
                {"role": "user", "parts": [{"text": "Which?"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": "x"}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": response}}]},
            ]
        case "anthropic":
            blocks = [{"type": "text", "text": text[:half]}, {"type": "text", "text": text[half:]}]
            content: Any = [text, blocks[:1], blocks][shape]
            return [
                {"role": "user", "content": "Which?"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {"q": "x"}}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content}]},
            ]
        case _:
            parts = [{"type": "input_text", "text": text[:half]}, {"type": "input_text", "text": text[half:]}]
            output: Any = [text, parts[:1], parts][shape]
            return [
                {"role": "user", "content": "Which?"},
                {"type": "function_call", "call_id": "a", "name": "look", "arguments": '{"q":"x"}'},
                {"type": "function_call_output", "call_id": "a", "output": output},
            ]


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize("shape", [0, 1, 2])
@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
async def test_cut_results_cost_what_they_are_counted(
    client: httpx.AsyncClient, form: str, shape: int, text: str
) -> None:
    """A result that was cut costs what /count says of the request, whatever shape it came in."""
    messages = with_result(form, text, shape)
    for limit in ({"tool_result_max_tokens": 100}, {"tool_result_max_tokens": 333}, {"max_tokens": 1000}):
        made = await asked(client, form, {"model": MODELS[form], "messages": messages, **limit})
        assert made is not None
        assert made["trimmed"]["messages"] == 1
        assert await counted(client, form, made) == made["tokens"]["total"] <= made["budget"]


GREETED = [
    {"role": "assistant", "content": "Hello! What can I do?"},
    {"role": "user", "content": "Which talks are on?"},
]
EMPTY = [{"role": "user", "content": ""}, {"role": "user", "content": "Which talks are on?"}]
NAMED = [{"role": "user", "name": "a_rather_long_name_of_somebody", "content": ""}, *EMPTY]


@pytest.mark.parametrize("form", ["anthropic", "gemini"])
@pytest.mark.parametrize("messages", [GREETED, EMPTY, NAMED], ids=["greeted", "empty", "named"])
@pytest.mark.parametrize("few_shots", [[], GREETED], ids=["", "few-shots"])
async def test_words_that_a_form_adds_are_counted(
    client: httpx.AsyncClient, form: str, messages: list[dict[str, Any]], few_shots: list[dict[str, Any]]
) -> None:
    """What stands before an assistant that leads, and for an empty turn, is in the total, and never takes it over budget."""
    body = {"model": MODELS[form], "messages": messages, "few_shots": few_shots, "format": form}
    whole = await asked(client, "openai", body)
    assert whole is not None
    total = whole["tokens"]["total"]
    # Messages of one role in a row are one turn, which costs Claude less than each by itself.
    assert tokens(whole["request"], "o200k_base") <= await counted(client, form, whole) <= total
    exact = await asked(client, "openai", {**body, "max_tokens": total})
    assert exact is not None
    assert exact["kept"]["messages"] == len(messages)
    for budget in range(total):
        made = await asked(client, "openai", {**body, "max_tokens": max(1, budget)})
        if made is not None:
            assert await counted(client, form, made) <= made["tokens"]["total"] <= max(1, budget)


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3-max"])
@pytest.mark.parametrize("text", ["yes", "はい", "1234"])
async def test_a_long_member_beside_a_short_text(client: httpx.AsyncClient, model: str, text: str) -> None:
    """A member that nobody knows costs its tokens, however short the text of its message is, in whatever script."""
    messages = [{"role": "user", "content": text, "note": "word " * 1000}]
    made = await asked(client, "openai", {"model": model, "messages": messages})
    assert made is not None
    assert tokens(made["request"], "o200k_base") <= made["tokens"]["total"]


async def test_a_text_that_is_sent_twice_is_counted_twice(client: httpx.AsyncClient) -> None:
    """A string of a provider's own part costs its tokens, though the message's text says the same."""
    said = "word " * 1000
    parts = [{"text": said}, {"executableCode": {"code": said, "language": "PYTHON"}}]
    messages = [{"role": "user", "parts": [{"text": "Go on."}]}, {"role": "model", "parts": parts}]
    made = await asked(client, "gemini", {"model": MODELS["gemini"], "messages": messages})
    assert made is not None
    assert made["tokens"]["total"] >= 2000


async def test_an_image_among_thoughts_is_counted(client: httpx.AsyncClient) -> None:
    """An image that the model made while it thought costs what an image costs, where thoughts are sent."""
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    totals = []
    for part in ({**image, "thought": True}, {"text": "Hm.", "thought": True}):
        messages = [
            {"role": "user", "parts": [{"text": "Draw."}]},
            {"role": "model", "parts": [part, {"text": "Done."}]},
        ]
        made = await asked(client, "gemini", {"model": MODELS["gemini"], "messages": messages})
        assert made is not None
        totals.append(made["tokens"]["total"])
    assert totals[0] >= totals[1] + 200


@pytest.mark.parametrize("form", ["anthropic", "gemini"])
async def test_calls_of_a_chat_cost_what_their_form_costs(client: httpx.AsyncClient, form: str) -> None:
    """A chat message's result has no name; Gemini's form names the function there too, and is billed for it."""
    calls = [{"id": "a", "type": "function", "function": {"name": "look_for_a_talk", "arguments": '{"on": "gradle"}'}}]
    messages = [
        {"role": "user", "content": "Which talks are on?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "The Network Latency Tax"},
    ]
    made = await asked(client, "openai", {"model": MODELS[form], "messages": messages, "format": form})
    assert made is not None
    assert await counted(client, form, made) == made["tokens"]["total"]
