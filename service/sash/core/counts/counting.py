"""Tokens of messages, tool definitions and whole requests, computed from measures.

::

    request = priming + tools + message + message + …

Every figure of the service is one of these terms, so parts always sum to the whole. A tool group's wrapping is counted in
its assistant message. A single result costs its text; one of several results costs its part of their list.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.counts import definitions
from sash.core.counts.attachments import AUTO, image_tokens, is_guess
from sash.core.counts.estimates import estimated, pair_tokens, spoken_tokens, tokens_in
from sash.core.counts.families import ASSISTANT, DEVELOPER, FAMILIES, FUNCTION, ROLES, SYSTEM, TOOL, USER, Rules
from sash.core.counts.measures import HEADING_TOKENS, Extra, Measure, measure
from sash.core.counts.models import Model
from sash.core.counts.reasoning import Reasoning
from sash.core.counts.text import Pair, text_tokens
from sash.core.counts.unicode_scripts import Mix
from sash.core.counts.vendor_costs import definitions_cost, format_cost, is_forced, message_cost, thoughts_cost
from sash.core.counts.vendors import VendorRules
from sash.core.providers import PROVIDERS
from sash.core.providers.provider import Provider

LIST_BEGINS, LIST_ENDS = 256, 512
"""Bits that mark the first and the last result of several calls."""


class RequestCount(msgspec.Struct, frozen=True, kw_only=True):
    """A request's tokens. ``tokens`` is the sum of ``priming``, ``tools`` and ``messages``."""

    model: str
    encoding: str
    exact: bool
    tokens: int
    priming: int
    tools: int
    messages: list[int]


# ---- messages


def message_tokens(measure: Measure, model: Model, *, parallel: int = 0, said: int | None = None) -> int:
    """Return a message's tokens for ``model``.

    ``parallel`` is not 0 for a result of several parallel calls, and has the bits LIST_BEGINS and LIST_ENDS for the first
    and the last result. ``said`` are the tokens of the message's text in the model's own vocabulary, if counted.
    """
    sent_in = PROVIDERS[model.format]
    if not sent_in.is_chat_form:
        if is_left_out(measure, model.format):
            return 0
        if said is not None and _is_named(measure):
            said += _NAMED
        measure = _in_strings(as_sent(measure, model.rules), sent_in)
        if sent_in.parts_apart:
            if said is not None:
                said += _around_arguments(measure)
            measure = _in_parts(measure)
    if model.ratios is not None:
        measure = estimated(measure, model.ratios, said if model.vocabulary is not None else None)
    if isinstance(model.rules, VendorRules):
        return math.ceil(message_cost(measure, model, model.rules) * model.margin)
    column = model.column
    text = measure.cl100k if column else measure.o200k
    extra = measure.extra
    if measure.role == TOOL:
        cost = _result_tokens(text, extra, model.rules, column, parallel) if parallel else text
    else:
        cost = model.rules.role_costs[measure.role] + text
    if extra is not None:
        cost += _extra_tokens(extra, model.rules, column, is_function=measure.role == FUNCTION)
        cost += beside_tokens(extra, model)
    return cost if model.margin == 1.0 else math.ceil(cost * model.margin)


def plain_text_tokens(text: str, model: Model) -> int:
    """Return the tokens of a text alone, without a message around it."""
    return tokens_in(text, model) if model.ratios is None else math.ceil(tokens_in(text, model) * model.margin)


def _result_tokens(text: int, extra: Extra | None, rules: Rules, column: int, place: int) -> int:
    """Return a result's tokens in the list that answers several calls.

    For a family without recorded parallel calls, this is the larger of the plain and the listed cost.
    """
    if extra is None:
        return text
    listed = extra.listed[column] or text
    if place & LIST_BEGINS:
        listed += extra.opens_list[column]
    if place & LIST_ENDS:
        listed += extra.closes_list[column]
    return max(text, listed) if rules.parallel_unknown else listed


def messages_tokens(measures: Sequence[Measure], model: Model, said: Sequence[int | None] | None = None) -> list[int]:
    """Return the tokens of each of consecutive messages, including reasoning.

    The results of one message's calls are billed as a list, so neighbours matter. ``said`` has a value for each message, as
    in ``message_tokens``.
    """
    costs: list[int] = []
    parallel = False
    roles = [measured.role for measured in measures]
    for index, measured in enumerate(measures):
        if measured.role == ASSISTANT:
            parallel = measured.extra is not None and measured.extra.calls > 1
        place = parallel | list_place(roles, index) if parallel else 0
        tokens = message_tokens(measured, model, parallel=place, said=said[index] if said is not None else None)
        costs.append(tokens + reasoning_tokens(measured, model, model.format))
    return costs


def list_place(roles: Sequence[int], index: int) -> int:
    """Return LIST_BEGINS, LIST_ENDS, both or 0 for one of several results, by the roles before and after it."""
    begins = not index or roles[index - 1] != TOOL
    ends = index + 1 == len(roles) or roles[index + 1] != TOOL
    return (LIST_BEGINS if begins else 0) | (LIST_ENDS if ends else 0)


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
    """Return the tokens of a message's native parts that have no chat form, if they are sent, before the model's margin.

    Thoughts are not included; they are in ``reasoning_tokens``.
    """
    beside = extra.native_in(model.format)
    if beside is None:
        return 0
    images = sum(image_tokens(image, model.rules.images) for image in beside.images)
    return beside.rest_tokens(model.column) + images + beside.wrappings * model.rules.role_costs[ASSISTANT]


_LISTED_NOTHING: Final = 3
"""Tokens of an empty result in the list that answers several calls: ``[""]``."""
_LONGEST_NAME: Final = 256
"""Bytes of the longest name."""
_NAMED: Final = 3
"""Tokens that a name costs beside its own where it is sent as text: two for the ": " behind it, and one because the text
after it may split into more tokens there."""


def _is_named(measure: Measure) -> bool:
    """Return whether other forms send a message's name: as text before the content."""
    return measure.role <= USER and measure.extra is not None and bool(measure.extra.name)


def as_sent(measure: Measure, rules: Rules | VendorRules) -> Measure:
    """Return the measure of a chat message as it is sent in another provider's form.

    Legacy calls and results become ordinary ones. An assistant's name is left out, another name is text before the
    message's own.
    """
    extra = measure.extra
    if extra is None or not (extra.legacy_call or extra.name):
        return measure
    if measure.role == FUNCTION:
        return msgspec.structs.replace(measure, role=TOOL, extra=msgspec.structs.replace(extra, name=None))
    # A name that repeats its role was measured one token lower than its text.
    more = _NAMED - rules.name
    name = (max(1, extra.name[0]) + more, max(1, extra.name[1]) + more) if extra.name and _is_named(measure) else None
    arguments = extra.call_compact or extra.call_arguments
    extra = msgspec.structs.replace(
        extra,
        legacy_call=False,
        name=name,
        call_arguments=arguments,
        mix=_beside_name(extra.mix),
        parts=tuple((*pair, _beside_name(mix)) for *pair, mix in extra.parts),
    )
    return msgspec.structs.replace(measure, extra=extra)


def _beside_name(mix: Mix | None) -> Mix | None:
    """Return the mix of a text with a name before it, which bounds its tokens by the bytes of both."""
    return mix and msgspec.structs.replace(mix, size=mix.size + _LONGEST_NAME)


def _in_strings(measure: Measure, provider: Provider) -> Measure:
    """Return the measure of a message whose text parts the provider gets as one string."""
    extra = measure.extra
    if extra is None or not extra.parts or (extra.beside is not None and extra.beside.format == provider.name):
        return measure
    if ROLES[measure.role] not in provider.one_string:
        return measure
    return msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, parts=()))


def _in_parts(measure: Measure) -> Measure:
    """Return the measure of a message in a form whose parts are counted apart.

    Each text part is counted by itself. Arguments are objects. Images have no detail, so none is ``low``. A result's place
    in the list of results does not change its cost, because the form may order results in another way. A blank result costs
    as much as an empty one.
    """
    extra = measure.extra
    if extra is None or not (extra.images or extra.call_objects or extra.parts or any(extra.listed)):
        return measure
    if any(extra.listed):
        ways = zip(extra.listed, extra.opens_list, extra.closes_list, strict=True)
        o200k, cl100k = (max(_LISTED_NOTHING, sum(each)) for each in ways)
        extra = msgspec.structs.replace(extra, listed=(o200k, cl100k), opens_list=(0, 0), closes_list=(0, 0))
    images = tuple((width, height, AUTO) for width, height, _ in extra.images)
    objects = extra.call_objects or extra.call_arguments
    together = extra.together_objects or extra.together
    parts = extra.parts or ((measure.o200k, measure.cl100k, None),)
    o200k, cl100k = sum(part[0] for part in parts), sum(part[1] for part in parts)
    extra = msgspec.structs.replace(extra, images=images, call_arguments=objects, together=together)
    return Measure(measure.role, o200k, cl100k, extra)


def _around_arguments(measure: Measure) -> int:
    """Return the tokens that Anthropic's and Gemini's forms put around arguments that are no object.

    They are counted in our encodings. A vendor's own vocabulary may need three more for a call.
    """
    extra = measure.extra
    if extra is None or extra.call_objects is None:
        return 0
    more = max(as_object - was for as_object, was in zip(extra.call_objects, extra.call_arguments, strict=True))
    return more + 3 * extra.calls if more > 0 else 0


def is_left_out(measure: Measure, form: str) -> bool:
    """Return whether a request in ``form``, which is not the chat form, leaves a message out: an empty assistant's."""
    if measure.role != ASSISTANT or measure.o200k:
        return False
    extra = measure.extra or Extra()
    thinks = extra.reasoning is not None and extra.reasoning.tokens(0, form) > 0
    return not (extra.native_in(form) or thinks or extra.calls or extra.images or extra.estimated)


def _calls_tokens(extra: Extra, rules: Rules, column: int) -> int:
    """Return the tokens that an assistant message's calls add, including their results' wrapping.

    Text next to calls is billed as a message of its own, so without text the message's own cost is subtracted.
    """
    names, arguments = extra.call_names[column], extra.call_arguments[column]
    if extra.legacy_call and extra.calls == 1:
        return names + arguments + 3
    bare = extra.bare_names[column] if extra.bare_names else names
    cost = extra.calls * rules.single_call + names + bare + arguments
    if extra.calls > 1:
        together = rules.parallel_calls + extra.together[column]
        cost = max(cost, together) if rules.parallel_unknown else together
    return cost if extra.has_text else cost - rules.role_costs[ASSISTANT]


def reasoning_tokens(measure: Measure, model: Model, form: str = "openai") -> int:
    """Return the tokens of a message's reasoning for ``model``, in addition to the message.

    Reasoning of a chat message counts if ``form`` sends it. Native reasoning counts if it is in the model's own format.
    """
    extra = measure.extra
    if extra is None or (extra.reasoning is None and extra.beside is None):
        return 0
    cost = _thought_tokens(extra.reasoning, model, form) if extra.reasoning else 0
    beside = extra.native_in(model.format)
    if beside is None:
        return cost
    images = sum(image_tokens(image, model.rules.images) for image in beside.thoughts_images)
    if isinstance(model.rules, VendorRules):
        return cost + math.ceil((thoughts_cost(beside, model, model.rules) + images) * model.margin)
    column = model.column
    words = pair_tokens(beside.thoughts, beside.mix, model)
    thoughts = beside.thoughts_tokens(column) + max(0, words - beside.thoughts[column])
    return cost + math.ceil((thoughts + images) * model.margin)


def _thought_tokens(reasoning: Reasoning, model: Model, form: str) -> int:
    """Return the tokens of a chat message's reasoning. Its mix is that of the thoughts, without signatures."""
    words, sealed = msgspec.structs.replace(reasoning, signatures=(0, 0)), Reasoning(signatures=reasoning.signatures)
    thoughts = words.tokens(0, form), words.tokens(1, form)
    seals = sealed.tokens(0, form), sealed.tokens(1, form)
    part = min(1.0, thoughts[0] / max(1, reasoning.plain[0] + reasoning.blocks[0]))
    tokens = pair_tokens(thoughts, reasoning.mix, model, part) + pair_tokens(seals, None, model)
    return math.ceil(tokens * model.margin)


def seals_tokens(measure: Measure, model: Model, form: str) -> int:
    """Return the tokens of the signatures on a message's calls: its reasoning without thoughts."""
    extra = measure.extra or Extra()
    beside = extra.native_in("gemini")
    alone = msgspec.structs.replace(
        extra,
        reasoning=extra.reasoning and Reasoning(signatures=extra.reasoning.signatures),
        beside=msgspec.structs.replace(beside, thoughts=(0, 0), thoughts_images=()) if beside else None,
    )
    return reasoning_tokens(msgspec.structs.replace(measure, extra=alone), model, form)


def without_free_seals(measure: Measure, model: Model) -> Measure:
    """Return the measure of a message before the newest question, without sealed thoughts that the family does not bill."""
    extra = measure.extra
    if extra is None or extra.beside is None or not model.rules.forgets:
        return measure
    beside = msgspec.structs.replace(extra.beside, thoughts_sealed=0)
    return msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, beside=beside))


def turn_place(roles: bytes, question: int) -> int:
    """Return the place of the question that began the newest turn; 0 or less if it may be before ``roles``.

    ``question`` is the place of the newest user message. Directly after tool results it continues the turn: Anthropic
    answers 400 to results of a call without the thoughts before the call.
    """
    while question > 0 and roles[question - 1] in (TOOL, FUNCTION):
        question = roles.rfind(USER, 0, question)
    return question


def _as_remembered(measures: Sequence[Measure], model: Model) -> list[Measure]:
    """Return the measures of a request's messages without thoughts of earlier turns that the family does not bill."""
    roles = bytes(each.role for each in measures)
    asked = max(0, roles.rfind(USER))
    if not (isinstance(model.rules, VendorRules) and model.rules.forgets_thinking and model.format == "anthropic"):
        return [*(without_free_seals(each, model) for each in measures[:asked]), *measures[asked:]]
    begins = max(0, turn_place(roles, asked))
    return [*map(_without_thinking, measures[:begins]), *measures[begins:]]


def _without_thinking(measure: Measure) -> Measure:
    extra = measure.extra
    if extra is None:
        return measure
    beside = extra.beside and msgspec.structs.replace(extra.beside, thoughts=(0, 0), thoughts_sealed=0)
    return msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, reasoning=None, beside=beside))


def is_estimate(measure: Measure, model: Model) -> bool:
    """Return whether a message has parts that can only be estimated: audio, files, unknown members, an image of unknown
    size, thoughts without a reply, which may be sent or not."""
    extra = measure.extra
    if extra is None:
        return False
    beside = extra.native_in(model.format)
    is_alone = measure.role == ASSISTANT and not (measure.o200k or extra.calls)
    return (
        extra.estimated > 0
        or any(extra.unpriced)
        or (beside is not None and (beside.is_estimate or is_alone))
        or (
            not PROVIDERS[model.format].is_chat_form and _is_named(measure)
        )  # a name before a text may join its first token
        or any(is_guess(image, model.rules.images) for image in extra.images)
    )


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
    tokens = message_tokens(measure, REFERENCE_MODELS[column], parallel=bool(parallel))
    reasoning = measure.extra.reasoning if measure.extra else None
    return tokens + reasoning.tokens(column) if reasoning else tokens


# ---- definitions


def tools_tokens(
    model: Model,
    *,
    tools: Sequence[Mapping[str, Any]] | None = None,
    tool_choice: Any = None,
    function_call: Any = None,
    response_format: Mapping[str, Any] | None = None,
    first_system: Measure | None = None,
    assistant_texts: int = 0,
) -> int:
    """Return the tokens of definitions, a tool choice and a response format.

    ``first_system`` is the measure of the system or developer message that they are added to, if there is one.
    ``assistant_texts`` is the number of assistant messages with text: a response format adds tokens to each.
    """
    rules = model.rules
    declared = list(map(definitions.declared_function, tools or ()))
    pair = text_tokens(definitions.unpriced_members(tools))
    unpriced = max(pair[model.column], pair_tokens(pair, None, model))
    if isinstance(rules, VendorRules):
        forced = is_forced(tool_choice) or is_forced(function_call)
        cost = unpriced + (definitions_cost(declared, model, rules, forced=forced) if declared else 0.0)
        return math.ceil((cost + format_cost(response_format, model, rules)) * model.margin)
    section = definitions.format_tokens(response_format, model)
    if not declared and not section:
        return 0
    cost = _opening_tokens(first_system, model)
    if declared:
        cost += rules.tools_overhead + definitions.functions_tokens(declared, model) + unpriced
        if not rules.tool_choice_free:
            cost += definitions.choice_tokens(tool_choice, model, named=7)
            cost += definitions.choice_tokens(function_call, model, named=4)
    if section:
        # No recorded bill of a family with headings has definitions and a format: assumed that definitions get a heading.
        heading = HEADING_TOKENS if rules.heads_system else 0
        cost += section + (rules.joining + heading + _BLANK_LINE if declared else 0)
        marked = assistant_texts + (1 if rules.format_names_reply and not declared else 0)
        cost += marked * (2 + definitions.format_name_tokens(response_format, model))
    return math.ceil(cost * model.margin)


_BLANK_LINE = 1


def _opening_tokens(first_system: Measure | None, model: Model) -> int:
    """Tokens before definitions and formats: those of a new system message, or of a blank line in an existing one."""
    rules, column = model.rules, model.column
    if first_system is None:
        return rules.role_costs[SYSTEM]
    extra = first_system.extra or Extra()
    padding = extra.padding[column] if extra.padding else _BLANK_LINE
    return rules.joining + padding + (HEADING_TOKENS + extra.heading[column] if rules.heads_system else 0)


# ---- whole requests

# A prediction is billed as output, plus these tokens in the prompt: one bill, of a prediction of 43 tokens.
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
) -> RequestCount:
    """Return the predicted ``prompt_tokens`` of a whole request, and its terms.

    The term ``tools`` includes definitions, a response format and a ``prediction``. ``functions`` and ``function_call`` are
    the legacy forms of tools and their choice.
    """
    tools = [*(tools or ()), *({"function": function} for function in functions or ())]
    alone = model.counts_o200k_alone
    measures = _as_remembered([measure(message, o200k_alone=alone) for message in messages], model)
    said = [spoken_tokens(message, model.vocabulary) for message in messages] if model.vocabulary is not None else None
    costs = messages_tokens(measures, model, said)
    priming = model.priming
    defined = tools_tokens(
        model,
        tools=tools,
        tool_choice=tool_choice,
        function_call=function_call,
        response_format=response_format,
        first_system=first_system(measures, model.rules),
        assistant_texts=sum(_texts(each, model) for each in measures),
    )
    defined += math.ceil(_PREDICTION * model.margin) if prediction else 0
    return RequestCount(
        model=model.id,
        encoding=model.counted_with,
        exact=model.exact
        and not definitions.unpriced_members(tools)
        and not any(is_estimate(m, model) or reasoning_tokens(m, model) for m in measures),
        tokens=priming + defined + sum(costs),
        priming=priming,
        tools=defined,
        messages=costs,
    )


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
    return next((m for m in among if m.role in (SYSTEM, DEVELOPER)), None)
