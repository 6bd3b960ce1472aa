"""What other ways of making a window keep, by the places of messages: the plain tail, an extract, vectors."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from service.core.words import words_of


class Conversation(NamedTuple):
    """Entries, what each costs in tokens, and questions with the places of their evidence."""

    id: str
    entries: list[dict[str, Any]]
    costs: list[int]
    questions: list[tuple[str, list[int]]]
    priming: int

    def text(self, place: int) -> str:
        """What a message says."""
        return str(self.entries[place]["message"]["content"])


Way = Callable[[Conversation, str, int], Iterable[int]]
"""The places that a window of so many tokens keeps for a question."""


def tail(told: Conversation, question: str, budget: int) -> range:  # noqa: ARG001
    """The newest messages that fit."""
    return _tail(told, budget - told.priming)


def _tail(told: Conversation, room: int) -> range:
    first = len(told.costs)
    while first and told.costs[first - 1] <= room:
        first -= 1
        room -= told.costs[first]
    return range(first, len(told.costs))


def half(told: Conversation, budget: int, ranked: Iterable[Sequence[int]]) -> set[int]:
    """Half of the budget for the tail, the rest for the best of what is before it, whole pieces."""
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
    """Half tail, half the messages whose words weigh most in the whole: a summary that quotes, and no question known."""
    said = [Counter(words_of(told.text(place))) for place in range(len(told.costs))]
    holding = Counter(word for words in said for word in words)
    centre = {word: count * math.log(len(said) / count) for word, count in holding.items()}
    weights = [sum(centre[word] for word in words) / math.sqrt(max(1, len(words))) for words in said]
    return half(told, budget, ([place] for place in sorted(range(len(said)), key=lambda each: -weights[each])))


def ways() -> dict[str, Way]:
    """Each way by its name in the table."""
    found: dict[str, Way] = {
        "plain tail": tail,
        "half tail, half an extract in place of a summary": extract,
    }
    return found
