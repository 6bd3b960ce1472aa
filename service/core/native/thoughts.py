"""Leave the thoughts out of a provider's message."""

from typing import Any

from service.core.native.costs import is_thought
from service.core.native.seals import SIGNATURES

Object = dict[str, Any]


def without_reasoning(native: Object, *, seals: bool = True) -> Object:
    """Return the member ``native`` without thoughts; a thought is never shortened. With ``seals``, also without signatures.

    Items of a Responses reply then lose their ids: OpenAI answers 400 to a stored item without the thoughts before it.
    """
    messages = [left for message in native["messages"] for left in _without(message, seals=seals)]
    if native["format"] == "responses" and len(messages) < len(native["messages"]):
        messages = [{name: value for name, value in item.items() if name != "id"} for item in messages]
    return {**native, "messages": messages}


def _without(message: Object, *, seals: bool) -> list[Object]:
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
