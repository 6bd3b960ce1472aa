"""Read Gemini's contents: turns of parts, whose members are written in camel case or in snake case.

Calls and results may come without ids. The id is then made of the name and the order among those of the same name, by
which Gemini pairs them too.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from sash.core.chat.messages import CallId
from sash.core.chat.mistakes import problem_at
from sash.core.providers.pieces import Name, Object, Piece, convert, data_url, file_part, read_turn, to_json

_ROLES: Final = {"user": "user", "function": "user", "tool": "user", "model": "assistant", "system": "system"}
_HOSTED: Final = ("executable_code", "code_execution_result", "tool_call", "tool_response")
_SOUNDS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


class Parts(msgspec.Struct):
    """A content."""

    parts: list[Object] | Object | None = None
    role: str | None = None


class _Call(msgspec.Struct):
    name: Name
    id: CallId | None = None
    args: Object | None = None


class _Response(msgspec.Struct):
    name: Name
    id: CallId | None = None
    response: Object | None = None
    parts: list[Object] | None = None


def member(value: Mapping[str, Any], name: str) -> Any:
    """Return a member, written in snake case or in camel case; ``name`` is in snake case. None where there is none."""
    found = value.get(name)
    return value.get(camel(name)) if found is None else found


def camel(name: str) -> str:
    """Return a name in camel case, as JSON requests have it.

    >>> camel("function_call")
    'functionCall'
    """
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def read(content: Mapping[str, Any], pointer: str) -> list[Piece]:
    """Return the pieces of one content. Raises InvalidEntry."""
    given = convert(content, Parts, pointer)
    if given.role is None and given.parts is None:
        raise problem_at("Object missing required field 'parts'", f"#{pointer}")
    names = _Names()
    return read_turn(
        _ROLES.get(given.role or "user", "user"),
        dict(content),
        "parts",
        given.parts if isinstance(given.parts, list) else [given.parts] if given.parts else [],
        f"{pointer}/parts",
        is_result=lambda part: member(part, "function_response") is not None,
        read_result=partial(_read_result, names),
        read_part=partial(_read_part, names),
    )


class _Names:
    """Ids for calls and results without one: from the name, and the number of earlier ones with that name."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of(self, name: str) -> str:
        before = self._counts.get(name, 0)
        self._counts[name] = before + 1
        return f"call_{name[:200]}" + (f"_{before}" if before else "")


def _identified(value: Any) -> Any:
    """Return a call or a result without its id if that is empty, as Gemini writes a missing one."""
    is_empty = isinstance(value, dict) and value.get("id") == ""
    return {name: each for name, each in value.items() if name != "id"} if is_empty else value


def _read_result(names: _Names, part: Object, piece: Piece, pointer: str) -> None:
    response = convert(_identified(member(part, "function_response")), _Response, f"{pointer}/functionResponse")
    piece.answers = response.id or names.of(response.name)
    piece.only = [_kind(inner) for inner in response.parts or ()]
    said = response.response or {}
    alone = said.get("output", said.get("result")) if len(said) == 1 else None
    piece.add_text(alone if isinstance(alone, str) else to_json(said) if said else "")


def _read_part(names: _Names, part: Object, piece: Piece, pointer: str) -> None:
    text, called = member(part, "text"), member(part, "function_call")
    inline, file = member(part, "inline_data"), member(part, "file_data")
    if called is not None and piece.role == "assistant":
        call = convert(_identified(called), _Call, f"{pointer}/functionCall")
        piece.add_call(call.id or names.of(call.name), call.name, to_json(call.args or {}))
    elif isinstance(text, str):
        if part.get("thought") is not True:
            piece.add_text(text)
    elif piece.role == "user" and (found := _inline(inline) or _file(file)):
        piece.parts.append(found)
    elif _kind(part) != "part":
        piece.only.append(_kind(part))


def _inline(blob: Any) -> Object | None:
    if not isinstance(blob, dict):
        return None
    media_type, data = member(blob, "mime_type"), blob.get("data")
    if not (isinstance(media_type, str) and isinstance(data, str)):
        return None
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(media_type, data)}}
    if form := _SOUNDS.get(media_type):
        usual = data.replace("-", "+").replace("_", "/")
        return {"type": "input_audio", "input_audio": {"data": usual, "format": form}}
    name = member(blob, "display_name")
    return file_part(filename=name if isinstance(name, str) else None, file_data=data_url(media_type, data))


def _file(file: Any) -> Object | None:
    if not isinstance(file, dict) or not isinstance(uri := member(file, "file_uri"), str):
        return None
    media_type = member(file, "mime_type")
    if isinstance(media_type, str) and media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": uri}}
    return file_part(file_id=uri)


def _kind(part: Object) -> str:
    """Return the member that says what a part is; ``part`` where it only adds to other parts, like a lone signature."""
    kinds = ("text", "inline_data", "file_data", "function_call", "function_response", *_HOSTED)
    return next((kind for kind in kinds if member(part, kind) is not None), "part")
