"""Members that a provider's own messages have, and those beside them that are the client's.

A record lists the members of its messages by their type, and those of their parts. Members that are not listed are kept
beside the message and are not sent. A message or a part whose type is not listed is taken whole.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from sash.core.providers.messages.members import Names, Unknown

Object = dict[str, Any]


class OwnMembers(msgspec.Struct, frozen=True):
    """The members of messages and of parts, by type; a message without a type has the type ``default``.

    ``inner`` are those of an object that is a part's member, such as a picture, by the name of this member.
    """

    messages: Mapping[str, frozenset[str]] = {}
    parts: Mapping[str, frozenset[str]] = {}
    inner: Mapping[str, frozenset[str]] = {}
    default: str = ""

    def apart(self, message: Object, key: str, send: Names) -> tuple[Object, list[Unknown]]:
        """Return a message without the client's own members, and these members. Those named in ``send`` stay.

        ``key`` is the member of the message with its parts.
        """
        if "*" in send:
            return message, []
        found = _others("", message, self.messages.get(_type_of(message, self.default)), send)
        own = _without(message, found)
        parts = message.get(key)
        if self.parts and isinstance(parts, list):
            beside = [self._of_part(f"{key}/{index}/", part, send) for index, part in enumerate(parts)]
            if any(beside):
                pairs = enumerate(zip(parts, beside, strict=True))
                own[key] = [_left(part, gone, f"{key}/{index}/") for index, (part, gone) in pairs]
                found += [each for gone in beside for each in gone]
        return own if found else message, found

    def _of_part(self, path: str, part: Any, send: Names) -> list[Unknown]:
        if not isinstance(part, dict):
            return []
        found = _others(path, part, self.parts.get(_type_of(part, "")), send)
        for name in self.inner.keys() & part.keys():
            if isinstance(part[name], dict):
                found += _others(f"{path}{name}/", part[name], self.inner[name], send)
        return found


def _type_of(value: Object, default: str) -> str:
    return str(value.get("type") or default)


def _others(path: str, value: Object, known: frozenset[str] | None, send: Names) -> list[Unknown]:
    if known is None or value.keys() <= known:
        return []
    return [Unknown(path, name, value[name]) for name in value if name not in known and name not in send]


def _left(part: Any, gone: list[Unknown], path: str) -> Any:
    """A part, at this path, without the members that are ``gone`` from it and from the objects in it."""
    left = _without(part, [each for each in gone if each.path == path])
    for inner in {each.path for each in gone if each.path != path}:
        name = inner.removeprefix(path).rstrip("/")
        left[name] = _without(part[name], [each for each in gone if each.path == inner])
    return left


def _without(value: Any, gone: list[Unknown]) -> Any:
    if not isinstance(value, dict):
        return value
    names = {each.name for each in gone}
    return {name: each for name, each in value.items() if name not in names}
