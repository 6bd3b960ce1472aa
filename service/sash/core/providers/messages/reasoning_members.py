"""Reasoning in chat messages: its members.

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

from collections.abc import Mapping
from typing import Any, Final

CONTENT: Final = "reasoning_content"
PLAIN: Final = (CONTENT, "reasoning", "reasoning_details")
BLOCKS: Final = "thinking_blocks"
SIGNED: Final = "extra_content"
MEMBERS: Final = frozenset({*PLAIN, BLOCKS, SIGNED})
"""Members of an assistant message that contain reasoning."""


def signature_of(tool_call: Mapping[str, Any]) -> str | None:
    """Return Gemini 3's thought signature, from the member where Google's OpenAI endpoint puts it."""
    match tool_call.get(SIGNED):
        case {"google": {"thought_signature": str(signature)}}:
            return signature
    return None


def plain_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message's reasoning, in whichever plain member it stands; empty without one.

    >>> plain_text({"role": "assistant", "reasoning": "Hm"})
    'Hm'
    """
    found = message.get(CONTENT) or message.get("reasoning") or reasoning_text(message.get("reasoning_details"))
    return found if isinstance(found, str) else ""


def reasoning_text(details: Any) -> str:
    """Return the text in OpenRouter's ``reasoning_details``; empty where all is sealed.

    >>> reasoning_text([{"type": "reasoning.text", "text": "Hm"}, {"type": "reasoning.encrypted", "data": "aGk="}])
    'Hm'
    """
    parts = [each for each in details if isinstance(each, Mapping)] if isinstance(details, list) else []
    texts = (each.get("text") or each.get("summary") for each in parts)
    return "".join(text for text in texts if isinstance(text, str))
