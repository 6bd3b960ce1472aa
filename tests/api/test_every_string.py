"""Every string in a request is counted in its window's tokens: recorded requests, and generated messages of every kind.

Some strings are left out, because recorded bills show less for them than their tokens:

* ids, which join a call with its result, are free: bills with tool history
* images, sounds and files are billed by their size, not by their base64, and what names their kind is free
* sealed reasoning (signatures, encrypted content) are billed by their characters or not at all: measures/native_parts.py
* ``role`` and ``type`` are free for Gemini and search-preview models, which bill the content alone

``status``, ``caller`` and ``logprobs`` of generated messages are left out: in no recording, and not text for a model.
"""

import json
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import httpx
import msgspec
import pytest
from core.provider_types import anthropic_messages, contents, items
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiles import examples
from recordings import NO_TRUTH, TRUTH
from rigs.core_windows import count_of, window_of
from rigs.dialogue import user

from sash.core.counts.measures.native_parts import is_of_vertex
from sash.core.counts.models.models import find_model
from sash.core.counts.text import count_text
from sash.core.providers.google.gemini import GEMINI
from sash.core.providers.reading.native import read_request
from sash.problems import Problem

TURN = 8
"""Tokens around a turn of its own, at most."""
MESSAGES = {"openai": "messages", "responses": "input", "anthropic": "messages", "gemini": "contents"}
MODELS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-opus-4-5", "gemini": "gemini-2.5-flash"}
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
    "new_chat": "openai",
    "new_anthropic": "anthropic",
}
UNASKED = {
    "dd-trace-py-0020",  # a tool result without its tool call
    "langchaingo-0013",  # a tool's parameters have numbers for types
}

MEDIA = {"image_url", "input_audio", "file", "source", "inlineData", "inline_data", "fileData", "file_data"}
MEDIA_KINDS = {"input_image", "input_file", "image_generation_call", "computer_screenshot"}
SEALED = {"signature", "thoughtSignature", "thought_signature", "fingerprint"}
STRUCTURE = {"role", "type"}
JSON = {"content-type": "application/json"}
HANDLING = {"status", "caller", "logprobs"}


def texts(value: Any, free: Collection[str] = (), key: str = "") -> Iterator[str]:
    """Yield every string in a JSON value, without the exceptions above and the members in ``free``."""
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


def least_tokens(value: Any, model: str, free: Collection[str]) -> int:
    """Return what all strings cost at least; vendors have cheaper tokens than o200k_base for some scripts."""
    is_exact = find_model(model).exact
    return sum(
        count_text(text, "o200k_base") if is_exact or text.isascii() else 1 for text in texts(value, free) if text
    )


def is_behind_vertex(request: Mapping[str, Any]) -> bool:
    """Return whether a part of a Gemini request has a signature of Vertex."""
    parts = (part for content in request.get("contents", ()) for part in content["parts"])
    return any(is_of_vertex(part.get(name)) for part in parts for name in GEMINI.kinds.seals)


def forgets(model: str) -> bool:
    """Return whether a model's family does not bill the thinking of earlier turns."""
    return getattr(find_model(model).rules, "forgets_thinking", False)


async def asked(client: httpx.AsyncClient, form: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a window of messages in ``form``; None if the history is refused or does not fit."""
    content = msgspec.json.encode({"reserve": 0, "reasoning": "all", **body})  # an infinite number becomes null
    answer = await client.post("/window", params={"format": form}, content=content, headers=JSON)
    assert answer.status_code < 500, answer.text
    made: dict[str, Any] = answer.json()
    return made if answer.status_code == 200 else None


async def counted(client: httpx.AsyncClient, form: str, window: Mapping[str, Any]) -> int:
    """Return the tokens of a window's request, as /count counts it."""
    answer = await client.post("/count", params={"format": form}, json={"model": window["model"], **window["request"]})
    assert answer.status_code == 200, answer.text
    total: int = answer.json()["tokens"]
    return total


def history(form: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the body that asks for a window of a recorded request: its messages as sent, its system text and its tools."""
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
    """Return a schema with JSON Schema's names of types in place of Gemini's."""
    match value:
        case {"type": str(kind), **rest}:
            return {"type": kind.lower(), **lower_types(rest)}
        case dict():
            return {name: lower_types(each) for name, each in value.items()}
        case list():
            return [lower_types(each) for each in value]
        case _:
            return value


def made_by_core(form: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what ``asked`` does, without a server."""
    try:
        return window_of({"reserve": 0, "reasoning": "all", **body}, form)
    except Problem:
        return None


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_requests(name: str) -> None:
    """In a request's own format, whole or cut to three quarters, strings <= total <= budget, in tokens.

    /count of the request is the total, or less if the request has signatures of Vertex, or thinking of earlier turns that
    the family forgets: windows count all that they send.
    """
    form, refused, wrong = RECORDED[name], set(), []
    for row in json.loads((TRUTH / f"{name}.json").read_bytes()):
        body = {"model": row["model"], **history(form, row["request"] | (row.get("also_sent") or {}))}
        whole = made_by_core(form, {**body, "max_tokens": 10_000_000})
        if whole is None:
            refused.add(row["id"])
            continue
        smaller = made_by_core(form, {**body, "max_tokens": max(1, whole["tokens"]["total"] * 3 // 4)})
        for made in (whole, smaller):
            if made is not None:
                total, strings = made["tokens"]["total"], tokens(made["request"], made["encoding"])
                count = count_of(made["model"], made["request"], form)
                # Only /count reads the signatures. They show that Vertex bills the request, whose Gemini 3 bills less.
                may_be_less = is_behind_vertex(made["request"]) or forgets(row["model"])
                is_same = count == total or (count < total and may_be_less)
                if not (strings <= total <= made["budget"] and is_same):
                    wrong.append((row["id"], strings, total, made["budget"]))
    assert wrong == []
    assert refused <= UNASKED


DRAWN: dict[str, st.SearchStrategy[list[dict[str, Any]]]] = {
    "responses": items(),
    "anthropic": anthropic_messages(),
    "gemini": contents(),
}


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("form", DRAWN)
@pytest.mark.parametrize("out", MESSAGES)
@settings(examples(0.3), suppress_health_check=list(HealthCheck))
@given(data=st.data())
async def test_generated_messages(client: httpx.AsyncClient, form: str, out: str, data: st.DataObject) -> None:
    """The strings of a provider's generated messages are within the total in every format that can carry them.

    In their own format, the total is /count of the request, unless messages of one role in a row were joined: the estimate
    of a joined text is not the sum of its parts' estimates. What is left out for the provider, and the `…` for a message
    without words, may be within the total.
    """
    messages = data.draw(DRAWN[form])
    made = await asked(client, form, {"model": MODELS[out], "messages": messages, "format": out})
    if made is not None:
        strings = least_tokens(made["request"], MODELS[out], HANDLING)
        assert strings <= made["tokens"]["total"] <= made["budget"]
        if form == out:
            billed = await counted(client, form, made)
            assert billed <= made["tokens"]["total"]
            joined = len(made["request"][MESSAGES[form]]) < len(messages)
            is_silent = not all(least_tokens(message, MODELS[out], HANDLING) for message in messages)
            assert joined or is_silent or "mended" in made or billed == made["tokens"]["total"]


async def test_a_result_that_no_call_asked_for(client: httpx.AsyncClient) -> None:
    """The name in a Gemini tool result, which repeats its call's, is counted with the result if there is no call."""
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
    """The total is /count of the request for arguments that are no object, which Anthropic and Gemini do not accept."""
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
    """Return a history with a tool result in a provider's form, in one of three shapes."""
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
    """The total of a window with a cut tool result is /count of its request, whatever the result's shape."""
    messages = with_result(form, text, shape)
    for limit in ({"tool_result_max_tokens": 100}, {"tool_result_max_tokens": 333}, {"max_tokens": 1000}):
        made = await asked(client, form, {"model": MODELS[form], "messages": messages, **limit})
        assert made is not None
        assert made["trimmed"]["messages"] == 1
        assert await counted(client, form, made) == made["tokens"]["total"] <= made["budget"]


def with_picture(form: str, text: str) -> list[dict[str, Any]]:
    """Return a question, a call and its result: a text, a picture of 1000 by 1000 pixels, and other members."""
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1000).to_bytes(4) * 2 + b"\x08\x02\0\0\0\0\0\0\0"
    data = b64encode(header).decode()
    messages = with_result(form, text, 0)
    match form:
        case "anthropic":
            image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
            members = {"content": [{"type": "text", "text": text}, image], "is_error": False, "cache_control": None}
            messages[-1]["content"][0] |= members
        case "gemini":
            image = {"inlineData": {"mimeType": "image/png", "data": data}}
            messages[-1]["parts"][0]["functionResponse"] |= {"response": {"result": text}, "parts": [image]}
        case _:
            image = {"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "high"}
            messages[-1] |= {"output": [{"type": "input_text", "text": text}, image], "id": "fc_1"}
    return messages


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize("limit", [{"tool_result_max_tokens": 2000}, {"max_tokens": 2600}, {"max_tokens": 2300}])
async def test_only_the_text_of_a_result_is_cut(client: httpx.AsyncClient, form: str, limit: dict[str, int]) -> None:
    """A cut result keeps its picture and its other members; the total is /count of the request, within the budget."""
    messages, text = with_picture(form, "word " * 1990), "word " * 1990

    made = await asked(client, form, {"model": MODELS[form], "messages": messages, **limit})

    assert made is not None
    assert made["trimmed"]["messages"] == 1
    assert await counted(client, form, made) == made["tokens"]["total"] <= made["budget"]
    sent = made["request"][MESSAGES[form]]
    (cut,) = (each for each in texts(sent) if "left out" in each)
    assert "… 0 tokens" not in cut
    assert json.loads(json.dumps(sent).replace(json.dumps(cut), json.dumps(text))) == messages


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
async def test_a_line_names_the_picture_that_it_stands_for(client: httpx.AsyncClient, form: str) -> None:
    """An older result that is sent as one line has no picture, and the line says so."""
    later = {"role": "user", "parts": [{"text": "And now?"}]} if form == "gemini" else user("And now?")["message"]
    messages = [*with_picture(form, "word " * 1990), later]

    made = await asked(client, form, {"model": MODELS[form], "messages": messages, "tool_results_kept": 0})

    assert made is not None
    assert await counted(client, form, made) == made["tokens"]["total"]
    sent = made["request"][MESSAGES[form]]
    assert "[… 1991 tokens and the image of this tool result left out …]" in list(texts(sent))
    assert "base64" not in str(sent)
    assert str(sent).count("is_error") == str(messages).count("is_error")


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
    """Text that a form adds before a leading assistant message, or for an empty one, is counted and within the budget."""
    body = {"model": MODELS[form], "messages": messages, "few_shots": few_shots, "format": form}
    whole = await asked(client, "openai", body)
    assert whole is not None
    total = whole["tokens"]["total"]
    # Messages of one role in a row are one turn, which costs Claude less than each by itself.
    assert tokens(whole["request"], "o200k_base") <= await counted(client, form, whole) <= total
    # Messages are chosen by what each costs in a turn of its own.
    exact = await asked(client, "openai", {**body, "max_tokens": total + TURN * len(messages)})
    assert exact is not None
    assert exact["kept"]["messages"] == len(messages)
    for budget in range(total):
        made = await asked(client, "openai", {**body, "max_tokens": max(1, budget)})
        if made is not None:
            assert await counted(client, form, made) <= made["tokens"]["total"] <= max(1, budget)


@pytest.mark.parametrize("model", ["claude-opus-4-7", "gemini-2.5-flash"])
@pytest.mark.parametrize("system", [None, "Be brief."])
@pytest.mark.parametrize("options", [{}, {"limit": 3, "note": True}])
async def test_blank_lines_between_system_texts_are_counted(
    client: httpx.AsyncClient, model: str, system: str | None, options: dict[str, Any]
) -> None:
    """System messages that a form joins to one text cost at least what /count says of the text."""
    form = "anthropic" if model.startswith("claude") else "gemini"
    said = [{"role": role, "content": "x"} for _ in range(20) for role in ("system", "user", "assistant")]
    for messages in (said, [message for message in said if message["role"] != "system"]):
        body = {"model": model, "messages": messages, "system": system, "format": form, **options}
        made = await asked(client, "openai", body)
        assert made is not None
        assert await counted(client, form, made) <= made["tokens"]["total"]


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "qwen3-max"])
@pytest.mark.parametrize("text", ["yes", "はい", "1234"])
async def test_a_long_member_beside_a_short_text(client: httpx.AsyncClient, model: str, text: str) -> None:
    """A member without a price is counted, however short the text of its message is, in any script."""
    messages = [{"role": "user", "content": text, "cache_control": "word " * 1000}]
    made = await asked(client, "openai", {"model": model, "messages": messages})
    assert made is not None
    assert tokens(made["request"], "o200k_base") <= made["tokens"]["total"]


@pytest.mark.parametrize("calls", [{"type": "x"}, ["x"], [{"function": {"name": "f", "arguments": "word " * 1000}}]])
@pytest.mark.parametrize("role", ["system", "user"])
async def test_calls_that_are_not_the_assistants(client: httpx.AsyncClient, role: str, calls: Any) -> None:
    """A member tool_calls of another role is like any unknown member: of any shape, and not sent."""
    messages = [{"role": role, "content": "Hi.", "tool_calls": calls}]
    made = await asked(client, "openai", {"model": "gpt-4o", "messages": messages, "few_shots": messages})
    assert made is not None
    assert made["request"]["messages"] == [{"role": role, "content": "Hi."}] * 2
    assert tokens(made["request"], "o200k_base") <= made["tokens"]["total"] == await counted(client, "openai", made)


async def test_a_signature_beside_no_thought_is_counted(client: httpx.AsyncClient) -> None:
    """A member ``signature`` of an item that is no thought is sent with reasoning=none, and counted."""
    call = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
    output = {"type": "shell_call_output", "call_id": "c", "output": [], "signature": "word " * 500}
    body = {"model": "gpt-5", "messages": [call, output], "reasoning": "none"}
    made = await asked(client, "responses", body)
    assert made is not None
    assert await counted(client, "responses", made) == made["tokens"]["total"] > 500


async def test_a_text_that_is_sent_twice_is_counted_twice(client: httpx.AsyncClient) -> None:
    """A string in a provider's own part is counted, even if the message's text is the same."""
    said = "word " * 1000
    parts = [{"text": said}, {"executableCode": {"code": said, "language": "PYTHON"}}]
    messages = [{"role": "user", "parts": [{"text": "Go on."}]}, {"role": "model", "parts": parts}]
    made = await asked(client, "gemini", {"model": MODELS["gemini"], "messages": messages})
    assert made is not None
    assert made["tokens"]["total"] >= 2000


async def test_an_image_among_thoughts_is_counted(client: httpx.AsyncClient) -> None:
    """An image among the model's thoughts is counted as an image where thoughts are sent."""
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
    """The total is /count of the request, also for Gemini's tool results, which name the function and are billed for it."""
    calls = [{"id": "a", "type": "function", "function": {"name": "look_for_a_talk", "arguments": '{"on": "gradle"}'}}]
    messages = [
        {"role": "user", "content": "Which talks are on?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "The Network Latency Tax"},
    ]
    made = await asked(client, "openai", {"model": MODELS[form], "messages": messages, "format": form})
    assert made is not None
    assert await counted(client, form, made) == made["tokens"]["total"]
