"""Keep a provider's message beside its chat form. Strings that both have are kept once.

The chat message's strings are numbered from 0, in their order. In the kept message, such a string is ``{"$": n}``. A value
that can be computed from a string is ``{"$": -1 - n}``: the object in JSON arguments, or the base64 of a data URL. An object
of the provider whose only member is ``$`` is kept as ``{"$": [value]}``.

>>> chat = {"role": "user", "content": "Hello"}
>>> share({"text": "Hello", "type": "text"}, chat)
{'text': {'$': 0}, 'type': 'text'}
>>> fill({"text": {"$": 0}, "type": "text"}, chat)
{'text': 'Hello', 'type': 'text'}
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

_VERBATIM: Final = frozenset({"type", "role"})
"""Members that are kept as they are."""
_BASE64: Final = ";base64,"
_SHORTEST_MEDIA: Final = 100


def share(value: Any, chat: Mapping[str, Any]) -> Any:
    """Return the provider's value with references in place of strings that the chat message has."""
    return _Sharing(chat).of(value)


def fill(value: Any, chat: Mapping[str, Any]) -> Any:
    """Return the value as it came. Raises IndexError, TypeError, ValueError where a reference leads nowhere."""
    return _filled(value, list(_strings(chat)))


def is_reference(value: Any) -> bool:
    """Return whether a kept value is a reference to the chat message."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("$"), int | str)


def repeated(references: Mapping[int | str, int], chat: Mapping[str, Any]) -> list[str]:
    """Return the strings that occur more often in a kept value than in the chat message, once for each extra time.

    ``references`` is how often the value refers to each string.
    """
    said = list(_strings(chat))
    sent: Counter[str] = Counter()
    for index, times in references.items():
        if isinstance(index, int):
            sent[said[index if index >= 0 else -1 - index]] += times
    return list((sent - Counter(_strings(chat, ids=False))).elements())


class _Sharing:
    def __init__(self, chat: Mapping[str, Any]) -> None:
        self._strings: dict[str, int | str] = {}
        self._objects: dict[frozenset[str], dict[bytes, int]] = {}  # by their members' names, and as JSON
        for index, text in enumerate(_strings(chat)):
            self._strings.setdefault(text, index)
            if url_safe := _url_safe(text):
                self._strings.setdefault(url_safe, str(index))
            match _derived(text):
                case str(data):
                    self._strings.setdefault(data, -1 - index)
                case dict(value) if value:  # an empty object is no repeated text
                    self._objects.setdefault(frozenset(value), {}).setdefault(_canonical(value), -1 - index)

    def of(self, value: Any, key: str = "") -> Any:
        match value:
            case str() if value and key not in _VERBATIM and value in self._strings:
                return {"$": self._strings[value]}
            case dict():
                return self._of_object(value)
            case list():
                return [self.of(each) for each in value]
            case _:
                return value

    def _of_object(self, value: dict[str, Any]) -> dict[str, Any]:
        alike = self._objects.get(frozenset(value))
        if alike and (reference := alike.get(_canonical(value))) is not None:
            return {"$": reference}
        shared = {key: self.of(each, key) for key, each in value.items()}
        return {"$": [shared["$"]]} if shared.keys() == {"$"} else shared


def _filled(value: Any, strings: list[str]) -> Any:
    match value:
        case {"$": int(index), **rest} if not rest:
            return strings[index] if index >= 0 else _required(_derived(strings[-1 - index]))
        case {"$": str(index), **rest} if not rest:
            return _required(_url_safe(strings[int(index)]))
        case {"$": [one], **rest} if not rest:
            return {"$": _filled(one, strings)}
        case dict():
            return {key: _filled(each, strings) for key, each in value.items()}
        case list():
            return [_filled(each, strings) for each in value]
        case _:
            return value


def _required(value: Any) -> Any:
    if value is None:
        raise ValueError("A reference to what follows from a string leads nowhere.")
    return value


def _strings(chat: Mapping[str, Any], *, ids: bool = True) -> Iterator[str]:
    """Yield the strings of content, calls, and the id of an answered call; without ``ids`` only those that cost tokens."""
    verbatim = _VERBATIM if ids else _VERBATIM | {"id"}
    for name in ("content", "tool_calls", "tool_call_id") if ids else ("content", "tool_calls"):
        yield from _leaves(chat.get(name), verbatim)


def _leaves(value: Any, verbatim: frozenset[str], key: str = "") -> Iterator[str]:
    match value:
        case str() if key not in verbatim:
            yield value
        case dict():
            for name, each in value.items():
                yield from _leaves(each, verbatim, name)
        case list():
            for each in value:
                yield from _leaves(each, verbatim)


def _derived(text: str) -> Any:
    """Return the base64 of a data URL, or the object that a JSON string holds; None for other strings."""
    if text.startswith("data:") and _BASE64 in text[:200]:
        return text.partition(_BASE64)[2]
    if text.startswith("{"):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return None
        return value if isinstance(value, dict) else None
    return None


def _url_safe(text: str) -> str | None:
    """Return the base64 of a data URL or a sound in the URL-safe alphabet; None where it is the same in both."""
    data = text.partition(_BASE64)[2] if text.startswith("data:") else text
    if len(data) < _SHORTEST_MEDIA or not ("+" in data or "/" in data) or " " in data:
        return None
    return data.replace("+", "-").replace("/", "_")


def _canonical(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def restore(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the provider's messages, or the part of one, that became this chat message. As JSON, they are unchanged."""
    filled: list[dict[str, Any]] = fill(message["native"]["messages"], message)
    return filled
