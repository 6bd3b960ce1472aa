"""Tool definitions as all providers take them: valid JSON Schema 2020-12, with what OpenAI and Anthropic want beside it."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from rigs.dialogue import append, user, window

from sash.core.providers.destinations.rules import RULES
from sash.core.providers.writing.tool_schemas import taken_tools
from sash.core.providers.writing.typed_schemas import with_types

TEXT = {"type": "string"}
PLACE = {"type": "object", "properties": {"city": TEXT}, "required": ["city"]}


def function(parameters: Any, name: str = "look", **more: Any) -> dict[str, Any]:
    """A tool with these parameters."""
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def parameters_of(tool: dict[str, Any]) -> Any:
    return taken_tools([tool])[0]["function"]["parameters"]


REFUSED = {
    "no properties": ({"type": "object"}, of()),
    "properties that are null": ({"type": "object", "properties": None}, of()),
    "no type": ({"properties": {"a": TEXT}}, of(a=TEXT)),
    "a type or null": ({"type": ["object", "null"], "properties": {}}, of()),
    "types of Google": ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}, of(a=TEXT)),
    "types of Python": (of(a={"type": "str"}, b={"type": "None"}), of(a=TEXT, b={})),
    "a list without items": (of(a={"type": "array"}), of(a={"type": "array", "items": {}})),
    "a list of items": (
        of(a={"type": "array", "items": [TEXT, TEXT]}),
        of(a={"type": "array", "items": {"anyOf": [TEXT, TEXT]}}),
    ),
    "required of a property": (of(a={**TEXT, "required": True}), of(a=TEXT)),
    "a boolean bound": (
        of(a={"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
        of(a={"type": "integer", "exclusiveMinimum": 0}),
    ),
    "an empty enum": (of(a={**TEXT, "enum": []}), of(a=TEXT)),
    "a reference that leads nowhere": (of(a={"$ref": "#/components/A", "description": "d"}), of(a={"description": "d"})),
    "a reference at the top": (
        {"$ref": "#/definitions/P", "definitions": {"P": PLACE}},
        {**PLACE, "definitions": {"P": PLACE}},
    ),
    "variants at the top": (
        {"type": "object", "anyOf": [{**PLACE, "required": ["city"]}, of(city=TEXT, zip=TEXT)]},
        of(city=TEXT, zip=TEXT),
    ),
    "parts at the top": (
        {"type": "object", "properties": {"a": TEXT}, "allOf": [{"required": ["a"]}]},
        {**of(a=TEXT), "required": ["a"]},
    ),
    "a property that is true": (of(a=True), of(a={})),
}  # fmt: skip


@pytest.mark.parametrize(("given_schema", "expected"), REFUSED.values(), ids=REFUSED)
def test_what_a_maker_refuses_is_sent_otherwise(given_schema: Any, expected: Any) -> None:
    """The schema that is sent means what was meant, and each name of a property stays."""
    assert parameters_of(function(given_schema)) == expected


def test_a_tool_named_twice_is_sent_once() -> None:
    """Anthropic and Gemini refuse two tools of one name. Members that are null go, too."""
    tools = [function(PLACE, description=None), function(of()), function(of(), "other")]
    assert taken_tools(tools) == [function(PLACE), function(of(), "other")]


def test_what_is_taken_is_the_same_list() -> None:
    """References within the schema, also to itself, and names of properties such as ``required`` are taken."""
    tree = {**of(child={"$ref": "#"}, required=TEXT, type=TEXT, items={"$ref": "#/$defs/a"}), "$defs": {"a": PLACE}}
    tools = [function(tree), {"type": "custom", "custom": {"name": "shell"}}, {"type": "web_search"}]
    assert taken_tools(tools) is tools


def schemas() -> st.SearchStrategy[Any]:
    """Draw schemas as generators write them, right and wrong."""
    kinds = st.sampled_from(
        ["object", "array", "string", "STRING", "int", "any", ["string", "null"], ["None"], None, 1]
    )
    leaves = st.fixed_dictionaries(
        {},
        optional={
            "type": kinds,
            "description": st.sampled_from(["d", None]),
            "enum": st.sampled_from([["a"], [], None, [1, 2]]),
            "required": st.sampled_from([["a"], True, None, [1]]),
            "$ref": st.sampled_from(["#", "#/$defs/A", "#/x", "other.json"]),
            "exclusiveMinimum": st.sampled_from([True, False, 1]),
            "minimum": st.just(0),
            "$defs": st.just({"A": {"type": "string"}}),
        },
    )

    def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        one, names = st.one_of(inner, st.booleans()), st.sampled_from(["a", "type", "items", "$ref"])
        more = {
            "properties": st.one_of(st.dictionaries(names, one, max_size=3), st.sampled_from([None, [], 1])),
            "items": st.one_of(inner, st.lists(inner, max_size=2), st.booleans()),
            **{name: st.one_of(st.lists(inner, max_size=2), st.none()) for name in ("anyOf", "oneOf", "allOf")},
            "additionalProperties": one,
        }
        return st.builds(lambda a, b: {**a, **b}, leaves, st.fixed_dictionaries({}, optional=more))

    return st.recursive(leaves, around, max_leaves=6)


def without_items(schema: Any) -> Iterator[Any]:
    """Arrays without items in a schema, at any depth."""
    if isinstance(schema, list):
        for each in schema:
            yield from without_items(each)
    if isinstance(schema, dict):
        if schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema:
            yield schema
        for each in schema.values():
            yield from without_items(each)


@given(schemas())
def test_whatever_is_given_is_a_valid_schema(schema: Any) -> None:
    """JSON Schema's own validator takes what is sent, and so do OpenAI's and Anthropic's rules; it is sent so again."""
    taken = parameters_of(function(schema))
    Draft202012Validator.check_schema(taken)
    assert not [*without_items(taken)]
    assert not taken.keys() & {"oneOf", "anyOf", "allOf", "enum", "not"}
    assert taken.get("type") != "object" or isinstance(taken["properties"], dict)
    assert parameters_of(function(taken)) == taken


DAY = {"type": "string", "anyOf": [{"format": "date"}, {"enum": ["today"]}], "description": "d"}
EITHER = {**of(a=TEXT), "anyOf": [{"required": ["a"]}, {**of(b=TEXT), "required": ["b"]}]}


@pytest.mark.parametrize(
    ("given_schema", "typed"),
    [
        (DAY, {"anyOf": [{**TEXT, "format": "date"}, {**TEXT, "enum": ["today"]}], "description": "d"}),
        (EITHER, of(b=TEXT, a=TEXT)),
        ({"$ref": "#/properties/b", **TEXT}, {"$ref": "#/properties/b"}),
        ({"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
        ({"enum": [1, 0.5]}, {"type": "number", "enum": [1, 0.5]}),
        ({"const": True}, {"type": "boolean", "const": True}),
        ({"items": TEXT}, {"type": "array", "items": TEXT}),
        ({}, TEXT),
    ],
)
def test_moonshot_gets_each_type_once(given_schema: Any, typed: Any) -> None:
    """A type beside variants is each variant's; beside a reference there is none; and a property without one gets one."""
    (tool,) = taken_tools([function(of(a=given_schema, b=TEXT))])
    assert with_types(tool)["function"]["parameters"] == of(a=typed, b=TEXT)


@given(schemas())
def test_whatever_is_given_moonshot_takes(schema: Any) -> None:
    """What is sent to Moonshot is a valid schema that its rule takes; it is sent so again."""
    (tool,) = taken_tools([function(schema)])
    typed = with_types(tool)
    Draft202012Validator.check_schema(typed["function"]["parameters"])
    assert not [*RULES["schemas"].judge({"tools": [typed]}, [], "typed")]
    assert with_types(typed) == typed


@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini", "converse", "ollama"])
async def test_a_window_tells_and_counts_it(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """The settings keep the tool as it was given; windows of every form have it as it is taken, and count what they send."""
    given_tools = [function({"type": "object", "properties": {"a": {"type": "array"}}, "anyOf": [{"required": ["a"]}]})]
    await client.post("/conversations", json={"id": conversation, "tools": given_tools})
    await append(client, conversation, user("q"))

    made = await window(client, conversation, model="gpt-4o", format=form)

    assert made["mended"]["reasons"]["tool_schema"] == 1
    assert "anyOf" not in str(made["request"])
    answer = await client.post("/count", params={"format": form}, json={"model": "gpt-4o", **made["request"]})
    assert answer.json()["tokens"] <= made["tokens"]["total"]
    assert (await client.get(f"/conversations/{conversation}")).json()["tools"] == given_tools
