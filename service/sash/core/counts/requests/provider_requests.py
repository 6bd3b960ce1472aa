"""The tokens of a provider's own request: messages in chat form, their native parts, and members that windows never have.

::

    request ── native.read_request ──▶ chat messages, tools, tool_choice, response_format ── count_request ──┐
                    ├─ hosted: definitions of tools that the provider itself runs ───────────────────────────┤
                    └─ rest: other members; those that only change the reply are free ───────────────────────┴─▶ RequestCount
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.counts.costs.counting import RequestCount, count_request, plain_text_tokens
from sash.core.counts.costs.request_shapes import Stands, has_stood
from sash.core.counts.measures.native_parts import is_of_vertex
from sash.core.counts.models.families import HOSTED_BY_OPENAI
from sash.core.counts.models.models import Model
from sash.core.counts.models.vendors import BUILT_IN, HOSTED, VENDORS, VendorRules
from sash.core.counts.text import strings
from sash.core.providers import PROVIDERS
from sash.core.providers.form.requests_read import ChatRequest
from sash.core.providers.reading.native import read_request
from sash.core.providers.reading.own_parts import parts_of
from sash.core.providers.reading.recognition import foreign
from sash.problems import InvalidEntry

_FREE: Final = frozenset(
    {
        *("model", "stream", "stream_options", "temperature", "metadata", "service_tier", "thinking", "seed"),
        *("reasoning_config", "reasoningConfig"),
        *("top_p", "top_k", "topP", "topK", "max_tokens", "maxOutputTokens", "max_output_tokens"),
        *("stop_sequences", "stopSequences", "user", "safety_identifier"),
    }
)
"""Members of every provider that control the reply: their text is in no bill."""
_SYSTEM: Final = ("systemInstruction", "system_instruction")
"""Gemini's system text in a request."""
_TASK_BUDGET: Final = 33
"""Tokens that a task's budget adds on Opus 4.7."""
_PRO: Final = 3_960
"""The most tokens that ``"mode": "pro"`` of gpt-5.6 added: 1,511 and more in 10 bills."""
_NOT_PARALLEL: Final = 78
"""Tokens of the instructions that gpt-5-nano gets with its tools if they may not be called in parallel: 2 bills. In one
request of gpt-4o-mini without tools, the member cost 1."""


def count_provider_request(
    form: str, request: Mapping[str, Any], model: Model, *, stands: Stands = has_stood
) -> RequestCount:
    """Return the predicted ``prompt_tokens`` of a request in ``form``, a provider's.

    Tokens that the provider adds while it answers, or reads from a cache, a file or another reply, are not included.
    ``stands`` is as in ``count_request``.

    Raises:
        InvalidEntry: the request has no messages in the provider's format; the problem has the place.
    """
    if "messages" in request and (place := PROVIDERS[form].shape.messages) not in request:
        raise InvalidEntry.at("#/messages", f"An unknown field 'messages'; with format={form} they are in '{place}'")
    try:
        chat = read_request(form, request)
    except InvalidEntry:
        messages = request.get(PROVIDERS[form].shape.messages)
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise
        if any(foreign(each, "", form) for each in messages):
            raise
        return _count_in_parts(form, request, model)
    return _count(form, request, chat, model, stands)


def _count(form: str, request: Mapping[str, Any], chat: ChatRequest, model: Model, stands: Stands) -> RequestCount:
    model = _as_billed(model, chat, request)
    counted = count_request(
        model.sent_as(form),
        messages=chat.messages,
        tools=chat.tools,
        tool_choice=chat.tool_choice,
        response_format=chat.response_format,
        thinks=asks_for_reasoning(chat.rest),
        stands=stands,
    )
    besides = _hosted_tokens(chat.hosted, model, are_alone=not chat.tools) + _rest_tokens(form, chat, model)
    besides += _modes_tokens(chat, model) if PROVIDERS[form].is_openais else 0
    besides += _silent_tokens(form, chat, counted, model)
    is_whole = PROVIDERS[form].has_exact_bills and not chat.hosted and PROVIDERS[form].shows_all(request)
    exact = counted.exact and not besides and is_whole
    return msgspec.structs.replace(counted, exact=exact, tools=counted.tools + besides, tokens=counted.tokens + besides)


def _as_billed(model: Model, chat: ChatRequest, request: Mapping[str, Any]) -> Model:
    """The model; with Vertex's rules if a seal (a thought signature) is from Vertex and the family has such rules.

    A request that says which reasoning Claude keeps (``context_management``) is billed as if it kept all. Gemini bills
    nothing around a system text without a role: 22 of 23 bills, which Gemma's vocabulary shows.
    """
    if model.rules.family in VENDORS and any(map(_lacks_role, map(request.get, _SYSTEM))):
        model = msgspec.structs.replace(model, rules=msgspec.structs.replace(model.rules, told=0))
    if isinstance(model.rules, VendorRules) and chat.rest.get("context_management"):
        return msgspec.structs.replace(model, rules=msgspec.structs.replace(model.rules, forgets_thinking=""))
    behind = VENDORS.get(f"{model.rules.family}-vertex")
    if behind is None or not any(is_of_vertex(seal) for message in chat.messages for seal in _seals(message)):
        return model
    return msgspec.structs.replace(model, rules=behind)


def _lacks_role(instruction: Any) -> bool:
    return isinstance(instruction, Mapping) and not instruction.get("role")


def _seals(message: Mapping[str, Any]) -> Iterator[Any]:
    if "native" not in message:
        return
    provider = PROVIDERS[message["native"]["format"]]
    parts = parts_of(provider, message["native"]["messages"])
    yield from (part[name] for part in parts if isinstance(part, dict) for name in provider.kinds.seals & part.keys())


def asks_for_reasoning(request: Mapping[str, Any]) -> bool:
    """Return whether members of a request turn thinking on: Anthropic's, Amazon's, OpenAI's, or a gateway's."""
    reasoning = request.get("reasoning")
    for name in (
        "thinking",
        "reasoning_config",
        "reasoningConfig",
    ):  # the second is Claude's in Converse, the third Nova's
        if isinstance(thinking := request.get(name), Mapping):
            return thinking.get("type") == "enabled"
    if isinstance(reasoning, Mapping):
        return reasoning.get("enabled", True) is not False and reasoning.get("effort") != "none"
    return request.get("reasoning_effort") not in (None, "none")


def _count_in_parts(form: str, request: Mapping[str, Any], model: Model) -> RequestCount:
    """Return the count of a request that Sash cannot read as a whole, but that its provider may accept.

    Messages and members that cannot be read cost the tokens of all their strings and names.
    """
    key = PROVIDERS[form].shape.messages
    others = {name: value for name, value in request.items() if name != key}
    read = {name: value for name, value in others.items() if _is_readable(form, {key: [], name: value})}
    unread = [{name: value} for name, value in others.items() if name not in read]
    read[key] = []
    for message in request[key]:
        (read[key] if _is_readable(form, {key: [message]}) else unread).append(message)
    counted = _count(form, read, read_request(form, read), model, has_stood)
    tokens = _tokens([*strings(unread, names=True)], model)
    return msgspec.structs.replace(
        counted, exact=False, tokens=counted.tokens + tokens, messages=[*counted.messages, tokens]
    )


def _is_readable(form: str, request: Mapping[str, Any]) -> bool:
    try:
        read_request(form, request)
    except InvalidEntry:
        return False
    return True


def _hosted_tokens(hosted: Sequence[Mapping[str, Any]], model: Model, *, are_alone: bool) -> int:
    """Tokens of hosted tools: the recorded cost of each kind for Claude and OpenAI, plus the tokens of their texts.

    ``are_alone``: there are no other definitions, so the instructions before Claude's built-in tools are counted here.
    """
    rules, tokens = model.rules, 0
    costs = (*BUILT_IN, *HOSTED) if isinstance(rules, VendorRules) else HOSTED_BY_OPENAI
    for tool in hosted:
        kind = str(tool.get("type"))
        known = next((cost for begins, cost in costs if kind.startswith(begins)), 0)
        told = {"type"} | ({"name"} if known else set())  # a known tool's name is in its cost
        words = [text for name, value in tool.items() if name not in told for text in strings(value)]
        tokens += known + _tokens(words, model)
    if are_alone and isinstance(rules, VendorRules) and any(map(_is_built_in, hosted)):
        tokens += math.ceil(rules.definitions * model.margin)
    return tokens


def _is_built_in(tool: Mapping[str, Any]) -> bool:
    return str(tool.get("type")).startswith(tuple(begins for begins, _ in BUILT_IN))


def _modes_tokens(chat: ChatRequest, model: Model) -> int:
    """Tokens that members of a Responses request add which are no text: how the model reasons, and calls tools."""
    reasoning = chat.rest.get("reasoning")
    is_pro = isinstance(reasoning, Mapping) and reasoning.get("mode") == "pro"
    tokens = _PRO if is_pro else 0
    if chat.rest.get("parallel_tool_calls") is False:
        tokens += _NOT_PARALLEL if chat.tools and model.rules.family.startswith("gpt-5") else 1
    return tokens


def _silent_tokens(form: str, chat: ChatRequest, counted: RequestCount, model: Model) -> int:
    """Tokens around Gemini's contents without a word, which windows leave out: one each, in one bill."""
    if PROVIDERS[form].maker != "google":
        return 0
    costs = zip(chat.messages, counted.messages, strict=True)
    silent = [message for message, cost in costs if message["role"] == "assistant" and not cost]
    return model.rules.message * len(silent)


def _rest_tokens(form: str, chat: ChatRequest, model: Model) -> int:
    """Tokens of members that a chat request does not have: the texts of unknown members, and Claude's extra tokens."""
    free = _FREE | PROVIDERS[form].free_members
    documents = chat.rest.get("documents") if isinstance(model.rules, VendorRules) and model.rules.documents else None
    if documents:
        free |= {"documents"}
    tokens = _tokens([text for name, value in chat.rest.items() if name not in free for text in strings(value)], model)
    if isinstance(model.rules, VendorRules) and model.rules.definitions:
        thinking, output = chat.rest.get("thinking"), chat.rest.get("output_config")
        tokens += model.rules.adaptive if isinstance(thinking, Mapping) and thinking.get("type") == "adaptive" else 0
        tokens += _TASK_BUDGET if isinstance(output, Mapping) and output.get("task_budget") else 0
        first = next((message["role"] for message in chat.messages if message["role"] != "system"), None)
        tokens += PROVIDERS[form].opening_tokens if first == "assistant" else 0
        if documents:
            words = _tokens([*strings(documents, names=True)], model)
            tokens += words + math.ceil(model.rules.documents * model.margin)
    return tokens


def _tokens(texts: Sequence[str], model: Model) -> int:
    return sum(plain_text_tokens(text, model) for text in texts)
