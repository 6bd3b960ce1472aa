"""Members of a chat message, its parts and its calls that no rule of counting knows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sash.core.chat.file_links import LINKS
from sash.core.chat.messages import CustomCall, DocumentUrlPart, File, FunctionCall, ImageUrl, InputAudio
from sash.core.providers.thoughts import MEMBERS

_MESSAGE: Final = frozenset({"role", "content", "name", "refusal", "native"})
_OF_ROLE: Final = {
    "assistant": _MESSAGE | MEMBERS | {"tool_calls", "function_call"},
    "tool": _MESSAGE | {"tool_call_id"},
}
_CALL: Final = frozenset({"id", "type", "function", "custom", "extra_content"})
_CALLED: Final = {
    "function": frozenset(FunctionCall.__struct_fields__),
    "custom": frozenset(CustomCall.__struct_fields__),
}
_PARTS: Final = {
    "image_url": frozenset(ImageUrl.__struct_fields__),
    "input_audio": frozenset(InputAudio.__struct_fields__),
    "file": frozenset(File.__struct_fields__),
    **dict.fromkeys(LINKS, frozenset({"url"})),
}
_OF_PART: Final = {"document_url": frozenset(DocumentUrlPart.__struct_fields__) | {"type"}}
_NOTHING: Final = frozenset[str]()


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
        yield from _others(f"content/{index}/", part, _OF_PART.get(kind, frozenset(("type", kind))))
        yield from _others(f"content/{index}/{kind}/", part.get(kind), _PARTS.get(kind, _NOTHING))
    if message["role"] != "assistant":
        return
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield from _others(f"tool_calls/{index}/", call, _CALL)
        for name, known in _CALLED.items():
            yield from _others(f"tool_calls/{index}/{name}/", call.get(name), known)
    yield from _others("function_call/", message.get("function_call"), _CALLED["function"])


def _others(path: str, value: Any, known: frozenset[str]) -> Sequence[Unknown]:
    if not isinstance(value, dict) or value.keys() <= known:
        return ()
    names = [name for name in value if name not in known and value[name] not in (None, "", [], {}, False)]
    return [Unknown(path, name, value[name]) for name in names]
