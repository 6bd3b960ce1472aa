"""Read tool definitions and the tool choice, for forms that know only functions."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from sash.core.providers.writing.turns import RequestWriting

_NO_PARAMETERS: Final[dict[str, Any]] = {"type": "object", "properties": {}}
_FREE_TEXT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


class Function(msgspec.Struct, frozen=True):
    """A function tool; ``schema`` is that of an object, ``extra`` is the definition with all of its members."""

    place: str
    name: str
    description: str | None
    schema: dict[str, Any]
    extra: dict[str, Any]


class Choice(msgspec.Struct, frozen=True):
    """``mode`` is ``none``, ``auto`` or ``required``; ``names`` are the allowed tools, None for all."""

    mode: str
    names: list[str] | None = None


def read_functions(tools: list[dict[str, Any]], writing: RequestWriting) -> Iterator[Function]:
    """Yield each tool as a function; a custom tool becomes one with the parameter ``input``."""
    for index, tool in enumerate(tools):
        kind, place = tool.get("type"), f"tools/{index}"
        if kind not in ("function", "custom"):
            writing.add(f"{place}/type", "this format knows function and custom tools")
            continue
        body = tool.get(kind)
        if not isinstance(body, dict):
            writing.add(f"{place}/{kind}", "is missing")
            continue
        if kind == "custom":
            if body.get("format") not in (None, {"type": "text"}):
                writing.add(f"{place}/custom/format", "this format cannot hold a tool's input to a grammar")
            schema = _FREE_TEXT
        else:
            schema = _object_schema(body.get("parameters"), f"{place}/function/parameters", writing)
        yield Function(place, str(body.get("name", "")), body.get("description"), schema, {**tool, **body})


def chat_tools(functions: Iterable[Function], choice: Choice | None) -> list[dict[str, Any]]:
    """Return the functions that may be chosen, as chat completions and forms like it define them."""
    return [
        {
            "type": "function",
            "function": {"name": each.name, "parameters": each.schema}
            | ({"description": each.description} if each.description else {}),
        }
        for each in functions
        if choice is None or choice.names is None or each.name in choice.names
    ]


def read_choice(tool_choice: Any, writing: RequestWriting) -> Choice | None:
    """Return the choice; None if there is none. If it is not understood, note a refusal and return None."""
    match tool_choice:
        case None:
            return None
        case "none" | "auto" | "required":
            return Choice(tool_choice)
        case {"type": "function" | "custom" as kind, **rest} if isinstance(named := rest.get(kind), dict):
            return Choice("required", [str(named.get("name"))])
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode, "tools": list(allowed)}}:
            return Choice(mode, [_name(tool) for tool in allowed if isinstance(tool, dict)])
        case _:
            writing.add("tool_choice", "is none, auto, required, a named tool or allowed tools")
            return None


def _name(tool: dict[str, Any]) -> str:
    body = tool.get(str(tool.get("type")))
    return str((body if isinstance(body, dict) else tool).get("name"))


def _object_schema(parameters: Any, place: str, writing: RequestWriting) -> dict[str, Any]:
    """Return the schema with ``type: object``, which Anthropic requires and OpenAI assumes."""
    if not parameters:
        return _NO_PARAMETERS
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        writing.add(place, "must be a schema of an object")
        return _NO_PARAMETERS
    return {"type": "object", **parameters}
