"""Structs as the document's components: JSON Schema as generators like it.

msgspec says what it validates; here that is brought into the form from which every generator makes good types:

* an object always has a name: a plain mapping takes the name that `OBJECTS` has for its field;
* a union has a name and, where its members differ by one property, a discriminator;
* a choice of words has a name, so that it is one type wherever it stands, with its default;
* ``T or null`` of a simple type is ``type: [T, null]``, and what a member is when it is left out is said in words;
* a pair of equals is an array of two;
* a number that must be whole is an integer;
* an integer that may outgrow 32 bits says so, for generators take 32 where nothing is said;
* what the service refuses is ``additionalProperties: false``, what it keeps and sends on is ``true``; what it answers
  says neither, for an answer may gain a member in a minor version.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from service.api.openapi.meanings import MEANINGS
from service.core import messages as chat
from service.core import settings as fixed

Json = dict[str, Any]

REF = "#/components/schemas/"

OBJECTS: Mapping[str, str] = {
    "message": "ChatMessage",
    "messages": "ChatMessage",
    "few_shots": "ChatMessage",
    "tools": "Tool",
    "tool_choice": "NamedToolChoice",
    "functions": "FunctionDefinition",
    "function_call": "NamedToolChoice",
    "response_format": "ResponseFormat",
    "parameters": "Parameters",
    "metadata": "Metadata",
    "window": "Window",
    "window_error": "ProblemObject",
    "AnthropicRequest.messages": "ProviderObject",
    "AnthropicRequest.tools": "ProviderObject",
    "AnthropicRequest.tool_choice": "ProviderObject",
    "ResponsesRequest.tools": "ProviderObject",
    "ResponsesRequest.tool_choice": "ProviderObject",
    "input": "ProviderObject",
    "contents": "ProviderObject",
    "config": "ProviderObject",
}
"""What a plain mapping is, by its field, or by its declaration and field."""

_CHAT = (
    chat.SystemMessage,
    chat.DeveloperMessage,
    chat.UserMessage,
    chat.AssistantMessage,
    chat.ToolMessage,
    chat.FunctionMessage,
)
_USER_PARTS = (chat.TextPart, chat.ImagePart, chat.AudioPart, chat.FilePart)
_PARTS = (*_USER_PARTS, chat.RefusalPart)
_TOOL_CALLS = (chat.FunctionToolCall, chat.CustomToolCall)
_TOOLS = (fixed.FunctionTool, fixed.CustomTool)
_OPEN_BODIES = (chat.ImageUrl, chat.InputAudio, chat.File, chat.FunctionCall, chat.CustomCall)
_OPEN_DEFINITIONS = (fixed.FunctionDefinition, fixed.CustomDefinition)
OPEN = (*_CHAT, *_PARTS, *_TOOL_CALLS, *_TOOLS, *_OPEN_BODIES, *_OPEN_DEFINITIONS)
"""Declarations of the providers: a field that they add is kept and sent on."""

_UNIONS: Mapping[str, tuple[str, tuple[type[msgspec.Struct], ...], str]] = {
    "ChatMessage": ("role", _CHAT, "A chat message; fields that a provider adds are kept and sent on."),
    "UserPart": ("type", _USER_PARTS, "A part of what a user says."),
    "AssistantPart": ("type", (chat.TextPart, chat.RefusalPart), "A part of what an assistant says."),
    "ToolCall": ("type", _TOOL_CALLS, "What an assistant asks a tool for."),
    "Tool": ("type", _TOOLS, "A tool that the model may call."),
}

_WINDOWS = {
    "openai": "OpenAIWindow",
    "responses": "ResponsesWindow",
    "anthropic": "AnthropicWindow",
    "gemini": "GeminiWindow",
}
_STRING: Json = {"type": "string"}
_CONTENTS = {"TextContent": "TextPart", "UserContent": "UserPart", "AssistantContent": "AssistantPart"}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "Order": ("asc", "desc"),
    "Overflow": ("stop", "skip"),
    "GroundingChoice": ("latest", "all", "none"),
    "GroundingOverflow": ("trim", "drop", "error"),
    "Dedupe": ("grounding", "messages", "none"),
    "WindowStart": ("any", "user"),
    "SummaryUse": ("auto", "never", "always"),
    "WindowFormat": ("openai", "responses", "anthropic", "gemini"),
    "StopReason": ("complete", "budget", "limit", "summary"),
    "Durability": ("fast", "durable", "replicated", "assume"),
}
"""Choices of words; where one is a default, it is the first."""

_INT32 = 2**31 - 1
_UNDEFAULTED = {"StopReason", "Durability"}


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": REF + name}


def open_object(description: str) -> Json:
    """An object whose members are somebody else's business."""
    return {"type": "object", "description": description, "additionalProperties": True}


def union(tag: str, names: Mapping[str, str], description: str) -> Json:
    """One of ``names``, by the value of their property ``tag``."""
    return {
        "description": description,
        "oneOf": [ref(name) for name in names.values()],
        "discriminator": {"propertyName": tag, "mapping": {value: REF + name for value, name in names.items()}},
    }


def tag_of(struct: type[msgspec.Struct]) -> str:
    """The value of a declaration's discriminator."""
    return str(struct.__struct_config__.tag)


def named_components() -> dict[str, Json]:
    """What has its name from here, and not from a Struct."""
    unions = {
        name: union(tag, {tag_of(each): each.__name__ for each in members}, description)
        for name, (tag, members, description) in _UNIONS.items()
    }
    contents = {
        name: {
            "description": "Text, or a list of parts.",
            "oneOf": [_STRING, {"type": "array", "items": ref(part), **({} if name[0] == "A" else {"minItems": 1})}],
        }
        for name, part in _CONTENTS.items()
    }
    choices = {
        name: {"type": "string", "enum": list(words), **({} if name in _UNDEFAULTED else {"default": words[0]})}
        for name, words in _CHOICES.items()
    }
    return {
        **unions,
        **contents,
        **choices,
        "ToolChoice": {
            "description": "`auto`, `none`, `required`, or one tool by its name.",
            "oneOf": [_STRING, ref("NamedToolChoice")],
        },
        "NamedToolChoice": open_object("One tool, or some, as the provider writes it."),
        "ResponseFormat": open_object("What the reply must look like, as the provider writes it."),
        "Parameters": open_object("A JSON Schema."),
        "Metadata": open_object("The client's own; kept and given back."),
        "ProviderObject": open_object("An object of the provider's request."),
        "ProblemObject": open_object(
            "A problem as RFC 9457 has it: `type`, `title`, `status`, `detail`, and its figures."
        ),
        "OpenAPIDocument": open_object("An OpenAPI 3.1 document."),
        "Window": union("format", _WINDOWS, "A window, by the form of its request."),
    }


def struct_components(structs: Iterable[type]) -> dict[str, Json]:
    """The structs, and what they refer to, by name."""
    everything = sorted({*structs, *OPEN}, key=lambda each: each.__name__)
    _, found = msgspec.json.schema_components(everything, ref_template=REF + "{name}")
    opened = {each.__name__ for each in OPEN}
    return {name: _component(name, schema, is_open=name in opened) for name, schema in found.items()}


def _component(name: str, schema: Json, *, is_open: bool) -> Json:
    component: Json = {"type": "object"}
    if description := schema.get("description"):
        component["description"] = plain(description)
    if "properties" in schema:
        component["properties"] = {
            field: _without_default(_explained(property_schema(each, name, field), name, field))
            for field, each in schema["properties"].items()
        }
    if required := schema.get("required"):
        component["required"] = required
    if is_open:
        component["additionalProperties"] = True
    elif schema.get("additionalProperties") is False:
        component["additionalProperties"] = False
    return component


def _explained(schema: Json, owner: str, field: str) -> Json:
    meaning = MEANINGS.get(owner, {}).get(field)
    return {**schema, "description": meaning} if meaning else schema


def _without_default(schema: Json) -> Json:
    """A member without its default, which generators take for a promise that it is always there."""
    if "default" not in schema:
        return schema
    default = msgspec.json.encode(schema["default"]).decode()
    said = schema.get("description", "")
    rest = {key: value for key, value in schema.items() if key != "default"}
    return {**rest, "description": f"{said} Left out: {default}.".lstrip()}


def plain(text: str) -> str:
    """A docstring as Markdown: one code mark where reStructuredText has two."""
    return re.sub(r"\s*\n\s*", " ", text.replace("``", "`").strip())


def property_schema(schema: Json, owner: str, field: str) -> Json:
    """One property of a declaration, by the rules at the head."""
    schema = dict(schema)
    if schema.get("default", ...) in (None, "", [], {}):
        del schema["default"]
    if "anyOf" in schema:
        return _any_of(schema, owner, field)
    if schema in ({}, {"type": "object"}):
        return ref(OBJECTS.get(f"{owner}.{field}") or OBJECTS[field])
    if "enum" in schema:
        return _choice(schema)
    if schema.get("items") is False:
        (schema["items"],) = {msgspec.json.encode(each): each for each in schema.pop("prefixItems")}.values()
    if schema.get("items"):
        schema["items"] = property_schema(schema["items"], owner, field)
    _number(schema)
    if field.endswith("_at") and schema.get("type") == "string":
        schema["format"] = "date-time"
    if pattern := schema.get("pattern"):
        schema["pattern"] = pattern.replace(r"\Z", "$")
    return schema


def _number(schema: Json) -> None:
    """Say of a number, in its schema, that it is whole, and how wide."""
    if schema.get("multipleOf") == 1:
        del schema["multipleOf"]
        bounds: Json = {name: int(schema[name]) for name in ("minimum", "maximum") if name in schema}
        schema |= bounds | {"type": "integer"}
    if schema.get("type") == "integer" and schema.get("maximum", _INT32 + 1) > _INT32:
        schema["format"] = "int64"


def _choice(schema: Json) -> Json:
    words = schema["enum"]
    if len(words) == 1:
        return {"type": "string", "const": words[0]}
    for name, named in _CHOICES.items():
        if set(named) == set(words):
            return ref(name)
    return {"type": "string", **schema}


def _any_of(schema: Json, owner: str, field: str) -> Json:
    nullable = {"type": "null"} in schema["anyOf"]
    members = [property_schema(each, owner, field) for each in schema["anyOf"] if each != {"type": "null"}]
    tag = schema.get("discriminator", {}).get("propertyName")
    one = members[0] if len(members) == 1 else _named_union(members, tag)
    said = {
        key: plain(value) if key == "description" else value for key, value in schema.items() if key == "description"
    }
    if not nullable:
        return {**one, **said}
    if "$ref" in one:
        return {"anyOf": [one, {"type": "null"}], **said}
    return {**one, "type": [one["type"], "null"], **said}


def _named_union(members: list[Json], tag: str | None) -> Json:
    """The component that is one of ``members``."""
    refs = {each["$ref"].removeprefix(REF) for each in members if "$ref" in each}
    if tag:
        for name, (_, structs, _) in _UNIONS.items():
            if refs == {each.__name__ for each in structs}:
                return ref(name)
    if refs in ({"NamedToolChoice"}, {"ProviderObject"}):
        return ref("ToolChoice")
    for name, part in _CONTENTS.items():
        if any(each.get("items") == ref(part) for each in members):
            return ref(name)
    raise LookupError(f"a union without a name: {members}")
