"""Pictures, sounds and files for models that take none: a line in their place, told, and counted as the line."""

import re
from typing import Any

import pytest

from sash import count, window

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/"
    "gAAAABJRU5ErkJggg=="
)
PICTURE = {"type": "image_url", "image_url": {"url": PIXEL}}
LINKED = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRiQAAABXQVZFZm10IBAAAAABAAEA", "format": "wav"}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}}
WORDS = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGVsbG8="}}
REPLY = {"role": "assistant", "content": "I see."}


def asked(*parts: dict[str, Any]) -> dict[str, Any]:
    """Return a question with these parts."""
    return {"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}


UNSEEING = [
    ("openai", "gpt-3.5-turbo"),
    ("openai", "gpt-4"),
    ("openai", "my-gpt-4-0613-prod"),
    ("openai", "o1-mini"),
    ("responses", "o3-mini"),
    ("openai", "deepseek-v4-pro"),
    ("anthropic", "deepseek-v4-pro"),
    ("openai", "codestral-latest"),
    ("openai", "zai/glm-4.6"),
    ("openai", "qwen3-coder-plus"),
    ("openai", "kimi-k2-thinking"),
    ("openai", "groq/llama-3.3-70b-versatile"),
    ("openai", "grok-2-1212"),
    ("converse", "amazon.nova-micro-v1:0"),
    ("converse", "meta.llama3-1-70b-instruct-v1:0"),
    ("ollama", "qwen3:8b"),
    ("anthropic", "claude-2.1"),
]


@pytest.mark.parametrize(("form", "model"), UNSEEING)
def test_a_picture_is_a_line_for_a_model_that_reads_text_alone(form: str, model: str) -> None:
    """No request to such a model has a picture, and each line is counted as it is sent."""
    model = model.removeprefix("my-")
    history = [asked(PICTURE), REPLY, asked(LINKED), REPLY, {"role": "user", "content": "And now?"}]
    made = window(history, model=model, format=form, few_shots=[asked(PICTURE), REPLY])
    sent = str(made.request)
    assert "iVBOR" not in sent
    assert "x.test" not in sent
    assert sent.count("[image") == 3
    assert made.mended.reasons["untaken_by_model"] == 3
    assert made.dropped.images == 2
    assert made.stop_reason == "complete"
    assert count(made.request, model=model, format=form).tokens == made.tokens.total


@pytest.mark.parametrize(
    ("form", "model"),
    [
        ("openai", "gpt-4o"),
        ("openai", "gpt-4-turbo"),
        ("responses", "gpt-5"),
        ("openai", "glm-4.5v"),
        ("openai", "kimi-k2.5"),
        ("openai", "openrouter/qwen/qwen3-vl-235b-a22b-instruct"),
        ("anthropic", "claude-opus-4-8"),
        ("gemini", "gemini-2.5-flash"),
        ("converse", "amazon.nova-lite-v1:0"),
        ("openai", "deepseek-chat-vl"),
        ("cohere", "command-a-vision-07-2025"),
    ],
)
def test_a_model_that_sees_gets_the_picture(form: str, model: str) -> None:
    """The same question keeps its picture, and nothing is told."""
    made = window([asked(PICTURE)], model=model, format=form)
    assert "iVBOR" in str(made.request)
    assert made.mended is None


def test_exact_counts_stay_exact() -> None:
    """GPT-4's line in place of a picture is text like any other: the prediction is exact."""
    made = window([asked(PICTURE)], model="gpt-4")
    assert made.exact
    assert made.tokens.total < 60


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-5", "gpt-4.1"])
def test_a_sound_is_a_line_for_a_model_that_does_not_hear(model: str) -> None:
    """The picture beside it stays."""
    made = window([asked(PICTURE, SOUND)], model=model)
    assert "UklGR" not in str(made.request)
    assert "iVBOR" in str(made.request)
    assert made.dropped.files == 1
    assert "UklGR" in str(window([asked(SOUND)], model="gpt-4o-audio-preview").request)


def test_a_file_is_a_line_and_a_text_file_its_text_for_openais_model_media() -> None:
    """o3-mini gets the words of a text file, and a line for a PDF."""
    sent = str(window([asked(PDF, WORDS)], model="o3-mini").request)
    assert "hello" in sent
    assert "JVBERi" not in sent
    assert "JVBERi" in str(window([asked(PDF)], model="gpt-4o").request)


def test_what_is_stored_is_sent_again_to_a_model_that_sees() -> None:
    """A change of the model brings the picture back, because what is stored stays what it was."""
    history = [asked(PICTURE), REPLY, {"role": "user", "content": "And now?"}]
    assert "iVBOR" not in str(window(history, model="deepseek-v4-pro").request)
    assert "iVBOR" in str(window(history, model="gpt-4o").request)


FILM = "AAAAIGZ0eXBpc29tAAACAGlzb21pc28yYXZjMW1wNDE="
LINK = {"type": "video_url", "video_url": {"url": "https://x.test/a.mp4"}}
VIDEOS = {
    "link": LINK,
    "data": {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{FILM}"}},
    "file": {"type": "file", "file": {"filename": "a.mp4", "file_data": f"data:video/mp4;base64,{FILM}"}},
}
NOT_WATCHING = [
    ("openai", "gpt-4o"),
    ("openai", "openrouter/openai/gpt-5"),
    ("openai", "grok-4"),
    ("openai", "claude-opus-4-8"),
    ("openai", "deepseek-v4-pro"),
    ("responses", "gpt-5"),
    ("anthropic", "claude-opus-4-8"),
    ("converse", "us.anthropic.claude-opus-4-8-v1:0"),
    ("converse", "us.meta.llama4-maverick-17b-instruct-v1:0"),
]
WATCHING = [
    ("openai", "qwen3-vl-plus"),
    ("openai", "kimi-k2.5"),
    ("openai", "openrouter/google/gemini-2.5-flash"),
    ("gemini", "gemini-2.5-flash"),
    ("converse", "amazon.nova-pro-v1:0"),
]


@pytest.mark.parametrize("kind", VIDEOS)
@pytest.mark.parametrize(("form", "model"), NOT_WATCHING)
def test_a_video_is_a_line_for_a_model_that_takes_none(form: str, model: str, kind: str) -> None:
    """A model that takes pictures gets a line in place of a video, told, and counted as the line."""
    made = window([asked(VIDEOS[kind]), REPLY, asked()], model=model, format=form)
    assert FILM not in str(made.request)
    assert "video_url" not in str(made.request)
    assert re.search(r"\[(file|video)\b", str(made.request))
    assert set(made.mended.reasons) & {"untaken_by_model", "untaken_medium", "as_text"}
    assert 0 <= made.tokens.total - count(made.request, model=model, format=form).tokens <= 2


@pytest.mark.parametrize(("form", "model"), WATCHING)
def test_a_video_goes_to_a_model_that_takes_it(form: str, model: str) -> None:
    """A video's bytes reach the models that watch, in the form's own part; Bedrock's as they came, too."""
    assert FILM in str(window([asked(VIDEOS["data"])], model=model, format=form).request)
    block = {"video": {"format": "mp4", "source": {"bytes": FILM}}}
    entries = [{"role": "user", "content": [{"text": "What is it?"}, block]}]
    made = window(entries, model=model, format=form, input_format="converse")
    assert FILM in str(made.request)
    if form == "converse":
        assert made.request["messages"][0]["content"][1] == block


def test_a_film_of_youtubes_is_googles_alone() -> None:
    """An address that only Gemini can watch is a line for Claude, whose servers would fetch a page."""
    part = {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}}
    history = [{"role": "user", "parts": [{"text": "What is it?"}, part]}]
    kept = window(history, model="gemini-2.5-flash", format="gemini", input_format="gemini")
    assert part in kept.request["contents"][0]["parts"]
    made = window(history, model="claude-sonnet-4-5", format="anthropic", input_format="gemini")
    assert "youtube" not in str(made.request)
    assert made.mended.reasons == {"untaken_by_model": 1}
