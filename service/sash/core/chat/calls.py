"""The functions that a chat message calls, and their arguments as text and as the objects that some providers require."""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_DEPTH_LIMIT: Final = 64  # Gemini reads JSON with protobuf, which refuses nesting deeper than 100
INVALID: Final = "INVALID_JSON"
"""The member with arguments that are no JSON object."""


def functions_called(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the functions that a message calls, each with its name and arguments; the legacy one is last."""
    if message["role"] != "assistant":
        return []
    calls: list[Mapping[str, Any]] = [
        call.get("function") or call.get("custom") or {} for call in message.get("tool_calls") or ()
    ]
    legacy = message.get("function_call")
    return [*calls, legacy] if isinstance(legacy, Mapping) else calls


def arguments_of(call: Mapping[str, Any]) -> str:
    """Return a call's arguments as text."""
    arguments = call.get("arguments", call.get("input", ""))
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def compact(text: str) -> str:
    """Return JSON arguments without spaces: providers bill the parsed arguments, not the text that was sent.

    Arguments with half of a surrogate pair, as ``\\ud83d`` of an emoji that was cut, have no such text, and stay.
    """
    try:
        written = _written(json.loads(text))
        if "\\u" in text:
            written.encode()
    except (ValueError, RecursionError):
        return text
    return written


def arguments_object(arguments: str, *, custom: bool) -> dict[str, Any]:
    """Return arguments as an object, which Anthropic and Gemini require. Text that is no JSON object never raises.

    Arguments of a ``custom`` tool are text. An empty list is an empty object, as PHP writes it.
    """
    if custom:
        return {"input": arguments}
    if not arguments.strip():
        return {}
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        value = None
    if value == []:
        return {}
    if isinstance(value, dict) and not _deeper_than(value, _DEPTH_LIMIT):
        return value
    return {INVALID: arguments}


def written_object(call: Mapping[str, Any]) -> str:
    """Return a call's arguments as the text of the object that is sent to Anthropic and Gemini."""
    return _written(arguments_object(arguments_of(call), custom="arguments" not in call and "input" in call))


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        inner = [item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        if not inner:
            return False
        level = [item for items in inner for item in items]
    return True
