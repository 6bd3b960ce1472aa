"""Estimates of files: a text file by its text, a PDF by its pages if the provider bills pages."""

import base64
import wave
from io import BytesIO
from typing import Any

import pytest

from sash.core.counts.costs.counting import is_estimate, message_tokens
from sash.core.counts.measures.attachments import Guess, guess, text_in
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import find_model
from sash.core.counts.text import count_text

PDF = (
    b"%PDF-1.4\n1 0 obj <</Type /Pages /Count 2>> endobj\n2 0 obj <</Type /Page>> endobj\n3 0 obj<</Type/Page>>endobj\n"
)


def file_part(kind: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "file": {"file_data": f"data:{kind};base64,{base64.b64encode(data).decode()}"}}


def test_a_text_file_is_counted_as_text() -> None:
    """A text file's text is the message's, and forty tokens are added for what the provider writes around it."""
    text = "Wind south-west, four to five. " * 9
    part = file_part("text/plain", text.encode())
    assert (text_in(part), guess(part)) == (text, Guess(40))
    assert measure({"role": "user", "content": [part]}).o200k == count_text(text, "o200k_base")


def test_pages_are_counted() -> None:
    """A PDF's pages are its objects of type Page; the page tree, of type Pages, does not count."""
    found = guess(file_part("application/pdf", PDF))
    assert (found.pages, found.paged) == (2, found.tokens)


def sound(frames: int) -> dict[str, Any]:
    """A message with a WAV sound of 8,000 frames a second."""
    written = BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(bytes(2 * frames))
    data = base64.b64encode(written.getvalue()).decode()
    return {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}]}


@pytest.mark.parametrize(
    ("name", "tokens"), [("gpt-4o-audio-preview", 25), ("gemini-2.0-flash", 65), ("gemini-2.5-flash", 83)]
)
def test_a_sound_costs_the_seconds_that_its_header_states(name: str, tokens: int) -> None:
    """OpenAI bills 10 tokens for each second of a WAV sound, and no begun one; Gemini 25 or 32, with the last one whole."""
    model = find_model(name)
    silent = message_tokens(measure({"role": "user", "content": [{"type": "text", "text": ""}]}), model)
    assert message_tokens(measure(sound(20_600)), model) == silent + tokens


def test_a_sound_without_a_header_is_guessed_by_its_size() -> None:
    """A broken WAV file, or one of another kind, has the estimate by its bytes, and no length."""
    broken = {"type": "input_audio", "input_audio": {"data": "UklGRgECAwRXQVZF" * 300, "format": "wav"}}
    assert (guess(broken).heard, guess(broken).sounded, guess(broken).tokens) == (0, 0, guess(broken).tokens)


@pytest.mark.parametrize(
    ("name", "form", "page"),
    [
        ("claude-sonnet-4-5", "openai", 2_700),
        ("gemini-2.5-pro", "openai", 258),
        ("gemini-3-flash-preview", "openai", 560),
        ("gpt-4o", "openai", 1_350),
        ("gpt-4o", "responses", 1_136),
    ],
)
def test_a_page_has_its_vendors_price(name: str, form: str, page: int) -> None:
    """A PDF is billed by the page; Claude's and OpenAI's prices of a page include the most words that fit on it.

    OpenAI bills a page as a picture, too, but not in Responses.
    """
    model = find_model(name).sent_as(form)
    asked = message_tokens(measure({"role": "user", "content": [{"type": "text", "text": "What is it?"}]}), model)
    content = [{"type": "text", "text": "What is it?"}, file_part("application/pdf", PDF + b"%" * 9_000)]
    assert message_tokens(measure({"role": "user", "content": content}), model) == asked + 2 * page


@pytest.mark.parametrize(("form", "page"), [("openai", 218), ("responses", 4)])
def test_a_bare_page_costs_next_to_no_words(form: str, page: int) -> None:
    """A PDF of one empty page costs OpenAI's price of a page, and a token; it is an estimate."""
    model = find_model("gpt-4o").sent_as(form)
    bare = file_part("application/pdf", PDF[: PDF.index(b"3 0 obj")])
    asked, told = (measure({"role": "user", "content": content}) for content in ([], [bare]))
    assert message_tokens(told, model) == message_tokens(asked, model) + page + 1
    assert is_estimate(told, model)


@pytest.mark.parametrize("data", ["data:application/pdf;base64,@@@", "no data url", 7])
def test_what_cannot_be_read_is_guessed_by_its_size(data: Any) -> None:
    """A file whose data cannot be read costs more than 50 tokens and has no pages."""
    found = guess({"type": "file", "file": {"file_data": data}})
    assert found.tokens > 50
    assert found.pages == 0
