"""Every medium that came in any way is sent as the form takes it, or told in a line: the way it came changes nothing.

A picture comes in a chat message, in a provider's own part, alone or in a tool's result; files and sounds in a message.
"""

import base64
import json
from collections import defaultdict
from typing import Any, NamedTuple

import pytest

from sash.problems import FormatCannotCarry
from validators.logs import Object
from validators.media import pdf, png
from validators.test_histories import assert_counted, entries_of, refusals, window_of

MODELS = {
    "openai": "gpt-4o-mini",
    "responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro-preview",
    "interactions": "gemini-3-pro-preview",
    "converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "ollama": "llama3.2-vision:11b",
}
ZIP = "UEsDBAAAAAAA"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Medium(NamedTuple):
    """Bytes in base64, with the media type that is told of them."""

    kind: str
    told: str
    data: str

    @property
    def url(self) -> str:
        return f"data:{self.told};base64,{self.data}"


PNG, GIF, JPEG, WEBP = (
    png(40, 30),
    "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7",
    "/9j/4AAQSkZJRg==",
    "UklGRhoAAABXRUJQ",
)
PICTURES = [
    Medium("image", told, data)
    for told, data in (
        ("image/png", PNG),
        ("image/jpeg", JPEG),
        ("image/gif", GIF),
        ("image/webp", WEBP),
        ("image/heic", "AAAAGGZ0eXBoZWlj"),
        ("image/bmp", "Qk0AAAAA"),
        ("image/tiff", "SUkqAAAA"),
        ("image/svg+xml", b64(b"<svg/>")),
        ("image/jpg", JPEG),
        ("image/png", GIF),
        ("image/gif", PNG),
        ("image/png", JPEG),
        ("image/png", ""),
        ("image/gif", ""),
    )
]
FILES = [
    Medium("file", told, data)
    for told, data in (
        ("application/pdf", pdf(2)),
        ("text/plain", b64(b"Hi!")),
        ("text/csv", b64(b"a,b\n1,2")),
        ("text/plain", b64(b" \n")),
        ("text/plain", b64(b"\xff\xfe")),
        ("application/json", b64(b"{}")),
        ("application/zip", ZIP),
        ("application/octet-stream", pdf(1)),
        ("application/msword", "0M8R4KGxGuE="),
    )
]
SOUNDS = [
    Medium("audio", "audio/wav", "UklGRgAAAABXQVZF"),
    Medium("audio", "audio/mp3", "SUQzBAAAAAAA"),
    Medium("audio", "audio/wav", ""),
]
KINDS = ("image", "file", "audio")
SUFFIXES = {"text/plain": "txt", "application/msword": "doc", "audio/mp3": "mp3"}


def own_part(form: str, one: Medium) -> Object | None:
    """Return the medium as a part of this form; None if it has none for it."""
    suffix = SUFFIXES.get(one.told, one.told.rpartition("/")[2])
    sound: Object = {"type": "input_audio", "input_audio": {"data": one.data, "format": suffix}}
    source = {"type": "base64", "media_type": one.told, "data": one.data}
    content: Object = {"mime_type": one.told, "data": one.data}
    block: Object = {"format": suffix, "source": {"bytes": one.data}}
    parts: dict[str, dict[str, Object]] = {
        "openai": {
            "image": {"type": "image_url", "image_url": {"url": one.url}},
            "file": {"type": "file", "file": {"filename": "a", "file_data": one.url}},
            "audio": sound,
        },
        "responses": {
            "image": {"type": "input_image", "image_url": one.url, "detail": "auto"},
            "file": {"type": "input_file", "filename": "a", "file_data": one.url},
            "audio": sound,
        },
        "anthropic": {"image": {"type": "image", "source": source}, "file": {"type": "document", "source": source}},
        "gemini": {key: {"inlineData": {"mimeType": one.told, "data": one.data}} for key in KINDS},
        "interactions": {kind: {"type": "document" if kind == "file" else kind, **content} for kind in KINDS},
        "converse": {"image": {"image": block}, "audio": {"audio": block}}
        | ({"file": {"document": {**block, "name": "a"}}} if suffix in ("pdf", "csv", "doc", "txt") else {}),
    }
    return parts.get(form, {}).get(one.kind)


def text_part(form: str, text: str) -> Object:
    match form:
        case "gemini" | "converse":
            return {"text": text}
        case "responses":
            return {"type": "input_text", "text": text}
    return {"type": "text", "text": text}


def asked(form: str, part: Object) -> list[Any]:
    """Return a question with the part, as an append in this form."""
    parts = [text_part(form, "What is it?"), part]
    if form == "interactions":
        return [(form, [{"type": "user_input", "content": parts}])]
    return [(form, [{"role": "user", "parts" if form == "gemini" else "content": parts}])]


def found(form: str, part: Object) -> list[Any]:
    """Return a call and its result with the part, as appends in this form."""
    parts = [text_part(form, "seen"), part]
    call, result = {
        "openai": (
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": parts},
        ),
        "responses": (
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": parts},
        ),
        "anthropic": (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": parts}]},
        ),
        "gemini": (
            {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "look", "args": {}}}]},
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c", "name": "look", "response": {"output": "seen"}, "parts": [part]}}
                ],
            },
        ),
        "interactions": (
            {"type": "function_call", "id": "c", "name": "look", "arguments": {}},
            {"type": "function_result", "call_id": "c", "name": "look", "result": parts},
        ),
        "converse": (
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "look", "input": {}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": parts}}]},
        ),
    }[form]
    return [("openai", [{"role": "user", "content": "Look!"}]), (form, [call]), (form, [result])]


class Outcome(NamedTuple):
    """What became of a medium in a window: whether its bytes are sent, and whether a line tells it. None: it is refused."""

    is_sent: bool
    is_told: bool


def outcome(form: str, one: Medium, groups: list[Any]) -> Outcome | None:
    ways = {"settings": {}, "more": {}, "max_tokens": 100_000, "uncarried": "error"}
    try:
        window = window_of(form, MODELS[form], entries_of(groups), ways)
    except (FormatCannotCarry, AssertionError):
        return None
    if window is None:
        return None
    request = window["request"]
    assert refusals(form, MODELS[form], request) == []
    assert_counted(form, MODELS[form], window)
    sent = json.dumps(request, ensure_ascii=False)
    told = {"untaken_medium", "untaken_by_model", "as_text"} & window.get("mended", {"reasons": {}})["reasons"].keys()
    is_text = one.told.startswith("text/")
    words = json.dumps(base64.b64decode(one.data).decode("utf-8", "replace"), ensure_ascii=False) if is_text else '"'
    is_sent = bool(one.data) and (one.data in sent or (is_text and words[1:-1] in sent))
    assert is_sent or told, "it is gone without a word"
    return Outcome(is_sent, any(f"[{kind}: " in sent for kind in KINDS))


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize("one", [*PICTURES, *FILES, *SOUNDS], ids=lambda one: f"{one.told}-{one.data[:6]}")
def test_the_way_a_medium_came_changes_nothing(form: str, one: Medium) -> None:
    """A medium of a question has one outcome in a form, whatever form it came in: its bytes, a line, or a problem."""
    outcomes: dict[Outcome | None, list[str]] = defaultdict(list)
    for came in MODELS:
        if (part := own_part(came, one)) is not None:
            outcomes[outcome(form, one, asked(came, part))].append(came)
    assert len(outcomes) == 1, dict(outcomes)


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize("one", PICTURES, ids=lambda one: f"{one.told}-{one.data[:6]}")
def test_a_picture_of_a_result_may_come_in_any_form(form: str, one: Medium) -> None:
    """A picture in a tool's result has one outcome in a form, whatever form it came in, and never a problem."""
    outcomes: dict[Outcome | None, list[str]] = defaultdict(list)
    for came in MODELS:
        if came != "ollama" and (part := own_part(came, one)) is not None:
            outcomes[outcome(form, one, found(came, part))].append(came)
    assert len(outcomes) == 1, dict(outcomes)
    assert None not in outcomes


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize("one", PICTURES, ids=lambda one: f"{one.told}-{one.data[:6]}")
def test_no_type_of_picture_is_a_problem(form: str, one: Medium) -> None:
    """A picture of any type in a chat message, in a part of its own or as a file, has a window in every form."""
    as_file = {"type": "file", "file": {"filename": "a.png", "file_data": one.url}}
    for part in (
        own_part("openai", one),
        {"type": "image_url", "image_url": one.url},
        *([as_file] if one.data else ()),
    ):
        if part is not as_file or form != "ollama":  # it has no place for files
            assert outcome(form, one, asked("openai", part or {})) is not None
