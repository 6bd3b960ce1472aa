"""Cohere's form: its messages come back as they came, others get their words, and its bills are not undercut."""

import json
from typing import Any, Final

import msgspec
import pytest
from recordings import NO_TRUTH, TRUTH

from sash.core.chat.programs import recognise
from sash.core.counts.models.models import find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.providers import PROVIDERS
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

MODEL: Final = "c4ai-aya-vision-32b"
PIXEL: Final = (
    "data:image/png;base64,"
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
CALL: Final = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"day": 1}'}}
DOCUMENT: Final = {"type": "document", "document": {"id": "d1", "data": {"talk": "at noon"}}}
CITATION: Final = {"start": 0, "end": 4, "text": "Noon", "sources": [{"type": "tool", "id": "c1:0"}]}
CHAT: Final[list[dict[str, Any]]] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "When?"}, {"type": "image_url", "image_url": {"url": PIXEL}}],
    },
    {"role": "assistant", "tool_plan": "I look it up.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": [DOCUMENT]},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Noon."}],
        "citations": [CITATION],
    },
    {"role": "user", "content": "Where?"},
]


def window(to: str, messages: list[dict[str, Any]], came: str = "cohere", **more: Any) -> dict[str, Any]:
    body = {"model": MODEL, "format": to, "messages": messages} | more
    wanted, sent = decode_request(msgspec.json.encode(body), came)
    made, _ = window_of_request(wanted, {}, sent)
    found: dict[str, Any] = msgspec.json.decode(made.body)
    return found


def test_its_messages_come_back_as_they_came() -> None:
    """Plans, documents, thoughts and citations are sent to Cohere as they came, and counted as sent."""
    made = window("cohere", CHAT, reasoning="all")
    assert made["request"]["messages"] == CHAT
    assert "mended" not in made
    assert made["tokens"]["total"] == count_provider_request("cohere", made["request"], find_model(MODEL)).tokens


@pytest.mark.parametrize("to", [name for name in PROVIDERS if name != "cohere"])
def test_others_get_its_words(to: str) -> None:
    """Each other form has the plan, the call, the document's data and the reply's text."""
    sent = json.dumps(window(to, CHAT)["request"])
    assert all(words in sent for words in ("I look it up.", "look", "at noon", "Noon.", "Where?")), sent
    assert "hm" not in sent


def test_words_beside_a_call_are_its_plan() -> None:
    """A chat message's text beside calls is the plan, and one tool that must be called is the only one."""
    messages = [CHAT[-1], {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}]
    result = {"role": "tool", "tool_call_id": "c1", "content": "noon"}
    tools = [{"type": "function", "function": {"name": name}} for name in ("look", "other")]
    choice = {"type": "function", "function": {"name": "look"}}
    request = window("cohere", [*messages, result], "openai", tools=tools, tool_choice=choice)["request"]
    assert request["messages"][1:] == [{"role": "assistant", "tool_plan": "I look.", "tool_calls": [CALL]}, result]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["look"]
    assert request["tool_choice"] == "REQUIRED"


@pytest.mark.parametrize(("value", "text"), [(7, "7"), ({"a": 1}, '{"a":1}'), (["a"], '["a"]')])
def test_what_a_tool_returned_is_a_text(value: Any, text: str) -> None:
    """A result that is a number, an object or a list is its JSON text."""
    request = window("cohere", [*CHAT[:3], {**CHAT[3], "content": value}, CHAT[5]])["request"]
    assert request["messages"][3]["content"] == text


def test_a_whole_answer_is_named() -> None:
    """Cohere's whole answer is recognised, and the member to append is named."""
    program = recognise({"id": "1", "finish_reason": "COMPLETE", "message": CHAT[4], "usage": {"tokens": {}}})
    assert program is not None
    assert "?format=cohere" in program.way_in


def said(request: dict[str, Any], model: str) -> int:
    return count_provider_request("cohere", request, find_model(model)).tokens


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
def test_its_bills_are_not_undercut() -> None:
    """A request as it went to Cohere costs at least what was billed, and at most a seventh more without pictures."""
    rows = json.loads((TRUTH / "new3_cohere.json").read_bytes())
    ratios = {row["id"]: said(row["request"], row["model"]) / row["prompt_tokens"] for row in rows}
    assert min(ratios.values()) >= 1, ratios
    assert max(ratio for row in rows if "image" not in row["kinds"] for ratio in [ratios[row["id"]]]) < 8 / 7, ratios


@pytest.mark.parametrize("form", ["cohere", "openai"])
@pytest.mark.parametrize("model", ["command-a-03-2025", "command-r"])
@pytest.mark.parametrize("room", [None, 1_900])
@pytest.mark.parametrize("calls", [1, 0])
def test_calls_without_definitions_cost_them(form: str, model: str, room: int | None, calls: int) -> None:
    """A window costs what its request does, also where the calls are left out; a chat without calls keeps its room."""
    looked = [{**CHAT[2]}, {"role": "tool", "tool_call_id": "c1", "content": "noon"}]
    messages = [CHAT[5], *(looked if calls else ()), {"role": "assistant", "content": "so " * 500}, CHAT[5]]
    messages = [{name: value for name, value in each.items() if name != "tool_plan"} for each in messages]
    limits = {} if room is None else {"max_tokens": room}
    made = window(form, messages, "openai", **limits, model=model)
    sent, told = made["request"]["messages"], made["tokens"]
    assert told["total"] == count_provider_request(form, made["request"], find_model(model)).tokens
    assert bool(told["tools"]) == any("tool_calls" in each for each in sent)
    if room is None or not calls:
        assert len(sent) == len(messages)


SEE: Final = {"type": "text", "text": "see"}
PARTS: Final = {
    "a link": {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    "a picture": {"type": "image_url", "image_url": {"url": PIXEL}},
    "a file": {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}},
    "a sound": {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
}


@pytest.mark.parametrize("role", ["user", "tool"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("form", "model"),
    [("cohere", MODEL), ("cohere", "command-a-03-2025"), ("ollama", "qwen3:8b"), ("openai", "gpt-4o")],
)
def test_a_line_stands_on_its_own(form: str, model: str, part: str, role: str) -> None:
    """The line of a medium that is not sent never runs together with the text before it, and is counted as sent."""
    content = [SEE, PARTS[part], SEE]
    asked = [
        CHAT[5],
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": content},
    ]
    messages = [{"role": "user", "content": content}] if role == "user" else [*asked, CHAT[5]]
    made = window(form, messages, "openai", model=model, uncarried="drop")
    words = [each["content"] for each in made["request"]["messages"] if "see" in json.dumps(each.get("content"))]
    texts = ["".join(p.get("text", "\n") for p in each) if isinstance(each, list) else each for each in words]
    assert texts
    assert not any("see[" in each or "]see" in each for each in texts), texts
    assert made["tokens"]["total"] >= count_provider_request(form, made["request"], find_model(model)).tokens
