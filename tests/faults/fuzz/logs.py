"""The conversations of the validators' tests, drawn by a plain generator: 200 times as many a second."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from faults.fuzz.scripts import Object, Sent
from validators import chat_turns, claude_turns, converse_turns, gemini_turns, item_turns, ollama_turns, step_turns
from validators.conversations import late
from validators.logs import Log, T

Turn = Callable[[Log], None]
TURNS: dict[str, tuple[Turn, ...]] = {
    "openai": chat_turns.TURNS,
    "responses": item_turns.TURNS,
    "anthropic": claude_turns.TURNS,
    "gemini": gemini_turns.TURNS,
    "interactions": step_turns.TURNS,
    "converse": converse_turns.TURNS,
    "ollama": ollama_turns.TURNS,
}


class PlainLog(Log):
    """A conversation while it is drawn."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(_never)
        self.chance = chance

    def number(self, most: int) -> int:
        return self.chance.randrange(most + 1)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.chance.randrange(len(options))]


def _never(_: Any) -> Any:
    raise AssertionError("a plain log draws nothing else")


def drawn(chance: random.Random, turns: Sequence[Turn], most: int = 8) -> list[Sent]:
    """Return what is appended, request by request."""
    log = PlainLog(chance)
    for _ in range(1 + log.number(most)):
        log.pick(turns)(log)
    return [(form, messages) for form, messages in log.groups]


def mixed() -> tuple[Turn, ...]:
    """Return turns of all forms, and late results."""
    return (*(turn for turns in TURNS.values() for turn in turns), *chat_turns.TURNS, *(late,) * 4)


def joined(sent: list[Sent]) -> list[Sent]:
    """Return the same messages in as few requests as their forms allow."""
    found: list[Sent] = []
    for form, messages in sent:
        if found and found[-1][0] == form and len(found[-1][1]) + len(messages) <= 100:
            found[-1] = (form, [*found[-1][1], *messages])
        else:
            found.append((form, list(messages)))
    return found


def entry(message: Object, **beside: Any) -> Object:
    """Return the message as an entry with these facts; a bare one keeps those that it has."""
    own = dict(message) if "message" in message else {"message": message}
    return own | {name: value for name, value in beside.items() if value}
