"""What goes in and comes out, declared once: validation, encoding and the OpenAPI document follow from these."""

from typing import Annotated, Any

import msgspec

from service.core.messages import Entry, Grounding, Id
from service.core.parameters import Name
from service.core.settings import ConversationSettings, ToolChoice


class CreateConversation(
    ConversationSettings, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A new conversation; every field is optional."""

    id: Id | None = None


class EncodingTokens(msgspec.Struct, frozen=True):
    """Tokens in each encoding."""

    o200k_base: int
    cl100k_base: int


class MessageRange(msgspec.Struct, frozen=True):
    """How many messages there are, and their first and last sequence numbers; null when there is none."""

    count: int
    first_seq: int | None
    last_seq: int | None


class ConversationSummary(msgspec.Struct, frozen=True):
    """The text that stands in for the oldest messages."""

    text: str
    through_seq: int
    tokens: EncodingTokens


class Conversation(ConversationSettings, frozen=True, kw_only=True, omit_defaults=True):
    """A conversation's settings and state."""

    id: str
    version: int
    created_at: str
    updated_at: str
    messages: MessageRange
    tokens: EncodingTokens
    expires_at: str | None
    summary: ConversationSummary | None


class AppendMessages(msgspec.Struct, forbid_unknown_fields=True):
    """Entries to append, all or none, in order."""

    messages: Annotated[list[Entry], msgspec.Meta(min_length=1)]


class AppendedMessage(msgspec.Struct, frozen=True):
    """Where an entry is, and what its message costs without documents."""

    seq: int
    id: str
    duplicate: bool
    tokens: EncodingTokens


class StoredMessage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An entry as it is kept."""

    seq: int
    id: str
    created_at: str
    message: msgspec.Raw
    tokens: EncodingTokens
    pinned: bool
    grounding: Grounding | None = None
    grounding_tokens: EncodingTokens | None = None
    metadata: msgspec.Raw | None = None
    redacted: bool = False


class MessagePage(msgspec.Struct, frozen=True):
    """A page of history."""

    messages: list[StoredMessage]
    next_cursor: str | None


class JsonSchema(msgspec.Struct):
    """What we rely on in a response format's schema."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    description: str | None = None
    schema: dict[str, Any] | None = None


class SchemaFormat(msgspec.Struct):
    """The response format that becomes text of the prompt; the others cost nothing."""

    json_schema: JsonSchema


class CountRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Bare chat messages, as they would be sent; or ``text`` alone."""

    model: Name
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: ToolChoice | None = None
    functions: list[dict[str, Any]] | None = None
    function_call: ToolChoice | None = None
    response_format: dict[str, Any] | None = None
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
    context_window: int | None
    max_input_tokens: int | None
    max_output_tokens: int | None
    margin: float
    calibration: Calibration | None
