"""The kinds of items, blocks and parts that providers have, so that a misspelt or invented one is not stored for ever.

Enumerated from the types of the vendors' SDKs: openai 3.52.0 (``ResponseInputItemParam``, ``ResponseItem`` and their beta
forms; ``Message`` of conversations), anthropic 2.11.0 (``ContentBlockParam``, ``ContentBlock`` and their beta forms) and
google-genai 3.4.0 (``Part``).
tests/core/test_known_kinds.py compares them with the SDKs that are installed. ``SASH_ALLOW_ITEMS`` opens the lists.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from sash.core.chat.mistakes import did_you_mean, is_misspelt
from sash.problems import InvalidEntry, Pointer

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

PARTS: Final = (
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "videoMetadata",
    "audioMetadata",
    "audioTranscription",
    "speechMetadata",
    "documentMetadata",
    "spreadsheetMetadata",
    "mediaResolution",
    "mediaProcessing",
    "partMetadata",
)
"""Members of Gemini's parts, which are also written in snake case."""
ROLES: Final = ("user", "model", "function", "tool", "system")
"""Roles of Gemini's contents. Older SDKs write the last three."""


class UnknownKind(NamedTuple):
    """A kind that a provider does not have, its place, what it is called, and the kinds that the provider has there."""

    name: str
    pointer: str
    what: str
    known: tuple[str, ...]


def unknown_items(item: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield an item's type, and those of a message's parts, that OpenAI's Responses does not have."""
    kind = item.get("type") or "message"
    yield from unknown_name(kind, f"{pointer}/type", "item type", ITEMS)
    for part, place in objects_at(item.get("content") if kind == "message" else None, f"{pointer}/content"):
        yield from unknown_name(part.get("type"), f"{place}/type", "part type", CONTENTS)


def unknown_blocks(message: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield the types of blocks that Claude does not have, in a message and inside its tool results."""
    for block, place in objects_at(message.get("content"), f"{pointer}/content"):
        yield from unknown_name(block.get("type"), f"{place}/type", "block type", BLOCKS)
        if block.get("type") == "tool_result":
            for inner, inner_place in objects_at(block.get("content"), f"{place}/content"):
                yield from unknown_name(inner.get("type"), f"{inner_place}/type", "block type", RESULT_BLOCKS)


def unknown_parts(content: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield a content's role, and the members of its parts, that Gemini does not have.

    A member beside one that says what the part is may be the client's own, unless it is a misspelt one.
    """
    yield from unknown_name(content.get("role") or "user", f"{pointer}/role", "role", ROLES)
    parts = content.get("parts")
    for part, place in objects_at([parts] if isinstance(parts, dict) else parts, f"{pointer}/parts"):
        for name, value in part.items():
            if value is None or name in _EITHER_CASE:
                continue
            if not _says_what_it_is(part) or is_misspelt(name, _EITHER_CASE):
                yield UnknownKind(name, f"{place}/{name}", "part", PARTS)


def objects_at(values: Any, pointer: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the objects in a list, each with its pointer."""
    for index, value in enumerate(values if isinstance(values, list) else ()):
        if isinstance(value, dict):
            yield value, f"{pointer}/{index}"


def unknown_name(name: Any, pointer: str, what: str, known: tuple[str, ...]) -> Iterator[UnknownKind]:
    """Yield the name as an unknown kind, unless it is known."""
    if name not in known:
        yield UnknownKind(str(name), pointer, what, known)


def _says_what_it_is(part: Mapping[str, Any]) -> bool:
    return any(value is not None and name in _EITHER_CASE for name, value in part.items())


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


_EITHER_CASE: Final = frozenset(PARTS) | frozenset(map(_snake, PARTS))


def unknown_kind(found: UnknownKind) -> InvalidEntry:
    """Return the problem of an unknown kind: the nearest known one, all known ones, and the setting that lets it pass."""
    if found.name == "None":
        return InvalidEntry.at(f"#{found.pointer.removesuffix('/type')}", "The field 'type' is missing")
    near = difflib.get_close_matches(found.name.lower(), [name.lower() for name in found.known], n=1)
    meant = did_you_mean([name for name in found.known if name.lower() in near])
    names = ", ".join(f"'{name}'" for name in found.known)
    shown = found.name[:100]
    what = f"An unknown {found.what} {shown!r}{meant or ';'} The provider has {names}"
    opened = f"SASH_ALLOW_ITEMS={shown} lets the service take it"
    return InvalidEntry(f"{what}; {opened}: see #{found.pointer}.", errors=[Pointer(f"#{found.pointer}", what)])
