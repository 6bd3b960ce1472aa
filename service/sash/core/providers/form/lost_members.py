"""Members of a provider's own message that windows in other forms do not have, such as citations.

Other forms are written from the chat message. What the own message says beside it is lost there, and the message is told.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from sash.core.providers.form.provider import Provider
from sash.core.providers.messages.sharing import is_reference

STRUCTURE: Final = frozenset(
    {
        *("type", "role", "id", "call_id", "status", "caller", "detail", "media_type", "mime_type"),
        *("cache_control", "logprobs"),
    }
)
"""Members that models do not read as text, in every form."""
METADATA: Final = STRUCTURE | {
    *("tool_call_id", "container", "index"),  # as ``id``: what joins parts
    *("tool_name", "execution", "phase"),  # as ``status``: how a part came about
    *("mimeType", "format", "resolution"),  # as ``media_type`` and ``detail``: each form describes media in its own way
    *("filename", "document_name", "displayName"),  # names of files, for which Gemini and OpenAI's links have no place
    "prompt_cache_breakpoint",  # as ``cache_control``: each form has its own marks
    *("data", "bytes"),  # media, which are sent, or told as lines
    *("signature", "fingerprint"),  # seals, which their maker alone can read
}
"""Members that no reader misses in another form, so nothing is told of them; a form has more of its own (``aside``)."""


def loses_members(message: Mapping[str, Any], provider: Provider) -> bool:
    """Return whether a stored message that came in this provider's form has members that no other form is sent.

    Of hosted tools' parts it is told that they are lines, or that they are left out.
    """
    native = message["native"]
    if any(name not in provider.shape.envelope for _, name, _ in native.get("beside", ())):
        return True
    if native.get("told") or native.get("only"):
        return False
    free = METADATA | provider.shape.aside | provider.kinds.seals | provider.kinds.sealed
    beside = [*_beside(native["messages"], provider, free | {"name"} if message["role"] == "tool" else free)]
    if not beside:
        return False
    said = "\n".join(_strings({name: value for name, value in message.items() if name != "native"}))
    return any(text not in said and msgspec.json.encode(text)[1:-1].decode() not in said for text in beside)


def _beside(value: Any, provider: Provider, free: AbstractSet[str]) -> Iterator[str]:
    """Yield the texts of a kept own message that are no references to the chat message. Reasoning has rules of its own."""
    match value:
        case str() if value.strip():
            yield value
        case list():
            for each in value:
                yield from _beside(each, provider, free)
        case dict() if not (is_reference(value) or _is_silent(value, provider)):
            if _is_failed(value):
                yield "is_error"
            for name, each in value.items():
                if name not in free and not provider.kinds.reasoning.has_member(name, each):
                    yield from _beside(each, provider, free)


def _is_silent(part: dict[str, Any], provider: Provider) -> bool:
    """Whether a part is reasoning, or stands for messages that other forms get."""
    is_reasoning = provider.kinds.reasoning.has(part) and not provider.is_call(part)
    return is_reasoning or provider.compaction(part) is not None


def _is_failed(part: Mapping[str, Any]) -> bool:
    """Whether a part is the result of a call that is marked as an error."""
    return part.get("is_error") is True or part.get("status") == "error"


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _strings(each)
        case dict():
            for each in value.values():
                yield from _strings(each)
