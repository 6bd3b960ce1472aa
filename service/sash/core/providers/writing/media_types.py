"""The media types of pictures, files and sounds, and which of them a form takes.

``Takes`` is one form's datum (``Provider.takes``). The writers of forms ask it of the parts of chat messages, the mends of
the provider's own parts, and ``core.counts`` of stored measures: what is sent does not depend on how it came.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sash.core.providers.messages.mends import AS_TEXT, Mend
from sash.core.providers.messages.references import is_googles_file

MEDIA_TYPE: Final = Mend(
    name="media_type",
    is_free=True,
    refused="A picture of which another type is told than its bytes have, such as `image/jpg` or "
    "`application/octet-stream`; a data URL in upper case, with a parameter such as `charset`, or with white space in "
    "its base64; a PDF of another type",
    sent="The picture or the PDF with the type of its bytes, without parameters and white space",
    evidence="Anthropic: 'The image was specified using the image/png media type, but the image appears to be a image/jpeg "
    "image' (BerriAI/litellm 24900, home-assistant/core 167208); 'media_type: Input should be image/jpeg, …' (NousResearch/"
    "hermes-agent 55432). OpenAI: 'Invalid MIME type. Only image types are supported.', 'Expected a base64-encoded data URL "
    "with an image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=')' (anomalyco/opencode 23983). Google: "
    "'Unsupported MIME type: image/jpg' (brianpetro/obsidian-smart-connections 1238, CherryHQ/cherry-studio 3088)",
)
UNTAKEN: Final = Mend(
    name="untaken_medium",
    refused="A picture, a sound or a file of a type that the form does not take; one without bytes; a picture at an address "
    "that the provider cannot fetch",
    sent="One line of text in its place, with its type and its size; in a result of Gemini's own form, in the response; "
    "of a text file that came to Claude as base64, a document of text",
    evidence='OpenAI: "You uploaded an unsupported image. Please make sure your image has of one the following formats: '
    "['png', 'jpeg', 'gif', 'webp']\" (STranslate/STranslate 277, CosmosShadow/gptpdf 6); openai.types.chat: an "
    "input_audio's `format` is 'wav' or 'mp3'; openai.types.responses: a message's content has texts, images and files. "
    "Anthropic: 'image.source.base64.media_type: Input should be image/jpeg, …' (anomalyco/opencode 5704), 'image cannot be "
    "empty'; anthropic.types.Base64PDFSourceParam: `media_type` is 'application/pdf', PlainTextSourceParam: 'text/plain'. "
    "Google: 'Unsupported MIME type: image/svg+xml', '… image/gif' (google-gemini/gemini-cli 3054, Mai-with-u/MaiBot 1435); "
    "ai.google.dev/gemini-api/docs/image-understanding, 'Supported image formats' (microsoft/vscode 286628). Bedrock: "
    "botocore's service model: ``ImageFormat``, ``DocumentFormat``, and ``ImageSource.bytes`` has at least one byte",
)
PDF: Final = "application/pdf"
PDF_BEGINS: Final = "JVBERi"
"""How base64 of a PDF begins."""
USUAL_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types of the pictures that OpenAI, Anthropic and Bedrock take."""
_HEAD: Final = 200
"""Characters of a data URL that have its media type and the first bytes."""
_BEGINNINGS: Final = (("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"))
"""How base64 of each type of picture begins."""
_RIFF: Final = "UklGR"
_WEBP: Final = "RUJQ"
"""``EBP`` of ``WEBP``, behind ``RIFF`` and four bytes of length."""
_BYTES: Final = "application/octet-stream"
_UNKNOWN: Final = "?"
VIDEO: Final = "video"
"""How the media types of videos begin, and the type of one that is kept elsewhere."""
_YOUTUBE: Final = re.compile(r"https?://(?:(?:www\.|m\.)?youtube\.com/|youtu\.be/)", re.IGNORECASE)
_SVG: Final = "image/svg"
_TYPES: Final = {
    "csv": "text/csv",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
    "htm": "text/html",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "md": "text/markdown",
    "mp3": "audio/mp3",
    "mov": "video/quicktime",
    "mp4": "video/mp4",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
}


def typed(url: str) -> tuple[str | None, str]:
    """Return the media type of a data URL, None for another text, and the beginning of its data, empty if it has none."""
    head, _, data = url[:_HEAD].partition(",")
    return (head[5:].partition(";")[0].strip().lower(), data.lstrip()) if head[:5].lower() == "data:" else (None, "")


def medium_type(media_type: str, data: str) -> str:
    """Return the media type of a picture or a PDF by its bytes; else the one that is told.

    >>> medium_type("application/octet-stream", "JVBERi0xLjQK"), medium_type("text/csv", "YSxi")
    ('application/pdf', 'text/csv')
    """
    return PDF if data.startswith(PDF_BEGINS) else picture_type(media_type, data)


def is_web(url: str) -> bool:
    """Return whether a provider can fetch the URL by itself."""
    return url.lower().startswith(("https://", "http://"))


def is_video(url: str) -> bool:
    """Return whether an address is that of a video, by its ending or because YouTube has it.

    >>> is_video("https://x.test/a.mp4?b=1"), is_video("https://youtu.be/a"), is_video("https://x.test/a.pdf")
    (True, True, False)
    """
    return (guess_type(url) or "").startswith(VIDEO) or _YOUTUBE.match(url) is not None


def guess_type(name: str) -> str | None:
    """Return the media type by the ending of a URL or a file name; None when the ending is unknown."""
    path = name.partition("?")[0].partition("#")[0]
    return _TYPES.get(path.rpartition("/")[2].rpartition(".")[2].lower())


def picture_type(media_type: str, data: str) -> str:
    """Return the media type of a picture by its bytes, which vendors compare with what is told; else the one that is told.

    >>> picture_type("image/jpeg", "iVBORw0KGgo="), picture_type("image/jpg", ""), picture_type("audio/wav", "UklGRg==")
    ('image/png', 'image/jpeg', 'audio/wav')
    """
    if not media_type.startswith("image/") and media_type not in (_BYTES, ""):
        return media_type
    if data.startswith(_RIFF) and data[12:16] == _WEBP:
        return "image/webp"
    told = "image/jpeg" if media_type == "image/jpg" else media_type
    return next((kind for begins, kind in _BEGINNINGS if data.startswith(begins)), told)


def as_picture(part: dict[str, Any]) -> dict[str, Any]:
    """Return a file whose bytes are a picture as a picture; another part, and an SVG, which is text, as it is."""
    match part:
        case {"type": "file", "file": {"file_data": str(data)} as file} if data:
            told, begins = typed(data)
            if told is None:
                told, begins = guess_type(str(file.get("filename") or "")), data
                data = f"data:{told};base64,{data}"
            kind = picture_type(told or _UNKNOWN, begins)
            if kind.startswith("image/") and not kind.startswith(_SVG):
                rest = {name: value for name, value in part.items() if name not in ("type", "file")}
                return {"type": "image_url", "image_url": {"url": data}, **rest}
    return part


class Takes(msgspec.Struct, frozen=True, kw_only=True):
    """The media that a form takes. None stands for every type."""

    pictures: frozenset[str] | None = None
    """Media types of pictures."""
    files: frozenset[str] | None = None
    """Media types of files, beside texts."""
    sounds: frozenset[str] | None = None
    """Formats of sounds, as chat messages name them."""
    addresses: tuple[str, ...] = ("https://", "http://")
    """How an address begins that a picture may have; an empty text if the form has a line of its own for addresses."""
    links: bool = True
    """Whether files are fetched from their addresses."""
    references: tuple[str, ...] = ()
    """How the name or the address of a file that is kept elsewhere begins, where the form has a place for it."""
    tells_types: bool = False
    """Whether the type of a linked picture is told, by the ending of its address."""

    reads_googles_files: bool = False
    """Whether files that were uploaded to Gemini can be read by their address."""

    def refuses(self, part: Mapping[str, Any]) -> bool:
        """Return whether a part of a chat message is a medium that is not taken. False for one whose type is not known."""
        if is_googles_file(part) and not self.reads_googles_files:
            return True
        match part:
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                told, begins = typed(url)
                if told is None:
                    guessed = guess_type(url) if self.tells_types else None
                    is_other = guessed is not None and guessed.startswith("image/") and self.refuses_picture(guessed)
                    return is_other or not url.lower().startswith(self.addresses)
                kind = picture_type(told, begins)
                return not begins or not kind.startswith("image/") or self.refuses_picture(kind)
            case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
                return not data or (self.sounds is not None and form not in self.sounds)
            case {"type": "file", "file": {"file_data": str(data)} as file} if data:
                told, begins = typed(data)
                if told is None:
                    told, begins = guess_type(str(file.get("filename") or "")), data
                return told is not None and (not begins or self.refuses_file(medium_type(told, begins)))
        return False

    def lacks(self, part: Mapping[str, Any]) -> bool:
        """Return whether a part of a chat message is a file that is kept elsewhere, for which the form has no place."""
        match part:
            case {"type": "file", "file": {"file_id": str(name)} as file} if not file.get("file_data"):
                return not name.startswith(self.references)
        return False

    def mend_of(self, kind: str, media_type: str, *, is_link: bool) -> Mend | None:
        """Return the mend of a ``file`` or an ``audio`` of this type, or at an address, that is not taken; else None."""
        if kind == "file" and is_link:
            return None if self.links else AS_TEXT
        if is_link or not media_type:
            return None
        if kind == "file":
            return UNTAKEN if self.refuses_file(media_type) else None
        return UNTAKEN if self.sounds is not None and media_type.removeprefix("audio/") not in self.sounds else None

    def retypes(self, part: Mapping[str, Any]) -> bool:
        """Return whether a medium that is taken, in a data URL, is sent with another type than is told."""
        match part:
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                told, begins = typed(url)
            case {"type": "file", "file": {"file_data": str(url)}}:
                told, begins = typed(url)
            case _:
                return False
        return told is not None and medium_type(told, begins) != told

    def refuses_picture(self, media_type: str) -> bool:
        """Return whether pictures of this type are not taken."""
        return self.pictures is not None and media_type not in self.pictures

    def refuses_file(self, media_type: str) -> bool:
        """Return whether files of this type are not taken. A picture may be a file."""
        if media_type.startswith("image/"):
            return self.refuses_picture(media_type)
        return self.files is not None and media_type not in self.files and not media_type.startswith("text/")


ANY: Final = Takes()
"""Every type of media."""
