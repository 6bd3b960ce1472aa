"""What members and parameters mean, in a sentence each, where the name alone does not say it."""

from collections.abc import Mapping

_SETTINGS: dict[str, str] = {
    "owner": "Whose conversation it is; conversations are listed and erased by it.",
    "model": "The model of windows that name none.",
    "reserve": "Tokens that windows keep free for the reply.",
    "system": "The system prompt, first in every window.",
    "few_shots": "Examples, after the system prompt in every window.",
    "tools": "Tool definitions; they are in every window and count.",
    "tool_choice": "Sent with the tools.",
    "grounding_template": "How documents join their message; holds `{content}` and `{documents}`.",
    "document_separator": "What stands between two documents.",
    "metadata": "The client's own; kept and given back.",
    "ttl_seconds": "Seconds after the last change until the conversation is forgotten.",
}
_WINDOW_ANSWER: dict[str, str] = {
    "encoding": "What the tokens were counted with.",
    "exact": "Whether the count is the provider's own; false for an estimate.",
    "context_window": "Tokens that the model can hold; null when only the caller knows.",
    "budget": "Tokens that the window may have.",
    "request": "What the provider's SDK takes beside the model.",
    "stop_reason": "Why history ends where it does; `complete` when nothing was left out for size.",
    "note": "How many messages the note speaks for; 0 without one.",
    "correction": "The factor by which estimates were corrected from bills.",
}
MEANINGS: Mapping[str, Mapping[str, str]] = {
    "PageQuery": {
        "order": "Oldest first (`asc`), or newest first.",
        "limit": "Messages a page.",
        "cursor": "The `next_cursor` of the page before.",
    },
    "ListQuery": {
        "owner": "Whose conversations.",
        "limit": "Conversations a page.",
        "cursor": "The `next_cursor` of the page before.",
    },
    "ImportQuery": {"id": "The new conversation's id, in place of the one in the first line."},
    "ConversationSettings": _SETTINGS,
    "CreateConversation": _SETTINGS | {"id": "The client's own id, else one is made."},
    "Conversation": _SETTINGS,
    "Entry": {
        "id": "The client's own id: the same again is stored once.",
        "grounding": "What retrieval found for this message.",
        "pinned": "In every window.",
        "metadata": "The client's own; kept and given back.",
        "image_sizes": "Width and height in pixels of the images, in their order, where no header tells.",
    },
    "OpenAIWindow": _WINDOW_ANSWER,
    "ResponsesWindow": _WINDOW_ANSWER,
    "AnthropicWindow": _WINDOW_ANSWER,
    "GeminiWindow": _WINDOW_ANSWER,
}
"""By declaration and field."""
