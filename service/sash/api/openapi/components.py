"""Declarations as the document's components: msgspec's JSON Schema, changed so that generators make good types from it.

* A type with a title becomes a component of that name: an enum, a union, or an object of a provider's request.
* A union of objects has a discriminator. ``T or null`` of a simple type is ``type: [T, null]``.
* A member's default is in its description: generators take ``default`` as a promise that the member is always there. A
  union's default is there too: Go and Java clients would write it as a value of one type, which the compiler refuses.
* A whole number is an integer, and an int64 if it may exceed 32 bits. A pair of equal types is an array of two.
* ``additionalProperties`` is false if Sash refuses unknown members, and true if it stores them. Answers have
  neither, because a minor version may add members.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sash.core.chat.messages import ChatMessage
from sash.core.law.fixed_parts.conversation_settings import CustomTool, FunctionTool

Json = dict[str, Any]

REF: Final = "#/components/schemas/"
_INT32: Final = 2**31 - 1
_NULL: Final = {"type": "null"}
_PROVIDERS: Final = (
    Annotated[
        ChatMessage,
        Meta(
            title="ChatMessage",
            description="A chat message. Additional fields are stored and given back. They are sent if OpenAI or a "
            "server of its form documents them, or `SASH_SEND_MEMBERS` names them.",
        ),
    ],
    Annotated[FunctionTool | CustomTool, Meta(title="Tool", description="A tool that the model may call.")],
)
"""Schemas of messages and tools. Other declarations have these as plain mappings, and refer to them by title."""


def ref(name: str) -> Json:
    """A reference to a component."""
    return {"$ref": REF + name}


def union(tag: str, names: Mapping[str, str], description: str) -> Json:
    """A union of components with the discriminator ``tag``; ``names`` are the components by the tag's values."""
    mapping = {value: REF + name for value, name in names.items()}
    discriminator = {"propertyName": tag, "mapping": mapping}
    return {"description": description, "oneOf": [ref(name) for name in names.values()], "discriminator": discriminator}


def components(types: Iterable[Any]) -> dict[str, Json]:
    """The schemas of the types, and of the types that they refer to, by name."""
    named: dict[str, Json] = {}
    _, opened = _generated(_PROVIDERS, named)
    _, found = _generated(types, named)
    for name, schema in {**found, **opened}.items():
        named[name] = _object(schema, named, is_open=name in opened)
    return named


def query_fields(struct: type[msgspec.Struct], named: dict[str, Json]) -> tuple[Json, Json]:
    """The schemas of a parameter Struct's fields, by name, and its whole schema. Titled types are added to ``named``."""
    _, found = msgspec.json.schema_components([struct], ref_template=REF + "{name}")
    schema = found[struct.__name__]
    return {name: shaped(each, named) for name, each in schema["properties"].items()}, schema


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
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")
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
    one = members[0] if len(members) == 1 else {"oneOf": members}
    if _NULL in either:
        several = members if len(members) > 1 or "$ref" in one else None
        one = {"anyOf": [*several, _NULL]} if several else {**one, "type": [one["type"], "null"]}
    return {**one, **schema}


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
    if title not in named:
        schema = _without_default(schema) if "oneOf" in schema else schema
        is_any_object = schema.keys() - {"description"} <= {"type"} and schema.get("type", "object") == "object"
        named[title] = {"type": "object", **schema, "additionalProperties": True} if is_any_object else schema
    return ref(title)
