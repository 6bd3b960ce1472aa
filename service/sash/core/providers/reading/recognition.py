"""Recognise a message of another form than the one that it was sent in."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from sash.core.chat.mistakes import plain
from sash.core.chat.programs import recognise
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.form.part_kinds import Kinds
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
    known = _known(tuple(PROVIDERS))
    for parts, name in known.shown if not message.get("content") else ():
        if name != form and isinstance(message.get(parts), list):
            return name, parts
    kinds = [kind for part in _typed(message, known) if (kind := _kind_of(part))]
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


class _Known(NamedTuple):
    """Where parts stand in all forms: the members that show a form with it, all members with parts, parts with parts."""

    shown: tuple[tuple[str, str], ...]
    members: tuple[str, ...]
    nested: Kinds


@lru_cache(maxsize=4)
def _known(forms: tuple[str, ...]) -> _Known:
    providers = [PROVIDERS[form] for form in forms]
    shapes, nested = [each.shape for each in providers], [each.kinds.nested for each in providers]
    members = dict.fromkeys(name for shape in shapes for name in (shape.parts, shape.result_parts) if name)
    return _Known(
        shown=tuple((shape.parts, shape.name) for shape in shapes if shape.parts_show),
        members=tuple(members),
        nested=Kinds(
            types=frozenset().union(*(each.types for each in nested)),
            members={name: within for each in nested for name, within in each.members.items()},
        ),
    )


def _typed(message: dict[str, Any], known: _Known) -> Iterator[dict[str, Any]]:
    """A message or an item, its parts, and the parts of the tool results in it."""
    yield message
    for name in known.members:
        inner = message.get(name)
        for part in inner if isinstance(inner, list) else ():
            if isinstance(part, dict):
                yield from _typed(part, known) if known.nested.has(part) else (part,)
