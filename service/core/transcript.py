"""Messages as plain text, for a summary or for recall."""

from collections.abc import Iterable, Mapping
from typing import Any

from service.core.calls import functions_called
from service.core.redaction import REDACTED_TEXT

_LONGEST = 4_000  # characters of one message; longer ones are cut in the middle


def transcript(messages: Iterable[Mapping[str, Any]]) -> str:
    """A paragraph for each message, with its role and text. Redacted texts are left out, long ones cut in the middle."""
    return "\n".join(line for message in messages for line in _lines(message))


def _lines(message: Mapping[str, Any]) -> Iterable[str]:
    role = message["role"]
    text = _text(message.get("content"))
    if text and text != REDACTED_TEXT:
        yield f"{role}: {_shortened(text)}"
    for call in functions_called(message):
        yield f"{role} calls {call.get('name')}: {_shortened(str(call.get('arguments') or call.get('input') or ''))}"


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content or ()
    return " ".join(part.get("text") or part.get("refusal") or f"[{part.get('type')}]" for part in parts)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} […] {text[-_LONGEST // 2 :]}"
