"""Recognise a message of another form than the one that it was sent in."""

import re
from collections.abc import Iterator
from typing import Any

from sash.core.chat.mistakes import plain
from sash.core.chat.programs import recognise
from sash.core.providers import CHAT, PROVIDERS
from sash.problems import InvalidEntry, Pointer


def foreign(message: Any, pointer: str, form: str = CHAT) -> InvalidEntry | None:
    """The problem of a message in another API's format than ``form``, or of another program's record; None for others."""
    if program := recognise(message):
        return program.refused(pointer)
    if not isinstance(message, dict) or not (found := _other_form(message, form)):
        return None
    other, shown = found
    own = 'a chat message, which looks like {"role": "user", "content": "Hello"}'
    if form != CHAT:
        own = f"{PROVIDERS[form].called}, as {plain(shown)!r} in it shows"
    detail = f"This is {PROVIDERS[other].called}, and not {own}; use ?format={other} to send it unchanged"
    return InvalidEntry(f"{detail}: see #{pointer}.", errors=[Pointer(f"#{pointer}", detail)])


def _other_form(message: dict[str, Any], form: str) -> tuple[str, str] | None:
    """The API that a message is of, if it is not ``form``, and the member or type that shows it."""
    shapes = [each.shape for each in PROVIDERS.values() if each.shape.parts_show and each.name != form]
    for shape in shapes if not message.get("content") else ():
        if isinstance(message.get(shape.parts), list):
            return shape.name, shape.parts
    kinds = [kind for part in _typed(message) if (kind := _kind_of(part))]
    for name, provider in PROVIDERS.items():
        for kind in kinds if name != form else ():
            if re.fullmatch(provider.own_types, kind) and not re.fullmatch(PROVIDERS[form].own_types, kind):
                return name, kind.removeprefix(".")
    return _form_of_item(message) if form == CHAT else None


def _form_of_item(message: dict[str, Any]) -> tuple[str, str] | None:
    """OpenAI's API of items if it knows a message without a role by its type, and the type."""
    kind = message.get("type")
    if not (isinstance(kind, str) and kind) or message.keys() & {"role", "content"}:
        return None
    items = (each for each in PROVIDERS.values() if each.has_openais_items)
    return next(((each.name, kind) for each in items if not any(each.unknown_kinds(message, ""))), None)


def _kind_of(part: dict[str, Any]) -> str:
    """A part's type; of a part whose one member says what it is, the member's name behind a dot."""
    kind = part.get("type")
    if kind is None and len(part) == 1:
        return f".{next(iter(part))}"
    return kind if isinstance(kind, str) else ""


def _typed(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message or an item, its parts, and the parts of the tool results in it."""
    yield message
    shapes = [provider.shape for provider in PROVIDERS.values()]
    for name in dict.fromkeys(name for shape in shapes for name in (shape.parts, shape.result_parts) if name):
        inner = message.get(name)
        for part in inner if isinstance(inner, list) else ():
            if isinstance(part, dict):
                yield from _typed(part) if _is_nested(part) else (part,)


def _is_nested(part: dict[str, Any]) -> bool:
    return any(provider.kinds.nested.has(part) for provider in PROVIDERS.values())
