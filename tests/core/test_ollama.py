"""Ollama's /api/chat: what is particular to its messages and requests."""

from typing import Any

import msgspec
import pytest

from sash.core.providers.reading.native import read_messages
from sash.core.providers.reading.native_entries import read_entries
from sash.problems import InvalidEntry
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
Object = dict[str, Any]


def user(text: str, **more: Any) -> Object:
    return {"role": "user", "content": text, **more}


def called(*names: str, **more: Any) -> Object:
    calls = [{"function": {"name": name, "arguments": {"n": place}}} for place, name in enumerate(names)]
    return {"role": "assistant", "content": "", "tool_calls": calls, **more}


def found(text: str, name: str = "look", **more: Any) -> Object:
    return {"role": "tool", "tool_name": name, "content": text, **more}


def window(*messages: Object, of: str = "ollama", form: str = "ollama", **ways: Any) -> Object:
    body = {"model": "qwen3-vl:8b", "format": form, "messages": list(messages), "tools": [TOOL], **ways}
    wanted, sent = decode_request(msgspec.json.encode(body), of)
    made: Object = msgspec.json.decode(window_of_request(wanted, {}, sent)[0].body)
    return made


def test_what_came_goes_out_as_it_came() -> None:
    """A chat with pictures, thinking, and calls of one tool twice is sent unchanged, and nothing is mended."""
    given = [
        {"role": "system", "content": "Be brief."},
        user("What is it?", images=[PIXEL]),
        called("look", "look", "find", thinking="hm"),
        found("one"),
        found("two"),
        found("three", "find"),
        {"role": "assistant", "content": "It is a talk.", "thinking": "so"},
        user("And then?"),
    ]
    made = window(*given, reasoning="all")
    assert made["request"]["messages"] == given
    assert "mended" not in made or not made["mended"]["messages"]
    assert made["exact"] is False


def test_results_without_ids_answer_calls_of_their_name_in_order() -> None:
    """Two results of one tool answer its two calls, also in another format."""
    made = window(user("q"), called("look", "look"), found("one"), found("two"), form="openai")["request"]["messages"]
    ids = [call["id"] for call in made[1]["tool_calls"]]
    assert ids == ["call_look", "call_look_1"]
    assert [(message["tool_call_id"], message["content"]) for message in made[2:]] == [(ids[0], "one"), (ids[1], "two")]


def test_a_call_without_arguments_has_an_empty_object_of_them() -> None:
    """Ollama's SDK refuses a call whose arguments are missing."""
    called_bare = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look"}}]}
    sent = window(user("q"), called_bare, found("one"))["request"]["messages"][1]
    assert sent["tool_calls"] == [{"function": {"name": "look", "arguments": {}}}]


def test_results_stand_in_the_order_of_their_calls() -> None:
    """Chat messages' results, which have ids, are sorted by their calls, and name their tools."""
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in ("first", "second")
    ]
    results = [{"role": "tool", "tool_call_id": name, "content": name} for name in ("second", "first")]
    made = window(user("q"), {"role": "assistant", "content": None, "tool_calls": calls}, *results, of="openai")
    assert made["request"]["messages"][2:] == [found("first", "first"), found("second", "second")]
    assert made["mended"]["reasons"] == {"result_order": 2}


def test_thinking_is_sent_as_the_window_asks() -> None:
    """Thinking of earlier turns is left out by default, and costs tokens of reasoning where it is sent."""
    given = (user("q"), {"role": "assistant", "content": "a", "thinking": "so so so"}, user("q"))
    assert "thinking" not in window(*given, reasoning="none")["request"]["messages"][1]
    kept = window(*given, reasoning="all")
    assert kept["request"]["messages"][1]["thinking"] == "so so so"
    assert kept["tokens"]["reasoning"] > 0


def test_parts_become_a_text_and_pictures() -> None:
    """Texts are one string, pictures are base64 beside it, and a link is told in a line; a PDF is refused by name."""
    parts: list[Object] = [
        {"type": "text", "text": "What is it? "},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
    ]
    made = window({"role": "user", "content": parts}, of="openai")
    assert made["request"]["messages"] == [user("What is it? \n[image: https://x.test/a.png]\n", images=[PIXEL])]
    assert made["mended"]["reasons"] == {"as_text": 1}
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}}
    left = window({"role": "user", "content": [parts[0], pdf]}, of="openai", uncarried="drop")
    assert left["request"]["messages"] == [user("What is it? ")]
    assert left["mended"]["reasons"] == {"left_out_part": 1}


def test_a_results_picture_stands_behind_the_results() -> None:
    """A picture in a chat message's result is sent in the user's name behind all results."""
    calls = [
        {"id": str(place), "type": "function", "function": {"name": "look", "arguments": "{}"}} for place in (1, 2)
    ]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    results = [
        {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "a"}, image]},
        {"role": "tool", "tool_call_id": "2", "content": "b"},
    ]
    made = window(user("q"), {"role": "assistant", "content": None, "tool_calls": calls}, *results, of="openai")
    assert made["request"]["messages"][2:] == [found("a"), found("b"), user("", images=[PIXEL])]


def test_pictures_become_lines() -> None:
    """``images_kept`` puts a line in the place of a picture that came in Ollama's form, too."""
    made = window(user("one", images=[PIXEL]), {"role": "assistant", "content": "ok"}, user("two"), images_kept=0)
    first = made["request"]["messages"][0]
    assert "images" not in first
    assert first["content"].startswith("one")
    assert "image" in first["content"]


def test_a_plain_message_is_a_chat_message() -> None:
    """What looks alike in both forms is stored once; what only Ollama writes is kept as it came."""
    said = [user("hello"), {"role": "assistant", "content": "hi", "thinking": "hm"}, user("look", images=[PIXEL])]
    entries = read_entries("ollama", said).entries
    assert ["native" in entry.message for entry in entries] == [False, True, True]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            {"role": "tool", "thinking": "x", "content": "x"},
            "A result names its tool: the field 'tool_name' is missing",
        ),
        ({"role": "model", "content": "x", "thinking": "x"}, "An unknown role 'model'"),
        ({"role": "user", "content": "x", "images": "AAAA"}, "images"),
    ],
)
def test_a_message_that_ollama_does_not_have_is_refused(message: Object, said: str) -> None:
    """The error names the field and what is wanted there."""
    with pytest.raises(InvalidEntry, match=said):
        read_entries("ollama", [message])


def test_an_id_that_a_newer_server_gives_is_kept() -> None:
    """A call's id and a result's ``tool_call_id`` pair them, whatever the order."""
    call = {"id": "c1", "function": {"name": "look", "arguments": {}}}
    asked, answer = read_messages(
        "ollama",
        [{"role": "assistant", "content": "", "tool_calls": [call]}, found("x", tool_call_id="c1")],
        ["/a", "/b"],
    )
    assert asked.message["tool_calls"][0]["id"] == answer.message["tool_call_id"] == "c1"
