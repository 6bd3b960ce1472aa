"""Schemas are rendered as the TypeScript that is billed, in the dialect of each generation of models."""

import json
from typing import Any

import pytest

from sash.core.counts.costs.definitions import render_functions
from sash.core.counts.text import count_text


def declared(parameters: dict[str, Any], dialect: Any = "2024") -> str:
    """Return the rendered parameters of one function."""
    text = render_functions([{"name": "f", "parameters": parameters}], dialect)
    start, end = "namespace functions {\n\ntype f = (", ") => any;\n\n} // namespace functions"
    assert text.startswith(start)
    assert text.endswith(end)
    return text[len(start) : -len(end)]


def member(schema: dict[str, Any], **beside: Any) -> str:
    """Return an object with one required property ``a``, rendered in the dialect of 2024."""
    return declared({"type": "object", "properties": {"a": schema}, "required": ["a"], **beside}).removeprefix("_: ")


def test_functions_stand_in_a_namespace_with_their_descriptions() -> None:
    """Each line of a description is a comment without its indentation, and a blank line separates functions."""
    functions = [{"name": "f", "description": "Does.\n\n    args: none"}, {"name": "g", "parameters": {}}]
    assert render_functions(functions, "2024") == (
        "namespace functions {\n\n// Does.\n//\n// args: none\ntype f = () => any;\n\ntype g = () => any;\n\n"
        "} // namespace functions"
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "number"),
        ({"type": "null"}, "null"),
        ({}, "any"),
        ({"type": 7}, "any"),
        ({"type": ["string", "integer", "null"]}, "string | number | null"),
        ({"type": "string", "nullable": True}, "string | null"),
        ({"type": ["string", "null"], "nullable": True}, "string | null"),
        ({"enum": ["x", 1, None, True]}, '"x" | 1 | null | true'),
        ({"type": "integer", "enum": [1, 2]}, "1 | 2"),
        ({"const": "only"}, '"only"'),
        ({"type": "array"}, "any[]"),
        ({"type": "array", "items": {"type": "integer"}}, "number[]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}, "boolean[][]"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | number"),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "{ [key: string]: number }"),
        ({"type": "object", "additionalProperties": True}, "{ [key: string]: any }"),
        ({"type": "object", "additionalProperties": False}, "object"),
        ({"type": "object", "properties": {"b": {"type": "string"}}}, "{ b?: string }"),
        (
            {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": True},
            "{ b?: string, [key: string]: any }",
        ),
        ({"oneOf": [{"type": "string"}], "nullable": True}, "string | null"),
        ({"$ref": "#/$defs/Nobody"}, "any"),
        ({"allOf": [{"type": "string"}]}, "string"),
    ],
)
def test_types_without_comments_stand_on_one_line(schema: dict[str, Any], expected: str) -> None:
    """Each schema is rendered as its type, and an object without comments stays on one line."""
    assert member(schema) == f"{{ a: {expected} }}"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "title": "A title"}, "// A title\na: string"),
        ({"type": "string", "description": "One\n  two"}, "// One\n// two\na: string"),
        ({"type": "string", "title": "T", "description": "D"}, "// T\n//\n// D\na: string"),
        ({"type": "string", "description": "\n\n One\n"}, "// One\n//\na: string"),
        ({"type": "string", "default": "x"}, 'a: string, // default: "x"'),
        ({"type": "boolean", "default": False}, "a: boolean // default: false"),
        ({"type": "string", "format": "date", "default": None}, "a: string, // format: date, default: null"),
        ({"type": "integer", "minimum": 1, "maximum": 9.5}, "a: number, // minimum: 1, maximum: 9.5"),
        ({"type": "string", "examples": ["x", 2]}, '// Examples:\n// - "x"\n// - 2\na: string'),
        (
            {"description": "Some", "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "// Some\na:\n | string\n | null, // format: date",
        ),
        (
            {"oneOf": [{"type": "string", "description": "a word"}, {"type": "integer"}], "nullable": True},
            "a:\n | string // a word\n | number\n | null",
        ),
        (
            {"type": "array", "items": {"type": "object", "title": "T", "properties": {"b": {"title": "B"}}}},
            "a: Array<\n// T\n{\n// B\nb?: any\n}\n>",
        ),
        ({"type": "array", "items": {"type": "string", "description": "D"}}, "a: Array<\n// D\nstring\n>"),
        (
            {"type": ["string", "null"], "description": "D"},
            "// D\na:\n | string // D\n | null // D",
        ),
        (
            {"type": ["integer", "null"], "description": "D", "default": 1},
            "// D\na:\n | number // D\n | null, // D // default: 1",
        ),
        ({"description": "D", "anyOf": [{"type": "string"}, {"type": "null"}]}, "// D\na: string | null"),
        (
            {"anyOf": [{"type": "object", "title": "T", "properties": {"b": {}}}, {"type": "null"}]},
            "a:\n | // T\n{ b?: any }\n | null",
        ),
        (
            {"type": ["object", "null"], "description": "D", "properties": {"b": {}}},
            "// D\na:\n | // D\n{ b?: any }\n | null // D",
        ),
        (
            {"type": "object", "description": "D", "properties": {"b": {"type": "string"}}},
            "// D\na: { b?: string }",
        ),
    ],
)
def test_comments_open_the_object(schema: dict[str, Any], expected: str) -> None:
    """Titles, descriptions, examples, constraints and defaults are comments, and give each property its own line."""
    assert member(schema) == f"{{\n{expected}\n}}"


def test_the_last_property_has_no_comma() -> None:
    """Commas are only between properties, before the comment after a type."""
    properties = {"a": {"type": "string", "default": ""}, "b": {"type": "string"}}
    assert declared({"properties": properties, "required": ["b"]}) == '_: {\na?: string, // default: ""\nb: string\n}'


def test_the_parameters_own_title_stands_before_their_object() -> None:
    """A title of the parameters puts their object on new lines; without comments inside, the object has one line."""
    plain = {"title": "T", "properties": {"a": {"type": "string"}}}
    assert declared(plain) == "_:\n// T\n{ a?: string }\n"
    assert declared({**plain, "properties": {"a": {"title": "A"}}}) == "_:\n// T\n{\n// A\na?: any\n}\n"


def test_the_newest_families_are_told_how_tools_work() -> None:
    """In the dialect of 2025, definitions have no namespace, and follow 93 tokens of instructions."""
    text = render_functions([{"name": "f"}, {"name": "g", "description": "Does."}], "2025")
    instructions, declarations = text.split("### Tool definitions\n")
    assert declarations == "type f = () => any;\n\n// Does.\ntype g = () => any;\n"
    assert count_text(instructions + "### Tool definitions\n", "o200k_base") == 93


def test_a_function_without_parameters_may_take_text() -> None:
    """A custom tool, whose input is text, is rendered with FREEFORM."""
    text = render_functions([{"name": "f", "freeform": True}], "2025")
    assert text.endswith("type f = (FREEFORM) => any;\n")


def test_references_are_expanded_and_loops_end() -> None:
    """A reference is expanded, and keeps the members beside it; a reference inside itself becomes any."""
    definitions = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}
    schema = {"$ref": "#/$defs/Node", "description": "The head"}
    assert member(schema, **{"$defs": definitions}) == "{\n// The head\na: { next?: any }\n}"


def test_a_few_lines_of_references_cannot_stand_for_gigabytes() -> None:
    """References that double at every level are expanded up to a bound."""
    definitions = {
        f"d{i}": {"type": "object", "properties": {name: {"$ref": f"#/$defs/d{i + 1}"} for name in "ab"}}
        for i in range(40)
    }
    assert len(member({"$ref": "#/$defs/d0"}, **{"$defs": definitions})) < 1_000_000


def test_a_few_lines_of_lists_cannot_stand_for_gigabytes() -> None:
    """The comments of referenced items count against the same bound."""
    definitions = {
        f"d{i}": {
            "description": "word " * 1_000,
            "type": "object",
            "properties": {name: {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}} for name in "ab"},
        }
        for i in range(40)
    }
    assert len(member({"$ref": "#/$defs/d0"}, **{"$defs": definitions})) < 1_000_000


@pytest.mark.parametrize("dialect", ["2023", "2024"])
def test_depth_is_bounded(dialect: str) -> None:
    """A schema of 200 levels ends as any, and raises no error."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": {"anyOf": [schema]}}}
    assert "any" in declared(schema, dialect)


@pytest.mark.parametrize(
    "parameters",
    [None, [], {"properties": []}, {"properties": {"a": True}, "required": 3}, {"properties": {"a": {"items": []}}}],
)
@pytest.mark.parametrize("dialect", ["2023", "2024"])
def test_what_is_no_schema_is_rendered_somehow(parameters: Any, dialect: Any) -> None:
    """An invalid schema is rendered without an error, because validating schemas is left to the provider."""
    assert "type f = (" in render_functions([{"name": "f", "parameters": parameters}], dialect)


def test_a_description_of_2023_is_stripped() -> None:
    """In the dialect of 2023, a description loses the space around it, and its lines stay as they are."""
    properties = {"a": {"description": "\n A \n"}}
    functions = [{"name": "f", "description": "\n\tDoes.\n\tMore.", "parameters": {"properties": properties}}]
    rendered = "namespace functions {\n\n// Does.\n\tMore.\ntype f = (_: {\n// A\na?: any,\n}) => any;"
    assert render_functions(functions, "2023").startswith(rendered)


def test_the_spelling_of_2023() -> None:
    """The dialect of 2023 has two spaces a level, a comma after every property, and descriptions only at the top level."""
    parameters = {
        "type": "object",
        "properties": {
            "a": {"type": "object", "description": "A", "properties": {"b": {"type": "integer", "description": "B"}}},
            "c": {"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "array", "items": {"type": "null"}}]},
            "d": {"type": "array"},
        },
        "required": ["a"],
    }
    assert declared(parameters, "2023") == ('_: {\n// A\na: {\n  b?: number,\n},\nc?: "x" | null[],\nd?: any[],\n}')


def test_text_is_not_escaped() -> None:
    """Text in any script is rendered as it is, not as escapes."""
    assert "ключ" in declared(json.loads('{"properties": {"ключ": {"default": "значение"}}}'))
    assert "значение" in declared(json.loads('{"properties": {"ключ": {"default": "значение"}}}'))
