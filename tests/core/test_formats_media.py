"""Images, files and audio in each provider's format."""

from typing import Any

import pytest
from format_histories import ELSEWHERE, PDF, PIXEL, PNG, pointers, rendered


def sees(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}


def image(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def file(**body: Any) -> dict[str, Any]:
    return {"type": "file", "file": body}


class TestMedia:
    def test_responses_image(self):
        """An image's URL is sent as it is, with its detail."""
        request = rendered("responses", sees(image(PNG, detail="low", width=1)))

        assert request["input"][0]["content"][1] == {"type": "input_image", "image_url": PNG, "detail": "low"}

    @pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
    def test_an_image_may_be_its_url_alone(self, form):
        """An image given as a plain URL, as OpenAI allows, is sent like the object with this URL."""
        bare = {"type": "image_url", "image_url": PNG}
        assert rendered(form, sees(bare)) == rendered(form, sees(image(PNG)))

    @pytest.mark.parametrize(
        ("url", "source"),
        [
            (PNG, {"type": "base64", "media_type": "image/png", "data": PIXEL}),
            ("DATA:image/JPG;x=1;base64,/9j/", {"type": "base64", "media_type": "image/jpeg", "data": "/9j/"}),
            ("https://x.test/a.png", {"type": "url", "url": "https://x.test/a.png"}),
        ],
    )
    def test_anthropic_image(self, url, source):
        """A data URL becomes a base64 source, and a web address a URL source."""
        request = rendered("anthropic", sees(image(url)))

        assert {"type": "image", "source": source} == request["messages"][0]["content"][1]

    @pytest.mark.parametrize(
        ("url", "part"),
        [
            (PNG, {"inlineData": {"mimeType": "image/png", "data": PIXEL}}),
            (
                "https://x.test/a.JPG?s=1.2",
                {"fileData": {"fileUri": "https://x.test/a.JPG?s=1.2", "mimeType": "image/jpeg"}},
            ),
            ("gs://bucket/a", {"fileData": {"fileUri": "gs://bucket/a"}}),
        ],
    )
    def test_gemini_image(self, url, part):
        """A data URL is sent inline; another URL is sent with the media type of its extension, if there is one."""
        assert part == rendered("gemini", sees(image(url)))["contents"][0]["parts"][1]

    def test_files(self):
        """A PDF becomes an input file for Responses, a document for Anthropic, and inline data for Gemini."""
        message = sees(file(file_data=PDF, filename="a.pdf"))

        item = rendered("responses", message)["input"][0]["content"][1]
        block = rendered("anthropic", message)["messages"][0]["content"][1]
        part = rendered("gemini", message)["contents"][0]["parts"][1]

        assert item == {"type": "input_file", "file_data": PDF, "filename": "a.pdf"}
        source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
        assert {"type": "document", "source": source, "title": "a.pdf"} == block
        assert part == {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0xLjQK"}}

    @pytest.mark.parametrize(
        ("body", "expected"),
        [
            ({"file_data": "YSxi", "filename": "a.csv"}, {"type": "text", "media_type": "text/plain", "data": "a,b"}),
            ({"file_data": PNG}, {"type": "base64", "media_type": "image/png", "data": PIXEL}),
            ({"file_id": "file_011"}, {"type": "file", "file_id": "file_011"}),
        ],
    )
    def test_anthropic_other_files(self, body, expected):
        """Anthropic gets text files decoded, images as base64, and its own file ids as they are."""
        assert expected == rendered("anthropic", sees(file(**body)))["messages"][0]["content"][1]["source"]

    def test_gemini_file_by_its_own_uri(self):
        """A file id that is a URI of Google's Files API is sent as the file's URI."""
        uri = "https://generativelanguage.googleapis.com/v1beta/files/abc"

        request = rendered("gemini", sees(file(file_id=uri)))

        assert {"fileData": {"fileUri": uri}} == request["contents"][0]["parts"][1]

    def test_audio(self):
        """Audio is sent to Gemini, told in a line to Responses, and refused with its place for Anthropic."""
        message = sees({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}})

        part = rendered("gemini", message)["contents"][0]["parts"][1]

        assert part == {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
        line = {"type": "input_text", "text": "[audio: audio/wav, 1 kB]\n"}
        assert rendered("responses", message)["input"][0]["content"][1] == line
        assert pointers("anthropic", message) == ["#/messages/1/content/1"]

    @pytest.mark.parametrize(
        ("form", "part"),
        [
            ("anthropic", {"type": "image_url", "image_url": {"url": "data:image/png,plain"}}),
            ("anthropic", {"type": "image_url", "image_url": {"url": "data:image/png;base64,é"}}),
            ("gemini", {"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}),
            ("anthropic", {"type": "file", "file": {"file_data": "AAAA"}}),
            ("gemini", {"type": "hologram"}),
        ],
    )
    def test_what_does_not_fit_is_named(self, form, part):
        """A part that does not fit the format is refused with its message's seq and its place in the message."""
        assert pointers(form, sees(part)) == ["#/messages/1/content/1"]

    @pytest.mark.parametrize(
        ("form", "part", "line"),
        [
            ("anthropic", image("data:image/svg+xml;base64,AAAA"), "[image: image/svg+xml, 1 kB]\n"),
            ("anthropic", image("data:image/svg+xml,<svg/>"), "[image: image/svg+xml, 1 kB]\n"),
            ("anthropic", file(file_data="data:application/zip;base64,AAAA"), "[file: application/zip, 1 kB]\n"),
            ("anthropic", file(file_data="data:text/plain;base64,/w=="), "[file: text/plain, 1 kB]\n"),
            ("anthropic", file(file_id="file-openai"), "[file: file-openai]\n"),
            ("gemini", file(file_id="file-openai", filename="a.pdf"), "[file: a.pdf, file-openai]\n"),
            (
                "responses",
                {"type": "video_url", "video_url": "https://x.test/a.mp4"},
                "[video: https://x.test/a.mp4]\n",
            ),
            ("gemini", image("ftp://x.test/a.png"), "[image: ftp://x.test/a.png]\n"),
            ("gemini", image("https://x.test/a.gif"), "[image: https://x.test/a.gif]\n"),
            ("gemini", image("data:application/pdf;base64,JVBERi0x"), "[image: application/pdf, 1 kB]\n"),
            ("converse", file(file_data="data:application/zip;base64,AAAA"), "[file: application/zip, 1 kB]\n"),
            ("interactions", image("data:image/svg+xml;base64,AAAA"), "[image: image/svg+xml, 1 kB]\n"),
        ],
    )
    def test_what_a_form_does_not_take_is_a_line(self, form, part, line):
        """A medium of a type that the form does not take, or at an address that it cannot fetch, is a line of text."""
        assert line in str(rendered(form, sees(part))).replace("\\n", "\n")

    def test_every_place_is_named_at_once(self):
        """One problem lists every part that does not fit."""
        audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}

        found = pointers("anthropic", sees(audio, audio), sees(audio), sees(audio))

        assert [
            f"#/messages/{place}" for place in ("1/content/1", "1/content/2", "2/content/1", "3/content/1")
        ] == found

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_a_spoken_reply_without_words_is_named(self, form):
        """An audio reply without a transcript is refused, because only OpenAI has the audio behind its id."""
        assert pointers(form, {"role": "assistant", "content": None, "audio": {"id": "a"}}) == ["#/messages/1/audio"]

    @pytest.mark.parametrize("form", ELSEWHERE)
    @pytest.mark.parametrize("role", ["system", "assistant"])
    def test_images_that_are_not_the_users_are_named(self, form, role):
        """An image in a system or assistant message is refused with its place."""
        message = {"role": role, "content": [image(PNG)]}

        assert pointers(form, message) == ["#/messages/1/content/0"]

    @pytest.mark.parametrize("form", ELSEWHERE)
    def test_an_unknown_role_is_named(self, form):
        """An unknown role is refused with its place."""
        assert pointers(form, {"role": "critic", "content": "hm"}) == ["#/messages/1/role"]
