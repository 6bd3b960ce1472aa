"""Messages without what the model thought."""

from typing import Any

from service.core.native.costs import is_thought
from service.core.native.seals import SIGNATURES

Object = dict[str, Any]


def without_reasoning(native: Object, *, seals: bool = True) -> Object:
    """The member ``native`` of a message, its thoughts left out: whole, or not at all. Their ``seals`` on calls too, or not.

    Items of a Responses reply lose their ids with them: OpenAI answers 400 to a stored item that comes without the thoughts
    that led to it.
    """
    messages = [left for message in native["messages"] for left in _without(message, seals=seals)]
    if native["format"] == "responses" and len(messages) < len(native["messages"]):
        messages = [{name: value for name, value in item.items() if name != "id"} for item in messages]
    return {**native, "messages": messages}


def _without(message: Object, *, seals: bool) -> list[Object]:
    """The message without thoughts; nothing where it held no more."""
    if is_thought(message):
        return []
    for key in ("content", "parts"):
        parts = message.get(key)
        if isinstance(parts, list):
            left = [_unsigned(part) if seals else part for part in parts if not is_thought(part)]
            return [{**message, key: left}] if left or not parts else []
    return [message]


def _unsigned(part: Any) -> Any:
    """A part without its signature; a part of nothing else goes out as an empty text."""
    if not isinstance(part, dict) or not part.keys() & SIGNATURES:
        return part
    return {name: value for name, value in part.items() if name not in SIGNATURES} or {"text": ""}
