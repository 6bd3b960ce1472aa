"""The tokens of a message's media are part of its estimates, so what is sent as a line takes away its own tokens alone."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from validators.albums import album
from validators.test_histories import entries_of

from sash.core.counts.measures.measures import Extra, measure
from sash.core.counts.measures.without_media import without_media

FORMS = ("openai", "responses", "anthropic", "gemini")


@examples(1.5)
@given(st.integers(0, 1 << 32), st.sampled_from(FORMS))
def test_media_take_away_no_tokens_of_others(seed: int, form: str) -> None:
    """Whatever media of a message are sent as lines, no estimate falls below 0."""
    random = Random(seed)
    for entry in entries_of([(form, album(random, form, thinks_in_pictures=True))]):
        measured = measure(entry.message)
        media = measured.extra.media if measured.extra is not None else ()
        lines = {number: "[left out]\n" for number in range(len(media)) if random.random() < 0.7}
        assert_none_below(without_media(measured, lines).extra or Extra())
        assert_none_below(without_media(measured, dict.fromkeys(range(len(media)), "")).extra or Extra())


def assert_none_below(extra: Extra) -> None:
    assert min(extra.estimated, extra.pages, extra.paged) >= 0
    if extra.beside is not None:
        assert min(extra.beside.estimated, *extra.beside.native_reasoning) >= 0


TEXT_FILE = {"inlineData": {"mimeType": "text/plain", "data": "aGkh"}}
SHARED: dict[str, tuple[str, dict[str, Any]]] = {
    "a small text file": ("gemini", {"role": "user", "parts": [TEXT_FILE]}),
    "a file with a short name": (
        "responses",
        {"role": "user", "content": [{"type": "input_file", "file_id": "file-abc"}]},
    ),
    "one name twice": (
        "responses",
        {"role": "user", "content": [{"type": kind, "file_id": "file-abc"} for kind in ("input_image", "input_file")]},
    ),
}


@pytest.mark.parametrize(("form", "message"), SHARED.values(), ids=SHARED)
def test_a_medium_of_content_and_native_message_is_counted_once(form: str, message: dict[str, Any]) -> None:
    """A medium that stands in the content and in the provider's own message has its tokens in one of them."""
    measured = measure(entries_of([(form, [message])])[0].message)
    extra = measured.extra or Extra()
    beside = extra.beside.estimated if extra.beside is not None else 0
    assert sum(each.tokens for each in extra.media) <= extra.estimated + beside
