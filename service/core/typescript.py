"""JSON Schema to the TypeScript that tool definitions become in a prompt.

Providers show tools to a model as a TypeScript namespace, and bill that text. The 2023 models got one spelling of it,
later ones another; what each spelling keeps of a schema was found from what was billed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from service.core.families import Dialect


def render_functions(functions: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
    """Return the namespace that declares ``functions``, each an object with name, description and parameters."""
    render = _function_2023 if dialect == "2023" else _function_2024
    lines = ["namespace functions {", ""]
    for function in functions:
        lines += [*render(function), ""]
    lines.append("} // namespace functions")
    return "\n".join(lines)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _required(schema: Mapping[str, Any]) -> Sequence[Any]:
    found = schema.get("required")
    return found if isinstance(found, Sequence) else ()


# ---- 2023: two spaces a level, descriptions near the top only


def _function_2023(function: Mapping[str, Any]) -> list[str]:
    schema = _mapping(function.get("parameters"))
    lines = [f"// {function['description']}"] if _text(function.get("description")) else []
    name = function.get("name")
    if not _properties(schema):
        return [*lines, f"type {name} = () => any;"]
    return [*lines, f"type {name} = (_: {{", *_members_2023(schema, 0), "}) => any;"]


def _members_2023(schema: Mapping[str, Any], indent: int) -> list[str]:
    lines = []
    required = _required(schema)
    for key, value in _properties(schema).items():
        member = _mapping(value)
        if indent < 2 and _text(member.get("description")):
            lines.append(f"// {member['description']}")
        mark = "" if key in required else "?"
        lines.append(f"{key}{mark}: {_type_2023(member, indent)},")
    return [" " * indent + line for line in lines]


def _type_2023(schema: Mapping[str, Any], indent: int) -> str:
    if isinstance(schema.get("anyOf"), list):
        return " | ".join(_type_2023(_mapping(s), indent) for s in schema["anyOf"])
    kind = schema.get("type")
    if isinstance(schema.get("enum"), list) and kind in ("string", "number", "integer"):
        return " | ".join(f'"{v}"' if kind == "string" else f"{v}" for v in schema["enum"])
    if kind == "object":
        return "\n".join(["{", *_members_2023(schema, indent + 2), "}"])
    if kind == "array":
        items = schema.get("items")
        return f"{_type_2023(items, indent)}[]" if isinstance(items, Mapping) and items else "any[]"
    return {"integer": "number"}.get(_text(kind), _text(kind) or "any")


# ---- 2024: no indent, nested descriptions, titles, defaults


def _comment(text: str) -> list[str]:
    return [f"// {line}" for line in text.split("\n")]


def _function_2024(function: Mapping[str, Any]) -> list[str]:
    schema = _mapping(function.get("parameters"))
    lines = _comment(function["description"]) if _text(function.get("description")) else []
    name = function.get("name")
    if not _properties(schema):
        return [*lines, f"type {name} = () => any;"]
    return [*lines, f"type {name} = (_: {_object_2024(schema, schema, frozenset(), top=True)}) => any;"]


def _object_2024(schema: Mapping[str, Any], root: Mapping[str, Any], seen: frozenset[str], *, top: bool = False) -> str:
    members = _members_2024(schema, root, seen)
    if not members:
        return "object"
    if not top and not any(comments or trail for comments, _, trail in members):
        return "{ " + ", ".join(member for _, member, _ in members) + " }"
    lines = ["{"]
    last = len(members) - 1
    for i, (comments, member, trail) in enumerate(members):
        lines += comments
        lines.append(member + ("," if i < last else "") + trail)
    return "\n".join([*lines, "}"])


def _members_2024(
    schema: Mapping[str, Any], root: Mapping[str, Any], seen: frozenset[str]
) -> list[tuple[list[str], str, str]]:
    members = []
    required = _required(schema)
    for key, value in _properties(schema).items():
        member = _mapping(value)
        comments = []
        if _text(member.get("title")):
            comments.append(f"// {member['title']}")
        if _text(member.get("description")):
            comments += _comment(member["description"])
        if isinstance(member.get("examples"), list) and member["examples"]:
            comments += ["// Examples:", *(f"// - {_literal(e)}" for e in member["examples"])]
        trail = f" // default: {_default(member)}" if "default" in member else ""
        mark = "" if key in required else "?"
        members.append((comments, f"{key}{mark}: {_type_2024(member, root, seen)}", trail))
    return members


def _default(schema: Mapping[str, Any]) -> str:
    value = schema["default"]
    return value if isinstance(value, str) and "enum" in schema else _literal(value)


def _type_2024(schema: Mapping[str, Any], root: Mapping[str, Any], seen: frozenset[str]) -> str:
    rendered = _bare_type_2024(schema, root, seen)
    if schema.get("nullable") is True and "null" not in rendered:
        return f"{rendered} | null"
    return rendered


def _bare_type_2024(schema: Mapping[str, Any], root: Mapping[str, Any], seen: frozenset[str]) -> str:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in seen:
            return "any"
        return _type_2024(_resolve(reference, root), root, seen | {reference})
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), list):
            return " | ".join(_type_2024(_mapping(s), root, seen) for s in schema[union])
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return " | ".join(_literal(v) for v in schema["enum"])
    if "const" in schema:
        return _literal(schema["const"])
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_type_2024({**schema, "type": k}, root, seen) for k in kind)
    if kind == "object":
        return _object_2024(schema, root, seen)
    if kind == "array":
        items = schema.get("items")
        return f"{_type_2024(items, root, seen)}[]" if isinstance(items, Mapping) and items else "any[]"
    return {"integer": "number"}.get(_text(kind), _text(kind) or "any")


def _resolve(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what ``#/$defs/Name`` points at within ``root``; an empty schema when there is nothing."""
    found: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = _mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
    return _mapping(found)
