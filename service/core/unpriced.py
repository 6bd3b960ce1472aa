"""What a message carries beside the members that recordings price: counted at the tokens of its strings.

Providers add members, and clients add their own. A window sends them on, so they are counted; nobody knows the bill, so the
count is no longer exact.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from service.core.reasoning import MEMBERS
from service.core.strings import Pair, text_tokens

_MESSAGE: Final = frozenset({"role", "content", "name", "refusal", "tool_calls", "function_call", "tool_call_id"})
_ASSISTANT: Final = _MESSAGE | MEMBERS
_PLAIN: Final = frozenset({"role", "content"})
_CALL: Final = {
    "id": (),
    "type": (),
    "function": ("name", "arguments"),
    "custom": ("name", "input"),
    "extra_content": (),
}
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "text": (),
    "refusal": (),
    "image_url": ("url", "detail", "width", "height"),
    "input_audio": ("data", "format"),
    "file": ("file_id", "file_data", "filename"),
}


def unpriced_tokens(message: Mapping[str, Any]) -> Pair:
    """Return the tokens of the strings that stand in no known member of a message."""
    if message.keys() <= _PLAIN and type(message["content"]) is str:  # as nearly always
        return 0, 0
    return text_tokens(list(_unpriced(message)))


def _unpriced(message: Mapping[str, Any]) -> Iterator[Any]:
    known = _ASSISTANT if message["role"] == "assistant" else _MESSAGE
    yield from _others(message, known)
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = str(part.get("type"))
        yield from _others(part, {"type", kind})
        if kind in _PARTS:
            yield from _others(part.get(kind), _PARTS[kind])
    for call in message.get("tool_calls") or ():
        yield from _others(call, _CALL)
        for name, inner in _CALL.items():
            if inner:
                yield from _others(call.get(name), inner)
    yield from _others(message.get("function_call"), _CALL["function"])


def _others(value: Any, known: Any) -> Iterator[Any]:
    """Members of an object that are not ``known`` and hold something, each with its name."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name not in known and each not in (None, "", [], {}, False):
                yield {name: each}
