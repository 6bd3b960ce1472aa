"""Other ways to choose a window's messages: the plain tail, and the tail with an extract."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sash.core.search.words import words_of


class Conversation(NamedTuple):
    """Entries, the tokens of each, and questions with the indexes of their evidence in ``entries``."""

    id: str
    entries: list[dict[str, Any]]
    costs: list[int]
    questions: list[tuple[str, list[int]]]
    priming: int

    def text(self, place: int) -> str:
        """Return a message's text."""
        return str(self.entries[place]["message"]["content"])


Way = Callable[[Conversation, str, int], Iterable[int]]
"""A function of a conversation, a question and a budget in tokens; it returns the indexes of the messages to keep."""


def tail(told: Conversation, question: str, budget: int) -> range:  # noqa: ARG001
    """Return the newest messages that fit."""
    return _tail(told, budget - told.priming)


def _tail(told: Conversation, room: int) -> range:
    first = len(told.costs)
    while first and told.costs[first - 1] <= room:
        first -= 1
        room -= told.costs[first]
    return range(first, len(told.costs))


def half(told: Conversation, budget: int, ranked: Iterable[Sequence[int]]) -> set[int]:
    """Return the newest messages that fit half of the budget, and the best-ranked whole pieces that fit the rest."""
    room = budget - told.priming
    kept = set(_tail(told, room - budget // 2))
    room -= sum(told.costs[place] for place in kept)
    for piece in ranked:
        new = set(piece) - kept
        cost = sum(told.costs[place] for place in new)
        if cost <= room:
            kept |= new
            room -= cost
    return kept


def extract(told: Conversation, question: str, budget: int) -> set[int]:  # noqa: ARG001
    """Return half a tail and, as an extract in place of a summary, the messages with the heaviest words in the whole."""
    said = [Counter(words_of(told.text(place))) for place in range(len(told.costs))]
    holding = Counter(word for words in said for word in words)
    centre = {word: count * math.log(len(said) / count) for word, count in holding.items()}
    weights = [sum(centre[word] for word in words) / math.sqrt(max(1, len(words))) for words in said]
    return half(told, budget, ([place] for place in sorted(range(len(said)), key=lambda each: -weights[each])))


def ways() -> dict[str, Way]:
    """Return each way by its name in the table."""
    found: dict[str, Way] = {
        "plain tail": tail,
        "half tail, half an extract in place of a summary": extract,
    }
    return found
