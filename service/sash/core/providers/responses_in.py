"""Read items of OpenAI's Responses: a flat list, in which one reply is several items.

Neighbouring items of the assistant become one chat message. Every call that a client answers becomes a call in chat form,
under its own name or the name of its kind (``computer_call``), so that the call and its result stay together.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from sash.core.chat.messages import CallId
from sash.core.providers.pieces import Name, Object, Piece, Text, convert, file_part, to_json
from sash.problems import InvalidEntry, Pointer

_SILENT: Final = frozenset({"reasoning", "compaction", "compaction_trigger"})
"""Items that are not sent to other providers: thoughts, and compactions, whose messages are sent instead."""
_INSTRUCTING: Final = frozenset({"additional_tools", "configuration_update"})
"""Items that apply to all later items, like a developer message."""
_FUNCTIONS: Final = frozenset({"function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output"})
_AROUND: Final = frozenset({"type", "id", "call_id", "status", "caller"})


class _MessageItem(msgspec.Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Object]


class _FunctionCall(msgspec.Struct):
    call_id: CallId
    name: Name
    arguments: str


class _CustomCall(msgspec.Struct):
    call_id: CallId
    name: Name
    input: str


class _Output(msgspec.Struct):
    call_id: CallId
    output: str | list[Object] | Object | None = None


class _ApprovalRequest(msgspec.Struct):
    id: CallId
    name: str
    arguments: str
    server_label: str


class _ApprovalResponse(msgspec.Struct):
    approval_request_id: CallId
    approve: bool


class _Reference(msgspec.Struct):
    id: str


def read(item: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the piece of one item, of the input or of a reply. Raises InvalidEntry."""
    own = dict(item)
    given = item.get("type")
    kind = ("message" if "role" in item else "item_reference") if given in (None, "") else given
    if not isinstance(kind, str):
        detail = "An item's type is a word"
        raise InvalidEntry(f"{detail}: see #{pointer}/type.", errors=[Pointer(f"#{pointer}/type", detail)])
    match kind:
        case "message":
            return [_message(own, pointer)]
        case "mcp_approval_response":
            answer = convert(own, _ApprovalResponse, pointer)
            piece = Piece(role="tool", own=own, answers=answer.approval_request_id)
            piece.add_text(to_json({"approve": answer.approve}))
            return [piece]
        case _ if kind.endswith("_call_output") or (kind.endswith("_output") and own.get("call_id") is not None):
            return [_output(own, pointer)]
        case _ if kind in _INSTRUCTING:
            return [Piece(role="developer", own=own, only=[kind])]
    piece = Piece(role="assistant", own=own)
    _read_call(own, kind, piece, pointer)
    return [piece]


def as_function(item: Object) -> Object:
    """Return the item as a function's call or result in place of another kind, which has no place for other content."""
    if item.get("type") in _FUNCTIONS:
        return item
    (piece,) = read(item, "")
    if piece.calls:
        return {"type": "function_call", "call_id": piece.calls[0]["id"], **piece.calls[0]["function"]}
    output = item["output"] if piece.only else "".join(part.get("text", "") for part in piece.parts)
    if isinstance(output, dict):  # a computer's screenshot
        output = [{**output, "type": "input_image"}]
    return {"type": "function_call_output", "call_id": piece.answers, "output": output}


def _message(item: Object, pointer: str) -> Piece:
    given = convert(item, _MessageItem, pointer)
    piece = Piece(role=given.role, own=item)
    if isinstance(given.content, str):
        piece.add_text(given.content)
        return piece
    for index, part in enumerate(given.content):
        _read_part(part, piece, f"{pointer}/content/{index}")
    return piece


def _read_part(part: Object, piece: Piece, pointer: str) -> None:
    match part:
        case {"type": "input_text" | "output_text" | "text"}:
            piece.add_text(convert(part, Text, pointer).text)
        case {"type": "refusal", "refusal": str(refusal)} if piece.role == "assistant":
            piece.parts.append({"type": "refusal", "refusal": refusal})
        case {"type": "input_image", "image_url": str(url)} if piece.role == "user":
            detail = {"detail": part["detail"]} if isinstance(part.get("detail"), str) else {}
            piece.parts.append({"type": "image_url", "image_url": {"url": url, **detail}})
        case {"type": "input_file"} if piece.role == "user" and (found := _file(part)):
            piece.parts.append(found)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}} if piece.role == "user":
            piece.parts.append({"type": "input_audio", "input_audio": {"data": data, "format": form}})
        case _:
            kind = part.get("type")
            piece.only.append(kind if isinstance(kind, str) else "part")


def _file(part: Object) -> Object | None:
    known = {name: part[name] for name in ("file_id", "filename", "file_data") if isinstance(part.get(name), str)}
    return file_part(**known) if known.keys() & {"file_id", "file_data"} else None


def _read_call(item: Object, kind: str, piece: Piece, pointer: str) -> None:
    match kind:
        case "function_call":
            call = convert(item, _FunctionCall, pointer)
            piece.add_call(call.call_id, call.name, call.arguments)
        case "custom_tool_call":
            custom = convert(item, _CustomCall, pointer)
            piece.add_call(custom.call_id, custom.name, custom.input, custom=True)
        case "mcp_approval_request":
            asked = convert(item, _ApprovalRequest, pointer)
            said = {"server_label": asked.server_label, "name": asked.name, "arguments": asked.arguments}
            piece.add_call(asked.id, kind, to_json(said))
        case "item_reference":
            convert(item, _Reference, pointer)
            piece.only.append(kind)
        case _ if kind in _SILENT:
            pass
        case _ if item.get("call_id") is not None:
            call_id = convert(item, _Output, pointer).call_id
            piece.add_call(call_id, kind, to_json({name: item[name] for name in item if name not in _AROUND}))
        case _:
            piece.only.append(kind)


def _output(item: Object, pointer: str) -> Piece:
    given = convert(item, _Output, pointer)
    piece = Piece(role="tool", own=item, answers=given.call_id)
    match given.output:
        case str():
            piece.add_text(given.output)
        case list() if all(isinstance(part.get("type"), str) for part in given.output):
            for index, part in enumerate(given.output):
                _read_part(part, piece, f"{pointer}/output/{index}")
        case dict() if str(given.output.get("type")).endswith("screenshot"):
            piece.only.append(str(given.output["type"]))
        case _:
            said = {name: item[name] for name in item if name not in _AROUND and item[name] is not None}
            piece.add_text(to_json(said) if said else "")
    return piece
