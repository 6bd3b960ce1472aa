"""The system messages for left-out messages: a note with their number, and a summary."""

from functools import lru_cache

from sash.core.counts.measures.measures import Measure, measure

_SUMMARY_HEAD = "Summary of the conversation so far:\n"


def note_message(left_out: int) -> dict[str, str]:
    """The system message with the number of left-out messages."""
    messages = "message is" if left_out == 1 else "messages are"
    return {"role": "system", "content": f"[{left_out} earlier {messages} not shown.]"}


@lru_cache(maxsize=4096)
def note_measure(left_out: int) -> Measure:
    """The note's measure."""
    return measure(note_message(left_out))


def longest_note(length: int) -> Measure:
    """The measure of the longest note for a history of ``length`` messages. Its length depends on the digits only.

    Of notes with equal tokens, the result has the most digits, because some vocabularies count each digit.
    """
    most = (note_measure(10**digits - 1) for digits in range(len(str(length)), 0, -1))
    return max(most, key=lambda each: each.o200k + each.cl100k)


def summary_message(text: str) -> dict[str, str]:
    """The system message with a summary's text."""
    return {"role": "system", "content": _SUMMARY_HEAD + text}
