"""Whether a reply has a word: the log asks it of replies that broke off, and the writers of requests of all others."""

from collections.abc import Mapping
from typing import Any, Final

_SAID: Final = ("refusal", "tool_calls", "function_call", "audio")
"""Members of a reply, beside its content, that say or do something."""


def has_word(reply: Mapping[str, Any], *, blanks: bool = False) -> bool:
    """Return whether a reply says or does anything, in whatever form it came.

    It has a text, a refusal, a call, a sound, a picture, or a part of its provider's that only this can read. Reasoning is
    no words, nor are members that no provider reads. The chat form has all that is said in a provider's own messages.
    ``blanks``: white space is a text, which most providers take.

    >>> has_word({"role": "assistant", "content": " ", "reasoning_content": "Hm"})
    False
    """
    content = reply.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if any(map(reply.get, _SAID)) or any(_says(part, blanks=blanks) for part in parts):
        return True
    native = reply.get("native")
    return isinstance(native, dict) and bool(native.get("only"))


def _says(part: Mapping[str, Any], *, blanks: bool) -> bool:
    """Whether a part of the content is no text, or one that is not empty."""
    kind = part.get("type", "text")
    if kind not in ("text", "refusal"):
        return True
    text = part.get(kind) or ""
    return bool(text if blanks else text.strip())
