"""What a destination refuses in a finished request: a predicate for each kind of fact.

They read the request alone, as it is sent, and know nothing of what was changed in it. So they judge the mends: in tests all
windows, in a running service one in a hundred. A rule of a format itself is judged by tests alone, with the providers' SDKs.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from sash.core.providers.destinations.destination import Destination
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.destinations.sent_media import SentKind, media_in
from sash.core.providers.destinations.tool_names import ALPHABETS

Object = Mapping[str, Any]


class BrokenRule(NamedTuple):
    """A rule that a request breaks, and the place as a JSON pointer, which holds no text of the request."""

    rule: Kind
    place: str


def refusals(request: Object, to: Destination) -> Iterator[BrokenRule]:
    """Yield each rule of the destination that a finished request breaks. One without messages waits for the next."""
    messages: list[Object] = request.get("messages") or []
    for kind, value in to.values.items():
        judge = _JUDGES.get(kind)
        if judge is not None and (messages or kind in _OF_ALL_FORMS):
            yield from (BrokenRule(kind, place) for place in judge(request, messages, value))


_Judge = Callable[[Object, list[Object], str], Iterator[str]]

_REASONING: Final = frozenset({"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"})
_MEMBERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "known": _REASONING | {"cache_control", "extra_content", "prefix"},
        "own": _REASONING | {"annotations", "cache_control", "provider_specific_fields"},
    }
)
"""Members of other servers' messages, by the value of the fact. What an operator sends by setting is not among them."""
_SAID: Final = ("content", "tool_calls", "function_call", "refusal", "audio")
_OF_ALL_FORMS: Final = frozenset({"files", "pictures", "sounds", "tool_names", "videos"})
"""Kinds whose judges read the whole request, whatever its form calls its messages."""
_NINE: Final = re.compile(r"[a-zA-Z0-9]{9}")
_NAMED: Final = frozenset({"toolSpec", "function", "custom"})
_SPOKEN: Final = frozenset({"text", "thinking"})
_OF_CALLS: Final = ("toolUse", "toolResult")


def _calls(message: Object) -> list[Object]:
    return message.get("tool_calls") or []


def _blocks(message: Object) -> list[Object]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _each(is_refused: Callable[[Object], bool]) -> _Judge:
    """Return the judge that refuses single messages."""

    def judge(_request: Object, messages: list[Object], _value: str) -> Iterator[str]:
        yield from (f"#/messages/{index}" for index, message in enumerate(messages) if is_refused(message))

    return judge


def _is_empty_reply(message: Object) -> bool:
    return message["role"] == "assistant" and not any(message.get(name) for name in _SAID)


def _is_empty_question(message: Object) -> bool:
    return message["role"] == "user" and not message.get("content")


def _has_blank_text(message: Object) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        part.get("type") == "text" and not part["text"].strip() for part in content
    )


def _has_broken_arguments(message: Object) -> bool:
    return any("function" in call and not _is_object(call["function"].get("arguments")) for call in _calls(message))


def _is_object(arguments: Any) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeError, TypeError):
        return False


def _has_long_id(message: Object) -> bool:
    ids = [*(call.get("id") for call in _calls(message)), message.get("tool_call_id", "123456789")]
    return not all(isinstance(each, str) and _NINE.fullmatch(each) for each in ids)


def _neighbours(_request: Object, messages: list[Object], _value: str) -> Iterator[str]:
    for index, (before, message) in enumerate(pairwise(messages)):
        role = message["role"]
        if role in ("user", "assistant") and before["role"] == role and not (_calls(before) or _calls(message)):
            yield f"#/messages/{index + 1}"


def _beginning(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    said = [(index, each["role"]) for index, each in enumerate(messages) if each["role"] not in ("system", "developer")]
    is_asked = value == "asked" and any(role == "user" for _, role in said)
    yield from (f"#/messages/{index}" for index, role in said[:1] if role == "assistant" and not is_asked)


def _system(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, (before, message) in enumerate(pairwise(messages)):
        if message["role"] == "system" and (value == "one" or before["role"] != "system"):
            yield f"#/messages/{index + 1}"


def _members(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        yield from (f"#/messages/{index}/{name}" for name in sorted(message.keys() & _MEMBERS[value]))


def _reasoning(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, message in enumerate(messages):  # what is owed alone cannot be seen: a call may have had none
        has_none = not any(message.get(name) for name in _REASONING) and not _thinks(message)
        calls = _calls(message) or any(block.get("type") == "tool_use" for block in _blocks(message))
        if message.keys() & _REASONING if value == "refused" else value == "filled" and calls and has_none:
            yield f"#/messages/{index}"


def _thinks(message: Object) -> bool:
    return any(block.get("type") == "thinking" and block.get("thinking") for block in _blocks(message))


def _reasoning_in(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        has_details = value == "details" and message.get("reasoning_details")
        if message.get("reasoning") and not (message.get("reasoning_content") or has_details):
            yield f"#/messages/{index}/reasoning"


def _ending(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    last = messages[-1]
    if (
        last["role"] != "assistant"
        or (value == "prefix" and last.get("prefix"))
        or _calls(last)
        or last.get("function_call")
    ):
        return
    blocks = _blocks(last)
    is_said = [each.get("type") in _SPOKEN or "type" not in each for each in blocks[-1:]]
    if is_said == [True] and not any("toolUse" in each for each in blocks):
        yield f"#/messages/{len(messages) - 1}"


def _beside_calls(_request: Object, messages: list[Object], _value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        told = [block for block in _blocks(message) if "cachePoint" not in block]
        if any(0 < sum(name in block for block in told) < len(told) for name in _OF_CALLS):
            yield f"#/messages/{index}/content"


def _without(kind: SentKind) -> _Judge:
    """Return the judge that refuses media of a kind."""

    def judge(request: Object, _messages: list[Object], _value: str) -> Iterator[str]:
        yield from (place for found, place in media_in(request) if found == kind)

    return judge


def _links(_request: Object, messages: list[Object], _value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        for number, part in enumerate(_blocks(message)):
            given = part.get("image_url")
            url = given.get("url") if isinstance(given, dict) else given
            if isinstance(url, str) and not url.startswith("data:"):
                yield f"#/messages/{index}/content/{number}"


def _tool_names(request: Object, _messages: list[Object], value: str) -> Iterator[str]:
    pattern = ALPHABETS[value]
    for place, name in _declared(request):
        if not pattern.fullmatch(name):
            yield place


def _declared(request: Object) -> Iterator[tuple[str, str]]:
    """The names of declared tools with their places, in each form."""
    config = request.get("config") or request.get("toolConfig") or request
    for index, tool in enumerate(config.get("tools") or ()):
        for declared in tool.get("functionDeclarations") or tool.get("function_declarations") or (tool,):
            held = next((declared[name] for name in _NAMED if isinstance(declared.get(name), dict)), declared)
            if isinstance(name := held.get("name"), str):
                yield f"#/tools/{index}", name


_JUDGES: Final[Mapping[Kind, _Judge]] = MappingProxyType(
    {
        "alternation": _neighbours,
        "arguments": _each(_has_broken_arguments),
        "beginning": _beginning,
        "beside_calls": _beside_calls,
        "call_ids": _each(_has_long_id),
        "calls": _each(lambda message: len(_calls(message)) > 1),
        "empty_question": _each(_is_empty_question),
        "empty_reply": _each(_is_empty_reply),
        "empty_text": _each(_has_blank_text),
        "ending": _ending,
        "files": _without("files"),
        "links": _links,
        "members": _members,
        "pictures": _without("pictures"),
        "reasoning": _reasoning,
        "reasoning_in": _reasoning_in,
        "roles": _each(lambda message: message["role"] == "developer"),
        "sounds": _without("sounds"),
        "speakers": _each(lambda message: message["role"] not in ("user", "function") and "name" in message),
        "system": _system,
        "system_text": _each(
            lambda message: message["role"] == "system" and not isinstance(message.get("content"), str)
        ),
        "tool_names": _tool_names,
        "videos": _without("videos"),
    }
)
RULES: Final = frozenset(_JUDGES)
"""The rules that are judged."""
