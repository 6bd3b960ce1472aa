"""References that one issuer alone can read: who else is sent them answers 400 or 403, or fetches nothing."""

from collections.abc import Mapping
from typing import Any, Final

_GOOGLES_FILES: Final = "https://generativelanguage.googleapis.com/"
"""How the addresses of files begin that were uploaded to Gemini. They answer 403 to all but the key that wrote the file
(google-gemini/deprecated-generative-ai-python 692, snailyp/gemini-balance 401)."""


def is_googles_file(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a chat message is a file at Google's, which no other provider can fetch.

    >>> is_googles_file({"type": "file", "file": {"file_id": "https://generativelanguage.googleapis.com/v1beta/files/a"}})
    True
    """
    match part:
        case {"type": "file", "file": {"file_id": str(url)}} | {"type": "image_url", "image_url": {"url": str(url)}}:
            return url.startswith(_GOOGLES_FILES)
    return False
