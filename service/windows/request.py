"""A history in a request, and how its window is wanted."""

from typing import Annotated

from msgspec import Meta

from service.core.messages import Entry, Id
from service.core.parameters import WindowQuery
from service.core.settings import (
    DocumentSeparator,
    FewShots,
    GroundingTemplate,
    RecallTemplate,
    SystemPrompt,
    ToolChoice,
    Tools,
)


class WindowRequest(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A history in the body, and how its window is wanted; nothing is stored."""

    messages: list[Entry]
    conversation_id: Annotated[
        Id | None, Meta(description="Where the history is kept, for the lines that say where a whole tool result is.")
    ] = None
    system: SystemPrompt | None = None
    few_shots: FewShots | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    grounding_template: GroundingTemplate | None = None
    document_separator: DocumentSeparator | None = None
    recall_template: RecallTemplate | None = None
