"""Parts of compatible servers that name a file by its URL, as file parts.

Mistral has ``document_url``, Z.ai ``file_url``, vLLM and Qwen ``video_url`` and ``audio_url``. They are stored and sent in
the chat form as they came.
"""

from collections.abc import Mapping
from typing import Any, Final

Object = dict[str, Any]

LINKS: Final = frozenset({"document_url", "file_url", "video_url", "audio_url"})
"""Types of these parts. Each part has its URL in a member of the same name, alone or in an object."""
_FILES: Final = frozenset({"document_url", "file_url"})


def link_of(part: Mapping[str, Any]) -> str | None:
    """Return the URL of such a part; None for another part."""
    kind = part.get("type")
    if kind not in LINKS:
        return None
    held = part.get(kind)
    url = held.get("url") if isinstance(held, Mapping) else held
    return url if isinstance(url, str) else None


def is_link(url: Any) -> bool:
    """Return whether a provider can fetch this by itself."""
    return isinstance(url, str) and url[:8].lower().startswith(("https://", "http://"))


def as_file(part: Object) -> Object:
    """Return the part as a file, if it holds the file's bytes, or is a document on the web; else as it is."""
    url = link_of(part)
    if url is None:
        return part
    if url[:5].lower() == "data:":
        name = part.get("document_name")
        named = {"filename": name} if isinstance(name, str) else {}
        return {"type": "file", "file": {"file_data": url, **named}}
    if part["type"] in _FILES and is_link(url):
        return {"type": "file", "file": {"file_id": url}}
    return part
