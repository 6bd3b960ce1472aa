"""A function's parameters as the TypeScript that a provider shows to the model and bills.

Models of 2023 get one spelling, later models another. The parts of a schema that each spelling keeps were found from bills
(167 requests of 2024 and later, 26 of 2023). Parts without a recorded bill are rendered, so that a count is too high
rather than too low.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_DEEPEST = 40
# References are expanded in place, and a few lines of nested references could expand to gigabytes.
_MOST_REFERENCED_CHARACTERS = 200_000
_NODE_CHARACTERS = 16
# Constraints in the order in which they are rendered. A number's ``format``, such as ``double``, is free: 14 bills.
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


def _mapping(value: Any) -> Schema:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _properties(schema: Schema) -> Schema:
    return _mapping(schema.get("properties"))


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object" or (schema.get("type") is None and bool(_properties(schema)))


def _takes_more(schema: Schema) -> bool:
    """Return whether an object allows properties that it does not name."""
    more = schema.get("additionalProperties")
    return more is True or isinstance(more, Mapping)


def _marks(schema: Schema) -> dict[str, str]:
    """Return ``?`` for each property that may be left out."""
    listed = schema.get("required")
    required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    return {name: "" if name in required else "?" for name in _properties(schema)}


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_number(schema: Schema) -> bool:
    kind = schema.get("type")
    return any(each in ("number", "integer") for each in (kind if isinstance(kind, list) else [kind]))


def _simple(kind: Any) -> str:
    return {"integer": "number"}.get(_text(kind), _text(kind) or "any")


# ---- 2023: two spaces a level, descriptions near the top only, a comma after every property


def parameters_2023(schema: Schema) -> str:
    """Return the text after ``_:`` in the 2023 spelling; empty without properties."""
    members = _members_2023(schema, 0)
    return " {\n" + "\n".join(members) + "\n}" if members else ""


def _members_2023(schema: Schema, indent: int) -> list[str]:
    lines = []
    marks = _marks(schema)
    for name, value in _properties(schema).items():
        member = _mapping(value)
        if indent < 2 and (description := _text(member.get("description")).strip()):
            lines.append(f"// {description}")
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


def comment(text: str) -> list[str]:
    """A description as comment lines, each with slashes and without its indent. Empty lines at the start are removed."""
    return [f"// {line.strip()}".rstrip() for line in text.lstrip("\n").split("\n")] if text else []


def _notes(schema: Schema) -> list[str]:
    """Return the lines above a property or an object: its title, its description, its examples."""
    title, lines = comment(_text(schema.get("title"))), comment(_text(schema.get("description")))
    lines = [*title, "//", *lines] if title and lines else title + lines
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        lines += ["// Examples:", *(f"// - {_literal(example)}" for example in examples)]
    return lines


def _trail(schema: Schema, variants: Sequence[Schema]) -> str:
    """Return the comment after a property: its constraints, those of its variants, and its default."""
    parts = (schema, *variants)
    free = {"format"} if any(map(_is_number, parts)) else set()
    told = [
        f"{name}: {_told(part[name], parts)}"
        for part in parts
        for name in _CONSTRAINTS
        if name in part and name not in free
    ]
    if "default" in schema:
        told.append(f"default: {_literal(schema['default'])}")
    return f" // {', '.join(dict.fromkeys(told))}" if told else ""


def _told(value: Any, parts: Sequence[Schema]) -> str:
    """A constraint's value as text. A number's bounds are written as floating-point numbers, an integer's as integers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value}" if any(part.get("type") == "integer" for part in parts) else f"{value}.0"
    return _text(value) or _literal(value)


def _variant_note(variant: Schema) -> str:
    """Return the comment after a variant; an object's description is before it instead."""
    description = _text(variant.get("description"))
    return f" // {description}" if description and not _is_object(variant) else ""


class _Member(NamedTuple):
    """The parts of a rendered property: comments above it, its name with a colon, its type, and the comment after it.

    ``variants`` are its types with the comment after each, if each type gets its own line; else empty.
    """

    notes: list[str]
    name: str
    type: str
    variants: list[tuple[str, str]]
    trail: str
    keeps_comma: bool

    @property
    def is_plain(self) -> bool:
        return not (self.notes or self.trail or self.variants or "\n" in self.type)

    def in_line(self) -> str:
        return f"{self.name} {self.type}"

    def lines(self, *, is_last: bool) -> list[str]:
        comma = "," if not is_last or self.keeps_comma else ""
        if not self.variants:
            space = "" if self.type.startswith("\n") else " "
            return [*self.notes, f"{self.name}{space}{self.type}{comma}{self.trail}"]
        *first, (last, note) = self.variants
        told = [f" | {kind}{note}" for kind, note in first]
        return [*self.notes, self.name, *told, f" | {last}{comma}{note}{self.trail}"]


def parameters_2024(schema: Schema) -> str:
    """Return the text after ``_:`` in the 2024 spelling; empty without properties."""
    return _Spelling(schema).parameters() if _properties(schema) or _takes_more(schema) else ""


class _Spelling:
    """The 2024 spelling of one function's parameters; ``root`` is the schema that its references point into."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.left_characters = _MOST_REFERENCED_CHARACTERS

    def parameters(self) -> str:
        """Return the parameters' object, on separate lines if it has comments."""
        notes = _notes(self.root)
        body = self._object(self.root, 0, ())
        return "\n" + "\n".join([*notes, body]) + "\n" if notes else f" {body}"

    def _object(self, schema: Schema, depth: int, open_references: tuple[str, ...]) -> str:
        marks = _marks(schema)
        members = [
            self._member(f"{name}{marks[name]}:", _mapping(value), depth, open_references)
            for name, value in _properties(schema).items()
        ]
        if _takes_more(schema):
            rest = _mapping(schema.get("additionalProperties"))
            members.append(self._member("[key: string]:", rest, depth, open_references))
        if not members:
            return "object"
        if all(member.is_plain for member in members):
            return "{ " + ", ".join(member.in_line() for member in members) + " }"
        *first, last = members
        lines = [line for member in first for line in member.lines(is_last=False)]
        return "\n".join(["{", *lines, *last.lines(is_last=True), "}"])

    def _member(self, name: str, schema: Schema, depth: int, open_references: tuple[str, ...]) -> _Member:
        schema, open_references = self._resolved(schema, open_references)
        found = self._variants(schema, open_references)
        types = [self._variant(variant, depth + 1, references) for variant, references in found]
        if found and schema.get("nullable") is True and "null" not in types:
            types.append("null")
        rendered = " | ".join(types) or self._type(schema, depth + 1, open_references)
        notes, trail = _notes(schema), _trail(schema, [variant for variant, _ in found])
        told = [_variant_note(variant) for variant, _ in found]
        told += [""] * (len(types) - len(told))
        spread = found and (any(told) or trail or any("\n" in kind for kind in types))
        variants = list(zip(types, told, strict=True)) if spread else []
        keeps_comma = bool(trail) and not isinstance(schema.get("default"), bool)
        member = _Member(notes, name, rendered, variants, trail, keeps_comma)
        if open_references:
            self.left_characters -= sum(map(len, (*notes, *told, trail)))
        return member

    def _variants(self, schema: Schema, open_references: tuple[str, ...]) -> list[tuple[Schema, tuple[str, ...]]]:
        found = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(kinds := schema.get("type"), list) and not found:
            names = dict.fromkeys(kind for kind in kinds if isinstance(kind, str))
            found = [{**schema, "type": kind, "nullable": False} for kind in names]
        if not isinstance(found, list):
            return []
        return [self._resolved(_mapping(variant), open_references) for variant in found]

    def _type(self, schema: Schema, depth: int, open_references: tuple[str, ...]) -> str:
        schema, open_references = self._resolved(schema, open_references)
        if depth > _DEEPEST:
            return "any"
        rendered = self._bare_type(schema, depth, open_references)
        if open_references:
            self.left_characters -= _NODE_CHARACTERS + len(rendered)
        return f"{rendered} | null" if schema.get("nullable") is True and "null" not in rendered else rendered

    def _bare_type(self, schema: Schema, depth: int, open_references: tuple[str, ...]) -> str:
        if variants := self._variants(schema, open_references):
            return " | ".join(self._variant(variant, depth + 1, references) for variant, references in variants)
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return " | ".join(_literal(value) for value in schema["enum"])
        if "const" in schema:
            return _literal(schema["const"])
        if _is_object(schema):
            return self._object(schema, depth, open_references)
        kind = schema.get("type")
        if kind == "array":
            items = self._noted(_mapping(schema.get("items")), depth + 1, open_references)
            return f"Array<\n{items}\n>" if "\n" in items else f"{items}[]"
        return _simple(kind)

    def _noted(self, schema: Schema, depth: int, open_references: tuple[str, ...]) -> str:
        """Return a type that is not a property's, after its title and description."""
        schema, open_references = self._resolved(schema, open_references)
        notes = _notes(schema)
        if open_references:
            self.left_characters -= sum(map(len, notes))
        return "\n".join([*notes, self._type(schema, depth, open_references)])

    def _variant(self, schema: Schema, depth: int, open_references: tuple[str, ...]) -> str:
        return (self._noted if _is_object(schema) else self._type)(schema, depth, open_references)

    def _resolved(self, schema: Schema, open_references: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Return ``schema`` with its references merged in, and the open references. A circular reference becomes ``any``."""
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
        """Return the schema at a reference such as ``#/$defs/Name``; empty if there is none."""
        found: Any = self.root
        for step in reference.removeprefix("#").strip("/").split("/"):
            found = _mapping(found).get(step.replace("~1", "/").replace("~0", "~"))
        return _mapping(found)
