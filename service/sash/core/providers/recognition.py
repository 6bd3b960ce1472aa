"""Recognise a message of another form than the one that it was sent in."""

import re
from collections.abc import Iterator
from typing import Any

from sash.core.chat.mistakes import plain
from sash.core.chat.programs import recognise
from sash.core.providers import PROVIDERS
from sash.core.providers.known_kinds import ITEMS
from sash.problems import InvalidEntry, Pointer


def foreign(message: Any, pointer: str, form: str = "openai") -> InvalidEntry | None:
    """The problem of a message in another API's format than ``form``, or of another program's record; None for others."""
    if program := recognise(message):
        return program.refused(pointer)
    if not isinstance(message, dict) or not (found := _other_form(message, form)):
        return None
    other, shown = found
    own = 'a chat message, which looks like {"role": "user", "content": "Hello"}'
    if form != "openai":
        own = f"{PROVIDERS[form].called}, as {plain(shown)!r} in it shows"
    detail = f"This is {PROVIDERS[other].called}, and not {own}; use ?format={other} to send it unchanged"
    return InvalidEntry(f"{detail}: see #{pointer}.", errors=[Pointer(f"#{pointer}", detail)])


def _other_form(message: dict[str, Any], form: str) -> tuple[str, str] | None:
    """The API that a message is of, if it is not ``form``, and the member or type that shows it."""
    if isinstance(message.get("parts"), list) and not message.get("content") and form != "gemini":
        return "gemini", "parts"
    kinds = [kind for part in _typed(message) if (kind := _kind_of(part))]
    for name, provider in PROVIDERS.items():
        for kind in kinds if name != form else ():
            if re.fullmatch(provider.own_types, kind) and not re.fullmatch(PROVIDERS[form].own_types, kind):
                return name, kind.removeprefix(".")
    is_item = form == "openai" and message.get("type") in ITEMS and not message.keys() & {"role", "content"}
    return ("responses", kinds[0]) if is_item else None


def _kind_of(part: dict[str, Any]) -> str:
    """A part's type; of a part whose one member says what it is, the member's name behind a dot."""
    kind = part.get("type")
    if kind is None and len(part) == 1:
        return f".{next(iter(part))}"
    return kind if isinstance(kind, str) else ""


def _typed(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message or an item, its parts, and the parts of the tool results in it."""
    yield message
    for name in ("content", "parts", "output"):
        inner = message.get(name)
        for part in inner if isinstance(inner, list) else ():
            if isinstance(part, dict):
                yield from _typed(part) if part.get("type") == "tool_result" else (part,)
