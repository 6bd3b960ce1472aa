"""Reads messages of a screen as entries: makes an id that an entry may have, and takes chat messages as they are."""

import re
from hashlib import blake2b
from typing import Any, Final

import msgspec

from sash.core.chat.bounds import IDS
from sash.core.chat.json_bodies import whole_numbers
from sash.core.chat.messages import BareEntry, Entry, is_bare, wrapped
from sash.core.chat.mistakes import invalid
from sash.core.chat.programs import recognise
from sash.problems import BadRequest

_NOT_ID: Final = re.compile(r"[^A-Za-z0-9._-]+")


def entry_id(named: Any) -> str | None:
    """An entry's id for a message's: itself, or its letters and digits with a digest, always the same. None for no id.

    >>> entry_id("m-1"), entry_id(""), entry_id("chat/1")
    ('m-1', None, 'chat-1-c33ab91a')
    """
    if not isinstance(named, str) or not named:
        return None
    if IDS.fullmatch(named):
        return named
    digest = blake2b(named.encode("utf-8", "replace"), digest_size=4).hexdigest()
    words = _NOT_ID.sub("-", named).strip("-._")[:100]
    return f"{words}-{digest}" if words else digest


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
