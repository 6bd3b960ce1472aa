"""A window with documents costs what its request is counted: the message is priced once, with the text that is sent."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.counts.models.models import find_model
from sash.problems import FormatCannotCarry, WindowDoesNotFit
from sash.windows.counted import CountRequest, count_in_format
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

MODELS = (
    *("gpt-4o", "gpt-3.5-turbo", "gpt-5", "gpt-oss:20b"),  # exact
    *("deepseek-chat", "mistral-large-latest"),  # counted in their own vocabulary, where that is installed
    *("claude-sonnet-4-5", "claude-opus-4-8", "gemini-2.5-pro", "llama-3.3-70b", "qwen-3-32b"),  # estimated
)
FORMS = ("openai", "ollama", "gemini", "responses", "anthropic", "interactions", "converse")
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (40).to_bytes(4) + (30).to_bytes(4) + b"\x08\2\0\0\0"
).decode()
PDF = base64.b64encode(b"%PDF-1.4 /Type /Page " * 8).decode()
WAV = base64.b64encode(b"RIFF" + bytes(200)).decode()
SHORT = (
    *("", " ", "Hello", "hello zebra ", "\n\nlist\n", "12 talks in 2024", "0" * 40, "今天天气很好", "Привет как дела"),
    *("größer als Öl, übrigens schön", "to", "  if x:\n    y = 1\n", "don't", "'s", "🙂🤷", "Which talks are on? " * 9),
)
LONG = (
    *("word " * 300, "今天天气很好。" * 60, "0123456789 " * 90, "Привет как дела " * 60, "| a | 17 |\n" * 80),
    *("  x = 1\n" * 70, "größer als Öl, übrigens schön. " * 40, "-" * 500 + "." * 300),
)
TEXTS = st.sampled_from(SHORT)
TEMPLATES = st.sampled_from(
    [
        "{documents}\n===\n{content}",
        "{content}{documents}",
        "Вот документы {documents}\n{content}",
        "{content} 2024-01-01 {documents}",
    ]
)


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def text_file(said: str) -> dict[str, Any]:
    data = base64.b64encode(said.encode()).decode()
    return {"type": "file", "file": {"filename": "notes.txt", "file_data": f"data:text/plain;base64,{data}"}}


def picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


CHAT_PARTS = (
    TEXTS.filter(bool).map(text)
    | TEXTS.map(text_file)
    | st.sampled_from(
        [
            picture(f"data:image/png;base64,{PNG}"),
            picture("https://example.org/a.png"),
            {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": WAV, "format": "flac"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        ]
    )
)


def some(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(parts, min_size=1, max_size=4)


SAID = TEXTS.filter(str.strip)
OWN: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "openai": (TEXTS | some(CHAT_PARTS)).map(lambda content: {"role": "user", "content": content}),
    "anthropic": some(
        SAID.map(text)
        | st.sampled_from(
            [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
                {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "12 Notes"}},
            ]
        )
    ).map(lambda blocks: {"role": "user", "content": blocks}),
    "gemini": some(
        SAID.map(lambda said: {"text": said})
        | st.sampled_from(
            [
                {"inlineData": {"mimeType": "image/png", "data": PNG}},
                {"inlineData": {"mimeType": "audio/wav", "data": WAV}},
                {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
            ]
        )
    ).map(lambda parts: {"role": "user", "parts": parts}),
    "responses": some(
        SAID.map(lambda said: {"type": "input_text", "text": said})
        | st.sampled_from(
            [
                {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
            ]
        )
    ).map(lambda parts: {"role": "user", "content": parts}),
    "ollama": st.builds(
        lambda said, images: {"role": "user", "content": said, **({"images": images} if images else {})},
        TEXTS,
        st.lists(st.just(PNG), max_size=2),
    ),
    "converse": some(
        SAID.map(lambda said: {"text": said}) | st.just({"image": {"format": "png", "source": {"bytes": PNG}}})
    ).map(lambda blocks: {"role": "user", "content": blocks}),
}
DOCUMENT = st.sampled_from([*filter(None, SHORT), *LONG]).map(lambda said: {"text": said})


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """The form of the messages, and the members of a request with documents."""
    sent_as = draw(st.sampled_from(["openai", "openai", "openai", *OWN]))
    documents = st.lists(DOCUMENT, min_size=1, max_size=3).map(lambda given: {"documents": given})
    asked = st.builds(lambda message, given: {"message": message, "grounding": given}, OWN[sent_as], documents)
    more = st.fixed_dictionaries(
        {
            "messages": st.lists(asked, min_size=1, max_size=2),
            "grounding": st.sampled_from(["latest", "all"]),
            "grounding_overflow": st.sampled_from(["trim", "trim", "whole", "drop"]),
            "max_tokens": st.integers(60, 1200),
        },
        optional={
            "grounding_max_tokens": st.integers(1, 400),
            "grounding_template": TEMPLATES,
            "images_kept": st.just(0),
        },
    )
    return sent_as, draw(more)


@examples(0.6)
@given(st.sampled_from(MODELS), requests())
def test_a_message_is_priced_as_it_is_sent_with_its_documents(model: str, asked: tuple[str, dict[str, Any]]) -> None:
    """The total is at least the count of the request as it is sent, at most the budget, and equal where it is exact."""
    for form in FORMS:
        assert_covers(model, form, *asked)


SOUND = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}
LINK = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
SMALLEST: dict[str, tuple[str, str, str, Any]] = {
    "a sound between texts": ("gpt-oss:20b", "ollama", "openai", [text("Hello"), SOUND, text("there")]),
    "texts and a text file": ("gpt-4o", "ollama", "openai", [text("Which?"), text_file("12")]),
    "a linked picture and a sound": ("gpt-3.5-turbo", "ollama", "openai", [LINK, SOUND, text("Hello"), text("there")]),
    "a picture beside a text of Ollama's": ("claude-opus-4-8", "ollama", "ollama", "hello zebra "),
    "parts that join in another vocabulary": (
        "mistral-large-latest", "responses", "gemini", [{"text": "'s"}, {"text": "Which talks are on? " * 9}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("overflow", ["trim", "whole"])
@pytest.mark.parametrize("document", ["word " * 1500, "| a | 17 |\n" * 80, "今天\n\nlist\n"])
@pytest.mark.parametrize(("model", "form", "sent_as", "content"), SMALLEST.values(), ids=SMALLEST)
def test_documents_beside_parts_are_in_the_total(
    model: str, form: str, sent_as: str, content: Any, document: str, overflow: str
) -> None:
    """Parts of a question that are left out, or sent as one string, take no document out of the total."""
    message = {"role": "user", ("parts" if sent_as == "gemini" else "content"): content}
    message |= {"images": [PNG]} if sent_as == "ollama" else {}
    asked = {"message": message, "grounding": {"documents": [{"text": document}]}}
    for budget in (200, 600, 4000):
        assert_covers(model, form, sent_as, {"messages": [asked], "max_tokens": budget, "grounding_overflow": overflow})


def test_documents_beside_a_line_are_priced_with_it() -> None:
    """Where a picture is sent as a line, the message is priced with both, and the total is the count."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    blocks = [{"type": "text", "text": "don't"}, picture, {"type": "text", "text": "12 Notes"}]
    asked = {
        "message": {"role": "user", "content": blocks},
        "grounding": {"documents": [{"text": "今天天气很好。" * 60}]},
    }
    body = {"messages": [asked, asked], "grounding": "all", "images_kept": 0, "dedupe": "none"}
    for model in ("gpt-4o", "claude-opus-4-8", "gemini-2.5-pro"):
        for form in ("openai", "ollama", "anthropic"):
            assert_covers(model, form, "anthropic", body)


def assert_covers(name: str, form: str, sent_as: str, body: dict[str, Any]) -> None:
    wanted, sent = decode_request(
        msgspec.json.encode({"model": name, "format": form, "uncarried": "drop", "reserve": 0, **body}), sent_as
    )
    try:
        window = json.loads(window_of_request(wanted, {}, sent)[0].body)
    except (WindowDoesNotFit, FormatCannotCarry):
        return
    request: Any = {"model": name, **window["request"]}
    counted = count_in_format(
        msgspec.convert(request, CountRequest) if form == "openai" else request, find_model(name), form
    )
    total = window["tokens"]["total"]
    assert counted.tokens <= total <= window["budget"], (counted.tokens, total, window["budget"])
    assert not window["exact"] or counted.tokens == total
