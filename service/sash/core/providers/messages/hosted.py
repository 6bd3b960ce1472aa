"""Tell in a line of text what only one provider or only some forms take: a hosted tool's call or result, a picture.

A hosted tool runs at the provider: a web search, code execution, a call of an MCP server. Its parts go back to this provider
as they came. Every other form gets a line with the words in them: what was asked and what was found. The line is part of
the chat message, so it is counted, found by a search, and the same in every window.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from sash.core.chat.file_links import link_of

_SILENT: Final = frozenset(
    {
        *("type", "id", "call_id", "tool_use_id", "status", "caller", "cache_control", "container_id", "page_age"),
        *("encrypted_content", "encrypted_index", "encrypted_stdout", "signature", "fingerprint", "logprobs", "data"),
        *("thoughtSignature", "thought_signature", "file_id", "mime_type", "mimeType", "media_type", "language"),
    }
)
"""Members without words for a reader."""
_LONGEST_WORD: Final = 300
_LONGEST_LINE: Final = 1_200
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=-]{200,}")
"""Bytes in place of words, such as a generated picture's."""
_ARGUMENTS: Final = frozenset({"input", "arguments", "args"})
"""Members with the arguments of a call, in which numbers are words too."""
_MEDIA: Final = {kind: kind for kind in ("image", "document", "audio", "video")} | {
    "input_image": "image",
    "input_file": "file",
    "input_audio": "audio",
    "computer_screenshot": "image",
}
"""Kinds of parts that may be a medium which is kept elsewhere, and what their lines call them."""
_NAMES: Final = ("title", "filename", "name", "file_id", "file_url", "image_url", "uri", "url")
"""Members that name such a medium, or say where it is."""
_WORDLESS: Final = frozenset({"container_upload"})
"""Kinds of parts without words for a reader."""


def line_of(part: Mapping[str, Any], kind: str) -> str:
    """Return the line that tells a hosted tool's part; empty if the part has no words."""
    if kind in _WORDLESS:
        return ""
    if kind in _MEDIA:
        return _line(_MEDIA[kind], ", ".join(dict.fromkeys(_named(part))))
    words = ", ".join(dict.fromkeys(_words(part)))
    if len(words) > _LONGEST_LINE:
        words = words[:_LONGEST_LINE] + " …"
    return f"[{_spaced(kind)}: {words}]\n" if words else f"[{_spaced(kind)}]\n"


def is_paused(reply: Mapping[str, Any], form: str) -> bool:
    """Return whether a stored reply, sent as it came, ends with a call of a hosted tool: it goes on when it is sent back."""
    match reply.get("native"):
        case {"format": own, "messages": [*_, {"content": [*_, {"type": "server_tool_use" | "mcp_tool_use"}]}]}:
            return bool(own == form)
    return False


def media_line(part: Mapping[str, Any]) -> str:
    """Return the line that tells an image, a file or a sound in chat form: what it is, and its size or its address."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return _line("image", _told(url))
        case {"type": "file", "file": dict(file)}:
            told = _told(data) if isinstance(data := file.get("file_data"), str) else str(file.get("file_id") or "")
            return _line("file", ", ".join(filter(None, (_short(str(file.get("filename") or "")), _short(told)))))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return _line("audio", f"audio/{form}, {_kilobytes(data)}")
    link = link_of(part)
    return _line(_spaced(str(part.get("type")).removesuffix("_url")), _told(link) if link else "")


def on_a_line(line: str, before: str | None) -> str:
    """Return the line that tells a medium as it stands behind a text: on a line of its own. None: behind another part.

    Texts of a message are joined without anything between them, by Sash or by the provider.
    """
    return f"\n{line}" if before and not before.endswith("\n") else line


def joined(texts: Iterable[tuple[str, bool]]) -> str:
    """Return the texts of a message as one; each that is a line, which tells a medium, begins on a line of its own."""
    found: list[str] = []
    for text, is_line in texts:
        found.append(on_a_line(text, found[-1] if found else None) if is_line else text)
    return "".join(found)


def _named(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield what names a medium that is kept elsewhere, and where it is."""
    for name, each in part.items():
        if isinstance(each, dict):
            yield from _named(each)
        elif name in _NAMES and isinstance(each, str) and each:
            yield _told(each) if each[:5].lower() == "data:" else _short(each)


def _line(kind: str, told: str) -> str:
    return f"[{kind}: {told}]\n" if told else f"[{kind}]\n"


def _told(url: str) -> str:
    """What a data URL holds, or another URL's beginning."""
    head, comma, data = url.partition(",")
    if comma and head[:5].lower() == "data:":
        return f"{head[5:].partition(';')[0]}, {_kilobytes(data)}"
    return _short(url) if "://" in url[:40] else _kilobytes(url)


def _kilobytes(data: str) -> str:
    return f"{-(-len(data) * 3 // 4000)} kB"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_WORD else text[:_LONGEST_WORD] + "…"


def _spaced(kind: str) -> str:
    return kind.replace("_", " ")


def _words(value: Any, key: str = "") -> Iterator[str]:
    """Yield the words in a part, in order; long ones are cut, and bytes are left out."""
    match value:
        case str() if value.strip():
            said = " ".join(value.split())
            if said.startswith("data:") or _BASE64.fullmatch(said):
                yield _told(said) if said.startswith("data:") else _kilobytes(said)
            else:
                yield _short(said)
        case dict() if key in _ARGUMENTS and not all(isinstance(each, str) for each in value.values()):
            yield _short(msgspec.json.encode(value).decode())
        case dict():
            for name, each in value.items():
                if name not in _SILENT:
                    yield from _words(each, name)
        case list():
            for each in value:
                yield from _words(each, key)
