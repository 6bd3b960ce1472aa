"""Declarations that only the document needs: what handlers splice from bytes or keep as plain mappings.

A chat message stays the mapping that a client sent, and a window's request is bytes; here they get their names, so that a
generated client has a type for each.
"""

from typing import Any, Literal

import msgspec

from service.api.schemas import AppendedMessage, ModelInfo
from service.core.window import Explained
from service.windows.answer import WindowHead


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
    durability: Literal["fast", "durable", "replicated", "assume"]
    store: ReadyStore


class ModelList(msgspec.Struct):
    """Every model known by name."""

    models: list[ModelInfo]


class AppendedMessages(msgspec.Struct):
    """What was appended; with a window when one was asked for, or with why it could not be made."""

    conversation_id: str
    version: int
    first_seq: int
    last_seq: int
    messages: list[AppendedMessage]
    window: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    window_error: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class OpenAIRequest(msgspec.Struct):
    """What ``client.chat.completions.create`` takes beside the model."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    tool_choice: str | dict[str, Any] = ""


class ResponsesRequest(msgspec.Struct):
    """What ``client.responses.create`` takes beside the model."""

    input: list[dict[str, Any]]
    instructions: str = ""
    tools: list[dict[str, Any]] = []
    tool_choice: str | dict[str, Any] = ""


class AnthropicRequest(msgspec.Struct):
    """What ``client.messages.create`` takes beside the model and ``max_tokens``."""

    messages: list[dict[str, Any]]
    system: str = ""
    tools: list[dict[str, Any]] = []
    tool_choice: dict[str, Any] = {}


class GeminiRequest(msgspec.Struct):
    """What ``client.models.generate_content`` takes beside the model."""

    contents: list[dict[str, Any]]
    config: dict[str, Any]


StopReason = Literal["complete", "budget", "limit", "summary"]


class WindowFigures(WindowHead, frozen=True, kw_only=True):
    stop_reason: StopReason
    explain: list[Explained] | None = None


class OpenAIWindow(WindowFigures, frozen=True, kw_only=True):
    """A window whose request is for chat completions."""

    format: Literal["openai"]
    request: OpenAIRequest


class ResponsesWindow(WindowFigures, frozen=True, kw_only=True):
    """A window whose request is for the Responses API."""

    format: Literal["responses"]
    request: ResponsesRequest


class AnthropicWindow(WindowFigures, frozen=True, kw_only=True):
    """A window whose request is for Anthropic's Messages API."""

    format: Literal["anthropic"]
    request: AnthropicRequest


class GeminiWindow(WindowFigures, frozen=True, kw_only=True):
    """A window whose request is for Gemini."""

    format: Literal["gemini"]
    request: GeminiRequest


WINDOWS = (OpenAIWindow, ResponsesWindow, AnthropicWindow, GeminiWindow)
