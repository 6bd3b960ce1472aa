"""What the history tools answer: messages as text for a model, within a limit of tokens."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from sash.core.search.words import words_of

PASSAGE: Final = 600
"""Characters that are shown of a longer message that was found."""
_SEARCHED: Final = 65_536
"""Characters of one message in which a passage is looked for: those that are indexed."""
_MOST_MATCHES: Final = 500
_LEAST: Final = 40
"""Characters of a message that are worth beginning it."""
_WORD: Final = re.compile(r"[^\W_]+")

_FOUND: Final = "Best matches first. Read them whole with history_read and their numbers."
_READ: Final = re.compile(r"#\d+ \w+, \d{4}-\d\d-\d\d \d\d:\d\d UTC:\n")

Fits = Callable[[str], bool]
"""Whether a text is inside the limit."""


class Told(NamedTuple):
    """A message as a model reads it."""

    seq: int
    role: str
    created_ms: int
    text: str
    conversation: str = ""
    """The conversation's id, where messages of several were searched."""

    @property
    def head(self) -> str:
        """The line before its text."""
        where = f"{self.conversation} " if self.conversation else ""
        return f"{where}#{self.seq} {self.role}, {datetime.fromtimestamp(self.created_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC:\n"


def is_an_answer(text: str) -> bool:
    """Whether the text of a tool message is an earlier answer of these tools, whose messages are found themselves."""
    return text.startswith(_FOUND) or _READ.match(text) is not None


def passage(text: str, query: str) -> str:
    """Return the part of a text that has the most words of the query; a short text as it is."""
    if len(text) <= PASSAGE:
        return text
    wanted = frozenset(words_of(query))
    wanted_in = cache(lambda word: wanted.intersection(words_of(word)))
    words = ((match.start(), wanted_in(match[0])) for match in _WORD.finditer(text, 0, _SEARCHED))
    start = max(0, _densest([*islice((each for each in words if each[1]), _MOST_MATCHES)]) - PASSAGE // 4)
    end = min(len(text), start + PASSAGE)
    return f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"


def _densest(places: Sequence[tuple[int, frozenset[bytes]]]) -> int:
    """The first place behind which a passage has the most different words; 0 if there is none."""
    starts = [start for start, _ in places]

    def words(index: int) -> int:
        end = bisect_right(starts, starts[index] + PASSAGE // 2)
        return len(frozenset().union(*(each for _, each in places[index:end])))

    return starts[max(range(len(starts)), key=words)] if starts else 0


def found_text(found: Sequence[Told], query: str, fits: Fits) -> str:
    """Return the passages of messages that were found, best first, as many as fit."""
    if not found:
        return "No message matches. Try other words, such as a name, a path or a command that was used."
    text = _FOUND
    for each in found:
        longer = f"{text}\n\n{each.head}{passage(each.text, query)}"
        if not fits(longer):
            break
        text = longer
    return text


def read_text(told: Sequence[Told], skip: int, beyond: int, fits: Fits) -> str:
    """Return messages word for word, as many as fit, and where to go on.

    ``skip`` characters of the first one are left out. ``beyond`` is the seq of the next message that is wanted, 0 for none.
    """
    text = ""
    for index, each in enumerate(told):
        following = told[index + 1].seq if index + 1 < len(told) else beyond
        before = f"{text}\n\n{each.head}" if text else each.head
        body = each.text[skip if index == 0 else 0 :]
        if fits(before + body + _go_on(following)):
            text = before + body
            continue
        skipped = len(each.text) - len(body)
        length = _longest(before, body, each.seq, skipped, fits)
        is_begun = length >= _LEAST or not text
        return before + body[:length] + _go_on(each.seq, skipped + length) if is_begun else text + _go_on(each.seq)
    return text + _go_on(beyond)


def _go_on(seq: int, skip: int = 0) -> str:
    """The line that says which message to read next; empty if ``seq`` is 0."""
    return f"\n\n[More: history_read with first={seq}{f', skip={skip}' if skip else ''}]" if seq else ""


def _longest(before: str, body: str, seq: int, skipped: int, fits: Fits) -> int:
    """The most characters of a message that fit; at least one, so that a reader always gets on."""
    longer = range(2, len(body) + 1)
    return 1 + bisect_right(longer, 0, key=lambda end: int(not fits(before + body[:end] + _go_on(seq, skipped + end))))
