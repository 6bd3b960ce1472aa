"""What follows writes that must be safe before they are acknowledged."""

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from service.problems import StoreUnavailable
from service.store.commands import Command
from service.store.durability import Barrier

_TOUCH = "#!lua flags=allow-oom\nreturn redis.call('SET', KEYS[1], '', 'PX', 1)"  # an erasure is never refused


class Wait(Command):
    """One command of a barrier; the last one knows them all."""

    __slots__ = ("barrier", "last", "others", "reply")

    def __init__(self, words: Sequence[Any], like: Command, barrier: Barrier, others: "list[Wait]") -> None:
        super().__init__(words, like.future, like.deadline)
        self.barrier = barrier
        self.others = others
        self.last = len(others) == len(barrier.words)
        self.reply: Any = None

    def failure(self) -> Exception | None:
        """Why the barrier was not reached; None when it was."""
        replies = [wait.reply for wait in (*self.others, self)]
        refused = next((reply for reply in replies if isinstance(reply, ResponseError)), None)
        if refused is not None:
            return refused
        return None if self.barrier.reached(replies[1:]) else _not_safe()


def waits_behind(batch: Sequence[Command], barrier: Barrier | None) -> list[Wait]:
    """A barrier's commands for a batch that writes.

    The first is a small write of its own, because WAIT counts from the connection's last write: without it, a turn that
    was stored over a lost connection and is sent again would be acknowledged although no replica has it.
    """
    first = next((command for command in batch if command.writes), None)
    if barrier is None or first is None:
        return []
    key = first.words[3] if first.words[0] in {"EVALSHA", "EVAL"} else first.words[1]
    touch = ("EVAL", _TOUCH, 1, f"{key.partition('}')[0]}}}:barrier")
    waits: list[Wait] = []
    for words in (touch, *barrier.words):
        waits.append(Wait(words, batch[-1], barrier, list(waits)))
    return waits


def _not_safe() -> StoreUnavailable:
    return StoreUnavailable(
        "The turn is stored, but not as safely as it must be yet: send it again with the same ids to be sure."
    )
