"""Ids of screens' messages as entries' ids."""

import re
from hashlib import blake2b
from typing import Any, Final

from sash.core.chat.bounds import IDS

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
