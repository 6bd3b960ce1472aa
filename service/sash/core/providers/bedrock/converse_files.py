"""Pictures and files in Bedrock's Converse: bytes in base64 with a short format in place of a media type, and names.

A document's name is unique in a request. It has letters and digits of ASCII, single spaces, hyphens, brackets and
underscores, and 200 characters at most. boto3 takes bytes where JSON has base64.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.pieces import SOUNDS, Object, data_url, file_part
from sash.core.providers.writing.media import Media
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN, USUAL_PICTURES, Takes, picture_type
from sash.core.providers.writing.turns import Block, RequestWriting

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS: Final = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
"""Media types by format: ``DocumentFormat`` of botocore's service model."""
_FORMATS_OF: Final[Mapping[str, Collection[str]]] = {
    "document": _DOCUMENTS,
    "video": ("mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"),
    "audio": (
        *("mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka"),
        *("x-aac", "m4a", "mpeg", "mpga", "pcm", "webm"),
    ),
}
"""The formats of media beside pictures: ``DocumentFormat``, ``VideoFormat`` and ``AudioFormat`` there."""
_FORMATS: Final = {media_type: form for form, media_type in _DOCUMENTS.items()}
_VIDEOS: Final = {
    **{f"video/{form}": form for form in _FORMATS_OF["video"]},
    "video/3gpp": "three_gp",
    "video/quicktime": "mov",
    "video/x-flv": "flv",
    "video/x-matroska": "mkv",
    "video/x-ms-wmv": "wmv",
}
"""Formats of videos by media type, also by the names that are registered."""
BEDROCKS_MEDIA: Final = Takes(
    links=False,
    pictures=USUAL_PICTURES,
    files=frozenset({*_FORMATS, *_VIDEOS, "application/json"}),
    sounds=SOUNDS,
    addresses=("",),
)
"""What Converse takes: ``ImageFormat``, ``DocumentFormat``, ``VideoFormat`` and ``AudioFormat`` of botocore's service
model. Every address is a line of its own, because Bedrock fetches none."""
KINDS: Final = ("image", "document", "video", "audio")
DOCUMENT_NAME: Final = Mend(
    name="document_name",
    refused="A document's name that another document of the request has, or with other characters than Bedrock takes",
    sent="The name with spaces in their place, and with the message's number behind it if it is used before",
    evidence="'Messages can't contain duplicate document names'; 'The document file name can only contain alphanumeric "
    "characters, whitespace characters, hyphens, parentheses, and square brackets' (maximhq/bifrost 7003, vercel/ai 20365)",
)
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_()\[\] -]+")
_SPACES: Final = re.compile(r" {2,}")
_LONGEST_NAME: Final = 160
"""Characters of a name before its number; 200 with it."""


class Names:
    """The names of the documents of one request."""

    def __init__(self, writing: RequestWriting) -> None:
        self._refusals = writing
        self._used: set[str] = set()

    def given(self, name: str, seq: int) -> str:
        """Return the name with which a document of message ``seq`` is sent; the same name twice is told apart."""
        plain = _SPACES.sub(" ", _FOREIGN.sub(" ", name)).strip()[:_LONGEST_NAME].strip() or "document"
        found, again = plain, 0
        while found.lower() in self._used:
            found = f"{plain} {seq}" + (f"-{again}" if again else "")
            again += 1
        self._used.add(found.lower())
        return found

    def own(self, block: Block, seq: int) -> Block:
        """Return a document that came in this form, with a name that Bedrock takes."""
        document, name = block["document"], str(block["document"].get("name") or "")
        found = self.given(name, seq)
        if found == name:
            return block
        self._refusals.mends.add(DOCUMENT_NAME, seq)
        return {"document": {**document, "name": found}}


def own_medium(block: Block, seq: int, writing: RequestWriting) -> Block:
    """Return a medium that came in this form, a picture with the format of its bytes; a line for what Bedrock refuses."""
    kind = next((name for name in KINDS if isinstance(block.get(name), dict)), "")
    match block.get(kind):
        case {"format": str(told), "source": {"bytes": str(data)}}:
            found = picture_type(f"image/{told}", data) if kind == "image" else ""
        case _:
            return block
    is_other = told not in _FORMATS_OF.get(kind, (told,))
    if not data or is_other or (found and BEDROCKS_MEDIA.refuses_picture(found)):
        writing.mends.add(UNTAKEN, seq)
        return {"text": media_line(read_media(kind, block[kind]) or {"type": kind})}
    if found and found != f"image/{told}":
        writing.mends.add(MEDIA_TYPE, seq)
        return {**block, "image": {**block["image"], "format": format_of(found)}}
    return block


def format_of(picture: str) -> str:
    """Return the format of a picture by its media type, as ``ImageFormat`` has it."""
    return picture.removeprefix("image/")


def read_media(kind: str, body: Mapping[str, Any]) -> Object | None:
    """Return a picture, a file or a sound as a part of a chat message; None where chat messages have no place for it."""
    source, form = body.get("source"), str(body.get("format") or "")
    match kind, source:
        case "image", {"bytes": str(data)}:
            return {"type": "image_url", "image_url": {"url": data_url(f"image/{form}", data)}}
        case "document", {"bytes": str(data)}:
            media_type = _DOCUMENTS.get(form, "application/octet-stream")
            return file_part(filename=_filename(body, form), file_data=data_url(media_type, data))
        case "video", {"bytes": str(data)}:
            return file_part(file_data=data_url(f"video/{form}", data))
        case "audio", {"bytes": str(data)} if form in SOUNDS:
            return {"type": "input_audio", "input_audio": {"data": data, "format": form}}
    return None


def _filename(body: Mapping[str, Any], form: str) -> str | None:
    name = body.get("name")
    return f"{name}.{form}" if isinstance(name, str) and name and form else None


def document_text(body: Mapping[str, Any]) -> str:
    """Return the text of a document that is made of text; empty for another."""
    match body.get("source"):
        case {"text": str(text)}:
            return text
        case {"content": [*blocks]}:
            return "\n".join(str(block.get("text") or "") for block in blocks if isinstance(block, dict))
    return ""


def document(media: Media, filename: str | None, names: Names, seq: int) -> Block:
    """Return a file as a document of message ``seq``, or as a video; JSON and any text without a format of its own as plain
    text."""
    if video := _VIDEOS.get(media.media_type):
        return {"video": {"format": video, "source": {"bytes": media.data}}}
    form = _FORMATS.get(media.media_type, "txt")
    stem = (filename or "").rpartition("/")[2]
    name = names.given(stem.rpartition(".")[0] or stem, seq)
    return {"document": {"format": form, "name": name, "source": {"bytes": media.data}}}
