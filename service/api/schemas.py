"""What goes in and comes out, declared once: validation, encoding and the OpenAPI document follow from these."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from service.core.messages import Entry, Grounding, Id, MessageAsSent, Status
from service.core.models import Counting, WindowSource
from service.core.parameters import Name
from service.core.settings import ConversationSettings, ToolAsSent, ToolChoice
from service.core.window import Explained
from service.windows.answer import WindowHead

Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""RFC 3339, in UTC, to the millisecond."""
Lines = Annotated[str, Meta(min_length=1, description="A line of settings, then a line an entry.")]
Window = Annotated[dict[str, Any], Meta(title="Window", description="A window, by the form of its request.")]
"""A window as JSON, whose figures and request the law and the formats make."""
ProblemObject = Annotated[
    dict[str, Any],
    Meta(
        title="ProblemObject",
        description="A problem as RFC 9457 has it: `type`, `title`, `status`, `detail`, and its figures.",
    ),
]


ProviderObject = Annotated[
    dict[str, Any], Meta(title="ProviderObject", description="An object of the provider's request.")
]


class CreateConversation(
    ConversationSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A new conversation; every field is optional."""

    id: Annotated[Id | None, Meta(description="The client's own id, else one is made.")] = None


class EncodingTokens(msgspec.Struct, frozen=True):
    """Tokens in each encoding."""

    o200k_base: int
    cl100k_base: int


class MessageRange(msgspec.Struct, frozen=True):
    """How many messages there are, and their first and last sequence numbers; null when there is none."""

    count: int
    first_seq: int | None
    last_seq: int | None


class ConversationSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text that stands in for the oldest messages; ``item`` is a provider's compaction item beside it."""

    text: str
    through_seq: int
    tokens: EncodingTokens
    item: ProviderObject | None = None


class RecallProgress(msgspec.Struct, frozen=True):
    """How the conversation recalls, and how many of its messages are indexed by now."""

    mode: str
    messages: int
    words: int
    vectors: int


class Conversation(ConversationSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=False):
    """A conversation's settings and state."""

    id: str
    version: int
    created_at: Timestamp
    updated_at: Timestamp
    messages: MessageRange
    tokens: EncodingTokens
    expires_at: Timestamp | None
    summary: ConversationSummary | None
    recall_progress: RecallProgress | None = None


class AppendMessages(msgspec.Struct, forbid_unknown_fields=True):
    """Entries to append, all or none, in order."""

    messages: Annotated[
        list[Entry],
        Meta(min_length=1, description="Entries. A chat message alone is taken for the entry that holds it."),
    ]


class AppendedMessage(msgspec.Struct, frozen=True):
    """Where an entry is, and what its message costs without documents."""

    seq: int
    id: str
    duplicate: bool
    tokens: EncodingTokens


class AppendedMessages(msgspec.Struct):
    """What was appended; with a window when one was asked for, or with why it could not be made."""

    conversation_id: str
    version: int
    first_seq: int
    last_seq: int
    messages: list[AppendedMessage]
    window: Window | msgspec.UnsetType | None = msgspec.UNSET
    window_error: ProblemObject | msgspec.UnsetType = msgspec.UNSET


class StoredMessage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An entry as it is kept."""

    seq: int
    id: str
    created_at: Timestamp
    message: Annotated[msgspec.Raw, Meta(title="ChatMessage")]
    tokens: EncodingTokens
    pinned: bool
    grounding: Grounding | None = None
    grounding_tokens: EncodingTokens | None = None
    metadata: Annotated[msgspec.Raw, Meta(title="Metadata")] | None = None
    redacted: bool = False
    status: Status | None = None


class MessagePage(msgspec.Struct, frozen=True):
    """A page of history."""

    messages: list[StoredMessage]
    next_cursor: str | None


class JsonSchema(msgspec.Struct):
    """What we rely on in a response format's schema."""

    name: Annotated[str, Meta(min_length=1)]
    description: str | None = None
    schema: dict[str, Any] | None = None


class SchemaFormat(msgspec.Struct):
    """The response format that becomes text of the prompt; the others cost nothing."""

    json_schema: JsonSchema


ResponseFormat = Annotated[
    dict[str, Any],
    Meta(title="ResponseFormat", description="What the reply must look like, as the provider writes it."),
]


class CountRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Bare chat messages, as they would be sent; or ``text`` alone."""

    model: Name
    messages: list[MessageAsSent] | None = None
    tools: list[ToolAsSent] | None = None
    tool_choice: ToolChoice | None = None
    functions: list[Annotated[dict[str, Any], Meta(title="FunctionDefinition")]] | None = None
    function_call: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    prediction: (
        Annotated[dict[str, Any], Meta(title="Prediction", description="What much of the reply is expected to be.")]
        | None
    ) = None
    text: str | None = None


class Count(msgspec.Struct, frozen=True):
    """``tokens`` predicts the request's ``prompt_tokens``; it is the sum of priming, tools and messages."""

    model: str
    encoding: str
    exact: bool
    tokens: int
    priming: int
    tools: int
    messages: list[int]
    text: int | None


class Calibration(msgspec.Struct, frozen=True):
    """How far predictions were from what was billed, in tokens (predicted - billed) and as the correction applied."""

    n: int
    mean_error: float
    worst_error: int
    correction: float


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What Sash knows of a model; windows in tokens, null where only the caller knows."""

    id: str
    provider: str
    encoding: str
    exact: bool
    counting: Annotated[
        Counting,
        Meta(
            description="`exact`: recorded bills agree. `vocabulary`: the vendor's own vocabulary counts text, what stands "
            "around it is estimated. `estimate`: neither is known."
        ),
    ]
    context_window: int | None
    context_window_source: Annotated[
        WindowSource,
        Meta(
            description="`listed` by the maker, by who sells it or by the operator; `assumed` where nobody states it."
        ),
    ]
    max_input_tokens: int | None
    max_output_tokens: int | None
    margin: float
    calibration: Calibration | None


class ModelList(msgspec.Struct):
    """Every model known by name."""

    models: list[ModelInfo]


class Alive(msgspec.Struct):
    """The process answers."""

    status: Literal["alive"]


class ReadyStore(msgspec.Struct):
    """What was found out about the store, and what makes an acknowledged turn as safe as ``durability`` says."""

    appendonly: Literal["yes", "no", "unknown"]
    appendfsync: Literal["always", "everysec", "no", "unknown"]
    how: str


class Ready(msgspec.Struct):
    """The store answers, too, and can be as durable as the service is set to be."""

    status: Literal["ready"]
    durability: Annotated[Literal["fast", "durable", "replicated", "assume"], Meta(title="Durability")]
    store: ReadyStore


class ProblemMeaning(msgspec.Struct, frozen=True):
    """What a problem type means, and what to do about it; both are Markdown."""

    type: str
    title: str
    status: int
    means: str
    do: str


StopReason = Annotated[
    Literal["complete", "budget", "limit", "summary"],
    Meta(
        title="StopReason",
        description="Why history ends where it does; `complete` when nothing was left out for size.",
    ),
]


CacheKey = Annotated[
    str, Meta(description="Names the conversation to the provider's prompt cache, with `cache=auto`; costs no tokens.")
]


class OpenAIRequest(msgspec.Struct):
    """What ``client.chat.completions.create`` takes beside the model."""

    messages: list[MessageAsSent]
    tools: list[ToolAsSent] = []
    tool_choice: ToolChoice = ""
    prompt_cache_key: CacheKey = ""


class ResponsesRequest(msgspec.Struct):
    """What ``client.responses.create`` takes beside the model."""

    input: list[ProviderObject]
    instructions: str = ""
    tools: list[ProviderObject] = []
    tool_choice: ToolChoice = ""
    prompt_cache_key: CacheKey = ""


AnthropicSystem = Annotated[
    str | list[ProviderObject],
    Meta(
        title="AnthropicSystem", description="The system text; blocks of it where one is marked for the prompt cache."
    ),
]


class AnthropicRequest(msgspec.Struct):
    """What ``client.messages.create`` takes beside the model and ``max_tokens``."""

    messages: list[ProviderObject]
    system: AnthropicSystem = ""
    tools: list[ProviderObject] = []
    tool_choice: ProviderObject = {}


class GeminiRequest(msgspec.Struct):
    """What ``client.models.generate_content`` takes beside the model."""

    contents: list[ProviderObject]
    config: ProviderObject


class WindowFigures(WindowHead, frozen=True, kw_only=True):
    """A window but for its request and the form of it."""

    stop_reason: StopReason
    explain: list[Explained] | None = None


WINDOWS: dict[str, type[msgspec.Struct]] = {
    form: msgspec.defstruct(
        request.__name__.replace("Request", "Window"),
        [("format", Literal[form]), ("request", request)],
        bases=(WindowFigures,),
        namespace={"__doc__": f"A window whose ``request`` is for the form ``{form}``."},
        frozen=True,
        kw_only=True,
    )
    for form, request in (
        ("openai", OpenAIRequest),
        ("responses", ResponsesRequest),
        ("anthropic", AnthropicRequest),
        ("gemini", GeminiRequest),
    )
}
"""The declarations of Window, by form: the figures are encoded from WindowHead, and the request's bytes spliced in."""
