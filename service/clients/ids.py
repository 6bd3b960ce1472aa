"""Other programs' names as ids of Sash."""

import re
from hashlib import blake2b

_IDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NOT_ID = re.compile(r"[^A-Za-z0-9._-]+")


def safe_id(text: str) -> str:
    """``text`` as an id: itself when it is one, else its letters and digits and a short hash, the same every time."""
    if _IDS.fullmatch(text):
        return text
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
    words = _NOT_ID.sub("-", text).strip("-._")[:100]
    return f"{words}-{digest}" if words else digest
