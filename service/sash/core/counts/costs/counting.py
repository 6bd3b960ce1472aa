"""Tokens of messages, tool definitions and whole requests, computed from measures.

::

    request = priming + tools + message + message + …

Every figure of the service is one of these terms, so parts always sum to the whole. A tool group's wrapping is counted in
its assistant message. A single result costs its text; one of several results costs its part of their list.
"""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec
import numpy as np

from sash.core.counts.costs import definitions
from sash.core.counts.costs.definitions import Declared
from sash.core.counts.costs.estimates import pair_tokens, spoken_tokens, tokens_in
from sash.core.counts.costs.message_cost import (
    LIST_BEGINS,
    LIST_ENDS,
    is_guessed,
    message_cost,
    reasoning_cost,
    reasoning_of,
)
from sash.core.counts.costs.over_limits import over_limits
from sash.core.counts.costs.request_shapes import RequestShape, Stands, defined_parts, has_stood, parts_of, shape_of
from sash.core.counts.costs.vendor_costs import definitions_cost, format_cost, is_forced, is_named
from sash.core.counts.measures.attachments import KIND, ORIGINAL, Image, image_tokens, is_guess
from sash.core.counts.measures.measures import HEADING_TOKENS, Extra, Measure, measure_each
from sash.core.counts.measures.rows import Row, column_of_mixes, row_of
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, FAMILIES, FUNCTION, SYSTEM, TOOL, USER, Rules
from sash.core.counts.models.models import Model
from sash.core.counts.models.vendors import VendorRules
from sash.core.counts.text import Pair
from sash.core.counts.text.numbers import MANY, ONE
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.openai.chat_mends import EMPTY, GIF, NO_PICTURE, RARE, UNTAKEN_BY_SOME


class RequestCount(msgspec.Struct, frozen=True, kw_only=True):
    """A request's tokens. ``tokens`` is the sum of ``priming``, ``tools`` and ``messages``. ``over_limits`` names the other
    limits of the model's provider that the request is over."""

    model: str
    encoding: str
    exact: bool
    tokens: int
    priming: int
    tools: int
    messages: list[int]
    over_limits: list[str] = []


# ---- messages


def message_tokens(measure: Measure, model: Model, *, parallel: int = 0, own_tokens: int | None = None) -> int:
    """Return a message's tokens for ``model``.

    ``parallel`` is not 0 for a result of several parallel calls, and has the bits LIST_BEGINS and LIST_ENDS for the first
    and the last result. ``own_tokens`` are the tokens of the message's text in the model's own vocabulary, if counted.
    """
    cost: int = message_cost(whole_row(measure, model), model, ONE, parallel=parallel, own_tokens=own_tokens)
    return cost


def whole_row(measure: Measure, model: Model) -> Row:
    """Return the numbers of a message, with its parts and the tokens of its images for ``model``."""
    row, extra = row_of(measure), measure.extra
    if extra is None:
        return row
    if extra.parts:
        row["parts"] = extra.parts
    if extra.images:  # where parts are counted apart, images have no detail
        images = extra.images
        if PROVIDERS[model.format].parts_apart:
            images = tuple((a, b, kind if kind & KIND > ORIGINAL else kind & GIF) for a, b, kind in images)
        row["images"] = _images_tokens(images, model)
        if measure.role == TOOL and PROVIDERS[model.format].has_openais_items:
            row["images"] += _IN_RESULT * len(images)
        row["has_images"] = 1
    if extra.beside is not None:
        row["beside_images"] = _images_tokens(extra.beside.images, model)
        row["reasoning_images"] = _images_tokens(extra.beside.reasoning_images, model)
    return row


_IN_RESULT: Final = 3
"""Tokens that OpenAI bills around a picture in a result, at most: 1 to 3 in 7 bills elsewhere, none here."""


def _taken_pictures(measure: Measure, model: Model) -> int:
    """What a result's pictures cost above the lines that a window has in their places: OpenAI takes them in chat too."""
    extra = measure.extra
    if measure.role != TOOL or extra is None or not extra.images or model.provider != "openai" or model.format != CHAT:
        return 0
    pictures = _images_tokens(extra.images, model) + _IN_RESULT * len(extra.images)
    return max(0, math.ceil(pictures * model.margin) - extra.pictured[model.column])


def _images_tokens(images: Sequence[Image], model: Model) -> int:
    """Return the tokens of the images that are sent as such, and of lines in place of GIFs.

    The line in place of another one that OpenAI does not take is counted as an estimate.
    """
    return sum(
        image_tokens(image, model.rules.images)
        if not is_a_line(image[2], model)
        else _GIF_LINE
        if image[2] & KIND <= ORIGINAL
        else 0
        for image in images
    )


_GIF_LINE: Final = 32
"""The most tokens of the line in place of a GIF: ``[image: image/gif, 99999 kB]`` has 14 in cl100k_base."""
_NOT_TAKEN: Final = {UNTAKEN_BY_SOME: "image/heic", NO_PICTURE: "image/svg+xml", RARE: "image/bmp"}


def is_a_line(detail: int, model: Model) -> bool:
    """Return whether a model gets a line in place of a picture with this detail, in its form (``chat_mends.untaken``)."""
    kind, sent_in = detail & KIND, PROVIDERS[model.format]
    if kind == EMPTY:
        return True
    media_type = _NOT_TAKEN.get(kind) or ("image/gif" if detail & GIF else "")
    if not media_type or (sent_in.is_chat_form and model.provider != sent_in.maker):
        return False
    return sent_in.takes.refuses_picture(media_type)


def plain_text_tokens(text: str, model: Model) -> int:
    """Return the tokens of a text alone, without a message around it."""
    return tokens_in(text, model) if model.ratios is None else math.ceil(tokens_in(text, model) * model.margin)


_MANY_FROM = 8
"""Messages from which on arrays are faster."""


def messages_tokens(
    measures: Sequence[Measure], model: Model, own_tokens: Sequence[int | None] | None = None
) -> list[int]:
    """Return the tokens of each of consecutive messages, including reasoning.

    The results of one message's calls are billed as a list, so neighbours matter. ``own_tokens`` has a value for each
    message, as in ``message_tokens``.
    """
    costs: list[int] = []
    parallel = False
    roles = [measured.role for measured in measures]
    plain = _plain_tokens(measures, model) if own_tokens is None else {}
    for index, measured in enumerate(measures):
        if measured.role == ASSISTANT:
            parallel = measured.extra is not None and measured.extra.calls > 1
        if index in plain:
            costs.append(plain[index])
            continue
        place = parallel | list_place(roles, index) if parallel else 0
        tokens = message_tokens(
            measured, model, parallel=place, own_tokens=own_tokens[index] if own_tokens is not None else None
        )
        costs.append(tokens + reasoning_tokens(measured, model, model.format))
    return costs


def _plain_tokens(measures: Sequence[Measure], model: Model) -> dict[int, int]:
    """The tokens of the messages that are text alone, by index, computed at once; none where there are few messages."""
    if len(measures) < _MANY_FROM:
        return {}
    plain = {
        index: each
        for index, each in enumerate(measures)
        if each.role in (USER, ASSISTANT) and (each.extra is None or each.extra.is_mix)
    }
    if not plain:
        return {}
    numbers = np.array([(each.role, each.o200k, each.cl100k) for each in plain.values()], np.int64).T
    row = Row(role=numbers[0], text0=numbers[1], text1=numbers[2])
    if any(each.extra is not None for each in plain.values()):
        row["mix"] = column_of_mixes([each.extra.mix if each.extra else None for each in plain.values()])
    costs = np.broadcast_to(message_cost(row, model, MANY), len(plain))
    return dict(zip(plain, costs.astype(np.int64).tolist(), strict=True))


def list_place(roles: Sequence[int], index: int) -> int:
    """Return LIST_BEGINS, LIST_ENDS, both or 0 for one of several results, by the roles before and after it."""
    begins = not index or roles[index - 1] != TOOL
    ends = index + 1 == len(roles) or roles[index + 1] != TOOL
    return (LIST_BEGINS if begins else 0) | (LIST_ENDS if ends else 0)


def reasoning_tokens(measure: Measure, model: Model, form: str = CHAT) -> int:
    """Return the tokens of a message's reasoning for ``model``, in addition to the message.

    Reasoning of a chat message counts if ``form`` sends it. Native reasoning counts if it is in the model's own format.
    """
    extra = measure.extra
    if extra is None or (extra.reasoning is None and extra.beside is None):
        return 0
    tokens: int = reasoning_cost(whole_row(measure, model), model, form, ONE)
    return tokens


def seals_tokens(measure: Measure, model: Model, form: str) -> int:
    """Return the tokens of the signatures in a message's reasoning."""
    if measure.extra is None:
        return 0
    tokens: int = reasoning_cost(whole_row(measure, model), model, form, ONE, seals_alone=True)
    return tokens


def without_free_seals(measure: Measure, model: Model) -> Measure:
    """Return the measure of a message before the newest question, without sealed reasoning that the family does not bill."""
    extra = measure.extra
    if extra is None or extra.beside is None or not model.rules.forgets:
        return measure
    beside = msgspec.structs.replace(extra.beside, reasoning_sealed=0, texts_sealed=0)
    return msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, beside=beside))


def turn_place(roles: bytes, question: int) -> int:
    """Return the place of the question that began the newest turn; 0 or less if it may be before ``roles``.

    ``question`` is the place of the newest user message. Directly after tool results it continues the turn: Anthropic
    answers 400 to results of a call without the reasoning before the call.
    """
    while question > 0 and roles[question - 1] in (TOOL, FUNCTION):
        question = roles.rfind(USER, 0, question)
    return question


def _as_remembered(measures: Sequence[Measure], model: Model) -> list[Measure]:
    """Return the measures of a request's messages without reasoning of earlier turns that the family does not bill."""
    roles = bytes(each.role for each in measures)
    asked = max(0, roles.rfind(USER))
    if not (isinstance(model.rules, VendorRules) and model.rules.forgets_thinking == model.format):
        return [*(without_free_seals(each, model) for each in measures[:asked]), *measures[asked:]]
    begins = max(0, turn_place(roles, asked))
    return [*map(_without_thinking, measures[:begins]), *measures[begins:]]


def _without_thinking(measure: Measure) -> Measure:
    extra = measure.extra
    if extra is None:
        return measure
    beside = extra.beside and msgspec.structs.replace(
        extra.beside, native_reasoning=(0, 0), reasoning_sealed=0, texts_sealed=0
    )
    return msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, reasoning=None, beside=beside))


def is_estimate(measure: Measure, model: Model) -> bool:
    """Return whether a message has parts that can only be estimated, as ``is_guessed`` says, or an image of unknown size."""
    if measure.extra is None:
        return False
    images = measure.extra.images
    return bool(is_guessed(row_of(measure), model)) or any(is_guess(image, model.rules.images) for image in images)


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
"""The models for which tokens are reported if no model is named, in the order of encodings in pairs."""


def reference_tokens(measure: Measure, *, parallel: int = 0) -> Pair:
    """Return the tokens of a message and its reasoning for the reference models, without its place in a list of results."""
    return reference_tokens_in(0, measure, parallel=parallel), reference_tokens_in(1, measure, parallel=parallel)


def reference_tokens_in(column: int, measure: Measure, *, parallel: int = 0) -> int:
    """Return the tokens of a message and its reasoning for one of the reference models, as in ``reference_tokens``."""
    model = REFERENCE_MODELS[column]
    row = whole_row(measure, model)
    tokens: int = message_cost(row, model, ONE, parallel=int(bool(parallel))) + reasoning_of(row, column)
    return tokens


# ---- definitions


def tools_tokens(
    model: Model,
    *,
    tools: Sequence[Mapping[str, Any]] | Declared | None = None,
    tool_choice: Any = None,
    function_call: Any = None,
    response_format: Mapping[str, Any] | None = None,
    first_system: Measure | None = None,
    assistant_texts: int = 0,
) -> int:
    """Return the tokens of definitions, a tool choice and a response format.

    ``tools`` are ``Declared`` where they were read before, as for windows.

    ``first_system`` is the measure of the system or developer message that they are added to, if there is one.
    ``assistant_texts`` is the number of assistant messages with text: a response format adds tokens to each.
    """
    given = tools if isinstance(tools, Declared) else definitions.declared(tools)
    rules, declared = model.rules, given.functions
    unpriced = 0 if given.is_priced else max(given.unpriced[model.column], pair_tokens(given.unpriced, None, model))
    if isinstance(rules, VendorRules):
        forced = is_forced(tool_choice) or is_forced(function_call)
        cost = unpriced + (definitions_cost(given, model, rules, forced=forced) if declared else 0.0)
        return math.ceil((cost + format_cost(response_format, model, rules)) * model.margin)
    section = definitions.format_tokens(response_format, model)
    if not declared and not section:
        return 0
    cost = 0 if rules.apart else _opening_tokens(first_system, model)
    if declared:
        cost += rules.tools_overhead + definitions.functions_tokens(given, model) + unpriced
        if given.is_told_in_markdown and not is_named(tool_choice) and not is_named(function_call):
            cost += _MARKED
        if not rules.tool_choice_free:
            cost += definitions.choice_tokens(tool_choice, model, named=7)
            cost += definitions.choice_tokens(function_call, model, named=4)
    if section and rules.apart:
        is_strict = any(function.get("strict") for function in declared)
        cost += section + rules.format_overhead + (rules.format_beside if is_strict else 0)
        cost += assistant_texts * rules.format_reply
    elif section:
        # No recorded bill of a family with headings has definitions and a format: assumed that definitions get a heading.
        heading = HEADING_TOKENS if rules.heads_system else 0
        cost += section + (rules.joining + heading + _BLANK_LINE if declared else 0)
        marked = assistant_texts + (1 if rules.format_names_reply and not declared else 0)
        cost += marked * (2 + definitions.format_name_tokens(response_format, model))
    return math.ceil(cost * model.margin)


_BLANK_LINE = 1
_MARKED = 2
"""Tokens of definitions with Markdown in a function's description, where no tool is named as the choice: 3 bills, and one
elsewhere. With a named choice they cost nothing, in 10 bills, nor where a parameter's description has it, in one."""


def _opening_tokens(first_system: Measure | None, model: Model) -> int:
    """Tokens before definitions and formats: those of a new system message, or of a blank line in an existing one."""
    rules, column = model.rules, model.column
    if first_system is None:
        return rules.role_costs[SYSTEM]
    extra = first_system.extra or Extra()
    padding = extra.padding[column] if extra.padding else _BLANK_LINE
    return rules.joining + padding + (HEADING_TOKENS + extra.heading[column] if rules.heads_system else 0)


# ---- whole requests

# A prediction is billed as output, plus these tokens in the prompt: one bill, of a prediction of 43 tokens; in two, none.
_PREDICTION = 12


def count_request(
    model: Model,
    *,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] | None = None,
    tool_choice: Any = None,
    functions: Sequence[Mapping[str, Any]] | None = None,
    function_call: Any = None,
    response_format: Mapping[str, Any] | None = None,
    prediction: Mapping[str, Any] | None = None,
    thinks: bool = False,
    stands: Stands = has_stood,
) -> RequestCount:
    """Return the predicted ``prompt_tokens`` of a whole request, and its terms.

    The term ``tools`` includes definitions, a response format, a ``prediction``, and instructions to think if the model
    ``thinks``. ``functions`` and ``function_call`` are the legacy forms of tools and their choice. ``stands`` says whether a
    request without a guess may be called exact, by its shape.
    """
    tools = [*(tools or ()), *({"function": function} for function in functions or ())]
    declared = definitions.declared(tools)
    alone = model.counts_o200k_alone
    measures = _as_remembered(measure_each(messages, o200k_alone=alone), model)
    own_tokens = (
        [spoken_tokens(message, model.vocabulary) for message in messages] if model.vocabulary is not None else None
    )
    told = messages_tokens(measures, model, own_tokens)
    costs = [tokens + _taken_pictures(each, model) for tokens, each in zip(told, measures, strict=True)]
    priming = model.priming + (0 if any(map(instructs, measures)) else model.lone)
    defined = tools_tokens(
        model,
        tools=declared,
        tool_choice=tool_choice,
        function_call=function_call,
        response_format=response_format,
        first_system=first_system(measures, model.rules),
        assistant_texts=sum(_texts(each, model) for each in measures),
    )
    if not declared.functions and any(map(has_calls, measures)):
        defined += bare_calls_tokens(model)
    defined += math.ceil(_PREDICTION * model.margin) if prediction else 0
    if thinks:
        defined += math.ceil((model.rules.thinking + (model.rules.thinking_beside if tools else 0)) * model.margin)
    return RequestCount(
        model=model.id,
        encoding=model.counted_with,
        exact=model.exact
        and not (model.is_resold and tools)
        and not (model.column and response_format)  # two bills of gpt-3.5 are 2 higher
        and not prediction  # billed 0 in two bills, and 12 in one
        and declared.is_priced
        and not any(is_estimate(m, model) or reasoning_tokens(m, model) for m in measures)
        and stands(_shape(measures, model, declared, tool_choice or function_call, response_format)),
        tokens=priming + defined + sum(costs),
        priming=priming,
        tools=defined,
        messages=costs,
        over_limits=over_limits(measures, tools, model.limits),
    )


def _shape(
    measures: Sequence[Measure], model: Model, given: Declared, choice: Any, response_format: Mapping[str, Any] | None
) -> RequestShape:
    bits = reduce(or_, map(parts_of, measures), 0)
    return shape_of(model.format, model.rules.family, bits, defined_parts(given, choice, response_format))


def is_system(measure: Measure) -> bool:
    """Return whether a message is a system or developer message."""
    return measure.role in (SYSTEM, DEVELOPER)


def instructs(measure: Measure) -> bool:
    """Whether a message is a system text, so that a template adds none of its own. Forms leave out a blank one."""
    return is_system(measure) and (measure.extra is None or measure.extra.has_text)


def has_calls(measure: Measure) -> bool:
    """Whether a message has calls, or answers one."""
    return measure.role in (TOOL, FUNCTION) or (measure.extra is not None and bool(measure.extra.calls))


def bare_calls_tokens(model: Model) -> int:
    """Tokens that calls add to a request without definitions, where they are billed as if there were some."""
    rules = model.rules
    return math.ceil(rules.definitions * model.margin) if isinstance(rules, VendorRules) and rules.bare_calls else 0


def _texts(measure: Measure, model: Model) -> int:
    """Return how many texts of the assistant a message has. A Responses reply may have several."""
    extra = measure.extra
    if measure.role != ASSISTANT:
        return 0
    beside = extra.native_in(model.format) if extra is not None else None
    return (beside.wrappings if beside is not None else 0) + (
        1 if extra is None or not extra.calls or extra.has_text else 0
    )


def first_system(measures: Sequence[Measure], rules: Rules) -> Measure | None:
    """Return the system message that definitions are added to: the first; for some families only if it is message 1."""
    among = measures[:1] if rules.joins_leading_system else measures
    return next(filter(is_system, among), None)
