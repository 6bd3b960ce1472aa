"""What providers refuse in tool definitions, and the definitions that are sent in their place, to all providers alike.

Most come from MCP servers and from generators of schemas, and one refuses the whole request. What is sent means the same to
a model, or less. Definitions without such a part are sent as they are.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

Schema = dict[str, Any]

_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_MEANT: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
}
"""Types of Python, as generators write them."""
_VARIANTS: Final = ("allOf", "anyOf", "oneOf")
SCHEMA_LISTS: Final = (*_VARIANTS, "prefixItems")
SCHEMAS_INSIDE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
NAMED_SCHEMAS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_BOUNDS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_MOST_REFERENCES: Final = 8
"""References that lead to one another before one counts as leading nowhere."""


def taken_tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the definitions as providers take them; the same list where they take it."""
    found = list(_each_once(map(_tool, tools)))
    return tools if found == tools else found


def _is_bare(tool: dict[str, Any]) -> bool:
    """Return whether a function does not tell its parameters."""
    body = tool.get("function")
    return isinstance(body, dict) and not body.get("parameters")


def with_parameters(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with parameters; of a function that takes none, with an object without properties."""
    parameters = {"type": "object", "properties": {}}
    return {**tool, "function": {**tool["function"], "parameters": parameters}} if _is_bare(tool) else tool


def _each_once(tools: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    names: set[Any] = set()
    for tool in tools:
        body = tool.get(str(tool.get("type")))
        name = body.get("name") if isinstance(body, dict) else None
        if name is None or name not in names:
            yield tool
        names.add(name)


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    body = tool.get("function")
    if tool.get("type") != "function" or not isinstance(body, dict):
        return tool
    function = {name: value for name, value in body.items() if value is not None}
    if isinstance(given := function.get("parameters"), dict) and given:
        function["parameters"] = _parameters(given)
    return {**tool, "function": function}


def _parameters(given: Schema) -> Schema:
    """The schema of a tool's arguments, which are an object."""
    top = united(_followed(given, given), given, set())
    top = {name: value for name, value in top.items() if name not in ("enum", "not", "$ref")}
    kind = _type(top.get("type"))
    if kind in (None, "object") or (isinstance(kind, list) and "object" in kind):
        top = {**top, "type": "object"} if "type" in top else {"type": "object", **top}
        if not isinstance(top.get("properties"), dict):
            top["properties"] = {}
    taken: Schema = _taken(top, top)
    return taken


def _followed(schema: Schema, root: Schema) -> Schema:
    """The schema with the definition in place of a reference to it."""
    for _ in range(_MOST_REFERENCES):
        referred = _referred(schema.get("$ref"), root)
        if referred is None:
            break
        schema = {**referred, **{name: value for name, value in schema.items() if name != "$ref"}}
    return schema


def _referred(reference: Any, root: Schema) -> Schema | None:
    """The definition in the same schema to which a reference leads; None if it leads nowhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in filter(None, reference[1:].split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def united(top: Schema, root: Schema, seen: set[str]) -> Schema:
    """Return the schema with the properties of all its variants, of which those of each are required that all require.

    A definition is united once: ``seen`` are the references that were followed.
    """
    whole = {name: value for name, value in top.items() if name not in _VARIANTS}
    for kind in _VARIANTS:
        if not (variants := [united(each, root, seen) for each in _variants(top.get(kind), root, seen)]):
            continue
        named = [each["properties"] for each in (*variants, whole) if isinstance(each.get("properties"), dict)]
        whole["properties"] = {name: value for each in named for name, value in each.items()}
        needs = [set(_names(each.get("required"))) for each in variants]
        needed = set.union(*needs) if kind == "allOf" else set.intersection(*needs)
        if required := list(dict.fromkeys([*_names(whole.get("required")), *sorted(needed)])):
            whole["required"] = required
    return whole


def _variants(given: Any, root: Schema, seen: set[str]) -> Iterator[Schema]:
    """The variants in a list, each with the definition that it refers to."""
    for each in given if isinstance(given, list) else ():
        if isinstance(each, dict) and (reference := str(each.get("$ref", ""))) not in seen:
            seen.update([reference] if reference else [])
            yield _followed(each, root)


def _names(required: Any) -> list[str]:
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


# ---- a schema at any place


def _taken(schema: Any, root: Schema) -> Any:
    """A schema that JSON Schema 2020-12 and OpenAI take, with all those in it."""
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        return schema
    found: Schema = {name: value for name, value in schema.items() if _is_taken(name, value, root)}
    if "type" in found and (kind := _type(found.pop("type"))):
        found = {name: kind if name == "type" else found[name] for name in schema if name == "type" or name in found}
    if "required" in found:
        found["required"] = list(dict.fromkeys(found["required"]))
    for bound, other in _BOUNDS.items():
        if isinstance(schema.get(bound), bool) and schema[bound] and other in found:
            found[bound] = found.pop(other)
    if isinstance(items := found.get("items"), list):
        found["items"] = items[0] if len(items) == 1 else {"anyOf": items} if items else {}
        found.pop("additionalItems", None)
    kind = found.get("type")
    if (
        (kind == "array" or (isinstance(kind, list) and "array" in kind))
        and "items" not in found
        and "prefixItems" not in found
    ):
        found["items"] = {}
    return {name: _within(name, value, root) for name, value in found.items()}


def _within(name: str, value: Any, root: Schema) -> Any:
    """A member's value with the schemas in it as they are taken."""
    if name in NAMED_SCHEMAS and isinstance(value, dict):
        return {each: _taken(inner, root) for each, inner in value.items()}
    if name in SCHEMA_LISTS:
        return [_taken(each, root) for each in value]
    if name in SCHEMAS_INSIDE and isinstance(value, dict):
        return _taken(value, root)
    return value


def _is_taken(name: str, value: Any, root: Schema) -> bool:  # noqa: PLR0911 - one line a member
    """Whether a schema may have a member with this value."""
    match name:
        case "required":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "enum":
            return isinstance(value, list) and bool(value)
        case "description" | "title":
            return isinstance(value, str)
        case "exclusiveMinimum" | "exclusiveMaximum":
            return not isinstance(value, bool)
        case "$ref":
            return _referred(value, root) is not None
        case "allOf" | "anyOf" | "oneOf" | "prefixItems":
            return isinstance(value, list) and bool(value)
        case "properties" | "patternProperties" | "$defs" | "definitions":
            return isinstance(value, dict)
    return name != "items" or isinstance(value, dict | list | bool)


def _type(given: Any) -> Any:
    """The types that are meant; None where none is."""
    if isinstance(given, list):
        kinds = list(dict.fromkeys(filter(None, map(_type, given))))
        return given if kinds == given else kinds or None
    if not isinstance(given, str):
        return None
    low = given.lower()
    return given if given in _TYPES else low if low in _TYPES else _MEANT.get(low)
