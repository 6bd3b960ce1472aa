"""Messages, tool definitions and whole requests to tokens: arithmetic on measures.

::

    request = priming + tools + message + message + …

Every figure that the service shows is one of these terms, so parts always sum to the whole. A tool group's wrapping is
on its assistant message; a result costs its text alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from service.core.definitions import choice_tokens, declared_functions, format_tokens, functions_tokens
from service.core.estimates import estimate_text, estimated
from service.core.families import ASSISTANT, DEVELOPER, FAMILIES, FUNCTION, ROLES, SYSTEM, TOOL, Rules
from service.core.images import image_tokens, is_guess
from service.core.measures import Extra, Measure, measure
from service.core.models import Model
from service.core.strings import Pair
from service.core.text import Encoding, count_text
from service.core.vendor_costs import definitions_cost, format_cost, is_forced, message_cost
from service.core.vendors import VendorRules

__all__ = [
    "REFERENCE_MODELS",
    "ROLES",
    "TOOL",
    "Extra",
    "Measure",
    "RequestCount",
    "count_request",
    "is_estimate",
    "measure",
    "message_tokens",
    "reasoning_tokens",
    "reference_tokens",
    "tools_tokens",
]


class RequestCount(msgspec.Struct, frozen=True, kw_only=True):
    """A request's tokens: ``tokens`` is the sum of ``priming``, ``tools`` and all of ``messages``."""

    model: str
    encoding: Encoding
    exact: bool
    tokens: int
    priming: int
    tools: int
    messages: list[int]


# ---- messages


def message_tokens(measure: Measure, model: Model, *, parallel: bool = False) -> int:
    """Return what a message costs ``model``; ``parallel`` for a result whose assistant message made several calls."""
    if model.ratios is not None:
        measure = estimated(measure, model.ratios)
    if isinstance(model.rules, VendorRules):
        return math.ceil(message_cost(measure, model, model.rules) * model.margin)
    column = 0 if model.encoding == "o200k_base" else 1
    text = measure.cl100k if column else measure.o200k
    extra = measure.extra
    if measure.role == TOOL:
        cost = _result_tokens(text, extra, model.rules, column) if parallel else text
    else:
        cost = model.rules.role_costs[measure.role] + text
    if extra is not None:
        cost += _extra_tokens(extra, model.rules, column, is_function=measure.role == FUNCTION)
        cost += beside_tokens(extra, model)
    return cost if model.margin == 1.0 else math.ceil(cost * model.margin)


def plain_text_tokens(text: str, model: Model) -> int:
    """Return the tokens of a text that is no message."""
    if model.ratios is None:
        return count_text(text, model.encoding)
    return math.ceil(estimate_text(text, model.ratios) * model.margin)


def _result_tokens(text: int, extra: Extra | None, rules: Rules, column: int) -> int:
    """Return what a result costs in the list that answers several calls.

    A family whose parallel calls were never recorded is charged the dearer of plain and listed.
    """
    listed = extra.listed[column] if extra and extra.listed[column] else text
    return max(text, listed) if rules.parallel_unknown else listed


def _extra_tokens(extra: Extra, rules: Rules, column: int, *, is_function: bool) -> int:
    cost = extra.estimated + extra.unpriced[column]
    for image in extra.images:
        cost += image_tokens(image, rules.images)
    if extra.name is not None:
        cost += extra.name[column] + rules.name
    if extra.calls:
        cost += _calls_tokens(extra, rules, column)
    return cost - 2 if is_function else cost


def beside_tokens(extra: Extra, model: Model) -> int:
    """Return what a message costs beside its chat form where it is sent as it came, before the model's margin."""
    beside = extra.beside
    if beside is None or beside.format != model.format:
        return 0
    column = 0 if model.encoding == "o200k_base" else 1
    images = sum(image_tokens(image, model.rules.images) for image in beside.images)
    return beside.thoughts_tokens(column) + beside.rest_tokens(column) + images


def _calls_tokens(extra: Extra, rules: Rules, column: int) -> int:
    """Return what an assistant message's calls add, their results' wrapping included.

    Text beside calls is a message of its own, so without text the message's own cost is taken back.
    """
    names, arguments = extra.call_names[column], extra.call_arguments[column]
    if extra.legacy_call and extra.calls == 1:
        return names + arguments + 3
    cost = extra.calls * rules.single_call + 2 * names + arguments
    if extra.calls > 1:
        together = rules.parallel_calls + extra.together[column]
        cost = max(cost, together) if rules.parallel_unknown else together
    return cost if extra.has_text else cost - rules.role_costs[ASSISTANT]


def reasoning_tokens(measure: Measure, model: Model, form: str = "openai") -> int:
    """Return what a message's reasoning costs ``model`` where it is sent in ``form``, in addition to the message."""
    reasoning = measure.extra.reasoning if measure.extra else None
    if reasoning is None:
        return 0
    tokens = reasoning.tokens(0 if model.encoding == "o200k_base" else 1, form)
    return tokens if model.scale == 1.0 else math.ceil(tokens * model.scale)


def is_estimate(measure: Measure, model: Model) -> bool:
    """Say whether a message holds what can only be guessed: audio, files, unknown members, an image of unknown size."""
    extra = measure.extra
    if extra is None:
        return False
    if extra.estimated > 0 or any(extra.unpriced):
        return True
    if extra.beside is not None and extra.beside.format == model.format and extra.beside.is_estimate:
        return True
    return any(is_guess(image, model.rules.images) for image in extra.images)


_GPT_4O = Model(
    id="gpt-4o",
    provider="openai",
    encoding="o200k_base",
    exact=True,
    context_window=128_000,
    max_input_tokens=128_000,
    max_output_tokens=16_384,
    rules=FAMILIES["gpt-4o"],
)
_GPT_4 = msgspec.structs.replace(_GPT_4O, id="gpt-4", encoding="cl100k_base", rules=FAMILIES["gpt-2023"])


REFERENCE_MODELS = (_GPT_4O, _GPT_4)
"""The models that tokens are told for when none is named, by the place of their encoding in pairs."""


def reference_tokens(measure: Measure, *, parallel: bool = False) -> Pair:
    """Return what a message with its reasoning costs the reference models."""
    o200k, cl100k = (
        message_tokens(measure, model, parallel=parallel) + reasoning_tokens(measure, model)
        for model in REFERENCE_MODELS
    )
    return o200k, cl100k


# ---- what a request has besides


def tools_tokens(
    model: Model,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    tool_choice: Any = None,
    functions: Sequence[Mapping[str, Any]] | None = None,
    function_call: Any = None,
    response_format: Mapping[str, Any] | None = None,
    first_system: Measure | None = None,
) -> int:
    """Return what definitions, their choice and a response format cost.

    ``first_system`` is the measure of the first system or developer message, which definitions join when there is one.
    """
    rules = model.rules
    declared = declared_functions(tools, functions)
    if isinstance(rules, VendorRules):
        forced = is_forced(tool_choice) or is_forced(function_call)
        definitions = definitions_cost(declared, model, rules, forced=forced) if declared else 0.0
        return math.ceil((definitions + format_cost(response_format, model, rules)) * model.margin)
    cost = 0
    if declared:
        cost += rules.tools_overhead + functions_tokens(declared, model)
        cost += _joining_tokens(first_system, model)
        if rules.bare_first_function and not (declared[0].get("description") or _has_properties(declared[0])):
            cost += rules.bare_first_function
        if not rules.tool_choice_free:
            cost += choice_tokens(tool_choice, model, named=7) + choice_tokens(function_call, model, named=4)
    section = format_tokens(response_format, model)
    if section:
        cost += section + _format_wrapping(rules, beside_tools=bool(declared), beside_system=first_system is not None)
    return math.ceil(cost * model.margin)


def _has_properties(function: Mapping[str, Any]) -> bool:
    parameters = function.get("parameters")
    return isinstance(parameters, Mapping) and bool(parameters.get("properties"))


def _joining_tokens(first_system: Measure | None, model: Model) -> int:
    """Definitions open a system message, or join the first one, then padded with a newline."""
    if first_system is None:
        return 0
    if not model.rules.pads_system:
        return model.rules.tools_join_system
    padding = first_system.extra.padding if first_system.extra else None
    return model.rules.tools_join_system + (padding[0 if model.encoding == "o200k_base" else 1] if padding else 1)


def _format_wrapping(rules: Rules, *, beside_tools: bool, beside_system: bool) -> int:
    """A response format opens a system message of its own unless there is one: 3 and the role, as any message."""
    if rules.parallel_unknown:  # the families with few recordings: charged as if nothing were shared
        return 8
    if beside_tools:
        return 1
    return 4 if beside_system else 8


# ---- whole requests


def count_request(
    model: Model,
    *,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    tool_choice: Any = None,
    functions: Sequence[Mapping[str, Any]] | None = None,
    function_call: Any = None,
    response_format: Mapping[str, Any] | None = None,
) -> RequestCount:
    """Return the predicted ``prompt_tokens`` of a whole request, and its terms."""
    measures = [measure(message) for message in messages]
    costs: list[int] = []
    parallel = False
    for measured in measures:
        if measured.role == ASSISTANT:
            parallel = measured.extra is not None and measured.extra.calls > 1
        costs.append(message_tokens(measured, model, parallel=parallel) + reasoning_tokens(measured, model))
    priming = model.priming
    definitions = tools_tokens(
        model,
        tools=tools,
        tool_choice=tool_choice,
        functions=functions,
        function_call=function_call,
        response_format=response_format,
        first_system=_first_system(measures, model.rules),
    )
    return RequestCount(
        model=model.id,
        encoding=model.encoding,
        exact=model.exact and not any(is_estimate(m, model) or reasoning_tokens(m, model) for m in measures),
        tokens=priming + definitions + sum(costs),
        priming=priming,
        tools=definitions,
        messages=costs,
    )


def _first_system(measures: Sequence[Measure], rules: Rules) -> Measure | None:
    """Return the system message that definitions join: the first; for some families only when it leads."""
    among = measures[:1] if rules.joins_leading_system else measures
    return next((m for m in among if m.role in (SYSTEM, DEVELOPER)), None)
