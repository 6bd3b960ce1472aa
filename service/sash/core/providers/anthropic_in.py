"""Read Anthropic's messages: turns of blocks.

A user's message may hold tool results, text and images. Each result becomes a tool message; all other blocks become one user
message after them.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from sash.core.chat.messages import CallId
from sash.core.providers.pieces import Name, Object, Piece, Text, convert, data_url, file_part, read_turn, to_json

_REPLY: Final = frozenset({"id", "type", "model", "stop_reason", "stop_sequence", "stop_details", "usage", "container"})
"""Members of a reply that a request does not take."""


class _AnthropicMessage(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[Object]


class _ToolUse(msgspec.Struct):
    id: CallId
    name: Name
    input: Object


class _ToolResult(msgspec.Struct):
    tool_use_id: CallId
    content: str | list[Object] | None = None


class _Source(msgspec.Struct):
    source: Object
    title: str | None = None


class _SearchResult(msgspec.Struct):
    source: str
    content: list[Text]
    title: str | None = None


class _Thinking(msgspec.Struct):
    thinking: str
    signature: str = ""


class _Compaction(msgspec.Struct):
    content: str | None = None


class _Redacted(msgspec.Struct):
    data: str


_SILENT: Final[dict[str, Any]] = {"thinking": _Thinking, "redacted_thinking": _Redacted, "compaction": _Compaction}


def read(message: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the pieces of one message, or of a whole reply. Raises InvalidEntry."""
    given = convert(message, _AnthropicMessage, pointer)
    own = {name: value for name, value in message.items() if name not in _REPLY}
    if isinstance(given.content, str):
        piece = Piece(role=given.role, own=own)
        piece.add_text(given.content)
        return [piece]
    return read_turn(
        given.role,
        own,
        "content",
        given.content,
        f"{pointer}/content",
        is_result=lambda block: block.get("type") == "tool_result",
        read_result=_read_result,
        read_part=_read_block,
    )


def _read_result(block: Object, piece: Piece, pointer: str) -> None:
    given = convert(block, _ToolResult, pointer)
    piece.answers = given.tool_use_id
    if isinstance(given.content, str):
        piece.add_text(given.content)
    for index, inner in enumerate(given.content if isinstance(given.content, list) else ()):
        if inner.get("type") in ("text", "search_result"):
            _read_block(inner, piece, f"{pointer}/content/{index}")
        else:
            piece.only.append(_kind(inner))


def _read_block(block: Object, piece: Piece, pointer: str) -> None:
    match block.get("type"):
        case "text":
            piece.add_text(convert(block, Text, pointer).text)
        case "tool_use" if piece.role == "assistant":
            use = convert(block, _ToolUse, pointer)
            piece.add_call(use.id, use.name, to_json(use.input))
        case "search_result":
            found = convert(block, _SearchResult, pointer)
            piece.add_text("\n".join([found.title or "", found.source, *(text.text for text in found.content)]))
        case "image" | "document" as kind if piece.role == "user" and (part := _media(block, kind, pointer)):
            piece.parts.append(part)
        case "thinking" | "redacted_thinking" | "compaction" as kind:  # not sent to other providers
            convert(block, _SILENT[kind], pointer)
        case _:
            piece.only.append(_kind(block))


def _media(block: Object, kind: str, pointer: str) -> Object | None:
    """Return an image or a document in chat form; None where chat messages have no place for its source."""
    given = convert(block, _Source, pointer)
    match given.source:
        case {"type": "url", "url": str(url)} if kind == "image":
            return {"type": "image_url", "image_url": {"url": url}}
        case {"type": "base64", "media_type": str(media_type), "data": str(data)} if kind == "image":
            return {"type": "image_url", "image_url": {"url": data_url(media_type, data)}}
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            return file_part(filename=given.title, file_data=data_url(media_type, data))
        case {"type": "text", "data": str(data)}:
            return {"type": "text", "text": data}
        case {"type": "file", "file_id": str(file_id)} if kind == "document":
            return file_part(file_id=file_id)
    return None


def _kind(block: Object) -> str:
    kind = block.get("type")
    return kind if isinstance(kind, str) else "block"
