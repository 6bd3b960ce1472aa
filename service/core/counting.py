"""Messages, tool definitions and whole requests to tokens.

A message is measured once, when it is appended, for both encodings and for no model in particular; the measure is
small, is stored, and any model's cost is arithmetic on it. A request costs the sum of its messages, its tools, and
priming, and every figure that the service shows is one of those terms.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from service.core import images
from service.core.images import Image
from service.core.families import FAMILIES, ROLES
from service.core.models import Model
from service.core.text import ENCODINGS, Encoding, count_text
from service.core.typescript import render_functions

Pair = tuple[int, int]  # tokens in o200k_base and in cl100k_base
_ZERO: Pair = (0, 0)
_ROLE_INDEX = {role: index for index, role in enumerate(ROLES)}
_ASSISTANT, _TOOL, _FUNCTION = _ROLE_INDEX["assistant"], _ROLE_INDEX["tool"], _ROLE_INDEX["function"]


class Extra(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """Everything beside plain text that costs tokens, for both encodings."""

    name: Pair = _ZERO
    calls: int = 0
    call_names: Pair = _ZERO
    call_arguments: Pair = _ZERO
    escaped: Pair | None = None  # a tool result as a JSON string without non-ASCII, as parallel results are sent
    padded: Pair | None = None  # a system text with a newline after it, where that is not just one token more
    legacy_call: bool = False
    has_text: bool = True
    images: tuple[Image, ...] = ()
    estimated: int = 0  # tokens of audio and files, which are guessed


class Measure(msgspec.Struct, array_like=True, frozen=True):
    """What a message is, for counting: its role, the tokens of its text, and what costs besides."""

    role: int
    o200k: int
    cl100k: int
    extra: Extra | None = None


class RequestCount(msgspec.Struct, frozen=True, kw_only=True):
    """A request's tokens: ``tokens`` is the sum of ``priming``, ``tools`` and all of ``messages``."""

    model: str
    encoding: Encoding
    exact: bool
    tokens: int
    priming: int
    tools: int
    messages: list[int]


# ---- measuring: once a message, for every model


def _both(text: str) -> Pair:
    return (count_text(text, "o200k_base"), count_text(text, "cl100k_base")) if text else _ZERO


def _add(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def measure(message: Mapping[str, Any], *, image_sizes: Sequence[tuple[int, int]] = ()) -> Measure:
    """Return the measure of one chat message; ``image_sizes`` are the client's, in pixels, in the order of its images."""
    role = _ROLE_INDEX[message["role"]]
    text, pictures, estimated = _content(message.get("content"), image_sizes)
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        text += refusal
    fields: dict[str, Any] = {}
    if pictures:
        fields["images"] = pictures
    if estimated:
        fields["estimated"] = estimated
    name = message.get("name")
    if isinstance(name, str) and name and role != _TOOL:
        fields["name"] = _both(name)
    o200k, cl100k = counted = _both(text)
    if role == _ASSISTANT:
        fields |= _calls(message, text)
    elif role == _TOOL:
        escaped = _both(json.dumps(text)[1:-1])
        if escaped != counted:
            fields["escaped"] = escaped
    elif ROLES[role] in ("system", "developer"):
        padded = _both(text + "\n")
        if padded != (o200k + 1, cl100k + 1):
            fields["padded"] = padded
    return Measure(role, o200k, cl100k, Extra(**fields) if fields else None)


def _content(content: Any, sizes: Sequence[tuple[int, int]]) -> tuple[str, tuple[images.Image, ...], int]:
    if isinstance(content, str):
        return content, (), 0
    texts: list[str] = []
    pictures: list[images.Image] = []
    estimated = 0
    for part in content or ():
        match part.get("type"):
            case "text":
                texts.append(part.get("text") or "")
            case "refusal":
                texts.append(part.get("refusal") or "")
            case "image_url":
                given = sizes[len(pictures)] if len(pictures) < len(sizes) else None
                pictures.append(_image(part.get("image_url"), given))
            case _:
                estimated += _media(part)
    return "".join(texts), tuple(pictures), estimated


def _image(value: Any, given: tuple[int, int] | None) -> images.Image:
    fields = value if isinstance(value, Mapping) else {"url": value}
    detail = images.DETAILS.get(fields.get("detail") or "auto", images.AUTO)
    width, height = fields.get("width"), fields.get("height")
    size = images.image_size(fields["url"]) if isinstance(fields.get("url"), str) else None
    if size is None and given:
        size = given
    if size is None and isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0:
        size = (width, height)
    return (*(size or (0, 0)), detail)


def _media(part: Mapping[str, Any]) -> int:
    """Estimate audio, files and kinds of part that came after us, from the size of what they carry."""
    return 50 + len(msgspec.json.encode(part)) // 4


def _calls(message: Mapping[str, Any], text: str) -> dict[str, Any]:
    calls = [call.get("function") or call.get("custom") or {} for call in message.get("tool_calls") or ()]
    legacy = message.get("function_call")
    if isinstance(legacy, Mapping):
        calls.append(legacy)
    if not calls:
        return {}
    names, arguments = _ZERO, _ZERO
    for call in calls:
        names = _add(names, _both(_string(call.get("name"))))
        arguments = _add(arguments, _both(_string(call.get("arguments", call.get("input")))))
    return {
        "calls": len(calls),
        "call_names": names,
        "call_arguments": arguments,
        "legacy_call": isinstance(legacy, Mapping),
        "has_text": bool(text),
    }


def _string(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


# ---- pricing: arithmetic on a measure


def message_tokens(measure: Measure, model: Model, *, parallel: bool = False) -> int:
    """Return what a message costs ``model``; ``parallel`` for a result whose assistant message made several calls."""
    extra = measure.extra
    cost = model.rules.role_costs[measure.role] + (measure.o200k if model.encoding == "o200k_base" else measure.cl100k)
    if extra is not None:
        cost += _extra_tokens(measure, extra, model, parallel=parallel)
    elif measure.role == _TOOL:
        cost += _result_wrapping(model, parallel=parallel)
    return cost if model.margin == 1.0 else math.ceil(cost * model.margin)


def _extra_tokens(measure: Measure, extra: Extra, model: Model, *, parallel: bool) -> int:
    """Return what ``extra`` adds to the cost of the role and the text."""
    rules = model.rules
    column = 0 if model.encoding == "o200k_base" else 1
    cost = extra.estimated + sum(images.image_tokens(image, rules.images) for image in extra.images)
    if extra.name[column]:
        cost += extra.name[column] + rules.name
    if extra.calls:
        cost += _call_tokens(extra, model, column)
    if measure.role == _TOOL:
        cost += _result_wrapping(model, parallel=parallel)
        if parallel and extra.escaped is not None:
            cost += extra.escaped[column] - (measure.o200k, measure.cl100k)[column]
    if measure.role == _FUNCTION:
        cost -= 2
    return cost


def _result_wrapping(model: Model, *, parallel: bool) -> int:
    """A result is inside its group's cost: only its text counts, the wrapping is on the assistant message."""
    return -model.rules.role_costs[_TOOL]


def _call_tokens(extra: Extra, model: Model, column: int) -> int:
    rules = model.rules
    arguments = extra.call_arguments[column]
    if extra.legacy_call:
        return extra.call_names[column] + arguments + 3
    group = rules.single_call if extra.calls == 1 else 24 + 8 * extra.calls
    text = 0 if extra.has_text else -rules.role_costs[_ASSISTANT]
    return text + group + 2 * extra.call_names[column] + arguments


def is_estimate(measure: Measure, model: Model) -> bool:  # noqa: ARG001 - whether it is a guess may come to depend on it
    """Say whether a message holds what can only be guessed: audio, files, an image of unknown size."""
    extra = measure.extra
    if extra is None:
        return False
    return extra.estimated > 0 or any(not width and detail != images.LOW for width, _, detail in extra.images)


_REFERENCE = {
    "o200k_base": Model(
        id="gpt-4o", provider="openai", encoding="o200k_base", exact=True, context_window=128_000,
        max_input_tokens=128_000, max_output_tokens=16_384, rules=FAMILIES["gpt-4o"],
    ),
    "cl100k_base": Model(
        id="gpt-4", provider="openai", encoding="cl100k_base", exact=True, context_window=8_192,
        max_input_tokens=8_192, max_output_tokens=8_192, rules=FAMILIES["gpt-2023"],
    ),
}  # fmt: skip


def reference_tokens(measure: Measure, *, parallel: bool = False) -> Pair:
    """Return what a message costs gpt-4o and gpt-4: what is told of a message when no model is."""
    return (
        message_tokens(measure, _REFERENCE["o200k_base"], parallel=parallel),
        message_tokens(measure, _REFERENCE["cl100k_base"], parallel=parallel),
    )


def _with_margin(cost: int, model: Model) -> int:
    return cost if model.margin == 1.0 else math.ceil(cost * model.margin)


def priming_tokens(model: Model) -> int:
    """Return what a request costs before it holds anything: the start of the reply."""
    return _with_margin(model.rules.priming, model)


# ---- tool definitions


@lru_cache(maxsize=512)
def _definitions_tokens(canonical: bytes, dialect: Any, encoding: Encoding) -> int:
    return count_text(render_functions(msgspec.json.decode(canonical), dialect), encoding)


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
    """Return what definitions, their choice and a response format cost, beside a first system message if there is one."""
    declared = [*(tool.get("function") or tool.get("custom") or {} for tool in tools or ()), *(functions or ())]
    cost = _format_tokens(response_format, model)
    if declared:
        rules = model.rules
        cost += rules.tools_overhead + _definitions_tokens(msgspec.json.encode(declared), rules.dialect, model.encoding)
        if first_system is not None and rules.tools_join_system:
            cost += rules.tools_join_system + _padding(first_system, model)
        if not rules.tool_choice_free:
            cost += _choice_tokens(tool_choice, model, 7) + _choice_tokens(function_call, model, 4)
    return _with_margin(cost, model) if cost else 0


def _padding(first_system: Measure, model: Model) -> int:
    extra = first_system.extra
    if extra is None or extra.padded is None:
        return 1
    if model.encoding == "o200k_base":
        return extra.padded[0] - first_system.o200k
    return extra.padded[1] - first_system.cl100k


def _choice_tokens(choice: Any, model: Model, named: int) -> int:
    if choice == "none":
        return 1
    if isinstance(choice, Mapping):
        function = choice.get("function", choice)
        name = function.get("name") if isinstance(function, Mapping) else None
        return named + count_text(name, model.encoding) if isinstance(name, str) else 0
    return 0


def _format_tokens(response_format: Mapping[str, Any] | None, model: Model) -> int:
    if not response_format or response_format.get("type") != "json_schema":
        return 0
    schema = response_format.get("json_schema") or {}
    return 20 + count_text(json.dumps(schema.get("schema") or {}, ensure_ascii=False), model.encoding)


# ---- requests


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
    first_system = next((m for m in measures if ROLES[m.role] in ("system", "developer")), None)
    costs: list[int] = []
    parallel = False
    for m in measures:
        if m.role == _ASSISTANT:
            parallel = m.extra is not None and m.extra.calls >= 2
        costs.append(message_tokens(m, model, parallel=parallel and m.role == _TOOL))
    tool_cost = tools_tokens(
        model,
        tools=tools,
        tool_choice=tool_choice,
        functions=functions,
        function_call=function_call,
        response_format=response_format,
        first_system=first_system,
    )
    priming = priming_tokens(model)
    return RequestCount(
        model=model.id,
        encoding=model.encoding,
        exact=model.exact and not any(is_estimate(m, model) for m in measures),
        tokens=priming + tool_cost + sum(costs),
        priming=priming,
        tools=tool_cost,
        messages=costs,
    )
