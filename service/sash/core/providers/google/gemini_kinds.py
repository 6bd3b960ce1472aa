"""The members of Gemini's parts: ``Part`` of google-genai 3.4.0."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sash.core.chat.mistakes import is_misspelt
from sash.core.providers.form.known_kinds import UnknownKind, objects_at, unknown_name

PARTS: Final = (
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
    "videoMetadata",
    "audioMetadata",
    "audioTranscription",
    "speechMetadata",
    "documentMetadata",
    "spreadsheetMetadata",
    "mediaResolution",
    "mediaProcessing",
    "partMetadata",
)
"""Members of Gemini's parts, which are also written in snake case."""
ROLES: Final = ("user", "model", "function", "tool", "system")
"""Roles of Gemini's contents. Older SDKs write the last three."""


def unknown_parts(content: Mapping[str, Any], pointer: str) -> Iterator[UnknownKind]:
    """Yield a content's role, and the members of its parts, that Gemini does not have.

    A member beside one that says what the part is may be the client's own, unless it is a misspelt one.
    """
    yield from unknown_name(content.get("role") or "user", f"{pointer}/role", "role", ROLES)
    parts = content.get("parts")
    for part, place in objects_at([parts] if isinstance(parts, dict) else parts, f"{pointer}/parts"):
        for name, value in part.items():
            if value is None or name in _EITHER_CASE:
                continue
            if not _says_what_it_is(part) or is_misspelt(name, _EITHER_CASE):
                yield UnknownKind(name, f"{place}/{name}", "part", PARTS)


def _says_what_it_is(part: Mapping[str, Any]) -> bool:
    return any(value is not None and name in _EITHER_CASE for name, value in part.items())


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


_EITHER_CASE: Final = frozenset(PARTS) | frozenset(map(_snake, PARTS))
