"""Chat messages among a screen's: they are entries as they are."""

from typing import Any, TypeVar

import msgspec

from sash.core.chat.messages import BareEntry, Entry, is_bare, whole_numbers, wrapped
from sash.core.chat.mistakes import invalid
from sash.core.chat.programs import recognise
from sash.problems import BadRequest

T = TypeVar("T")


def chat_entry(value: dict[str, Any], pointer: str) -> Entry:
    """A chat message, alone or in an entry, as an entry. Raises BadRequest."""
    kind = BareEntry if is_bare(value) else Entry
    given = whole_numbers(wrapped(value) if is_bare(value) else value)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError:
        if program := recognise(value) or recognise(value.get("message")):
            raise program.refused(pointer) from None
        raise invalid(pointer, BadRequest, of=Entry, value=given) from None


def converted(value: Any, kind: type[T], pointer: str) -> T:
    """A value of a screen's message as this type. Raises BadRequest."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise invalid(pointer, BadRequest, of=kind, value=value) from None
