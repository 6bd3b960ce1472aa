"""Messages and definitions to the tokens of a vendor whose tokeniser is not public: arithmetic on measures.

The results are numbers to be multiplied by the model's correction and rounded up, once for each term of a request.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from service.core.definitions import CACHED_COUNTS, Content
from service.core.estimates import estimate_text
from service.core.families import TOOL
from service.core.images import image_tokens
from service.core.measures import Measure
from service.core.models import Model
from service.core.native.costs import SEALED_CHARACTERS, Beside
from service.core.text import count_text
from service.core.vendors import VendorRules

_EMPTY: Final = frozenset({"type", "properties", "required", "additionalProperties", "$schema"})
"""Members of a schema that say nothing where it has no property."""


def message_cost(measure: Measure, model: Model, rules: VendorRules) -> float:
    """Return what a message costs, the wrapping of its calls' results included; ``measure`` is in the model's tokens."""
    cost = rules.role_costs[measure.role] + measure.o200k * (rules.result if measure.role == TOOL else 1.0)
    extra = measure.extra
    if extra is None:
        return cost
    names = 2 * extra.call_names[0] + (extra.name[0] + rules.name if extra.name else 0)
    cost += names + extra.call_arguments[0] + extra.unpriced[0] + extra.calls * rules.call
    cost += extra.estimated - extra.paged + extra.pages * rules.page + min(extra.paged, extra.pages * rules.page_words)
    if extra.beside is not None and extra.beside.format == model.format:
        cost += _beside_cost(extra.beside, model, rules)
    return cost + sum(image_tokens(image, rules.images) for image in extra.images)


def _beside_cost(beside: Beside, model: Model, rules: VendorRules) -> float:
    words = beside.rest[0] * model.scale / model.margin
    sealed = beside.rest_sealed / SEALED_CHARACTERS
    return words + sealed + beside.estimated + sum(image_tokens(image, rules.images) for image in beside.images)


def thoughts_cost(beside: Beside, model: Model, rules: VendorRules) -> float:
    """Return what a message's thoughts cost where it is sent as it came: their words, and what is sealed."""
    return beside.thoughts[0] * model.scale / model.margin + beside.thoughts_sealed * rules.sealed


def definitions_cost(
    functions: Sequence[Mapping[str, Any]], model: Model, rules: VendorRules, *, forced: bool
) -> float:
    """Return what tool definitions cost; ``forced`` where the model must call one of them."""
    found = _definitions(Content(functions), model.ratios)
    structure = found.structure + (found.nested if rules.nested else 0)
    cost = rules.definitions + (rules.forced if forced else 0) + len(functions) * rules.definition
    return cost + structure * rules.structure + found.prose


def format_cost(response_format: Mapping[str, Any] | None, model: Model, rules: VendorRules) -> float:
    """Return what a reply's JSON schema costs; other formats are free."""
    if not response_format or response_format.get("type") != "json_schema" or not rules.response_format:
        return 0.0
    tokens = _schema_tokens(Content(response_format.get("json_schema")), model.ratios)
    return rules.response_format + tokens * rules.format_structure


def is_forced(choice: Any) -> bool:
    """Say whether a tool choice makes the model call a tool."""
    return choice == "required" or (isinstance(choice, Mapping) and choice.get("type") != "allowed_tools")


class _Definitions(NamedTuple):
    """Tokens of definitions: JSON without descriptions, the descriptions, and the JSON of objects inside objects."""

    structure: int
    prose: int
    nested: int


@lru_cache(maxsize=CACHED_COUNTS)
def _definitions(content: Content, ratios: str | None) -> _Definitions:
    functions = content.read()
    schemas = [inner for function in functions for inner in _inner(function.get("parameters"))]
    return _Definitions(
        structure=sum(_tokens(_json(_told(function)), ratios) for function in functions),
        prose=sum(_tokens(text, ratios) for text in _descriptions(functions)),
        nested=sum(_tokens(_json(schema), ratios) for schema in schemas),
    )


@lru_cache(maxsize=CACHED_COUNTS)
def _schema_tokens(content: Content, ratios: str | None) -> int:
    return _tokens(_json((content.read() or {}).get("schema")), ratios)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _tokens(text: str, ratios: str | None) -> int:
    return count_text(text, "o200k_base") if ratios is None else estimate_text(text, ratios)


def _told(function: Mapping[str, Any]) -> dict[str, Any]:
    """A function without its descriptions, and without a schema that says nothing: those are not billed."""
    told = {name: value for name, value in function.items() if name not in ("description", "strict")}
    schema = told.get("parameters")
    if isinstance(schema, dict) and not schema.get("properties") and schema.keys() <= _EMPTY:
        del told["parameters"]
    return _undescribed(told)  # type: ignore[no-any-return]


def _undescribed(value: Any) -> Any:
    match value:
        case dict():
            return {
                name: _undescribed(member)
                for name, member in value.items()
                if name != "description" or not isinstance(member, str)
            }
        case list():
            return [_undescribed(each) for each in value]
        case _:
            return value


def _descriptions(value: Any) -> list[str]:
    """The texts of all descriptions, wherever they stand."""
    found, left = [], [value]
    while left:
        match left.pop():
            case dict() as members:
                for name, member in members.items():
                    if name == "description" and isinstance(member, str):
                        found.append(member)
                    else:
                        left.append(member)
            case list() as items:
                left += items
    return found


def _inner(schema: Any, *, inside: bool = False) -> Iterator[Any]:
    """The schemas of objects that stand inside of the outermost, without descriptions; what is inside them is theirs."""
    match schema:
        case {"properties": dict()} if inside:
            yield _undescribed(schema)
        case dict():
            for member in schema.values():
                yield from _inner(member, inside=inside or "type" in schema)
        case list():
            for each in schema:
                yield from _inner(each, inside=inside)
