"""The pictures, sounds, videos and files in a finished request of any form, read from the request alone."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

Object = Mapping[str, Any]
SentKind = Literal["pictures", "sounds", "files", "videos"]

_TYPES: Final[Mapping[str, SentKind]] = {
    **dict.fromkeys(("image", "image_url", "input_image"), "pictures"),
    **dict.fromkeys(("audio", "audio_url", "input_audio"), "sounds"),
    **dict.fromkeys(("document", "document_url", "file", "file_url", "input_file"), "files"),
    **dict.fromkeys(("video", "video_url", "input_video"), "videos"),
}
"""Types of parts, and members of parts without a type."""
_INSIDE: Final = ("content", "output", "parts", "toolResult", "functionResponse")
"""Members that hold other parts."""
_LISTS: Final = ("messages", "input", "contents")
"""Members of a request that hold its messages, items, contents or steps."""


def media_in(request: Object) -> Iterator[tuple[SentKind, str]]:
    """Yield the kind of each picture, sound, video and file with its place as a JSON pointer."""
    for name in _LISTS:
        yield from _in_value(request.get(name), f"#/{name}")


def _in_value(value: Any, place: str) -> Iterator[tuple[SentKind, str]]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from _in_value(each, f"{place}/{index}")
    elif isinstance(value, dict):
        if kind := _kind_of(value):
            yield kind, place
            return
        if value.get("images"):
            yield "pictures", f"{place}/images"
        for name in _INSIDE:
            yield from _in_value(value.get(name), f"{place}/{name}")


def _kind_of(part: Object) -> SentKind | None:
    """What a part is; None for a text, a call, a result, or a message. A text file is no file here."""
    if "role" in part:
        return None
    data = part.get("inlineData") or part.get("inline_data") or part.get("fileData") or part.get("file_data")
    if isinstance(data, dict):
        begins = str(data.get("mimeType") or data.get("mime_type")).partition("/")[0]
        return {"image": "pictures", "audio": "sounds", "video": "videos", "text": None}.get(begins, "files")
    kind = part.get("type", next((name for name in _TYPES if isinstance(part.get(name), dict)), ""))
    found = _TYPES.get(kind)
    if found != "files":
        return found
    return None if _is_of(part, "text") else "videos" if _is_of(part, "video") else found


def _is_of(part: Object, kind: str) -> bool:
    """Whether a file is a text, which models read that read no files, or a video."""
    file = part.get("file", part)
    data = file.get("file_data") if isinstance(file, dict) else None
    source = part.get("source")
    is_block = isinstance(source, dict) and str(source.get("media_type")).startswith(f"{kind}/")
    return is_block or (isinstance(data, str) and data.startswith(f"data:{kind}/"))
