"""A window by the form of its request: the law makes the figures, and the request is spliced in as bytes."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from service.core.messages import MessageAsSent
from service.core.settings import SystemPrompt, ToolAsSent, ToolChoice
from service.core.window import Explained
from service.windows.answer import WindowHead

ProviderObject = Annotated[
    dict[str, Any], Meta(title="ProviderObject", description="An object of the provider's request.")
]
StopReason = Annotated[
    Literal["complete", "budget", "limit", "summary"],
    Meta(
        title="StopReason",
        description="Why history ends where it does; `complete` when nothing was left out for size.",
    ),
]


class OpenAIRequest(msgspec.Struct):
    """What ``client.chat.completions.create`` takes beside the model."""

    messages: list[MessageAsSent]
    tools: list[ToolAsSent] = []
    tool_choice: ToolChoice = ""


class ResponsesRequest(msgspec.Struct):
    """What ``client.responses.create`` takes beside the model."""

    input: list[ProviderObject]
    instructions: str = ""
    tools: list[ProviderObject] = []
    tool_choice: ToolChoice = ""


class AnthropicRequest(msgspec.Struct):
    """What ``client.messages.create`` takes beside the model and ``max_tokens``."""

    messages: list[ProviderObject]
    system: SystemPrompt = ""
    tools: list[ProviderObject] = []
    tool_choice: ProviderObject = {}


class GeminiRequest(msgspec.Struct):
    """What ``client.models.generate_content`` takes beside the model."""

    contents: list[ProviderObject]
    config: ProviderObject


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


WINDOWS = {
    "openai": OpenAIWindow,
    "responses": ResponsesWindow,
    "anthropic": AnthropicWindow,
    "gemini": GeminiWindow,
}
