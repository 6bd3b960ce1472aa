"""Tokens of images, files and audio: images by their pixels, in the providers' three ways of billing; the others estimated.

Estimates are too high rather than too low. A PDF's pages are counted, for providers that bill by the page. A text file's
text is counted as the message's.
"""

import base64
import binascii
import math
import re
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final, NamedTuple

import imagesize  # type: ignore[import-untyped]
import msgspec

from sash.core.chat.file_links import LINKS, as_file, is_link
from sash.core.counts.measures.pdf_pages import count_pages
from sash.core.counts.measures.sounds import sound_length
from sash.core.counts.models.families import CropRules, ImageRules, PatchRules, TileRules
from sash.core.counts.text import count_text
from sash.core.providers.messages.pieces import SOUNDS
from sash.core.providers.openai.chat_mends import UNNAMED, with_data_url, with_file_name

AUTO, LOW, ORIGINAL = 0, 1, 2
DETAILS = {"auto": AUTO, "high": AUTO, "low": LOW, "original": ORIGINAL}
Image = tuple[int, int, int]  # width and height in pixels (0, 0: unknown), and detail
KIND: Final = 7
"""The bits of an image's detail that are one of ``DETAILS``, or say who does not take it (``chat_mends.untaken``)."""
_TAKEN = re.compile(rb"\x89PNG\r\n|\xff\xd8\xff|GIF8|RIFF....WEBP", re.DOTALL)
"""The beginning of an image in a format that providers take."""
_HEADER = 64 * 1024
"""Characters of base64 in which most headers state the size; the rest of a picture is decoded only if these do not."""
_LONG_SIDE, _SHORT_SIDE, _TILE = 2048, 768, 512


def image_size(url: str) -> tuple[int, int] | None:
    """Return the width and height, in pixels, that the header of a data URL states; None for anything else."""
    head, _, payload = url.partition(",")
    scheme, *parameters = head.lower().split(";")
    if not scheme.startswith("data:") or "base64" not in parameters:
        return None
    return _stated(payload[:_HEADER]) or (_stated(payload) if len(payload) > _HEADER else None)


def _stated(payload: str) -> tuple[int, int] | None:
    try:
        data = base64.b64decode(payload)
        width, height = imagesize.get(BytesIO(data), exif_rotation=False) if _TAKEN.match(data) else (0, 0)
    except Exception:  # noqa: BLE001 - bad base64, or a broken header, which may raise any exception
        return None
    return (width, height) if width > 0 and height > 0 else None


def is_guess(image: Image, rules: ImageRules) -> bool:
    """Return whether an image's cost is estimated: its size is unknown, and the family's price depends on the size."""
    width, _, detail = image
    return not width and not (detail & KIND == LOW and isinstance(rules, TileRules))


def image_tokens(image: Image, rules: ImageRules) -> int:
    """Return one image's tokens. An image of unknown size has the highest cost of any size, or that of ``unknown`` crops."""
    width, height, detail = image
    match rules:
        case TileRules():
            if detail & KIND == LOW:
                return rules.base
            return rules.base + rules.tile * (_tiles(width, height) if width else _MOST_TILES)
        case PatchRules():
            budget = rules.original_budget if detail & KIND == ORIGINAL else rules.budget
            patches = _patches(width, height, budget, rules) if width else budget
            return math.ceil(patches * rules.factor) + rules.each
        case CropRules():
            return rules.each * (_crops(width, height, rules) if width else rules.unknown)


def _crops(width: int, height: int, rules: CropRules) -> int:
    """Count the crops and the whole image. 8 of 8 recorded images of Gemini agree."""
    if max(width, height) <= rules.small:
        return 1
    side = min(max(math.floor(min(width, height) / 1.5), rules.least), rules.most)
    return math.ceil(width / side) * math.ceil(height / side) + 1


_MOST_TILES = 8  # 768 by 2048


def _tiles(width: int, height: int) -> int:
    """Count 512-pixel tiles, after shrinking to 2048 by 2048 and then to a short side of 768, each rounded to a pixel."""
    width, height = _fit(width, height, _LONG_SIDE / max(width, height))
    width, height = _fit(width, height, _SHORT_SIDE / min(width, height))
    return math.ceil(width / _TILE) * math.ceil(height / _TILE)


def _fit(width: int, height: int, scale: float) -> tuple[int, int]:
    if scale >= 1:
        return width, height
    return max(1, math.floor(width * scale + 0.5)), max(1, math.floor(height * scale + 0.5))


def _patches(width: int, height: int, budget: int, rules: PatchRules) -> int:
    """Count patches, after shrinking the image to the longest side and then to the budget of patches."""
    width, height = _fit(width, height, rules.longest / max(width, height))
    side = rules.patch
    patches = math.ceil(width / side) * math.ceil(height / side)
    if patches <= budget:
        return patches
    scale = math.sqrt(budget * side**2 / (width * height))
    across, down = width * scale / side, height * scale / side
    # shrink a little more, so that one side is a whole number of patches
    scale *= min(max(1, math.floor(across)) / across, max(1, math.floor(down)) / down)
    return min(budget, _whole(width * scale / side) * _whole(height * scale / side))


def _whole(patches: float) -> int:
    """Round up, ignoring floating-point errors."""
    return math.ceil(round(patches, 6))


# ---- files and audio

_WRAPPING: Final = 50
_LINE_WRAPPING: Final = 10  # around a line: a text part of its own, and the two texts at its ends may split otherwise
_TEXT_WRAPPING: Final = 40  # around a text file's text: 8 bills of Claude
_FILE_WRAPPING: Final = 250
_BARE_PDF: Final = 300
"""Bytes of a PDF beside its words: the smallest recorded one, an empty page, has 325."""
_WORD_BYTES: Final = 3
"""Bytes of a PDF for each token of its words: the fullest recorded page has 25."""
UPLOADED_FILE: Final = 2_000
"""Estimated tokens of a file that was uploaded to the provider, so of unknown size. Bills of one page: 219 and 953."""
# Base64 characters for each token: audio is billed by time, about 10 tokens a second, and common codecs use 4 kB/s or more.
_AUDIO_CHARACTERS: Final = 400
FILE_CHARACTERS: Final = 4
"""Base64 characters of a file for each token."""
_TEXT: Final = "data:text/"


class Guess(NamedTuple):
    """Estimated ``tokens``, of which ``paged`` are for PDFs with ``pages`` pages, and ``sounded`` for sounds.

    ``heard`` is the length of these sounds, in ``HEARD_A_SECOND``, which their headers state.
    """

    tokens: int = 0
    pages: int = 0
    paged: int = 0
    heard: int = 0
    sounded: int = 0


def guess(part: dict[str, Any]) -> Guess:
    """Return the estimate of an audio, file or unknown content part, without the text of a text file."""
    part = with_file_name(with_data_url(as_file(part)))
    size = len(msgspec.json.encode(part))
    if part.get("type") == "input_audio":
        tokens = _WRAPPING + size // _AUDIO_CHARACTERS
        heard = sound_length(part)
        # A sound of another format is read back as a file from Google's forms, and counted as one.
        tokens = tokens if heard or _is_usual_sound(part) else max(tokens, _FILE_WRAPPING + size // FILE_CHARACTERS)
        return Guess(tokens, heard=heard, sounded=tokens if heard else 0)
    file = part.get("file")
    if not isinstance(file, Mapping):
        elsewhere = UPLOADED_FILE if part.get("type") in LINKS else _WRAPPING
        return Guess(elsewhere + size // FILE_CHARACTERS)
    if is_link(file.get("file_id")):
        return Guess(UPLOADED_FILE + size // FILE_CHARACTERS)
    return _guess_bytes(file, size) if file.get("file_data") else Guess(UPLOADED_FILE)


def _guess_bytes(file: Mapping[str, Any], size: int) -> Guess:
    """The estimate of a file that the message holds."""
    head, data = _decoded(file["file_data"])
    if head.startswith(_TEXT):
        name = file.get("filename")  # Anthropic's form sends it as the document's title
        return Guess(_TEXT_WRAPPING + (count_text(name, "cl100k_base") if isinstance(name, str) else 0))
    if not (pages := count_pages(data)):
        # A form that sends no names is read back with this one.
        size += max(0, len(UNNAMED) - len(str(file.get("filename") or UNNAMED)))
        return Guess(_FILE_WRAPPING + size // FILE_CHARACTERS)
    words = max(_WORD_BYTES, len(data) - _BARE_PDF) // _WORD_BYTES
    return Guess(words, pages, words)


def _is_usual_sound(part: Mapping[str, Any]) -> bool:
    """Return whether a sound has a format that chat messages name."""
    sound = part.get("input_audio")
    return isinstance(sound, Mapping) and sound.get("format") in SOUNDS


def guess_line(line: str) -> Guess:
    """Return the estimate of a line that some models get in place of a picture or a sound."""
    return Guess(_LINE_WRAPPING + count_text(line, "cl100k_base"))


def pages_in(data_url: str) -> int:
    """Return the number of pages of a PDF in a data URL; 0 for anything else."""
    return count_pages(_decoded(data_url)[1])


def text_in(part: dict[str, Any]) -> str:
    """Return the text of a text file, which is counted like a message's own; empty for another part."""
    file = as_file(part).get("file")
    head, data = _decoded(file.get("file_data")) if isinstance(file, Mapping) else ("", b"")
    return data.decode("utf-8", errors="replace") if head.startswith(_TEXT) else ""


def _decoded(file_data: Any) -> tuple[str, bytes]:
    """The head of a data URL, and its bytes; both empty if it is not a data URL."""
    head, _, payload = file_data.partition(",") if isinstance(file_data, str) else ("", "", "")
    try:
        return head, base64.b64decode(payload) if head.endswith(";base64") else payload.encode()
    except (binascii.Error, ValueError):
        return "", b""
