"""A window's total is at least what POST /count says of the window's own request, in every form and for every model."""

import base64
import json
from typing import Any

import msgspec
import pytest

from sash.core.counts.models.models import find_model
from sash.core.providers import PROVIDERS
from sash.windows.counted import CountRequest, count_in_format
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

DIGITS, CHINESE, GERMAN = "0" * 40, "今天天气很好", "größer als Öl, übrigens schön"
SEAL = base64.b64encode(bytes(each * 7 % 256 for each in range(300))).decode()
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SHOTS = [{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}]
TEXT_FILE = {
    "type": "file",
    "file": {"filename": "notes.txt", "file_data": f"data:text/plain;base64,{base64.b64encode(b'Hi!').decode()}"},
}


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def texts(*parts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": part} for part in parts]


def calling(*arguments: str, **more: Any) -> dict[str, Any]:
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": each}, **more}
        for number, each in enumerate(arguments)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def found(*contents: Any) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": f"c{number}", "content": each} for number, each in enumerate(contents)]


def legacy(arguments: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": arguments}}


ASKED = said("user", "Which talks are on?")
Message = dict[str, Any]
CASES: dict[str, tuple[str, str, list[Message], Message]] = {
    "a text and a call": ("gemini-2.0-flash", "responses", [said("assistant", DIGITS), legacy('{"a": [null]}')], {}),
    "two replies": ("claude-sonnet-4-5", "responses", [said("assistant", DIGITS), said("assistant", CHINESE)], {}),
    "two questions": ("gemini-2.5-pro", "anthropic", [said("user", "hello zebra"), said("user", DIGITS)], {}),
    "parts of a question": (
        "claude-opus-5-5", "anthropic", [said("user", texts(DIGITS, GERMAN)), said("user", CHINESE)], {},
    ),
    "a refusal": (
        "gpt-4o-search-preview", "anthropic", [said("assistant", "hello zebra"), said("assistant", None, refusal="no")], {},
    ),
    "two system texts": ("claude-sonnet-4-5", "anthropic", [said("system", CHINESE * 4), said("system", DIGITS)], {}),
    "an input that is no object": ("gpt-4o", "anthropic", [calling('{"day"', "{}"), *found("a", "b")], {}),
    "numbers in another form": ("qwen3.5-plus", "gemini", [calling('{"n":1.50,"m":1e5}'), *found("a")], {}),
    "numbers of a legacy call": ("gpt-4", "responses", [legacy('{"n":1.50,"m":1e5}')], {}),
    "results in another order": (
        "o3-mini",
        "gemini",
        [calling('{"city":"Berlin"}', "{}"), *reversed(found("Привет как дела", "a"))],
        {},
    ),
    "a blank result": ("llama-3.3-70b", "anthropic", [calling("{}", "{}"), *found(" ", "a")], {}),
    "a file's name": ("gpt-4.1-mini", "anthropic", [said("user", [TEXT_FILE])], {}),
    "a seal beside thoughts": (
        "claude-3-opus",
        "gemini",
        [calling("{}", extra_content={"google": {"thought_signature": SEAL}}) | {"reasoning_content": DIGITS}],
        {"reasoning": "all"},
    ),
    "a seal behind documents that were left out": (
        "claude-opus-5-5",
        "openai",
        [
            {"message": ASKED, "grounding": {"documents": [{"text": "A talk on Gradle. " * 400}]}},
            calling("{}", extra_content={"google": {"thought_signature": SEAL}}),
            *found("a"),
        ],
        {"max_tokens": 1200, "reserve": 0, "grounding_overflow": "drop"},
    ),
    "a later system text with tools": (
        "o3-mini",
        "anthropic",
        [ASKED, said("system", "Be brief.")],
        {"tools": [TOOL], "few_shots": SHOTS},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("model", "form", "messages", "more"), CASES.values(), ids=CASES)
def test_a_window_costs_what_its_request_is_counted(
    model: str, form: str, messages: list[Message], more: Message
) -> None:
    """No text, call or seal makes /count of a window's own request more than the window's total."""
    assert_covers(model, form, "openai", messages, **more)


def test_a_system_message_in_anthropics_own_form_comes_first() -> None:
    """A history that begins with Claude behind a system message of Anthropic's own form costs what Claude bills for it."""
    assert_covers(
        "claude-sonnet-4-0", "anthropic", "anthropic", [said("system", "Be brief."), said("assistant", "Hello!")]
    )


def test_a_text_file_beside_documents_is_counted() -> None:
    """Documents of a message whose scripts matter cost their tokens beside the text of the message's own file."""
    file = {"file_data": f"data:text/plain;base64,{base64.b64encode(DIGITS.encode()).decode()}"}
    asked = {
        "message": said("user", [{"type": "file", "file": file}]),
        "grounding": {"documents": [{"text": "Привет как дела " * 20}]},
    }
    assert_covers("qwen-3-32b", "openai", "openai", [asked])


def assert_covers(name: str, form: str, sent_as: str, messages: list[Message], **more: Any) -> None:
    body = msgspec.json.encode({"model": name, "format": form, "messages": messages, **more})
    window = json.loads(window_of_request(*_with_models(body, sent_as))[0].body)
    request: Any = {"model": name, **window["request"]}
    if form == "openai":
        request = msgspec.convert(request, CountRequest)
    counted = count_in_format(request, find_model(name), form)
    assert counted.tokens <= window["tokens"]["total"]
    assert not window["exact"] or counted.tokens == window["tokens"]["total"]


def _with_models(body: bytes, sent_as: str) -> tuple[Any, Any, Any]:
    wanted, sent = decode_request(body, sent_as)
    return wanted, {}, sent


@pytest.mark.parametrize("text", ["ls -la", "", '{"a": 1}', '"x"\nx = 1'])
@pytest.mark.parametrize("model", ["gpt-4o-mini", "command-a-03-2025", "claude-sonnet-4-5", "mistral-large"])
@pytest.mark.parametrize("form", PROVIDERS)
def test_a_custom_tools_call_costs_at_least_what_is_counted(form: str, model: str, text: str) -> None:
    """The text of a custom tool's call is sent in each form as that form has it, and counted so."""
    call = {"id": "c0", "type": "custom", "custom": {"name": "shell", "input": text}}
    assert_covers(
        model, form, "openai", [ASKED, {"role": "assistant", "content": None, "tool_calls": [call]}, *found("a")]
    )
