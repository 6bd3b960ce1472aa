"""The system messages for left-out messages: a note with their number, and a summary."""

from functools import lru_cache
from typing import NamedTuple

from sash.core.counts.costs.estimates import spoken_tokens
from sash.core.counts.measures.measures import Measure, measure
from sash.core.counts.text.vocabularies import Vocabulary

_SUMMARY_HEAD = "Summary of the conversation so far:\n"


def note_message(left_out: int) -> dict[str, str]:
    """The system message with the number of left-out messages."""
    messages = "message is" if left_out == 1 else "messages are"
    return {"role": "system", "content": f"[{left_out} earlier {messages} not shown.]"}


class Line(NamedTuple):
    """A note. ``own_tokens`` are its text's tokens in the model's own vocabulary; None if they are estimated."""

    measure: Measure
    own_tokens: int | None = None


@lru_cache(maxsize=4096)
def note_line(left_out: int, vocabulary: Vocabulary | None) -> Line:
    """The note with the number of left-out messages, as a model with this vocabulary counts it."""
    message = note_message(left_out)
    return Line(measure(message), None if vocabulary is None else spoken_tokens(message, vocabulary))


def longest_note(length: int, vocabulary: Vocabulary | None) -> Line:
    """The longest note for a history of ``length`` messages. Its length depends on the digits only.

    Of notes with equal tokens, the result has the most digits, because some vocabularies count each digit.
    """
    most = [note_line(10**digits - 1, vocabulary) for digits in range(len(str(length)), 0, -1)]
    return max(most, key=lambda each: (each.own_tokens or 0, each.measure.o200k + each.measure.cl100k))


def summary_message(text: str) -> dict[str, str]:
    """The system message with a summary's text."""
    return {"role": "system", "content": _SUMMARY_HEAD + text}
