"""A command on its way to the store, and who watches."""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol


class Observer(Protocol):
    """Whoever wants to know what the store is asked; told on the event loop, so it must be quick."""

    def sent(self, commands: int) -> None:
        """So many commands left in one write."""

    def answered(self, call: str, seconds: float, *, failed: bool) -> None:
        """A call, named by its scripts, was answered or given up."""

    def reconnected(self) -> None:
        """A connection was lost, or not had."""


class Nobody:
    """Wants to know nothing."""

    def sent(self, commands: int) -> None:
        pass

    def answered(self, call: str, seconds: float, *, failed: bool) -> None:
        pass

    def reconnected(self) -> None:
        pass


NOBODY = Nobody()


class NodeLost(Exception):  # noqa: N818 - it reads as what happened
    """The connection to a node of a cluster is gone: ask the cluster who serves the slot now, and there again."""


class Command:
    """One command on its way: its words, the future of its reply, and when to give up (monotonic seconds)."""

    __slots__ = ("deadline", "future", "words", "writes")

    def __init__(
        self, words: Sequence[Any], future: "asyncio.Future[Any]", deadline: float, *, writes: bool = False
    ) -> None:
        self.words = words
        self.future = future
        self.deadline = deadline
        self.writes = writes

    def resolve(self, reply: Any) -> None:
        if not self.future.done():
            self.future.set_result(reply)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
