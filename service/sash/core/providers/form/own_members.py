"""Members that a provider's own messages have, and those beside them that are the client's.

A record lists the members of its messages by their type, and those of their parts. Members that are not listed are kept
beside the message and are not sent. A message or a part whose type is not listed is taken whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sash.core.providers.messages.members import Names, Unknown, without

Object = dict[str, Any]


class OwnMembers(msgspec.Struct, frozen=True):
    """The members of messages and of parts, by type; a message without a type has the type ``default``.

    ``inner`` are those of objects inside a part, by the names of the members that lead there: ``image``, ``image/source``. A
    name may lead to one object or to a list of them.
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
        found = [*self._beside(message, key, send)]
        return (without(message, found) if found else message), found

    def _beside(self, message: Object, key: str, send: Names) -> Iterator[Unknown]:
        yield from _others("", message, self.messages.get(_type_of(message, self.default)), send)
        for path, part in _objects(message, [key]):
            yield from _others(path, part, self.parts.get(_type_of(part, "")), send)
            for names, known in self.inner.items():
                for inner, value in _objects(part, names.split("/"), path):
                    yield from _others(inner, value, known, send)


def _objects(value: Object, names: Sequence[str], path: str = "") -> Iterator[tuple[str, Object]]:
    """Yield the objects that these names lead to, each with its path."""
    if not names:
        yield path, value
        return
    name, *deeper = names
    found = value.get(name)
    if isinstance(found, dict):
        yield from _objects(found, deeper, f"{path}{name}/")
    elif isinstance(found, list):
        for index, each in enumerate(found):
            if isinstance(each, dict):
                yield from _objects(each, deeper, f"{path}{name}/{index}/")


def _type_of(value: Object, default: str) -> str:
    return str(value.get("type") or default)


def _others(path: str, value: Object, known: frozenset[str] | None, send: Names) -> Iterator[Unknown]:
    if known is not None and not value.keys() <= known:
        yield from (Unknown(path, name, value[name]) for name in value if name not in known and name not in send)
