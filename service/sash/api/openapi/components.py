"""Declarations as the document's components: msgspec's JSON Schema, changed so that generators make good types from it.

* A type with a title becomes a component of that name: a union, or an object of a provider's request.
* A union of objects has a discriminator. ``T or null`` of a simple type is ``type: [T, null]``.
* A text or a list, and a text or an object, is a value without a type for generators, since few of them have a type for it.
  Validators read what it may be: ``if`` it is of the one type, ``then``, ``else``.
* A word of a list is an enum where it stands: of a named one Go and Java would make a file. A chat message's role has a
  name: only such a word does Go check, and so tell which message it reads. Messages that differ in it alone are one.
* A message that is sent is an entry or bare, a chat message or a provider's: what ``_SENT`` declares. No discriminator tells
  them apart, since the query's ``format`` does.
* A default is in the description: generators take that of a member as a promise that it is always there, and send that of a
  parameter, so that an append would ask for a window.
* A whole number is an integer, and an int64 if it may exceed 32 bits. A pair of equal types is an array of two.
* What only such a value may be, as a picture's part, stands where it is: generators would make types of it that no field
  has, a tenth of a client in Go.
* A member that an answer leaves out where it has no value is never null.
* ``additionalProperties`` is false if Sash refuses unknown members, and true if it stores them. Answers have
  neither, because a minor version may add members.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, inspect

from sash.core.chat.messages import ChatMessage
from sash.core.law.fixed_parts.conversation_settings import CustomDefinition, FunctionDefinition

Json = dict[str, Any]

REF: Final = "#/components/schemas/"
_INT32: Final = 2**31 - 1
_NULL: Final = {"type": "null"}
_UNTYPED: Final = ("if", "then", "else")
_PROVIDERS: Final = (
    Annotated[
        ChatMessage,
        Meta(
            title="ChatMessage",
            description="A chat message. Additional fields are stored and given back. They are sent if OpenAI or a "
            "server of its form documents them, or `SASH_SEND_MEMBERS` names them.",
        ),
    ],
    FunctionDefinition,
    CustomDefinition,
)
"""Schemas of messages and of parts of tools. Other declarations have these as plain mappings, and refer to them by title."""


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": REF + name}


def open_object(description: str, **members: Json) -> Json:
    """An object with ``members`` and others."""
    schema: Json = {"type": "object", "description": description, "additionalProperties": True}
    return schema | ({"properties": members} if members else {})


_SENT: Final[dict[str, Json]] = {
    "ProviderMessage": open_object(
        "A message or an item in the request's `format`, as its provider documents it, or a chat message as a server of "
        "OpenAI's form wrote it. Members of an entry, such as `id` and `pinned`, may stand beside `role`. With a list as "
        "its member `message` it is an entry of several items, such as those of one reply.",
        role={"type": ["string", "null"]},
        type={"type": ["string", "null"]},
        content={"description": "A text, or the provider's blocks."},
        parts={"description": "The parts of Gemini's and of screens' messages."},
    )
    | {"minProperties": 1, "if": {"required": ["message"]}, "then": {"properties": {"message": {"type": "array"}}}},
    "SentMessage": {
        "description": "A bare message, or an entry, which says more about it.",
        "anyOf": [ref(name) for name in ("Entry", "ChatMessage", "ProviderMessage")],
    },
    "Message": {
        "description": "A chat message, or a message in the request's `format`.",
        "anyOf": [ref(name) for name in ("ChatMessage", "ProviderMessage")],
    },
    "Tool": open_object(
        "A tool that the model may call: a function, a custom tool, or a provider's own.",
        type={"type": "string"},
        function=ref("FunctionDefinition"),
        custom=ref("CustomDefinition"),
    ),
}
"""What requests take for a message and for a tool, by name."""


def components(types: Sequence[Any], sent: Sequence[Any]) -> dict[str, Json]:
    """The schemas of ``types`` and of all types that they refer to, by name. ``sent`` are the types of requests."""
    named: dict[str, Json] = {}
    _, opened = _generated(_PROVIDERS, named)
    _, found = _generated(types, named)
    answers = _omitting(types) - _generated(sent, {})[1].keys() - opened.keys()
    for name, schema in {**found, **opened}.items():
        told = {**schema, "properties": _never_null(schema["properties"])} if name in answers else schema
        named[name] = _object(told, named, is_open=name in opened)
    return _with_roles(named) | _SENT


def _with_roles(named: Mapping[str, Json]) -> dict[str, Json]:
    """The schemas, with a name for the role of each chat message. Of messages with the same members only the first stays."""
    found, union = dict(named), named["ChatMessage"]
    mapping: dict[str, str] = {}
    names: dict[str, str] = {}
    for role, target in union["discriminator"]["mapping"].items():
        name = target.removeprefix(REF)
        members = found.pop(name)["properties"]
        kept = names.setdefault(msgspec.json.encode({**members, "role": None}).decode(), name)
        mapping[role], word = REF + kept, f"{kept.removesuffix('Message')}Role"
        words = [each for each, other in mapping.items() if other == REF + kept]
        found[word] = {"type": "string", "enum": words}
        found[kept] = {**named[kept], "properties": {**named[kept]["properties"], "role": ref(word)}}
    union = {**union, "oneOf": [ref(name) for name in names.values()]}
    return found | {"ChatMessage": {**union, "discriminator": {"propertyName": "role", "mapping": mapping}}}


def _omitting(types: Iterable[Any]) -> set[str]:
    """The names of Structs that are encoded without members that have no value."""
    found: dict[str, bool] = {}
    waiting: list[Any] = list(inspect.multi_type_info(types))
    while waiting:
        each = waiting.pop()
        if isinstance(each, inspect.StructType):
            name = each.cls.__name__
            if name in found:
                continue
            found[name] = each.cls.__struct_config__.omit_defaults
        if isinstance(each, inspect.Type | inspect.Field):
            waiting += (getattr(each, name) for name in each.__struct_fields__)
        elif isinstance(each, tuple):
            waiting += each
    return {name for name, omits in found.items() if omits}


def _never_null(members: Mapping[str, Json]) -> Json:
    """The schemas of members, of which those whose default is null are never null."""
    return {
        name: {**each, "anyOf": [kind for kind in each["anyOf"] if kind != _NULL]}
        if each.get("default", ...) is None and "anyOf" in each
        else each
        for name, each in members.items()
    }


def without_untyped(roots: Sequence[Json], schemas: dict[str, Json]) -> dict[str, Json]:
    """The schemas, of which those that only values without a type have stand where they are referred to."""
    kept = _reached(roots, schemas, without=_UNTYPED)
    return {name: _inlined(schemas[name], kept, schemas) for name in sorted(kept)}


def _inlined(value: Any, kept: Collection[str], schemas: Mapping[str, Json]) -> Any:
    """A schema in which each reference to a schema that is not ``kept`` is replaced by that schema."""
    if isinstance(value, list):
        return [_inlined(each, kept, schemas) for each in value]
    if not isinstance(value, dict):
        return value
    name = str(value.get("$ref", "")).removeprefix(REF)
    if name in schemas and name not in kept:
        inner = {key: each for key, each in schemas[name].items() if key != "discriminator"}
        return _inlined(inner, kept, schemas)
    return {key: _inlined(each, kept, schemas) for key, each in value.items()}


def _reached(roots: Iterable[Any], schemas: Mapping[str, Json], without: Collection[str] = ()) -> set[str]:
    """The names of all schemas that the roots refer to, directly or through others. Members ``without`` are not followed."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            name = str(each.get("$ref", "")).removeprefix(REF)
            if name in schemas and name not in found:
                found.add(name)
                waiting.append(schemas[name])
            waiting += (value for key, value in each.items() if key not in without)
    return found


def query_fields(struct: type[msgspec.Struct], named: dict[str, Json]) -> tuple[Json, Json]:
    """The schemas of a parameter Struct's fields, by name, and its whole schema. Titled types are added to ``named``."""
    _, found = msgspec.json.schema_components([struct], ref_template=REF + "{name}")
    schema = found[struct.__name__]
    return {name: _without_default(shaped(each, named)) for name, each in schema["properties"].items()}, schema


def schema_of(kind: Any) -> tuple[Json, str]:
    """A type's schema, which is a reference if the type has a name, and the type's description."""
    named: dict[str, Json] = {}
    (schema,), found = _generated([kind], named)
    component = (found | named).get(schema.get("$ref", "").removeprefix(REF), schema)
    return schema, plain(component.get("description", ""))


def _generated(types: Iterable[Any], named: dict[str, Json]) -> tuple[list[Json], dict[str, Json]]:
    schemas, found = msgspec.json.schema_components(list(types), ref_template=REF + "{name}")
    return [shaped(schema, named) for schema in schemas], found


def _object(schema: Json, named: dict[str, Json], *, is_open: bool) -> Json:
    component = {key: value for key, value in schema.items() if key != "title" and value != []}
    if "description" in component:
        component["description"] = plain(component["description"])
    component["properties"] = {
        name: _without_default(shaped(each, named)) for name, each in schema.get("properties", {}).items()
    }
    return component | ({"additionalProperties": True} if is_open else {})


def _without_default(schema: Json) -> Json:
    if "default" not in schema:
        return schema
    default = msgspec.json.encode(schema.pop("default")).decode()
    return {**schema, "description": f"{schema.get('description', '')} Default: {default}.".lstrip()}


def plain(text: str) -> str:
    """A docstring as Markdown: on one line, with one backtick where reStructuredText has two."""
    return re.sub(r"\s*\n\s*", " ", text.replace("``", "`").strip())


def shaped(schema: Json, named: dict[str, Json]) -> Json:
    """A schema by the rules of the module's docstring. A titled schema is moved to ``named`` and a reference returned."""
    schema = dict(schema)
    title = schema.pop("title", None)
    if schema.get("default", ...) in (None, "", [], {}):
        del schema["default"]
    if "description" in schema:
        schema["description"] = plain(schema["description"])
    if "anyOf" in schema:
        schema = _either(schema, named)
    if schema.get("items") is False:
        schema["items"] = schema.pop("prefixItems")[0]
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            schema[inner] = shaped(schema[inner], named)
    if "enum" in schema:
        words = schema["enum"]
        schema = {"type": "string", "const": words[0]} if len(words) == 1 else {"type": "string", **schema}
    if "pattern" in schema:
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$").replace(r"\"", '"')
    _number(schema)
    return schema if title is None else _named(title, schema, named)


def _number(schema: Json) -> None:
    """Add a number's type and width to its schema."""
    if schema.get("multipleOf") == 1:
        del schema["multipleOf"]
        schema |= {name: int(schema[name]) for name in ("minimum", "maximum") if name in schema} | {"type": "integer"}
    if schema.get("type") == "integer" and schema.get("maximum", _INT32 + 1) > _INT32:
        schema["format"] = "int64"


def _either(schema: Json, named: dict[str, Json]) -> Json:
    """The schema of a union; a union of one type and null becomes that type, nullable."""
    either = schema.pop("anyOf")
    members = _of_each_type([shaped(each, named) for each in either if each != _NULL])
    one = members[0] if len(members) == 1 else _loose(members, named) or {"oneOf": members}
    if _NULL in either:
        several = members if len(members) > 1 or "$ref" in one else None
        words = {"enum": [*one["enum"], None]} if "enum" in one else {}
        one = {"anyOf": [*several, _NULL]} if several else {**one, **words, "type": [one["type"], "null"]}
    return {**one, **schema}


def _loose(members: list[Json], named: dict[str, Json]) -> Json | None:
    """A value without a type for generators, for a union of a list, or of a text and an object; else None."""
    first, second = sorted(members, key=lambda each: each.get("type") != "array")[:2]
    kinds = {named.get(each.get("$ref", "").removeprefix(REF), each).get("type") for each in members}
    is_loose = first.get("type") == "array" or kinds == {"string", "object"}
    if len(members) != len((first, second)) or not is_loose:
        return None
    if "$ref" in first:
        first, second = second, first
    return {"if": {"type": first["type"]}, "then": first, "else": second}


def _of_each_type(members: list[Json]) -> list[Json]:
    """The alternatives with one for each JSON type, since ``oneOf`` refuses a value of two: a number may be whole, too."""
    kinds = [member.get("type", member.get("$ref")) for member in members]
    if "number" in kinds:
        kinds = ["number" if kind == "integer" else kind for kind in kinds]
    found: dict[Any, Json] = {}
    for kind, member in zip(kinds, members, strict=True):
        if (known := found.setdefault(kind, member)) is not member:
            both = {key: value for key, value in known.items() if member.get(key) == value}
            said = dict.fromkeys(each["description"] for each in (known, member))
            found[kind] = {**both, "type": kind, "description": " Or: ".join(said), "examples": known["examples"]}
    return list(found.values())


def _named(title: str, schema: Json, named: dict[str, Json]) -> Json:
    """A reference to the component ``title``. The component is added to ``named`` unless it is there."""
    if "enum" in schema or "const" in schema:
        return schema
    if title not in named:
        schema = _without_default(schema) if "oneOf" in schema else schema
        is_any_object = schema.keys() - {"description"} <= {"type"} and schema.get("type", "object") == "object"
        named[title] = {"type": "object", **schema, "additionalProperties": True} if is_any_object else schema
    return ref(title)
