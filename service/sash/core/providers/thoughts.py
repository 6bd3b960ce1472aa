"""Reasoning in messages: its members, its tokens, and its removal.

Providers of chat completions put the model's reasoning into members of their own. They require the reasoning of the newest
turn's tool loop, ignore or bill older reasoning, and refuse a signed block that was changed. So a block is sent unchanged
or not at all. Gemini wants the signatures of all calls, so these are sent too; with ``reasoning=none`` only those of the
newest turn, without which it answers 400::

    member                          from                                        sent in the formats
    reasoning_content, reasoning,   DeepSeek, Kimi, Qwen, GLM, vLLM, OpenRouter  openai
    reasoning_details
    thinking_blocks                 Claude through LiteLLM                      openai, anthropic
    tool_calls[].extra_content      Gemini 3's thought signatures               openai, gemini

Sources: api-docs.deepseek.com/guides/thinking_mode (tool calls), ai.google.dev/gemini-api/docs/thought-signatures,
platform.claude.com/docs/en/build-with-claude/extended-thinking (preserving thinking blocks).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from sash.core.providers.pieces import Object

PLAIN: Final = ("reasoning_content", "reasoning", "reasoning_details")
BLOCKS: Final = "thinking_blocks"
SIGNED: Final = "extra_content"
MEMBERS: Final = frozenset({*PLAIN, BLOCKS, SIGNED})
"""Members of an assistant message that contain reasoning."""

SIGNATURES: Final = frozenset({"thoughtSignature", "thought_signature"})
"""Members with Gemini's sealed thoughts; any part may have one."""


def parts_of(messages: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Yield the blocks, parts or items of a provider's messages."""
    for given in messages:
        message = given
        if "thinking" in given and "type" not in given:  # of Ollama
            yield {"type": "thinking", "thinking": given["thinking"]}
            message = {name: value for name, value in given.items() if name != "thinking"}
        parts = message.get("content") if message.get("type") in (None, "", "message") else None
        parts = message.get("parts") if parts is None else parts
        if isinstance(parts, list):
            yield from parts
        elif parts is not None:
            yield parts
        else:
            yield message


def is_thought(part: Any) -> bool:
    """Return whether a block, an item or a part holds only thoughts."""
    if not isinstance(part, dict):
        return False
    is_gemini = part.get("thought") is True and not part.keys() & {"functionCall", "function_call"}
    return (
        is_gemini
        or "reasoningContent" in part
        or part.get("type") in ("thinking", "redacted_thinking", "reasoning", "thought")
    )


def without_reasoning(message: Mapping[str, Any], *, seals: bool = True) -> dict[str, Any]:
    """Return the message without its reasoning, also in its member ``native``. With ``seals``, also without signatures."""
    gone = MEMBERS if seals else MEMBERS - {SIGNED}
    left = {name: value for name, value in message.items() if name not in gone}
    if seals and (calls := left.get("tool_calls")):
        left["tool_calls"] = [{name: value for name, value in call.items() if name != SIGNED} for call in calls]
    if native := left.get("native"):
        left["native"] = {**native, "messages": _without_thoughts(native, seals=seals)}
    return left


def _without_thoughts(native: Mapping[str, Any], *, seals: bool) -> list[Object]:
    """Return a provider's messages without thoughts; a thought is never shortened.

    Items of a Responses reply then lose their ids: OpenAI answers 400 to a stored item without the thoughts before it.
    """
    messages = [left for message in native["messages"] for left in _without_parts(message, seals=seals)]
    if native["format"] == "responses" and len(messages) < len(native["messages"]):
        return [{name: value for name, value in item.items() if name != "id"} for item in messages]
    return messages


def _without_parts(message: Object, *, seals: bool) -> list[Object]:
    """Return the message without thoughts; nothing where it held only thoughts."""
    if message.get("role") == "user":  # it has none of its own
        return [message]
    if "thinking" in message and "type" not in message:  # of Ollama
        return [{name: value for name, value in message.items() if name != "thinking"}]
    if is_thought(message):
        return []
    for key in ("content", "parts"):
        parts = message.get(key)
        if isinstance(parts, list):
            left = [_unsigned(part) if seals else part for part in parts if not is_thought(part)]
            return [{**message, key: left}] if left or not parts else []
    return [message]


def _unsigned(part: Any) -> Any:
    """Return a part without its signature; a part with nothing else becomes an empty text."""
    if not isinstance(part, dict) or not part.keys() & SIGNATURES:
        return part
    return {name: value for name, value in part.items() if name not in SIGNATURES} or {"text": ""}
