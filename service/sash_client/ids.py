"""Other programs' names as ids of Sash."""

import re
from hashlib import blake2b

_IDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NOT_ID = re.compile(r"[^A-Za-z0-9._-]+")


def safe_id(text: str) -> str:
    """``text`` if it is an id, else its letters and digits with a short hash. The same text always gives the same id."""
    if _IDS.fullmatch(text):
        return text
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    words = _NOT_ID.sub("-", text).strip("-._")[:100]
    return f"{words}-{digest}" if words else digest
