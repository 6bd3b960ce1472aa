"""What ``POST /count`` takes and gives, and the count itself; nothing is stored."""

from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from sash.core.chat.arguments import CacheKey, ToolAsSent, ToolChoice
from sash.core.chat.messages import MessageAsSent, validate_messages
from sash.core.chat.mistakes import converted
from sash.core.chat.regular import regular_choice
from sash.core.counts.costs.counting import RequestCount, count_request, plain_text_tokens
from sash.core.counts.models.models import Counting, Model
from sash.core.counts.requests.provider_requests import asks_for_reasoning, count_provider_request
from sash.core.law.fixed_parts.conversation_settings import FunctionDefinition, check_tools
from sash.core.law.records.parameters import LONGEST_NAME, CountFormat, Name
from sash.core.providers import CHAT
from sash.core.providers.reading.recognition import foreign
from sash.problems import BadRequest


class JsonSchema(msgspec.Struct):
    """The members of a response format's schema that Sash reads."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    schema: dict[str, Any] | None = None


class SchemaFormat(msgspec.Struct):
    """A response format of type ``json_schema``, which becomes text of the prompt; other types cost nothing."""

    json_schema: JsonSchema


ResponseFormat = Annotated[
    dict[str, Any],
    Meta(title="ResponseFormat", description="The reply's required format, as in the provider's request."),
]


ReplyControl = Annotated[
    Any, Meta(title="ReplyControl", description="Controls the reply; it costs no tokens, and is not checked.")
]


class FreeMembers(msgspec.Struct, kw_only=True):
    """Members of a chat request whose text is in no bill: those of OpenAI's reference for chat completions, and gateways'
    members for thinking, which may add instructions."""

    audio: ReplyControl = None
    frequency_penalty: ReplyControl = None
    logit_bias: ReplyControl = None
    logprobs: ReplyControl = None
    max_completion_tokens: ReplyControl = None
    max_tokens: ReplyControl = None
    metadata: ReplyControl = None
    modalities: ReplyControl = None
    moderation: ReplyControl = None
    n: ReplyControl = None
    parallel_tool_calls: ReplyControl = None
    presence_penalty: ReplyControl = None
    prompt_cache_options: ReplyControl = None
    prompt_cache_retention: ReplyControl = None
    reasoning: ReplyControl = None
    reasoning_effort: ReplyControl = None
    safety_identifier: ReplyControl = None
    seed: ReplyControl = None
    service_tier: ReplyControl = None
    stop: ReplyControl = None
    store: ReplyControl = None
    stream: ReplyControl = None
    stream_options: ReplyControl = None
    temperature: ReplyControl = None
    thinking: ReplyControl = None
    top_logprobs: ReplyControl = None
    top_p: ReplyControl = None
    user: ReplyControl = None
    verbosity: ReplyControl = None
    web_search_options: ReplyControl = None


class CountQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The format of the request in the body."""

    format: CountFormat = CHAT


class CountRequest(FreeMembers, forbid_unknown_fields=True, kw_only=True):
    """Chat messages as they would be sent to the provider, or ``text`` alone."""

    in_address: ClassVar = CountQuery
    model: Name
    messages: list[MessageAsSent] | None = None
    tools: list[ToolAsSent] | None = None
    tool_choice: ToolChoice | None = None
    functions: list[Annotated[dict[str, Any], Meta(title="FunctionDefinition")]] | None = None
    function_call: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    prediction: (
        Annotated[dict[str, Any], Meta(title="Prediction", description="Text that the reply is expected to repeat.")]
        | None
    ) = None
    prompt_cache_key: CacheKey | None = None
    text: str | None = None


class Count(RequestCount, frozen=True, kw_only=True):
    """``tokens`` predicts the request's ``prompt_tokens``. It is the sum of priming, tools and messages."""

    counting: Annotated[
        Counting,
        Meta(
            description="How: `exact`, with the vendor's own `vocabulary` and estimated wrapping, as an `estimate` by the "
            "rules of the model's family, or of an `unknown` maker's model as a bound, larger than every measured family's."
        ),
    ]
    text: int | None


def model_of(request: dict[str, Any]) -> str:
    """The member ``model`` of a body that is a provider's request. Raises BadRequest."""
    name = request.get("model")
    if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
        return name
    raise BadRequest.at("#/model", f"The model's name, of 1 to {LONGEST_NAME} characters")


def count_in_format(wanted: CountRequest | dict[str, Any], model: Model, form: str) -> Count:
    """The count of a chat request, or of another provider's request. Raises InvalidEntry, BadRequest."""
    if isinstance(wanted, CountRequest):
        return count_of(wanted, model)
    return _told(count_provider_request(form, wanted, model), model, None)


def _told(counted: RequestCount, model: Model, text: int | None) -> Count:
    return Count(**msgspec.structs.asdict(counted), counting=_counting(counted.exact, model), text=text)


def _counting(exact: bool, model: Model) -> Counting:  # noqa: FBT001 - the count's own figure
    """How a request was counted; a part that no bill has shown makes it no more than the vocabulary's."""
    return "exact" if exact else "vocabulary" if model.exact else model.counting


def count_of(wanted: CountRequest, model: Model) -> Count:
    """The count of a chat request, in tokens. Raises InvalidEntry, BadRequest."""
    validate_messages(wanted.messages or [], "/messages", foreign)
    check_tools(wanted.tools)
    _check_beside(wanted)
    text = plain_text_tokens(wanted.text, model) if wanted.text is not None else None
    if wanted.messages is None:
        none: dict[str, Any] = {"tokens": 0, "priming": 0, "tools": 0, "messages": []}
        nothing = RequestCount(model=model.id, encoding=model.counted_with, exact=model.exact, **none)
        return _told(nothing, model, text)
    counted = count_request(
        model,
        messages=wanted.messages,
        tools=wanted.tools,
        tool_choice=regular_choice(wanted.tool_choice),
        functions=wanted.functions,
        function_call=wanted.function_call,
        response_format=wanted.response_format,
        prediction=wanted.prediction,
        thinks=asks_for_reasoning(msgspec.structs.asdict(wanted)),
    )
    return _told(counted, model, text)


def _check_beside(wanted: CountRequest) -> None:
    """Raise BadRequest for legacy functions or a response format that providers refuse."""
    for index, function in enumerate(wanted.functions or ()):
        converted(function, FunctionDefinition, f"/functions/{index}")
    if wanted.response_format is not None and wanted.response_format.get("type") == "json_schema":
        converted(wanted.response_format, SchemaFormat, "/response_format")
