"""The one line that stands in place of what was left out, and the one that carries a summary."""

from functools import lru_cache

from service.core.counting import Measure, measure

_SUMMARY_HEAD = "Summary of the conversation so far:\n"


def note_message(left_out: int) -> dict[str, str]:
    """The system message that says how many messages are not shown."""
    messages = "message is" if left_out == 1 else "messages are"
    return {"role": "system", "content": f"[{left_out} earlier {messages} not shown.]"}


@lru_cache(maxsize=4096)
def note_measure(left_out: int) -> Measure:
    """The note's measure."""
    return measure(note_message(left_out))


def longest_note(length: int) -> Measure:
    """The measure of the longest note that a history of ``length`` messages can need: it grows with the digits alone.

    Of notes with as many tokens it is the one with more digits, because some vocabularies count each digit.
    """
    most = (note_measure(10**digits - 1) for digits in range(len(str(length)), 0, -1))
    return max(most, key=lambda each: each.o200k + each.cl100k)


def summary_message(text: str) -> dict[str, str]:
    """The system message that stands in for the messages that a summary covers."""
    return {"role": "system", "content": _SUMMARY_HEAD + text}
