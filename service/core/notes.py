"""The one line that stands in place of what was left out, and the one that carries a summary."""

from functools import lru_cache

from service.core.counting import Measure, measure, message_tokens
from service.core.models import Model

_SUMMARY_HEAD = "Summary of the conversation so far:\n"


def note_message(left_out: int) -> dict[str, str]:
    """The system message that says how many messages are not shown."""
    messages = "message is" if left_out == 1 else "messages are"
    return {"role": "system", "content": f"[{left_out} earlier {messages} not shown.]"}


@lru_cache(maxsize=4096)
def _note_measure(left_out: int) -> Measure:
    return measure(note_message(left_out))


def note_tokens(left_out: int, model: Model) -> int:
    """Tokens of the note."""
    return message_tokens(_note_measure(left_out), model)


def most_note_tokens(length: int, model: Model) -> int:
    """Tokens of the longest note that a history of ``length`` messages can need; it grows with the digits alone."""
    return max(note_tokens(10**digits - 1, model) for digits in range(1, len(str(length)) + 1))


def summary_message(text: str) -> dict[str, str]:
    """The system message that stands in for the messages that a summary covers."""
    return {"role": "system", "content": _SUMMARY_HEAD + text}
