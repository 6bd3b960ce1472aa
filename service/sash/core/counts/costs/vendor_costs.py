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
        written = written_tokens(content, vocabulary, _WRITERS[rules.spelling]) * rules.spelled
        return cost + written * (rules.marked if given.is_marked else 1.0)
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
    return choice == "required" or is_named(choice)


def is_named(choice: Any) -> bool:
    """Return whether a tool choice names the tool that the model must call."""
    return isinstance(choice, Mapping) and choice.get("type") != "allowed_tools"


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


_RETURNS: Final = ("responseJsonSchema", "response_json_schema")
"""Schemas of a function's result, which Gemini reads like parameters: 3 bills."""
_FACTS: Final = ("description", "title", "default", "format")
"""Members of a schema that Gemini reads beside its type and its values."""
_UNREAD: Final = frozenset({"type", "properties", "required", "propertyOrdering", "additionalProperties", *_FACTS})


@lru_cache(maxsize=4_096)
def _told_cost(content: Content, vocabulary: Vocabulary | str, rules: VendorRules) -> int:
    """Tokens of the words of definitions and of what is written around them, at any depth of their schemas."""
    words: list[str] = []
    left: list[Any] = []
    around = 0
    for function in content.read():
        told = [function.get("name"), function.get("description")]
        words += [each for each in told if isinstance(each, str)]
        around += rules.member if told[1] else 0
        returned = [schema for name in _RETURNS if _has_members(schema := function.get(name))]
        around += len(returned) * rules.definition
        schemas = [schema for schema in (function.get("parameters"), *returned) if isinstance(schema, dict)]
        around -= rules.nested * sum(map(_has_members, schemas))
        left += schemas
    while left:
        schema = left.pop()
        around += _schema_cost(schema, rules, words)
        inner = _schemas_in(schema)
        around += len(inner) * rules.inner
        left += [*inner, *(each for each in _properties(schema).values() if isinstance(each, dict))]
    if rules.escapes:
        around += sum(word.count("\n") for word in words) // 2
    written = (json.dumps(word, ensure_ascii=False)[1:-1] for word in words) if rules.escapes else words
    return count_in(" ".join(written), vocabulary) + around


def _schema_cost(schema: Mapping[str, Any], rules: VendorRules, words: list[str]) -> int:
    """Tokens around a schema's words, which are added to ``words``, without those of the schemas in it."""
    facts = _FACTS[:1] if rules.types_alone else _FACTS
    said = [str(schema[name]) for name in facts if schema.get(name) is not None]
    values = list(map(str, _list(schema.get("enum"))))
    others = [value for name, value in schema.items() if name not in _UNREAD | {"enum"}]
    words += [*said, *values, *(value for value in others if isinstance(value, str))]
    cost = len(said) * rules.member + len(values) * rules.member + max(0, len(values) - 1) * rules.value
    properties, required = _properties(schema), _list(schema.get("required"))
    for name, each in properties.items():
        words += [name] * rules.named
        known = each if isinstance(each, dict) else {}
        cost += rules.parameter + (0 if known.get("description") else rules.undescribed)
        cost += rules.optional if name not in required or "default" in known else 0
    return cost + (rules.nested if properties else 0)


def _schemas_in(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The schemas in a schema beside its properties': its items and its variants."""
    others = [value for name, value in schema.items() if name not in _UNREAD]
    found = [*others, *(each for value in others for each in _list(value))]
    return [each for each in found if isinstance(each, dict)]


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _has_members(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(_properties(schema))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _schema(json_schema: Mapping[str, Any] | None) -> str:
    return json.dumps((json_schema or {}).get("schema"), ensure_ascii=False, indent=2)
