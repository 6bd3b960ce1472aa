"""Reasoning in messages: its members, its tokens, and its removal.

Providers of chat completions put the model's reasoning into members of their own. They require the reasoning of the newest
turn's tool loop, ignore or bill older reasoning, and refuse a signed block that was changed. So a block is sent unchanged
or not at all. Gemini requires the signatures of all calls, so these are sent too, except with ``reasoning=none``::

    member                          from                                        sent in the formats
    reasoning_content, reasoning,   DeepSeek, Kimi, Qwen, GLM, vLLM, OpenRouter  openai
    reasoning_details
    thinking_blocks                 Claude through LiteLLM                      openai, anthropic
    tool_calls[].extra_content      Gemini 3's thought signatures               openai, gemini

Sources: api-docs.deepseek.com/guides/thinking_mode (tool calls), ai.google.dev/gemini-api/docs/thought-signatures,
platform.claude.com/docs/en/build-with-claude/extended-thinking (preserving thinking blocks).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service.core.native.costs import SIGNATURES, is_thought
from service.core.native.pieces import Object
from service.core.text import Pair, strings, text_tokens
from service.core.unicode_scripts import Mix, mix_of

_PLAIN: Final = ("reasoning_content", "reasoning", "reasoning_details")
_BLOCKS: Final = "thinking_blocks"
_SIGNED: Final = "extra_content"
MEMBERS: Final = frozenset({*_PLAIN, _BLOCKS, _SIGNED})
"""Members of an assistant message that contain reasoning."""

_CARRIED: Final = {"openai": (0, 1, 2), "anthropic": (1,), "gemini": (2,), "responses": ()}
_BOUND: Final = re.compile(
    r"claude-(?:(?:fable|mythos)-(?:5[.-][1-9]|[6-9])|(?:opus|sonnet|haiku)-(?:5[.-][5-9]|[6-9]))"
)


class Reasoning(msgspec.Struct, array_like=True, frozen=True):
    """Tokens of a message's reasoning, by kind: plain members, thinking blocks, signatures on calls.

    ``mix`` are the properties of the first two that decide their tokens in other vocabularies.
    """

    plain: Pair = (0, 0)
    blocks: Pair = (0, 0)
    signatures: Pair = (0, 0)
    mix: Mix | None = None

    def tokens(self, column: int, form: str = "openai") -> int:
        """Return the tokens of the kinds that ``form`` sends, in o200k_base (column 0) or cl100k_base (1)."""
        kinds = (self.plain, self.blocks, self.signatures)
        return sum(kinds[kind][column] for kind in _CARRIED[form])


def reasoning_of(message: Mapping[str, Any]) -> Reasoning | None:
    """Return the tokens of an assistant message's reasoning; None if it has none."""
    said = {name: message[name] for name in _PLAIN if message.get(name)}
    thought = {_BLOCKS: message[_BLOCKS]} if message.get(_BLOCKS) else {}
    plain, blocks = text_tokens(said), text_tokens(thought)
    signed = [each[_SIGNED] for each in (message, *(message.get("tool_calls") or ())) if each.get(_SIGNED)]
    mix = mix_of("".join(strings(said | thought)), plain[0] + blocks[0], plain[1] + blocks[1])
    found = Reasoning(plain, blocks, text_tokens(signed), mix)
    return None if found == Reasoning() else found


def without_reasoning(message: Mapping[str, Any], *, seals: bool = True) -> dict[str, Any]:
    """Return the message without its reasoning, also in its member ``native``. With ``seals``, also without signatures."""
    gone = MEMBERS if seals else MEMBERS - {_SIGNED}
    left = {name: value for name, value in message.items() if name not in gone}
    if seals and (calls := left.get("tool_calls")):
        left["tool_calls"] = [{name: value for name, value in call.items() if name != _SIGNED} for call in calls]
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


def binds_reasoning(model: str) -> bool:
    """Return whether a model refuses a thinking block if anything before the block has changed.

    Claude Fable 5.1 and later, and Opus, Sonnet and Haiku 5.5 and later do: a changed system prompt, tool or earlier
    message makes every later block invalid, and the answer is 400. Blocks may be left out, the oldest first
    (platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks, September 2026).
    """
    return _BOUND.search(model) is not None
