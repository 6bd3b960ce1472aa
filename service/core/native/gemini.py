"""Read Gemini's contents: turns of parts, whose members are written in camel case or in snake case.

Calls and results may come without ids. The id is then made of the name and the order among those of the same name, by
which Gemini pairs them too.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from service.core.messages import CallId
from service.core.mistakes import problem_at
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

_ROLES: Final = {"user": "user", "function": "user", "tool": "user", "model": "assistant", "system": "system"}
_HOSTED: Final = ("executable_code", "code_execution_result", "tool_call", "tool_response")
_MODES: Final = {"NONE": "none", "AUTO": "auto", "ANY": "required", "VALIDATED": "auto"}
_SOUNDS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


class _Content(msgspec.Struct):
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
    given = convert(content, _Content, pointer)
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


def read_request(request: Mapping[str, Any], read_messages: Any) -> ChatRequest:
    """Read a request to ``generateContent``, in the form of HTTP or of the SDK (``config``). Raises InvalidEntry."""
    config = request.get("config")
    flat = {**request, **(config if isinstance(config, dict) else {})}
    contents = [_content(content) for content in _list(flat.get("contents"))]
    tools = [tool for tool in _list(flat.get("tools")) if isinstance(tool, dict)]
    generation = member(flat, "generation_config")
    generation = generation if isinstance(generation, dict) else flat
    known = ("contents", "config", "tools", "system_instruction", "tool_config", "generation_config")
    schema = member(generation, "response_json_schema") or member(generation, "response_schema")
    return ChatRequest(
        messages=[*_system(member(flat, "system_instruction")), *read_messages(contents, "/contents")],
        tools=[
            _tool(function)
            for tool in tools
            for function in _list(member(tool, "function_declarations"))
            if isinstance(function, dict)
        ],
        tool_choice=_choice(member(flat, "tool_config")),
        response_format=schema_format(schema),
        hosted=[tool for tool in map(_without_functions, tools) if tool],
        rest=rest_of(request, *known, *map(camel, known)),
    )


def _content(content: Any) -> Any:
    """Return a content; a lone string or part is the user's."""
    match content:
        case str():
            return {"role": "user", "parts": [{"text": content}]}
        case dict() if "parts" not in content and "role" not in content:
            return {"role": "user", "parts": [content]}
        case _:
            return content


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _system(instruction: Any) -> list[Object]:
    match instruction:
        case None:
            return []
        case str():
            text = instruction
        case _:
            given = [convert(each, _Content, "/systemInstruction") for each in map(_content, _list(instruction))]
            parts = [part for each in given for part in _list(each.parts)]
            text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return [{"role": "system", "content": text}] if text else []


def _tool(function: Object) -> Object:
    parameters = member(function, "parameters_json_schema") or member(function, "parameters")
    known = ("name", "description", "parameters", "parameters_json_schema", "parametersJsonSchema")
    return function_tool(function.get("name"), function.get("description"), parameters, **rest_of(function, *known))


def _without_functions(tool: Object) -> Object:
    """Return a tool's other members than its functions, such as search or code execution."""
    return {
        name: value for name, value in tool.items() if name not in ("functionDeclarations", "function_declarations")
    }


def _choice(config: Any) -> Any:
    calling = member(config, "function_calling_config") if isinstance(config, dict) else None
    if not isinstance(calling, dict):
        return None
    match member(calling, "allowed_function_names"):
        case [str(name)] if calling.get("mode") == "ANY":
            return named_choice(name)
    return _MODES.get(str(calling.get("mode")))
