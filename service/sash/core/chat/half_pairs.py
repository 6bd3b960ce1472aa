r"""JSON whose strings have half of a surrogate pair, as ``\ud83d`` of an emoji that was cut.

RFC 8259, section 8.2, allows such an escape, and ``JSON.stringify`` of JavaScript and ``json.dumps`` of Python write it. No
text in UTF-8 can have it, so it is read as U+FFFD, as every decoder with ``errors="replace"`` reads what it cannot.
"""

import re
from typing import Final

_DIGITS: Final = rb"[0-9a-fA-F]{2}"
_SURROGATES: Final = re.compile(
    rb"\\u[dD](?:[89abAB]" + _DIGITS + rb"(\\u[dD][c-fC-F]" + _DIGITS + rb")?|[c-fC-F]" + _DIGITS + rb")"
)
"""A surrogate as an escape; the group is the low one behind a high one. It begins with what is found fast."""
_REPLACEMENT: Final = rb"\ufffd"
_BACKSLASH: Final = 0x5C


def with_whole_pairs(body: bytes) -> bytes:
    """Return JSON with U+FFFD in place of each half of a surrogate pair; all other bytes stay in their places."""
    return _SURROGATES.sub(_whole, body)


def _whole(found: re.Match[bytes]) -> bytes:
    """Return a whole pair as it is, and U+FFFD for a half. Behind an odd number of backslashes the first is no escape."""
    at = begin = found.start()
    while at and found.string[at - 1] == _BACKSLASH:
        at -= 1
    if (begin - at) % 2:
        return found[0][: len(_REPLACEMENT)] + _REPLACEMENT if found[1] else found[0]
    return found[0] if found[1] else _REPLACEMENT
