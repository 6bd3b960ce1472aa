"""What an endpoint answers instead of serving: its error's type, code and message, without keys and what was sent."""

import re
from typing import Any, Final

import msgspec

_SECRET: Final = re.compile(r"\b(?:sk|key|pk)-\S+|\"[^\"]*\"|'[^']*'|\S{33,}")
"""Keys, which an error of a wrong key repeats in part, and quotations, which may be of what was sent."""
_LONGEST: Final = 200
_WORDS: Final = 4
"""Words in a row that are not shown if they were sent."""


def failure_of(status: int, body: bytes, sent: bytes) -> str:
    """Return the status and the error of an answer to the JSON that was ``sent``."""
    said = [part for part in _error_in(body) if part]
    shown = _without_sent(_SECRET.sub("…", ", ".join(said)), sent)[:_LONGEST]
    return f"status {status}: {shown}" if shown else f"status {status}"


def _error_in(body: bytes) -> list[str]:
    """The type, code and message of an error, in OpenAI's form or Anthropic's, or of one that is a text."""
    try:
        decoded: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    error = decoded.get("error", decoded.get("detail", decoded)) if isinstance(decoded, dict) else None
    if isinstance(error, dict):
        return [part for name in ("type", "code", "message") if isinstance(part := error.get(name), str)]
    return [error] if isinstance(error, str) else []


def _without_sent(said: str, sent: bytes) -> str:
    words = said.split()
    for at in range(len(words) - _WORDS + 1):
        if " ".join(words[at : at + _WORDS]).encode() in sent:
            return " ".join([*words[:at], "…"])
    return said
