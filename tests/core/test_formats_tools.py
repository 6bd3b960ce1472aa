"""Tool definitions and the tool choice in each provider's format."""

from typing import Any

import pytest
from format_histories import QUESTION, function, pointers, rendered

SCHEMA = {"type": "object", "properties": {"day": {"type": ["integer", "null"]}}, "additionalProperties": False}
NAMED = {"type": "function", "function": {"name": "b"}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


class TestTools:
    def test_responses(self):
        """A function's members are at the top level, and ``strict`` is sent as false, because the API's default is true."""
        request = rendered("responses", QUESTION, tools=[function("talks", SCHEMA, description="Talks of a day")])

        assert request["tools"] == [
            {
                "type": "function",
                "name": "talks",
                "description": "Talks of a day",
                "parameters": SCHEMA,
                "strict": False,
            }
        ]

    def test_responses_custom_tools_and_its_own(self):
        """The members of a custom tool and its grammar are at the top level; a tool of the API itself is sent as it is."""
        grammar = {"definition": "start: /a/", "syntax": "lark"}
        custom = {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": grammar}}}

        request = rendered("responses", QUESTION, tools=[custom, {"type": "web_search"}])

        flat = {"type": "custom", "name": "sql", "format": {"type": "grammar", **grammar}}
        assert [flat, {"type": "web_search"}] == request["tools"]

    def test_anthropic(self):
        """The parameters become ``input_schema``; ``strict`` and the mark of the prompt cache are kept."""
        tool = function("talks", SCHEMA, description="Talks", strict=True) | {"cache_control": {"type": "ephemeral"}}

        assert rendered("anthropic", QUESTION, tools=[tool])["tools"] == [
            {
                "name": "talks",
                "description": "Talks",
                "input_schema": SCHEMA,
                "strict": True,
                "cache_control": {"type": "ephemeral"},
            }
        ]

    def test_gemini(self):
        """All functions are declarations of one tool, with JSON Schema."""
        request = rendered("gemini", QUESTION, tools=[function("talks", SCHEMA, description="Talks"), function("now")])

        nothing = {"type": "object", "properties": {}}
        assert [
            {
                "functionDeclarations": [
                    {"name": "talks", "description": "Talks", "parametersJsonSchema": SCHEMA},
                    {"name": "now", "parametersJsonSchema": nothing},
                ]
            }
        ] == request["config"]["tools"]

    def test_a_custom_tool_takes_its_text_as_input(self):
        """Anthropic, which has only functions, gets a custom tool's text as a string property."""
        tool = rendered("anthropic", QUESTION, tools=[{"type": "custom", "custom": {"name": "sql"}}])["tools"][0]

        assert tool["input_schema"]["properties"] == {"input": {"type": "string"}}

    @pytest.mark.parametrize("form", ["anthropic", "gemini"])
    @pytest.mark.parametrize(
        ("tool", "pointer"),
        [
            ({"type": "web_search"}, "#/tools/0/type"),
            ({"type": "function"}, "#/tools/0/function"),
            (function("a", {"type": "string"}), "#/tools/0/function/parameters"),
            ({"type": "custom", "custom": {"name": "a", "format": {"type": "grammar"}}}, "#/tools/0/custom/format"),
        ],
    )
    def test_tools_that_do_not_fit_are_named(self, form, tool, pointer):
        """A tool that does not fit the format is refused with its place."""
        assert [pointer] == pointers(form, QUESTION, tools=[tool])

    def test_anthropic_has_no_union_at_the_top_of_a_schema(self):
        """A union at the top of a schema is refused with its place, because Anthropic answers 400 to all tools for it."""
        union = {"type": "object", "anyOf": [{"required": ["a"]}]}

        assert pointers("anthropic", QUESTION, tools=[function("a"), function("b", union)]) == [
            "#/tools/1/function/parameters"
        ]

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("auto", "auto"),
            ("none", "none"),
            ("required", "required"),
            (NAMED, {"type": "function", "name": "b"}),
            ({"type": "custom", "custom": {"name": "b"}}, {"type": "custom", "name": "b"}),
            (
                allowed("auto", "a"),
                {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}]},
            ),
        ],
    )
    def test_responses_choice(self, choice, expected):
        """A choice that is a word stays, and the name of a chosen tool is at the top level."""
        request = rendered("responses", QUESTION, tools=[function("a"), function("b")], tool_choice=choice)

        assert expected == request["tool_choice"]

    @pytest.mark.parametrize(
        ("choice", "expected", "names"),
        [
            ("auto", {"type": "auto"}, ["a", "b", "c"]),
            ("none", {"type": "none"}, ["a", "b", "c"]),
            ("required", {"type": "any"}, ["a", "b", "c"]),
            (NAMED, {"type": "tool", "name": "b"}, ["a", "b", "c"]),
            (allowed("required", "a", "b"), {"type": "any"}, ["a", "b"]),
            (allowed("auto", "c"), {"type": "auto"}, ["c"]),
        ],
    )
    def test_anthropic_choice(self, choice, expected, names):
        """Anthropic has no choice among several named tools, so the other tools are left out."""
        tools = [function("a"), function("b"), function("c")]

        request = rendered("anthropic", QUESTION, tools=tools, tool_choice=choice)

        assert expected == request["tool_choice"]
        assert names == [tool["name"] for tool in request["tools"]]

    @pytest.mark.parametrize(
        ("choice", "expected"),
        [
            ("auto", {"mode": "AUTO"}),
            ("none", {"mode": "NONE"}),
            ("required", {"mode": "ANY"}),
            (NAMED, {"mode": "ANY", "allowedFunctionNames": ["b"]}),
            (allowed("auto", "a", "b"), {"mode": "VALIDATED", "allowedFunctionNames": ["a", "b"]}),
        ],
    )
    def test_gemini_choice(self, choice, expected):
        """Named functions are sent with the mode ANY, or VALIDATED if the model may also answer with text."""
        request = rendered("gemini", QUESTION, tools=[function("a"), function("b")], tool_choice=choice)

        assert {"functionCallingConfig": expected} == request["config"]["toolConfig"]

    @pytest.mark.parametrize("form", ["anthropic", "gemini"])
    def test_a_choice_that_nobody_knows_is_named(self, form):
        """An unknown choice is refused with its place: if it were dropped, the model would choose freely."""
        assert pointers(form, QUESTION, tools=[function("a")], tool_choice={"type": "mcp"}) == ["#/tool_choice"]
