"""Estimated tokens of files and audio. Estimates are too high rather than too low.

A PDF's pages are counted, for providers that bill by the page. A text file's text is counted as the message's.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from service.core.text import count_text

_WRAPPING: Final = 50
_TEXT_WRAPPING: Final = 40  # around a text file's text: 8 bills of Claude
# A page is billed as an image too: the smallest recorded document, of 592 characters, was billed 219 tokens.
_PAGE_WRAPPING: Final = 250
UPLOADED_FILE: Final = 2_000
"""Estimated tokens of a file that was uploaded to the provider, so of unknown size. Bills of one page: 219 and 953."""
# Base64 characters for each token: audio is billed by time, about 10 tokens a second, and common codecs use 4 kB/s or more.
_AUDIO_CHARACTERS: Final = 400
FILE_CHARACTERS: Final = 4
"""Base64 characters of a file for each token."""
_TEXT: Final = "data:text/"
_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")


class Guess(NamedTuple):
    """Estimated ``tokens``, of which ``paged`` are for PDFs with ``pages`` pages."""

    tokens: int = 0
    pages: int = 0
    paged: int = 0

    def plus(self, other: "Guess") -> "Guess":
        """Return the sum of both."""
        return Guess(*(a + b for a, b in zip(self, other, strict=True)))


def guess(part: Mapping[str, Any]) -> Guess:
    """Return the estimate of an audio, file or unknown content part, without the text of a text file."""
    size = len(msgspec.json.encode(part))
    if part.get("type") == "input_audio":
        return Guess(_WRAPPING + size // _AUDIO_CHARACTERS)
    file = part.get("file")
    if not isinstance(file, Mapping):
        return Guess(_WRAPPING + size // FILE_CHARACTERS)
    if not file.get("file_data"):
        return Guess(UPLOADED_FILE)
    head, data = _decoded(file["file_data"])
    if head.startswith(_TEXT):
        name = file.get("filename")  # Anthropic's form sends it as the document's title
        return Guess(_TEXT_WRAPPING + (count_text(name, "cl100k_base") if isinstance(name, str) else 0))
    tokens = _PAGE_WRAPPING + size // FILE_CHARACTERS
    pages = len(_PAGE.findall(data)) if data.startswith(b"%PDF") else 0
    return Guess(tokens, pages, tokens if pages else 0)


def text_in(part: Mapping[str, Any]) -> str:
    """Return the text of a text file, which is counted like a message's own; empty for another part."""
    file = part.get("file")
    head, data = _decoded(file.get("file_data")) if isinstance(file, Mapping) else ("", b"")
    return data.decode("utf-8", errors="replace") if head.startswith(_TEXT) else ""


def _decoded(file_data: Any) -> tuple[str, bytes]:
    """The head of a data URL, and its bytes; both empty if it is not a data URL."""
    head, _, payload = file_data.partition(",") if isinstance(file_data, str) else ("", "", "")
    try:
        return head, base64.b64decode(payload) if head.endswith(";base64") else payload.encode()
    except (binascii.Error, ValueError):
        return "", b""
