"""The types of items of OpenAI's Responses, and of the parts of their messages.

Enumerated from openai 3.52.0: ``ResponseInputItemParam``, ``ResponseItem`` and their beta forms, and ``Message`` of
conversations.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sash.core.providers.form.known_kinds import UnknownKind, objects_at, unknown_name

ITEMS: Final = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "computer_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "tool_search_call",
    "tool_search_output",
    "mcp_list_tools",
    "mcp_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "program",
    "program_output",
    "agent_message",
    "multi_agent_call",
    "multi_agent_call_output",
    "additional_tools",
    "configuration_update",
    "compaction",
    "compaction_trigger",
    "item_reference",
)
"""Types of items of OpenAI's Responses."""
CONTENTS: Final = (
    "input_text",
    "output_text",
    "text",
    "input_image",
    "input_file",
    "input_audio",
    "output_audio",
    "audio",
    "refusal",
    "summary_text",
    "reasoning_text",
    "computer_screenshot",
)
"""Types of parts of their messages: those of the SDK's messages and of stored conversations, and the Realtime API's."""


def unknown_items(item: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield an item's type, and those of a message's parts, that OpenAI's Responses does not have."""
    kind = item.get("type") or "message"
    yield from unknown_name(kind, f"{pointer}/type", "item type", ITEMS)
    for part, place in objects_at(item.get("content") if kind == "message" else None, f"{pointer}/content"):
        yield from unknown_name(part.get("type"), f"{place}/type", "part type", CONTENTS)
