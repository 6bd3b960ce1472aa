"""Media leave a message, and come back byte for byte."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sash.core.stored.split_media import GAP, LARGE, Shown, content_of, digest_in, fill, split

WORD = "0123456789abcdef" * 2
PLAIN = st.text('A"\\\n é{}[]:,0f-', max_size=40)
SIZES = st.sampled_from([0, 10, LARGE - 1, LARGE, LARGE + 1, LARGE + 2, 2 * LARGE])
SIGNS = st.sampled_from(["A", "+/", "-_", "0f", "é%20", "A\n"])


@st.composite
def media(draw: st.DrawFn) -> dict[str, Any]:
    """Return a part with a picture or a file, of a provider's form or of nobody's."""
    data = (draw(SIGNS) * draw(SIZES))[: draw(SIZES)]
    kind = draw(st.sampled_from(["image/png", "text/plain", "application/pdf", "what", ""]))
    url = f"data:{kind};base64,{data}"
    return draw(
        st.sampled_from(
            [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "image_url", "image_url": url},
                {"type": "file", "file": {"file_data": data, "filename": "a.pdf"}},
                {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
                {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}},
                {"type": "document", "source": {"type": "text", "media_type": kind, "data": data}},
                {"inlineData": {"mimeType": kind, "data": data}},
                {"type": "image_generation_call", "result": data},
                {"type": "text", "text": url},
                {"type": "redacted_thinking", "data": data},
                {"url": f"data:,{data}"},
            ]
        )
    )


VALUES = st.recursive(
    st.one_of(PLAIN, st.integers(), st.none(), media()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(PLAIN, inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(PLAIN, VALUES, max_size=4))
def test_a_message_comes_back(message: dict[str, Any]) -> None:
    """Whatever a message holds, filled gaps give its JSON, and each gap has the name of its medium."""
    body = msgspec.json.encode(message)
    found = split(message)

    assert fill(found.body, found.media, found.contents) == body
    assert msgspec.json.decode(found.body) is not None
    for each in found.media:
        assert digest_in(found.body, each) == each.name.hex().encode()
        assert len(found.contents[each.name]) == each.length > LARGE
        assert content_of(found.contents[each.name], is_base64=each.is_base64) is not None
    assert len(found.body) == len(body) - sum(each.length - GAP for each in found.media)


@given(st.dictionaries(PLAIN, VALUES, max_size=4))
def test_a_page_shows_every_medium_and_changes_nothing_else(message: dict[str, Any]) -> None:
    """In place of a medium stands its path; without the facts beside it, all else is as it was."""
    found = split(message)
    shown = Shown(found.body, found.media, WORD, "/media/")
    page = msgspec.json.encode(shown.of(msgspec.json.decode(shown.body)))

    assert page.count(b'"media":{"digest":') >= len(found.media)
    assert WORD.encode() not in page
    for each in found.media:
        assert b"/media/" + each.name.hex().encode() in page


def test_a_text_with_a_digest_is_no_gap() -> None:
    """A client that writes a picture's digest into a text, or at its end, gets its words back."""
    data = "A" * (LARGE + 4)
    name = split({"url": f"data:image/png;base64,{data}"}).media[0].name.hex()
    message = {"text": name, "url": f"data:image/png;base64,{data}", name: [name, "-" * GAP, {"url": f"data:,{name}"}]}

    found = split(message)

    assert len(found.media) == 1
    assert fill(found.body, found.media, found.contents) == msgspec.json.encode(message)
