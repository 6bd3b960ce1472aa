"""Tool definitions for Moonshot, whose servers refuse a request where a schema tells its type twice, or not at all.

A schema with ``anyOf`` or ``$ref`` has no type of its own. Any other one without a type gets that of its values, else
``string``, as from Moonshot's own client.
"""

from typing import Any, Final

from sash.core.providers.writing.tool_schemas import NAMED_SCHEMAS, SCHEMA_LISTS, SCHEMAS_INSIDE, united

Schema = dict[str, Any]

_TOLD_ELSEWHERE: Final = frozenset({"type", "$ref", "anyOf", "oneOf", "allOf"})
_NOTHING: Final = {"type": "object", "properties": {}}
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def with_types(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the definition as Moonshot takes it; the same where it is."""
    function = tool.get("function")
    given = function.get("parameters") if isinstance(function, dict) else None
    if not isinstance(given, dict) or (found := _inside(given, given) or dict(_NOTHING)) == given:
        return tool
    return {**tool, "function": {**tool["function"], "parameters": found}}


def _typed(schema: Any, root: Schema) -> Any:
    if not isinstance(schema, dict):
        return schema
    found = schema
    if isinstance(schema.get("anyOf"), list) and (kind := schema.get("type")):
        if kind == "object":
            found = united(schema, root, set())
        else:
            found = {name: value for name, value in schema.items() if name != "type"}
            found["anyOf"] = [_of(kind, each) for each in schema["anyOf"]]
    if _TOLD_ELSEWHERE.isdisjoint(found):
        found = {"type": _meant(found), **found}
    if "$ref" in found:
        found = {name: value for name, value in found.items() if name != "type"}
    return _inside(found, root)


def _of(kind: Any, branch: Any) -> Any:
    """A variant with the type that stood beside it."""
    return {"type": kind, **branch} if isinstance(branch, dict) and _TOLD_ELSEWHERE.isdisjoint(branch) else branch


def _inside(schema: Schema, root: Schema) -> Schema:
    """The schema with those in it as they are taken."""
    found = dict(schema)
    for name, value in schema.items():
        if name in NAMED_SCHEMAS and isinstance(value, dict):
            found[name] = {each: _typed(inner, root) for each, inner in value.items()}
        elif name in SCHEMA_LISTS and isinstance(value, list):
            found[name] = [_typed(each, root) for each in value]
        elif name in SCHEMAS_INSIDE:
            found[name] = _typed(value, root)
    return found


def _meant(schema: Schema) -> str:
    """The type of a schema that tells none."""
    for member, kind in (("properties", "object"), ("items", "array")):
        if member in schema:
            return kind
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    kinds = {_TYPES.get(type(value), "string") for value in values}
    return kinds.pop() if len(kinds) == 1 else "number" if kinds == {"integer", "number"} else "string"
