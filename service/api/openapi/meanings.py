"""What members and parameters mean, in a sentence each, where the name alone does not say it."""

from collections.abc import Mapping

_WINDOW: dict[str, str] = {
    "model": "The model that will read the window; the conversation's when left out.",
    "reserve": "Tokens kept free for the reply; the conversation's when left out, else 1024.",
    "max_tokens": "A smaller window than the model's, in tokens; with it an unknown model is no error.",
    "limit": "At most so many of the newest messages.",
    "overflow": "At the first message that does not fit: `stop`, or `skip` it and go on with smaller, older ones.",
    "grounding": "Documents on the newest user message (`latest`), on `all`, each document once, or on `none`.",
    "grounding_max_tokens": "A budget for documents alone, in tokens.",
    "grounding_overflow": "Documents that do not fit: `trim` to what does, `drop` all, or answer with an `error`.",
    "dedupe": "What appears once, at its newest place: documents (`grounding`), besides `messages`, or `none`.",
    "stable": "Leave history out in steps, so that the provider's prompt cache stays warm.",
    "stable_step": "The size of a step, as a share of the budget.",
    "start": "`user`: the kept history begins with a user message.",
    "summary": "When the summary stands in for what it covers: when that is left out (`auto`), `never`, `always`.",
    "note": "One system line in place of what was left out: how many messages.",
    "explain": "Adds a line for each message considered: kept or not, and why.",
    "format": "The provider whose SDK takes `request`.",
}
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
    "WindowQuery": _WINDOW,
    "WindowRequest": _WINDOW | {name: _SETTINGS[name] for name in ("system", "few_shots", "tools", "tool_choice")},
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
