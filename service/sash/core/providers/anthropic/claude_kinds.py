"""The types of Claude's blocks: ``ContentBlockParam``, ``ContentBlock`` and their beta forms of anthropic 2.11.0."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sash.core.providers.form.known_kinds import UnknownKind, objects_at, unknown_name

BLOCKS: Final = (
    "text",
    "image",
    "document",
    "search_result",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "mcp_tool_listing",
    "container_upload",
    "compaction",
    "tool_addition",
    "tool_removal",
    "fallback",
)
"""Types of Claude's blocks."""
RESULT_BLOCKS: Final = ("text", "image", "document", "search_result", "tool_reference", "browser_state")
"""Types of blocks in a ``tool_result``."""


def unknown_blocks(message: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield the types of blocks that Claude does not have, in a message and inside its tool results."""
    for block, place in objects_at(message.get("content"), f"{pointer}/content"):
        yield from unknown_name(block.get("type"), f"{place}/type", "block type", BLOCKS)
        if block.get("type") == "tool_result":
            for inner, inner_place in objects_at(block.get("content"), f"{place}/content"):
                yield from unknown_name(inner.get("type"), f"{inner_place}/type", "block type", RESULT_BLOCKS)
