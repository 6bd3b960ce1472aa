"""Tokens of messages and definitions for a vendor whose tokeniser is not public, computed from measures.

The caller multiplies a result by the model's correction (``margin``) and rounds it up, once for each term of a request.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from sash.core.counts.costs.definitions import Content, Declared, written_tokens
from sash.core.counts.costs.estimates import count_in
from sash.core.counts.models.models import Model
from sash.core.counts.models.vendors import VendorRules
from sash.core.counts.text.vocabularies import Vocabulary


def definitions_cost(given: Declared, model: Model, rules: VendorRules, *, forced: bool) -> float:
    """Return the tokens of tool definitions; ``forced`` if the model must call one of the tools."""
    cost = rules.definitions + (rules.forced if forced else 0) + len(given.functions) * rules.definition
    content, vocabulary = given.content, model.vocabulary or model.ratios or model.encoding
    if rules.spelled:
        return cost + written_tokens(content, vocabulary, _WRITERS[rules.spelling]) * rules.spelled
    return cost + _told_cost(content, vocabulary, rules)


def format_cost(response_format: Mapping[str, Any] | None, model: Model, rules: VendorRules) -> float:
    """Return the tokens of a reply's JSON schema, or of the instructions to reply in JSON; plain text is free."""
    if response_format and response_format.get("type") == "json_object":
        return rules.json_object
    if not response_format or response_format.get("type") != "json_schema" or not rules.response_format:
        return 0.0
    vocabulary = model.vocabulary or model.ratios or model.encoding
    tokens = written_tokens(Content(response_format.get("json_schema")), vocabulary, _schema)
    return rules.response_format + tokens * rules.format_spelled


def is_forced(choice: Any) -> bool:
    """Return whether a tool choice makes the model call a tool."""
    return choice == "required" or (isinstance(choice, Mapping) and choice.get("type") != "allowed_tools")


def _as_claude_reads(functions: Sequence[Mapping[str, Any]]) -> str:
    """Definitions, each as the text that Claude reads."""
    told = (
        {
            "description": function.get("description") or "",
            "name": function.get("name"),
            "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        }
        for function in functions
    )
    return "".join(f"<function>{json.dumps(each, ensure_ascii=False)}</function>\n" for each in told)


def _as_templates_write(functions: Sequence[Mapping[str, Any]]) -> str:
    """Definitions, each as JSON in a line, which most chat templates write."""
    tools = ({"type": "function", "function": function} for function in functions)
    return "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in tools)


_WRITERS: Final[Mapping[str, Callable[[Sequence[Mapping[str, Any]]], str]]] = {
    "function": _as_claude_reads,
    "tool": _as_templates_write,
}


_READ: Final = frozenset({"name", "description", "parameters"})
_RETURNS: Final = ("responseJsonSchema", "response_json_schema")
"""Schemas of a function's result, which Gemini reads like parameters: 3 bills."""
_SAID: Final = frozenset({"description", "title", "enum", "default", "format"})
"""Members of a schema, besides its type, that Gemini reads."""


@lru_cache(maxsize=4_096)
def _told_cost(content: Content, vocabulary: Vocabulary | str, rules: VendorRules) -> int:
    """Tokens of all words in definitions, of parameters at any depth, of members in ``_SAID`` (each value of an enumeration
    is one more), of optional parameters, and of objects inside other objects."""
    words: list[str] = []
    parameters = members = required = nested = 0
    functions = content.read()
    returned = [
        {name: function[name]} for function in functions for name in _RETURNS if _has_members(function.get(name))
    ]
    told = [{name: each for name, each in function.items() if name in _READ} for function in functions]
    for function in reversed(told + returned):
        left: list[Any] = [function]
        objects = 0
        while left:
            match left.pop():
                case str() as word:
                    words.append(json.dumps(word, ensure_ascii=False)[1:-1] if rules.escapes else word)
                case dict() as schema:
                    members += len(_SAID & schema.keys()) + _length(schema.get("enum"))
                    if isinstance(named := schema.get("properties"), dict):
                        words += named
                        objects += 1
                        parameters += len(named)
                        required += _length(schema.get("required"))
                    left += [each for name, each in schema.items() if name != "type" or isinstance(each, dict)]
                case list() as items:
                    left += items
        nested += max(0, objects - 1)
    cost = (
        count_in(" ".join(words), vocabulary)
        + len(returned) * rules.definition
        + parameters * rules.parameter
        + members * rules.member
    )
    return cost + max(0, parameters - required) * rules.optional + nested * rules.nested


def _has_members(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(schema.get("properties"))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _schema(json_schema: Mapping[str, Any] | None) -> str:
    return json.dumps((json_schema or {}).get("schema"), ensure_ascii=False, indent=2)
