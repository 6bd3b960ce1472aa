"""A history in a request, and how its window is wanted."""

from typing import Annotated, Any

from msgspec import Meta

from service.core.messages import Entry
from service.core.parameters import WindowQuery
from service.core.settings import ToolChoice


class WindowRequest(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A history in the body, and how its window is wanted; nothing is stored."""

    messages: list[Entry]
    system: Annotated[str | None, Meta(description="The system prompt, first in every window.")] = None
    few_shots: Annotated[
        list[dict[str, Any]] | None, Meta(description="Examples, after the system prompt in every window.")
    ] = None
    tools: Annotated[
        list[dict[str, Any]] | None, Meta(description="Tool definitions; they are in every window and count.")
    ] = None
    tool_choice: Annotated[ToolChoice | None, Meta(description="Sent with the tools.")] = None
    grounding_template: str | None = None
    document_separator: str | None = None
