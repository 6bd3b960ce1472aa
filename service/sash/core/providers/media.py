"""Read images, files and sounds as base64 with their media type."""

import binascii
from typing import Any, Final

import msgspec

from sash.core.providers.mends import Mend
from sash.core.providers.turns import Refusals

MEDIA_TYPE: Final = Mend(
    name="media_type",
    refused="A picture whose bytes are of another type than it says, or `image/jpg`",
    sent="The picture with the type of its bytes: JPEG, PNG, GIF or WebP",
    evidence="'The image was specified using the image/png media type, but the image appears to be a image/jpeg image' "
    "(BerriAI/litellm 24900, home-assistant/core 167208); 'media_type: Input should be image/jpeg, …' (NousResearch/"
    "hermes-agent 55432)",
)
_BEGINNINGS: Final = (("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"))
"""How base64 of each type of picture begins."""
_RIFF: Final = "UklGR"
_WEBP: Final = "RUJQ"
"""``EBP`` of ``WEBP``, behind ``RIFF`` and four bytes of length."""
_BYTES: Final = "application/octet-stream"
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
    "mp4": "video/mp4",
    "pdf": "application/pdf",
    "png": "image/png",
    "txt": "text/plain",
    "wav": "audio/wav",
    "webp": "image/webp",
}


class Media(msgspec.Struct, frozen=True):
    """``data`` is checked base64, without white space; ``media_type`` is in lower case, without parameters."""

    media_type: str
    data: str

    def text(self) -> str | None:
        """Return the bytes as text; None when they are not UTF-8."""
        try:
            return binascii.a2b_base64(self.data).decode()
        except UnicodeDecodeError:
            return None


def is_web(url: str) -> bool:
    """Return whether a provider can fetch the URL by itself."""
    return url.lower().startswith(("https://", "http://"))


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


def read_data_url(url: str, place: str, refusals: Refusals) -> Media | None:
    """Return the content of a data URL; when it is not a data URL in base64, note a refusal and return None."""
    header, comma, data = url.partition(",")
    scheme, _, kind = header.partition(":")
    media_type, *parameters = map(str.strip, kind.lower().split(";"))
    if scheme.lower() != "data" or not comma or "base64" not in parameters or not media_type:
        refusals.add(place, "must be an http(s) URL or a data URL in base64")
        return None
    return _checked(media_type, data, place, refusals)


def read_file(file: dict[str, Any], place: str, refusals: Refusals) -> Media | None:
    """Return the content of a file part's ``file``; when it has none, note a refusal and return None."""
    data = file.get("file_data")
    if not data:
        refusals.add(place, "is a file kept elsewhere")
        return None
    if data[:5].lower() == "data:":
        return read_data_url(data, place, refusals)
    if (media_type := guess_type(file.get("filename") or "")) is None:
        refusals.add(place, "must say its media type: a data URL, or a file name with a known ending")
        return None
    return _checked(media_type, data, place, refusals)


def _is_base64(data: str) -> bool:
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):  # ValueError: beyond ASCII
        return False
    return True


def _checked(media_type: str, data: str, place: str, refusals: Refusals) -> Media | None:
    if not _is_base64(data) and not _is_base64(data := "".join(data.split())):
        refusals.add(place, "is not base64")
        return None
    if not data:
        refusals.add(place, "is empty")
        return None
    return Media(picture_type(media_type, data), data)
