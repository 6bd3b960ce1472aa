"""Files are guessed at: a text as text, a PDF by its pages where a provider bills them so."""

import base64
from typing import Any

import pytest

from service.core.counting import measure, message_tokens
from service.core.files import Guess, guess
from service.core.models import find_model
from service.core.text import count_text

PDF = (
    b"%PDF-1.4\n1 0 obj <</Type /Pages /Count 2>> endobj\n2 0 obj <</Type /Page>> endobj\n3 0 obj<</Type/Page>>endobj\n"
)


def file_part(kind: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "file": {"file_data": f"data:{kind};base64,{base64.b64encode(data).decode()}"}}


def test_a_text_file_costs_its_text() -> None:
    """A text's tokens are counted, with room for what the provider says around it."""
    text = "Wind south-west, four to five. " * 9
    assert guess(file_part("text/plain", text.encode())) == Guess(10 + count_text(text, "o200k_base"))


def test_pages_are_counted() -> None:
    """Each page is an object of its own; the tree that holds them is none."""
    found = guess(file_part("application/pdf", PDF))
    assert (found.pages, found.paged) == (2, found.tokens)


@pytest.mark.parametrize(
    ("name", "page"), [("claude-sonnet-4-5", 2_700), ("gemini-2.5-pro", 258), ("gemini-3-flash-preview", 560)]
)
def test_a_page_has_its_vendors_price(name: str, page: int) -> None:
    """Claude and Gemini bill a PDF by the page, Claude with as many words as fit."""
    model = find_model(name)
    asked = message_tokens(measure({"role": "user", "content": [{"type": "text", "text": "What is it?"}]}), model)
    content = [{"type": "text", "text": "What is it?"}, file_part("application/pdf", PDF + b"%" * 9_000)]
    assert message_tokens(measure({"role": "user", "content": content}), model) == asked + 2 * page


@pytest.mark.parametrize("data", ["data:application/pdf;base64,@@@", "no data url", 7])
def test_what_cannot_be_read_is_guessed_by_its_size(data: Any) -> None:
    """Whatever a file's data is, it costs something and has no pages."""
    found = guess({"type": "file", "file": {"file_data": data}})
    assert found.tokens > 50
    assert found.pages == 0
