"""Members of a chat message, its parts and its calls that no rule of counting knows."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sash.core.chat.messages import CustomCall, File, FunctionCall, ImageUrl, InputAudio
from sash.core.providers.thoughts import MEMBERS

_MESSAGE: Final = frozenset({"role", "content", "name", "refusal", "native"})
_OF_ROLE: Final = {
    "assistant": _MESSAGE | MEMBERS | {"tool_calls", "function_call"},
    "tool": _MESSAGE | {"tool_call_id"},
}
_CALL: Final = {
    "id": (),
    "type": (),
    "function": FunctionCall.__struct_fields__,
    "custom": CustomCall.__struct_fields__,
    "extra_content": (),
}
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "text": (),
    "refusal": (),
    "image_url": ImageUrl.__struct_fields__,
    "input_audio": InputAudio.__struct_fields__,
    "file": File.__struct_fields__,
}


class Unknown(NamedTuple):
    """An undeclared member: the path of its object, ending in ``/`` if not empty, its name and its value."""

    path: str
    name: str
    value: Any


def unknown_members(message: Mapping[str, Any]) -> Iterator[Unknown]:
    """Return the undeclared members of a message, its parts and its calls, except empty ones."""
    yield from _others("", message, _OF_ROLE.get(message["role"], _MESSAGE))
    content = message.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        kind = str(part.get("type"))
        yield from _others(f"content/{index}/", part, {"type", kind})
        yield from _others(f"content/{index}/{kind}/", part.get(kind), _PARTS.get(kind, ()))
    if message["role"] != "assistant":
        return
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield from _others(f"tool_calls/{index}/", call, _CALL)
        for name in ("function", "custom"):
            yield from _others(f"tool_calls/{index}/{name}/", call.get(name), _CALL[name])
    yield from _others("function_call/", message.get("function_call"), _CALL["function"])


def _others(path: str, value: Any, known: Collection[str]) -> Iterator[Unknown]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            if name not in known and each not in (None, "", [], {}, False):
                yield Unknown(path, name, each)
