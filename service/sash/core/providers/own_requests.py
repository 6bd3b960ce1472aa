"""Read a provider's whole request in chat form: its messages, tools, the choice of a tool, and the reply's format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.providers.gemini_in import Parts, camel, member
from sash.core.providers.native import read_messages
from sash.core.providers.pieces import Object, Text, convert, rest_of

_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_MODES: Final = {"NONE": "none", "AUTO": "auto", "ANY": "required", "VALIDATED": "auto"}


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's whole request in chat form.

    ``hosted`` are definitions of tools that the provider itself runs. ``rest`` are the members without a place in a chat
    request. Both are as they came.
    """

    messages: list[Object]
    tools: list[Object] = []
    tool_choice: Any = None
    response_format: Object | None = None
    hosted: list[Object] = []
    rest: Object = {}


def read_request(form: str, request: Mapping[str, Any]) -> ChatRequest:
    """Return a provider's whole request in chat form. Raises InvalidEntry."""
    return _READERS[form](request)


def _messages(form: str, messages: Sequence[Any], pointer: str) -> list[Object]:
    pointers = [f"{pointer}/{index}" for index in range(len(messages))]
    return [turn.message for turn in read_messages(form, messages, pointers)]


def _function(tool: Object, parameters: Any, *others: str) -> Object:
    """Return a function's definition in chat form, without members that are None and without ``others``."""
    named = {"name": tool.get("name"), "description": tool.get("description"), "parameters": parameters}
    fields = named | rest_of(tool, *named, *others)
    return {"type": "function", "function": {key: value for key, value in fields.items() if value is not None}}


def _named(name: Any, kind: str = "function") -> Object:
    """Return the choice of one tool, in chat form."""
    return {"type": kind, kind: {"name": name}}


def _schema_format(schema: Any, name: Any = "response", **extra: Any) -> Object | None:
    """Return a response format with a JSON schema, in chat form; None without a schema."""
    if not isinstance(schema, dict):
        return None
    fields = {"name": name or "response", "schema": schema, **extra}
    return {"type": "json_schema", "json_schema": {key: value for key, value in fields.items() if value is not None}}


# ---- OpenAI's Responses


class _ResponsesRequest(msgspec.Struct):
    input: str | list[Object] | None = None
    instructions: str | list[Object] | None = None
    tools: list[Object] | None = None
    tool_choice: str | Object | None = None
    text: Object | None = None


def _read_responses(request: Mapping[str, Any]) -> ChatRequest:
    given = convert(request, _ResponsesRequest, "")
    items = [{"role": "user", "content": given.input}] if isinstance(given.input, str) else given.input or []
    system: list[Object] = []
    if isinstance(given.instructions, str):
        system = [{"role": "system", "content": given.instructions}]
    elif given.instructions:
        system = _messages("responses", given.instructions, "/instructions")
    tools = [each for tool in given.tools or [] for each in _members(tool)]
    return ChatRequest(
        messages=[*system, *_messages("responses", items, "/input")],
        tools=[_tool(tool) for tool in tools if tool.get("type") in ("function", "custom")],
        tool_choice=_choice(given.tool_choice),
        response_format=_format((given.text or {}).get("format")),
        hosted=[tool for tool in tools if tool.get("type") not in ("function", "custom")],
        rest=rest_of(request, *_ResponsesRequest.__struct_fields__),
    )


def _members(tool: Object) -> list[Object]:
    """Return a tool alone, or a namespace without its tools, followed by them."""
    match tool:
        case {"type": "namespace", "tools": list(tools), **rest}:
            return [{"type": "namespace", **rest}, *(each for each in tools if isinstance(each, dict))]
    return [tool]


def _tool(tool: Object) -> Object:
    if tool["type"] == "custom":
        return {"type": "custom", "custom": rest_of(tool, "type")}
    return _function(tool, tool.get("parameters"), "type")


def _choice(choice: Any) -> Any:
    match choice:
        case {"type": "function" | "custom" as kind, "name": str(name)}:
            return _named(name, kind)
        case {"type": "allowed_tools", "mode": mode, "tools": list(allowed)}:
            names = [_choice(tool) for tool in allowed]
            return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": names}}
        case _:
            return choice


def _format(value: Any) -> Object | None:
    match value:
        case {"type": "json_schema", "schema": schema, **rest}:
            return _schema_format(
                schema, rest.get("name"), description=rest.get("description"), strict=rest.get("strict")
            )
    return value if isinstance(value, dict) else None


# ---- Anthropic


class _AnthropicRequest(msgspec.Struct):
    messages: list[Object]
    system: str | list[Object] | None = None
    tools: list[Object] | None = None
    tool_choice: Object | None = None
    output_format: Object | None = None
    output_config: Object | None = None


def _system_of_anthropic(request: _AnthropicRequest) -> list[Object]:
    """Return the system text as a chat message; in Anthropic's request it stands outside the messages."""
    if not request.system:
        return []
    if isinstance(request.system, str):
        return [{"role": "system", "content": request.system}]
    texts = [convert(block, Text, f"/system/{index}").text for index, block in enumerate(request.system)]
    return [{"role": "system", "content": [{"type": "text", "text": text} for text in texts]}]


def _read_anthropic(request: Mapping[str, Any]) -> ChatRequest:
    given = convert(request, _AnthropicRequest, "")
    output = given.output_format or (given.output_config or {}).get("format") or {}
    tools = given.tools or []
    return ChatRequest(
        messages=[*_system_of_anthropic(given), *_messages("anthropic", given.messages, "/messages")],
        tools=[
            _function(tool, tool["input_schema"], "type", "input_schema") for tool in tools if "input_schema" in tool
        ],
        tool_choice=_choice_of_anthropic(given.tool_choice),
        response_format=_schema_format(output.get("schema")) if isinstance(output, dict) else None,
        hosted=[tool for tool in tools if "input_schema" not in tool],
        rest=rest_of(request, *_AnthropicRequest.__struct_fields__),
    )


def _choice_of_anthropic(choice: Object | None) -> Any:
    match choice:
        case {"type": "tool", "name": str(name)}:
            return _named(name)
        case {"type": str(kind)}:
            return _CHOICES.get(kind)
    return None


# ---- Gemini


def _read_gemini(request: Mapping[str, Any]) -> ChatRequest:
    """Read a request to ``generateContent``, in the form of HTTP or of the SDK (``config``)."""
    config = request.get("config")
    flat = {**request, **(config if isinstance(config, dict) else {})}
    contents = [_content(content) for content in _list(flat.get("contents"))]
    tools = [tool for tool in _list(flat.get("tools")) if isinstance(tool, dict)]
    generation = member(flat, "generation_config")
    generation = generation if isinstance(generation, dict) else flat
    known = ("contents", "config", "tools", "system_instruction", "tool_config", "generation_config")
    schema = member(generation, "response_json_schema") or member(generation, "response_schema")
    return ChatRequest(
        messages=[*_system_of_gemini(member(flat, "system_instruction")), *_messages("gemini", contents, "/contents")],
        tools=[
            _function_of_gemini(function)
            for tool in tools
            for function in _list(member(tool, "function_declarations"))
            if isinstance(function, dict)
        ],
        tool_choice=_choice_of_gemini(member(flat, "tool_config")),
        response_format=_schema_format(schema),
        hosted=[left for tool in tools if (left := rest_of(tool, "functionDeclarations", "function_declarations"))],
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


def _system_of_gemini(instruction: Any) -> list[Object]:
    match instruction:
        case None:
            return []
        case str():
            text = instruction
        case _:
            given = [convert(each, Parts, "/systemInstruction") for each in map(_content, _list(instruction))]
            parts = [part for each in given for part in _list(each.parts)]
            text = "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return [{"role": "system", "content": text}] if text else []


def _function_of_gemini(function: Object) -> Object:
    parameters = member(function, "parameters_json_schema") or member(function, "parameters")
    return _function(function, parameters, "parameters_json_schema", "parametersJsonSchema")


def _choice_of_gemini(config: Any) -> Any:
    calling = member(config, "function_calling_config") if isinstance(config, dict) else None
    if not isinstance(calling, dict):
        return None
    match member(calling, "allowed_function_names"):
        case [str(name)] if calling.get("mode") == "ANY":
            return _named(name)
    return _MODES.get(str(calling.get("mode")))


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], ChatRequest]]] = {
    "responses": _read_responses,
    "anthropic": _read_anthropic,
    "gemini": _read_gemini,
}
