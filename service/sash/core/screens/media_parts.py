"""Pictures, sounds and files of chat messages as a screen's file parts, and back."""

import re
from typing import Any, Final

Object = dict[str, Any]
_DATA: Final = re.compile(r"data:([^;,]*)[^,]*,")


def file_part(part: Object, address: str) -> Object:
    """The file part of a part of a chat message. A path of Sash's becomes an address under ``address``."""
    kind = part["type"]
    value: Any = part.get(kind)
    within: Object = value if isinstance(value, dict) else {}
    facts = within.get("media") or {}
    found: Object = {"type": "file", "mediaType": "application/octet-stream"}
    if kind == "image_url":
        url, found["mediaType"] = within.get("url", value), "image/*"
    elif kind == "input_audio":
        url, found["mediaType"] = within.get("data"), f"audio/{within.get('format', '*')}"
    else:
        url = within.get("file_data") or within.get("url")
    if not isinstance(url, str):
        return {"type": "data-sash", "data": {"kind": kind}}
    if named := _DATA.match(url):
        found["mediaType"] = named[1] or found["mediaType"]
    elif url.startswith("/"):
        url = address + url
    elif "://" not in url:
        url = f"data:{found['mediaType']};base64,{url}"
    found["mediaType"] = facts.get("type") or found["mediaType"]
    found["url"] = url
    if isinstance(name := within.get("filename"), str):
        found["filename"] = name
    return found


def as_content(part: Object) -> Object:
    """The part of a chat message for a file part."""
    kind, url = part["mediaType"], part["url"]
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    data = url.partition(",")[2] if url.startswith("data:") else ""
    sound = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}.get(kind)
    if sound and data:
        return {"type": "input_audio", "input_audio": {"data": data, "format": sound}}
    file: Object = {"file_data": url}
    if isinstance(name := part.get("filename"), str):
        file["filename"] = name
    return {"type": "file", "file": file}
