"""Read Anthropic's messages: turns of blocks.

A user's message may hold tool results, text and images. Each result becomes a tool message; all other blocks become one user
message after them.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from service.core.messages import CallId
from service.core.native.pieces import (
    ChatRequest,
    Name,
    Object,
    Piece,
    convert,
    data_url,
    file_part,
    function_tool,
    named_choice,
    read_turn,
    rest_of,
    schema_format,
    to_json,
)

_REPLY: Final = frozenset({"id", "type", "model", "stop_reason", "stop_sequence", "stop_details", "usage", "container"})
"""Members of a reply that a request does not take."""
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[Object]


class _Text(msgspec.Struct):
    text: str


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
    content: list[_Text]
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
    given = convert(message, _Message, pointer)
    own = rest_of(message, *_REPLY)
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
            piece.add_text(convert(block, _Text, pointer).text)
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


class _Request(msgspec.Struct):
    messages: list[Object]
    system: str | list[Object] | None = None
    tools: list[Object] | None = None
    tool_choice: Object | None = None
    output_format: Object | None = None
    output_config: Object | None = None


def system_messages(request: _Request) -> list[Object]:
    """Return the system text as a chat message; in Anthropic's request it stands outside the messages."""
    if not request.system:
        return []
    if isinstance(request.system, str):
        return [{"role": "system", "content": request.system}]
    texts = [convert(block, _Text, f"/system/{index}").text for index, block in enumerate(request.system)]
    return [{"role": "system", "content": [{"type": "text", "text": text} for text in texts]}]


def read_request(request: Mapping[str, Any], read_messages: Any) -> ChatRequest:
    """Read a request to ``/v1/messages``. ``read_messages`` turns its messages into chat messages. Raises InvalidEntry."""
    given = convert(request, _Request, "")
    output = given.output_format or (given.output_config or {}).get("format") or {}
    tools = given.tools or []
    return ChatRequest(
        messages=[*system_messages(given), *read_messages(given.messages, "/messages")],
        tools=[_tool(tool) for tool in tools if "input_schema" in tool],
        tool_choice=_choice(given.tool_choice),
        response_format=schema_format(output.get("schema")) if isinstance(output, dict) else None,
        hosted=[tool for tool in tools if "input_schema" not in tool],
        rest=rest_of(request, *_Request.__struct_fields__),
    )


def _tool(tool: Object) -> Object:
    others = rest_of(tool, "type", "name", "description", "input_schema", "parameters")
    return function_tool(tool.get("name"), tool.get("description"), tool["input_schema"], **others)


def _choice(choice: Object | None) -> Any:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return named_choice(name)
        case {"type": str(kind)}:
            return _CHOICES.get(kind)
    return None
