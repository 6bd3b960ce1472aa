"""Read images, files and sounds as base64 with their media type."""

import binascii
from typing import Any

import msgspec

from sash.core.providers.writing.media_types import PDF, PDF_BEGINS, guess_type, medium_type
from sash.core.providers.writing.turns import RequestWriting


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


def read_data_url(url: str, place: str, writing: RequestWriting) -> Media | None:
    """Return the content of a data URL; when it is not a data URL in base64, note a refusal and return None."""
    header, comma, data = url.partition(",")
    scheme, _, kind = header.partition(":")
    media_type, *parameters = map(str.strip, kind.lower().split(";"))
    if scheme.lower() != "data" or not comma or "base64" not in parameters or not media_type:
        writing.add(place, "must be an http(s) URL or a data URL in base64")
        return None
    return _checked(media_type, data, place, writing)


def read_file(file: dict[str, Any], place: str, writing: RequestWriting) -> Media | None:
    """Return the content of a file part's ``file``; when it has none, note a refusal and return None."""
    data = file.get("file_data")
    if not data:
        writing.add(place, "is a file kept elsewhere")
        return None
    if data[:5].lower() == "data:":
        return read_data_url(data, place, writing)
    media_type = guess_type(file.get("filename") or "") or (PDF if data.startswith(PDF_BEGINS) else None)
    if media_type is None:
        writing.add(place, "must say its media type: a data URL, or a file name with a known ending")
        return None
    return _checked(media_type, data, place, writing)


def _is_base64(data: str) -> bool:
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):  # ValueError: beyond ASCII
        return False
    return True


def _checked(media_type: str, data: str, place: str, writing: RequestWriting) -> Media | None:
    if not _is_base64(data) and not _is_base64(data := "".join(data.split())):
        writing.add(place, "is not base64")
        return None
    if not data:
        writing.add(place, "is empty")
        return None
    return Media(medium_type(media_type, data), data)
