"""Members of a chat message, its parts and its calls: those that no rule of counting knows, and those that are not sent.

A provider answers 400 to members that it does not know, and clients keep their own beside a message: a time, an id of the
page. These *foreign* members are stored and never sent. They stand at the end of the stored message, in the member
``native``, from which they come back to their places when the message is read::

    as it came   {"role": "user", "content": "Hi", "createdAt": "2026-01-01"}
    as stored    {"role": "user", "content": "Hi",
                  "native": {"format": "foreign", "members": [["", "createdAt", "2026-01-01"]]}}

So a window in chat form cuts the end off without decoding, and what is counted is what is sent.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

from sash.core.chat.file_links import LINKS
from sash.core.chat.messages import CustomCall, File, FunctionCall, ImageUrl, InputAudio
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.reasoning_members import MEMBERS

FOREIGN: Final = "foreign"
"""The format of a member ``native`` that has members which no provider is sent."""
_ROLES: Final = ("system", "developer", "user", "assistant", "tool", "function")
_MESSAGE: Final = frozenset({"role", "content", "name", "refusal", "native"})
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
_OF_PART: Final = {"document_url": frozenset({"document_name"})}
_NOTHING: Final = frozenset[str]()
_USUAL_CALL: Final = frozenset({"id", "type", "function"})
Names = frozenset[str]
"""Names of members that are sent although no provider is known to take them; ``*`` stands for all."""
NO_NAMES: Final = frozenset[str]()
EVERY_MEMBER: Final = frozenset({"*"})


class _Known(NamedTuple):
    """Names of members that are known: of a message by its role, of a part and its inner object, of a call."""

    message: Mapping[str, frozenset[str]]
    part: frozenset[str]
    inner: Mapping[str, frozenset[str]]
    call: frozenset[str]

    def are_all(self, message: Mapping[str, Any]) -> bool:
        """Whether a message has no part, and no member beside the known ones: as nearly all. Quicker than ``_beside``."""
        if isinstance(message.get("content"), list) or "function_call" in message:
            return False
        if not message.keys() <= self.message.get(message["role"], _MESSAGE):
            return False
        return "tool_calls" not in message or all(map(is_usual_call, message["tool_calls"] or ()))


_PRICED: Final = _Known(
    message={
        **dict.fromkeys(_ROLES, _MESSAGE),
        "assistant": _MESSAGE | MEMBERS | {"tool_calls", "function_call"},
        "tool": _MESSAGE | {"tool_call_id"},
    },
    part=_NOTHING,
    inner=_PARTS,
    call=_CALL,
)
"""Members that rules of counting know."""
_SAID: Final = frozenset({"role", "content", "name", "cache_control"})
_SENT: Final = _Known(
    message={
        **dict.fromkeys(_ROLES, _SAID),
        "assistant": _SAID
        | MEMBERS
        | {"refusal", "tool_calls", "function_call", "audio", "annotations"}
        | {"prefix", "partial", "encrypted_content", "provider_specific_fields"},
        "tool": _SAID | {"tool_call_id"},
    },
    part=frozenset({"cache_control", "prompt_cache_breakpoint"}) | {"min_pixels", "max_pixels", "total_pixels", "fps"},
    inner={
        **dict.fromkeys(("text", "refusal"), _NOTHING),
        **dict.fromkeys(LINKS, frozenset({"url", "detail", "format"})),
        **_PARTS,
        "image_url": _PARTS["image_url"] | {"format"},
        "file": _PARTS["file"] | {"format"},
    },
    call=_CALL | {"index", "provider_specific_fields", "cache_control"},
)
"""Members that are sent: those of OpenAI's request types, and those that servers of its form document.

DeepSeek and Mistral: ``prefix``. Moonshot and Alibaba: ``partial``; Alibaba: ``min_pixels``, ``max_pixels``,
``total_pixels``, ``fps``. xAI: ``encrypted_content``. LiteLLM: ``provider_specific_fields``, which hold Gemini's signatures,
and ``format``. OpenRouter and LiteLLM: ``cache_control``. Mistral: ``index`` of a call, and ``document_name``. OpenAI takes
back its replies' ``annotations`` and ``audio``.
"""


_TAKEN_AS_NULL: Final = frozenset({"parsed", "parsed_arguments"})
"""Members that OpenAI's SDK adds to replies. Nine recorded chat requests have null ones; the SDK leaves out others.

In Responses it leaves out all (``__api_exclude__``)."""


class Unknown(NamedTuple):
    """An undeclared member: the path of its object, ending in ``/`` if not empty, its name and its value."""

    path: str
    name: str
    value: Any


def unknown_members(message: Mapping[str, Any]) -> list[Unknown]:
    """Return the members of a message, its parts and its calls that no rule of counting knows, except empty ones."""
    if _PRICED.are_all(message):
        return []
    return [each for each in _beside(message, _PRICED) if each.value not in (None, "", [], {}, False)]


def foreign_members(message: Mapping[str, Any], named: Names = NO_NAMES) -> list[Unknown]:
    """Return the members of a message, its parts and its calls that are not sent. Those that are ``named`` are sent."""
    if "native" in message or "*" in named or _SENT.are_all(message):
        return []
    return [each for each in _beside(message, _SENT) if not is_sent(each, named)]


def is_sent(member: Unknown, named: Names) -> bool:
    """Return whether a member beside the known ones is sent: it is named, or OpenAI's SDK writes it as null."""
    return member.name in named or (member.value is None and member.name in _TAKEN_AS_NULL)


def without(message: Mapping[str, Any], gone: Sequence[Unknown]) -> dict[str, Any]:
    """Return a copy of a message without these members. What they do not stand in is shared with the message."""
    left = dict(message)
    copied: dict[str, Any] = {"": left}
    for each in gone:
        path, found = "", left
        for step in each.path.split("/")[:-1]:
            path = f"{path}{step}/"
            place: Any = int(step) if isinstance(found, list) else step
            if path not in copied:
                copied[path] = found[place] = copy(found[place])
            found = copied[path]
        del found[each.name]
    return left


def keep_foreign(message: dict[str, Any], named: Names = NO_NAMES) -> dict[str, Any]:
    """Return the message as it is stored: its foreign members at the end, in ``native``, and the content that a line was
    added to."""
    gone = foreign_members(message, named)
    if not gone:
        return message
    sent = as_sent(message, gone)
    came = message.get("content")
    content = [Unknown("", "content", came)] if sent.get("content") != came else []
    return sent | {"native": {"format": FOREIGN, "members": [*content, *gone]}}


def as_sent(message: Mapping[str, Any], gone: Sequence[Unknown]) -> dict[str, Any]:
    """Return a copy of a message without these members, and with a line in place of each picture among them.

    Replies have pictures in ``images``, as OpenRouter gives them, and no provider takes them there.
    """
    left = without(message, gone)
    if message["role"] == "assistant" and (lines := [line for each in gone for line in _picture_lines(each)]):
        left["content"] = _with_lines(left.get("content"), lines)
    return left


def _picture_lines(member: Unknown) -> Iterator[str]:
    if (member.path, member.name) == ("", "images") and isinstance(member.value, list):
        yield from (media_line(part) for part in member.value if _is_picture(part))


def _is_picture(part: object) -> bool:
    match part:
        case {"type": "image_url", "image_url": {"url": str()} | str()}:
            return True
    return False


def _with_lines(content: Any, lines: Sequence[str]) -> Any:
    if isinstance(content, list):
        return [*content, *({"type": "text", "text": line} for line in lines)]
    return "\n".join(filter(None, (content, "".join(lines))))


def has_foreign(message: Mapping[str, Any]) -> bool:
    """Return whether a stored chat message has members that are not sent."""
    native = message.get("native")
    return native is not None and native["format"] == FOREIGN


def as_it_came(message: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded stored message with its foreign members at their places."""
    for path, name, value in message.pop("native")["members"]:
        object_at(message, path)[name] = value
    return message


def object_at(message: dict[str, Any], path: str) -> dict[str, Any]:
    found: Any = message
    for step in path.split("/")[:-1]:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return found  # type: ignore[no-any-return]


def is_usual_call(call: Any) -> bool:
    """Return whether a call has the members of a call of a function alone, as nearly all have."""
    return isinstance(call, dict) and call.keys() == _USUAL_CALL and call["function"].keys() == _CALLED["function"]


def _beside(message: Mapping[str, Any], known: _Known) -> Iterator[Unknown]:
    """The members that are not known. A part of a kind that is not listed is sent whole."""
    yield from _others("", message, known.message.get(message["role"], _MESSAGE))
    content = message.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        kind = str(part.get("type"))
        if known is _PRICED or kind in known.inner:
            yield from _others(f"content/{index}/", part, known.part | {"type", kind} | _OF_PART.get(kind, _NOTHING))
            yield from _others(f"content/{index}/{kind}/", part.get(kind), known.inner.get(kind, _NOTHING))
    if message["role"] != "assistant":
        return
    for index, call in enumerate(message.get("tool_calls") or ()):
        yield from _others(f"tool_calls/{index}/", call, known.call)
        for name, inner in _CALLED.items():
            yield from _others(f"tool_calls/{index}/{name}/", call.get(name), inner)
    yield from _others("function_call/", message.get("function_call"), _CALLED["function"])


def _others(path: str, value: Any, known: frozenset[str]) -> Sequence[Unknown]:
    if not isinstance(value, dict) or value.keys() <= known:
        return ()
    return [Unknown(path, name, value[name]) for name in value if name not in known]
