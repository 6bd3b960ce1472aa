"""Rules of calls and results: their number, their arguments, ids and names, and what stands beside them."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sash.core.providers.destinations.rules.rule import (
    ASKED,
    Broken,
    Object,
    Rule,
    answered,
    blocks_of,
    called,
    calls_of,
    each_message,
    in_chat,
)
from sash.core.providers.destinations.tool_names import ALPHABETS

_NINE: Final = re.compile(r"[a-zA-Z0-9]{9}")
_NAMED: Final = frozenset({"toolSpec", "function", "custom"})
_CALLS: Final = ("toolUse", "tool_use")
_RESULTS: Final = ("toolResult", "tool_result")


def _has_broken_arguments(message: Object) -> bool:
    return any("function" in call and not _is_object(call["function"].get("arguments")) for call in calls_of(message))


def _is_object(arguments: Any) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeError, TypeError):
        return False


def _call_ids(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        ids = [str(call.get("id")) for call in calls_of(message)]
        told = [*ids, str(message.get("tool_call_id", "123456789"))]
        if len({*ids}) < len(ids) or (value == "nine" and not all(map(_NINE.fullmatch, told))):
            yield f"#/messages/{index}"


def _beside_calls(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    kinds = (_RESULTS,) if value == "results" else (_CALLS, _RESULTS)
    for index, message in enumerate(messages):
        told = [block for block in blocks_of(message) if "cachePoint" not in block]
        found = [sum(_is_of(block, kind) for block in told) for kind in kinds]
        is_spoken = calls_of(message) and told and value == "nothing"
        if is_spoken or any(0 < count < len(told) for count in found):
            yield f"#/messages/{index}/content"


def _is_of(block: Object, kinds: tuple[str, ...]) -> bool:
    return block.get("type") in kinds or any(kind in block for kind in kinds)


def _tool_names(request: Object, _messages: list[Object], value: str) -> Iterator[str]:
    pattern = ALPHABETS[value]
    for place, name in _declared(request):
        if not pattern.fullmatch(name):
            yield place


def _parameters(request: Object, _messages: list[Object], _value: str) -> Iterator[str]:
    for index, tool in enumerate(request.get("tools") or ()):
        if "function" in tool and not tool["function"].get("parameters"):
            yield f"#/tools/{index}"


def _schemas(request: Object, _messages: list[Object], _value: str) -> Iterator[str]:
    for index, tool in enumerate(request.get("tools") or ()):
        if not all(map(_is_typed, _schemas_in((tool.get("function") or {}).get("parameters")))):
            yield f"#/tools/{index}"


def _is_typed(schema: Object) -> bool:
    others = schema.keys() & {"anyOf", "$ref"}
    return "type" not in schema if others else bool(schema.keys() & {"type", "oneOf", "allOf"})


def _schemas_in(schema: Any) -> Iterator[Object]:
    """A schema with those of its properties, its items and its variants."""
    if isinstance(schema, dict):
        yield schema
        inner = (*(schema.get("properties") or {}).values(), schema.get("items"), *(schema.get("anyOf") or ()))
        for each in inner:
            yield from _schemas_in(each)


def _declared(request: Object) -> Iterator[tuple[str, str]]:
    """The names of declared tools with their places, in each form."""
    config = request.get("config") or request.get("toolConfig") or request
    for index, tool in enumerate(config.get("tools") or ()):
        for declared in tool.get("functionDeclarations") or tool.get("function_declarations") or (tool,):
            held = next((declared[name] for name in _NAMED if isinstance(declared.get(name), dict)), declared)
            if isinstance(name := held.get("name"), str):
                yield f"#/tools/{index}", name


def _one_named(name: str) -> Object:
    return {"tools": [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}]}


_BARE: Final = {"tools": [{"type": "function", "function": {"name": "stop", "description": "Stop."}}]}
_DAY: Final = {"type": "string", "anyOf": [{"format": "date"}, {"enum": ["today"]}]}
_UNTYPED: Final = {
    "tools": [
        {
            "type": "function",
            "function": {"name": "find", "parameters": {"type": "object", "properties": {"day": _DAY, "any": {}}}},
        }
    ]
}
_ODD: Final = "2fa/reset code"
_CHAT: Final = {"messages": [ASKED], **_one_named(_ODD)}
_SPOKEN: Final[Object] = {
    "messages": [ASKED, {**called("call_1"), "content": "Let me look."}, answered("call_1"), ASKED],
}


CALLS: Final = (
    Rule(
        kind="arguments",
        values={"object": "a call's arguments are a JSON object"},
        judge=each_message(_has_broken_arguments),
        broken=(in_chat(ASKED, called("call_1", arguments='{"day'), answered("call_1")),),
    ),
    Rule(
        kind="beside_calls",
        values={
            "results": "neither words nor pictures beside results",
            "nothing": "neither words nor pictures beside calls, or beside results",
        },
        judge=_beside_calls,
        broken=(
            Broken("openai", _SPOKEN, _SPOKEN),
            Broken(
                "converse",
                {
                    "messages": [
                        {
                            "role": "assistant",
                            "content": [{"toolUse": {"toolUseId": "1", "name": "find", "input": {}}}],
                        },
                        {
                            "role": "user",
                            "content": [{"toolResult": {"toolUseId": "1", "content": []}}, {"text": "And where?"}],
                        },
                    ]
                },
                _SPOKEN,
            ),
            Broken(
                "anthropic",
                {
                    "messages": [
                        {
                            "role": "assistant",
                            "content": [{"type": "tool_use", "id": "1", "name": "find", "input": {}}],
                        },
                        {
                            "role": "user",
                            "content": [
                                {"type": "tool_result", "tool_use_id": "1", "content": "Hall 2."},
                                {"type": "text", "text": "And where?"},
                            ],
                        },
                    ]
                },
                _SPOKEN,
            ),
        ),
    ),
    Rule(
        kind="call_ids",
        values={
            "own": "each call of a message has an id of its own",
            "nine": "a call's id is nine letters and digits, and its own in its message",
        },
        judge=_call_ids,
        broken=(
            in_chat(ASKED, called("call_1"), answered("call_1")),
            in_chat(ASKED, called("call_1", "call_1"), answered("call_1"), answered("call_1")),
        ),
    ),
    Rule(
        kind="calls",
        values={"one": "each message with calls has one"},
        judge=each_message(lambda message: len(calls_of(message)) > 1),
        broken=(in_chat(ASKED, called("call_1", "call_2"), answered("call_1"), answered("call_2")),),
    ),
    Rule(
        kind="parameters",
        values={"told": "each declared function tells its parameters, also where it takes none"},
        judge=_parameters,
        is_of_requests=True,
        broken=(Broken("openai", _BARE, {"messages": [ASKED], **_BARE}),),
    ),
    Rule(
        kind="schemas",
        values={"typed": "in a tool's definition each schema tells its type once, and none beside `anyOf` or `$ref`"},
        judge=_schemas,
        is_of_requests=True,
        broken=(Broken("openai", _UNTYPED, {"messages": [ASKED], **_UNTYPED}),),
    ),
    Rule(
        kind="tool_names",
        values={
            "dotted": "letters of a to z, digits, `_`, `.`, `:` and `-`, with a letter or `_` first",
            "plain": "letters of a to z, digits, `_` and `-`",
            "word": "letters of a to z, digits and `_`, with no digit first",
        },
        judge=_tool_names,
        is_of_requests=True,
        broken=(
            Broken("openai", _one_named(_ODD), _CHAT),
            Broken("cohere", _one_named(_ODD), _CHAT),
            Broken("responses", {"tools": [{"type": "function", "name": _ODD}]}, _CHAT),
            Broken("interactions", {"tools": [{"type": "function", "name": _ODD}]}, _CHAT),
            Broken("anthropic", {"tools": [{"name": _ODD, "input_schema": {}}]}, _CHAT),
            Broken("gemini", {"config": {"tools": [{"functionDeclarations": [{"name": _ODD}]}]}}, _CHAT),
            Broken("converse", {"toolConfig": {"tools": [{"toolSpec": {"name": _ODD}}]}}, _CHAT),
        ),
    ),
)
