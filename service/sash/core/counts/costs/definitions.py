"""Tokens of tool definitions, tool choices and response formats.

The text of definitions is rendered and counted once for each distinct content, and the count is cached.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from sash.core.counts.costs.estimates import count_in
from sash.core.counts.models.families import Dialect
from sash.core.counts.models.models import Model
from sash.core.counts.text import Pair, count_text, text_tokens
from sash.core.counts.text.typescript import comment, parameters_2023, parameters_2024
from sash.core.counts.text.vocabularies import Vocabulary

# Tokens around a custom tool's grammar, in addition to its JSON: one bill.
_GRAMMAR = 24
_FREEFORM = 13
"""Tokens around a custom tool without a grammar: one bill."""


class Content:
    """A JSON value as the key of a cache. Keys are compared by digest. A key forgets its value once it was read.

    So a cache holds digests and counts alone, even for very long definitions.
    """

    __slots__ = ("_value", "digest")

    def __init__(self, value: Any, digest: bytes = b"") -> None:
        self._value = value
        self.digest = digest or digest_of(value)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self.digest == other.digest

    def read(self) -> Any:
        value, self._value = self._value, None
        return value


def digest_of(value: Any) -> bytes:
    """Return the digest of a value as JSON: 16 bytes."""
    return _digest(msgspec.json.encode(value))


def _digest(written: bytes) -> bytes:
    return hashlib.blake2b(written, digest_size=16).digest()


_MARKED = re.compile(rb'`|(?:\\n|")#+ ')
"""Code or a heading of Markdown, in text as JSON."""


class Declared(msgspec.Struct, frozen=True):
    """Definitions of tools as they are counted: their functions, and the tokens of members that are in no recorded bill."""

    functions: list[Mapping[str, Any]]
    unpriced: Pair
    is_priced: bool
    """Whether there is no such member."""
    digest: bytes
    is_marked: bool = False
    """Whether a description is written in Markdown, with code in backticks or a heading: some bills of these are higher."""

    @property
    def content(self) -> Content:
        """The functions as a cache's key."""
        return Content(self.functions, self.digest)

    @property
    def is_told_in_markdown(self) -> bool:
        """Whether it is a function's own description, and not a parameter's, that is written in Markdown."""
        if not self.is_marked:
            return False
        told = [function.get("description") for function in self.functions]
        return _MARKED.search(msgspec.json.encode(told)) is not None


def declared(tools: Sequence[Mapping[str, Any]] | None) -> Declared:
    """Return the definitions of tools as they are counted. It reads all of them, so windows keep what it returns."""
    functions, unpriced = list(map(declared_function, tools or ())), unpriced_members(tools)
    written = msgspec.json.encode(functions)
    return Declared(functions, text_tokens(unpriced), not unpriced, _digest(written), bool(_MARKED.search(written)))


def declared_function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool's function, without a mark for a cache. A custom tool's description ends with its format."""
    if isinstance(function := tool.get("function"), Mapping):
        if "cache_control" in function:
            return {name: value for name, value in function.items() if name != "cache_control"}
        return function
    custom = tool.get("custom")
    if not isinstance(custom, Mapping):
        return {}
    told, accepted = [custom.get("description")], custom.get("format")
    declared: dict[str, Any] = {"name": custom.get("name"), "freeform": True}
    if isinstance(accepted, Mapping) and accepted.get("type") == "grammar":
        told.append(json.dumps(accepted))
        declared["grammar"] = True
    declared["description"] = "\n".join(text for text in told if isinstance(text, str))
    return declared


_FREE = frozenset(
    {"type", "cache_control", "strict", "defer_loading", "allowed_callers", "eager_input_streaming", "behavior"}
)
"""Members of definitions that say how a tool is called or kept; their text is in no bill."""
_TOOL = _FREE | {"function", "custom"}
_FUNCTION = _FREE | {"name", "description", "parameters", "format"}


def unpriced_members(tools: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]]:
    """Return the members of definitions that are in no recorded bill, each as an object, and tools that the provider runs.

    A tool's name beside its function is free if it repeats the function's (1 bill). So is an object with free members
    alone, such as a result's schema of one type (5 bills).
    """
    found: list[Mapping[str, Any]] = []
    for tool in tools or ():
        inner = tool.get("function") or tool.get("custom")
        if inner is None:  # a tool that the provider runs
            found.append(tool)
            continue
        found += _besides(inner, _FUNCTION)
        found += _besides(tool, _TOOL | {"name"} if tool.get("name") == inner.get("name") else _TOOL)
    return found


def _besides(definition: Mapping[str, Any], known: frozenset[str]) -> list[Mapping[str, Any]]:
    return [
        {name: value}
        for name, value in definition.items()
        if name not in known and value and not (isinstance(value, Mapping) and value.keys() <= _FREE)
    ]


@lru_cache(maxsize=4_096)
def written_tokens(content: Content, vocabulary: Vocabulary | str, write: Callable[..., str], *how: str) -> int:
    """Return the tokens of the text that ``write`` makes of the content, by a vocabulary as in ``count_in``."""
    return count_in(write(content.read(), *how), vocabulary)


def functions_tokens(given: Declared, model: Model) -> int:
    """Return the tokens of the namespace that declares functions, without the family's tokens around it.

    Chat templates of open models write JSON instead, some of them indented by four spaces.
    """
    if model.ratios is not None:
        return written_tokens(given.content, model.vocabulary or model.ratios, _indented)
    told = max(written_tokens(given.content, model.encoding, render_functions, each) for each in model.rules.dialects)
    around = (_GRAMMAR if "grammar" in each else _FREEFORM for each in given.functions if each.get("freeform"))
    return told + sum(around)


def _indented(functions: Sequence[Mapping[str, Any]]) -> str:
    tools = [{"type": "function", "function": function} for function in functions]
    return "\n".join(json.dumps(tool, ensure_ascii=False, indent=4) for tool in tools)


# The text before the tools of gpt-5 and later: all 46 recorded requests agree with its 93 tokens.
_TOOLS_2025 = """\
# Tools

Tools are grouped by namespace where each namespace has one or more tools defined. By default, the input for each tool \
call is a JSON object. If the tool schema has the word 'FREEFORM' input type, you should strictly follow the function \
description and instructions for the input format. It should not be JSON unless explicitly instructed by the function \
description or system/developer instructions.

## Namespace: functions

### Target channel: commentary

### Tool definitions"""


def render_functions(functions: Sequence[Mapping[str, Any]], dialect: Dialect) -> str:
    """Return the text that declares ``functions``, each an object with name, description and parameters.

    A function with ``freeform`` takes text instead of parameters.
    """
    lines = [line for function in functions for line in _declaration(function, dialect)]
    if dialect == "2025":
        return "\n".join([_TOOLS_2025, *lines])
    return "\n".join(["namespace functions {", "", *lines, "} // namespace functions"])


def _declaration(function: Mapping[str, Any], dialect: Dialect) -> list[str]:
    description, parameters = function.get("description"), function.get("parameters")
    description = description.lstrip() if isinstance(description, str) else ""
    parameters = parameters if isinstance(parameters, Mapping) else {}
    if dialect == "2023":
        notes, body = [f"// {description}"] if description else [], parameters_2023(parameters)
    else:
        notes, body = comment(description), parameters_2024(parameters)
    argument = "FREEFORM" if function.get("freeform") else f"_:{body}" if body else ""
    return [*notes, f"type {function.get('name')} = ({argument}) => any;", ""]


def choice_tokens(choice: Any, model: Model, *, named: int) -> int:
    """Return the tokens of a tool choice: 0 for ``auto``, and ``named`` plus the name's tokens for a function."""
    if choice == "none":
        return 1
    if choice == "required":
        return model.rules.required_choice
    if not isinstance(choice, Mapping):
        return 0
    function = choice.get("function", choice)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        return 0
    return named + count_text(f"functions.{name}", model.encoding) - 1


def format_tokens(response_format: Mapping[str, Any] | None, model: Model) -> int:
    """Return the tokens of a response format's section. Only JSON schemas have one; ``json_object`` is free."""
    if not response_format or response_format.get("type") != "json_schema":
        return 0
    return written_tokens(Content(response_format.get("json_schema") or {}), model.encoding, render_format)


def format_name_tokens(response_format: Mapping[str, Any] | None, model: Model) -> int:
    """Return the tokens of a response format's name."""
    name = ((response_format or {}).get("json_schema") or {}).get("name")
    return count_text(name, model.encoding) if isinstance(name, str) else 0


# Members that the provider removes from a response's schema; all other recorded members are billed.
_UNTOLD = frozenset(
    {
        *("required", "additionalProperties", "$schema", "default", "minimum", "maximum", "minItems", "maxItems"),
        *("format", "pattern"),
    }
)
_NAMED_SCHEMAS = frozenset({"properties", "$defs", "definitions"})


def render_format(json_schema: Mapping[str, Any]) -> str:
    """Return the section that describes a response's JSON schema.

    The section is the schema as compact ASCII JSON without constraints, below the format's description as a comment:
    104 of 104 recorded requests of gpt-4o and gpt-4.1.
    """
    described = json_schema.get("description")
    comment = f"// {described}\n" if isinstance(described, str) and described else ""
    body = json.dumps(_told(json_schema.get("schema") or {}), separators=(",", ":"))
    return f"# Response Formats\n\n## {json_schema.get('name')}\n\n{comment}{body}"


def _told(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_told(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _told(member) for name, member in value.items()}
        if key in _NAMED_SCHEMAS and isinstance(value, dict)  # a property may itself be called "required"
        else _told(value)
        for key, value in schema.items()
        if key not in _UNTOLD
    }
