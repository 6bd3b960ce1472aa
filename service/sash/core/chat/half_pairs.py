r"""JSON whose strings have half of a surrogate pair, as ``\ud83d`` of an emoji that was cut.

RFC 8259, section 8.2, allows such an escape, and ``JSON.stringify`` of JavaScript and ``json.dumps`` of Python write it. No
text in UTF-8 can have it, so it is read as U+FFFD, as every decoder with ``errors="replace"`` reads what it cannot.
"""

import re
from typing import Final

_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATES: Final = re.compile(rb"(?<!\\)((?:\\\\)*)(?:(" + _HIGH + _LOW + rb")|" + _HIGH + rb"|" + _LOW + rb")")
"""Surrogates as escapes, behind a whole number of escaped backslashes; the second group is a whole pair."""
_REPLACEMENT: Final = rb"\ufffd"


def with_whole_pairs(body: bytes) -> bytes:
    """Return JSON with U+FFFD in place of each half of a surrogate pair; all other bytes stay in their places."""
    return _SURROGATES.sub(lambda found: found[0] if found[2] else found[1] + _REPLACEMENT, body)
