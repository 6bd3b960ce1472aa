"""Tool definitions to the TypeScript namespace that a provider shows the model, and bills.

The 2023 models got one spelling of it, later ones another. Which parts of a schema each keeps was found from what was
billed; where nothing was recorded, a part is rendered rather than left out, so that a count errs high.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from service.core.families import Dialect

_DEEPEST = 40
# References are expanded where they stand, and a few lines of nested references can stand for gigabytes.
_MOST_REFERENCED_CHARACTERS = 200_000
_NODE_CHARACTERS = 16
# Constraints in the order in which they are told. That ``format`` is told was recorded; of the others nothing was.
_CONSTRAINTS = (
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
)
Schema = Mapping[str, Any]


def render_functions(functions: Sequence[Schema], dialect: Dialect) -> str:
    """Return the namespace that declares ``functions``, each an object with name, description and parameters."""
    lines = ["namespace functions {", ""]
    for function in functions:
        parameters = _mapping(function.get("parameters"))
        description = _text(function.get("description"))
        if dialect == "2023":
            lines += [f"// {description}"] if description else []
            declared = _members_2023(parameters, 0)
            body = " {\n" + "\n".join(declared) + "\n}" if declared else ""
        else:
            lines += _comment(description)
            body = _Spelling(parameters).parameters() if _properties(parameters) else ""
        lines += [f"type {function.get('name')} = ({'_:' + body if body else ''}) => any;", ""]
    return "\n".join([*lines, "} // namespace functions"])


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _properties(schema: Schema) -> Schema:
    return _mapping(schema.get("properties"))


def _marks(schema: Schema) -> dict[str, str]:
    """Return ``?`` for each property that may be left out."""
    listed = schema.get("required")
    required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    return {name: "" if name in required else "?" for name in _properties(schema)}


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _simple(kind: Any) -> str:
    return {"integer": "number"}.get(_text(kind), _text(kind) or "any")


# ---- 2023: two spaces a level, descriptions near the top only, a comma after every property


def _members_2023(schema: Schema, indent: int) -> list[str]:
    lines = []
    marks = _marks(schema)
    for name, value in _properties(schema).items():
        member = _mapping(value)
        if indent < 2 and _text(member.get("description")):
            lines.append(f"// {member['description']}")
        lines.append(f"{name}{marks[name]}: {_type_2023(member, indent)},")
    return [" " * indent + line for line in lines]


def _type_2023(schema: Schema, indent: int) -> str:
    if indent > 2 * _DEEPEST:
        return "any"
    if isinstance(schema.get("anyOf"), list):
        return " | ".join(_type_2023(_mapping(variant), indent + 1) for variant in schema["anyOf"])
    kind = schema.get("type")
    match kind:
        case "string" | "number" | "integer" if isinstance(schema.get("enum"), list):
            return " | ".join(f'"{value}"' if kind == "string" else f"{value}" for value in schema["enum"])
        case "object":
            return "\n".join(["{", *_members_2023(schema, indent + 2), "}"])
        case "array":
            items = _mapping(schema.get("items"))
            return f"{_type_2023(items, indent)}[]" if items else "any[]"
    return _simple(kind)


# ---- 2024 and later: no indent, comments at every level, no comma after the last property


def _comment(text: str) -> list[str]:
    """Every line of a description has its own slashes, and loses its indent."""
    return [f"// {line.strip()}".rstrip() for line in text.split("\n")] if text else []


def _notes(schema: Schema) -> list[str]:
    """Return the lines above a property or an object: its title, its description, its examples."""
    lines = _comment(_text(schema.get("title"))) + _comment(_text(schema.get("description")))
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        lines += ["// Examples:", *(f"// - {_literal(example)}" for example in examples)]
    return lines


def _trail(schema: Schema, variants: Sequence[Schema]) -> str:
    """Return the comment behind a property: its constraints, those of its variants, and its default."""
    told = [
        f"{name}: {_text(part[name]) or _literal(part[name])}"
        for part in (schema, *variants)
        for name in _CONSTRAINTS
        if name in part
    ]
    if "default" in schema:
        told.append(f"default: {_literal(schema['default'])}")
    return f" // {', '.join(told)}" if told else ""


def _variant_note(variant: Schema) -> str:
    """Return a variant's description behind it; an object's stands before it."""
    description = _text(variant.get("description"))
    return f" // {description}" if description and not _properties(variant) else ""


class _Member(NamedTuple):
    """A property ready to be written: comments above, the name with its colon, its variants or type, comment behind."""

    notes: list[str]
    name: str
    type: str
    variants: list[str]
    trail: str

    @property
    def is_plain(self) -> bool:
        described = any(" // " in variant for variant in self.variants)
        return not (self.notes or self.trail or described or "\n" in self.type)

    def in_line(self) -> str:
        return f"{self.name} {self.type}"

    def lines(self, comma: str) -> list[str]:
        if self.variants:
            *first, last = (f" | {variant}" for variant in self.variants)
            return [*self.notes, self.name, *first, f"{last}{comma}{self.trail}"]
        space = "" if self.type.startswith("\n") else " "
        return [*self.notes, f"{self.name}{space}{self.type}{comma}{self.trail}"]


class _Spelling:
    """The 2024 spelling of one function's parameters; ``root`` is where its references point."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.left_characters = _MOST_REFERENCED_CHARACTERS

    def parameters(self) -> str:
        """Return the parameters' object with its comments; alone on one line only when nothing has a comment."""
        return self._noted(self.root, 0, ())

    def _noted(self, schema: Schema, depth: int, open_references: tuple[str, ...]) -> str:
        """Return an object that is no property, so that its title and description stand right before it."""
        notes = _notes(schema)
        body = self._object(schema, depth, open_references, in_line=not notes)
        return "\n" + "\n".join([*notes, body]) if notes else f" {body}"

    def _object(self, schema: Schema, depth: int, open_references: tuple[str, ...], *, in_line: bool = True) -> str:
        marks = _marks(schema)
        members = [
            self._member(f"{name}{marks[name]}:", _mapping(value), depth, open_references)
            for name, value in _properties(schema).items()
        ]
        if not members:
            rest = _mapping(schema.get("additionalProperties"))
            value = self._type(rest, depth + 1, open_references) if rest else ""
            return f"{{ [key: string]: {value} }}" if rest else "object"
        if in_line and all(member.is_plain for member in members):
            return "{ " + ", ".join(member.in_line() for member in members) + " }"
        lines = ["{"]
        for member in members[:-1]:
            lines += member.lines(",")
        return "\n".join([*lines, *members[-1].lines(""), "}"])

    def _member(self, name: str, schema: Schema, depth: int, open_references: tuple[str, ...]) -> _Member:
        schema, open_references = self._resolved(schema, open_references)
        found = self._variants(schema, open_references)
        types = [self._type(variant, depth + 1, references) for variant, references in found]
        rendered = " | ".join(types) or self._type(schema, depth + 1, open_references, noted=False)
        notes, trail = _notes(schema), _trail(schema, [variant for variant, _ in found])
        if found and schema.get("nullable") is True and "null" not in types:
            types.append("null")
        noted = [f"{kind}{_variant_note(variant)}" for kind, (variant, _) in zip(types, found, strict=False)]
        member = _Member(notes, name, rendered, [*noted, *types[len(noted) :]], trail)
        if open_references:
            self.left_characters -= sum(map(len, (*notes, *noted, trail)))
        return member

    def _variants(self, schema: Schema, open_references: tuple[str, ...]) -> list[tuple[Schema, tuple[str, ...]]]:
        found = schema.get("anyOf") or schema.get("oneOf")
        if not isinstance(found, list):
            return []
        return [self._resolved(_mapping(variant), open_references) for variant in found]

    def _type(self, schema: Schema, depth: int, open_references: tuple[str, ...], *, noted: bool = True) -> str:
        """Return a type on its own; ``noted`` where nobody else writes an object's title and description."""
        schema, open_references = self._resolved(schema, open_references)
        if depth > _DEEPEST:
            return "any"
        rendered = self._bare_type(schema, depth, open_references, noted=noted)
        if open_references:
            self.left_characters -= _NODE_CHARACTERS + len(rendered)
        return f"{rendered} | null" if schema.get("nullable") is True and "null" not in rendered else rendered

    def _bare_type(self, schema: Schema, depth: int, open_references: tuple[str, ...], *, noted: bool) -> str:
        if variants := self._variants(schema, open_references):
            return " | ".join(self._type(variant, depth + 1, references) for variant, references in variants)
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return " | ".join(_literal(value) for value in schema["enum"])
        if "const" in schema:
            return _literal(schema["const"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = dict.fromkeys(name for name in kind if isinstance(name, str))
            return " | ".join(
                self._type({**schema, "type": k, "nullable": False}, depth + 1, open_references, noted=noted)
                for k in kinds
            )
        return self._structure(kind, schema, depth, open_references, noted=noted)

    def _structure(
        self, kind: Any, schema: Schema, depth: int, open_references: tuple[str, ...], *, noted: bool
    ) -> str:
        if kind == "object" or (kind is None and _properties(schema)):
            if noted:
                return self._noted(schema, depth, open_references).removeprefix(" ")
            return self._object(schema, depth, open_references)
        if kind == "array":
            items = _mapping(schema.get("items"))
            return f"{self._type(items, depth + 1, open_references)}[]" if items else "any[]"
        return _simple(kind)

    def _resolved(self, schema: Schema, open_references: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Return ``schema`` with what it refers to merged in, and the references now open; a loop ends as ``any``."""
        while isinstance(reference := schema.get("$ref"), str):
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            if reference in open_references or self.left_characters < 0:
                return {"type": "any", **beside}, open_references
            open_references = (*open_references, reference)
            schema = {**self._target(reference), **beside}
        parts = schema.get("allOf")
        if isinstance(parts, list) and len(parts) <= _DEEPEST:
            merged: dict[str, Any] = {}
            for part in parts:
                resolved, open_references = self._resolved(_mapping(part), open_references)
                merged |= resolved
            schema = {**merged, **{key: value for key, value in schema.items() if key != "allOf"}}
        return schema, open_references

    def _target(self, reference: str) -> Schema:
        """Return what ``#/$defs/Name`` points at; an empty schema when there is nothing."""
        found: Any = self.root
        for step in reference.removeprefix("#").strip("/").split("/"):
            found = _mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
        return _mapping(found)
