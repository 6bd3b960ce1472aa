"""A server, and the few lanes to it."""

import asyncio
import copy
import time
from collections.abc import Iterable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from service.store.commands import NOBODY, Command, Observer
from service.store.durability import INSPECT, Durability, Found
from service.store.lanes import Connect, Lane

_JUDGED_SECONDS = 1.0  # how long a judgement stands; an inspection costs the server a tenth of a millisecond


class Node:
    """The lanes to one server. Where writes wait for a barrier they have half of the lanes, so that
    no read waits for a disk.
    """

    def __init__(
        self,
        connect: Connect,
        prepare: Iterable[Sequence[Any]],
        durability: Durability,
        *,
        connections: int,
        hands_back: bool = False,
        observer: Observer = NOBODY,
    ) -> None:
        prepare = tuple(prepare)
        self._durability = copy.copy(durability)  # what is found of this server is its own
        self._inspecting: asyncio.Task[None] | None = None
        self._inspected = time.monotonic()
        self.lanes = [
            Lane(connect, prepare, self._durability, hands_back=hands_back, observer=observer)
            for _ in range(connections)
        ]

    @property
    def found(self) -> Found | None:
        """What the server was last judged to be; None when it is not connected to."""
        return self._durability.latest if any(lane.state != "down" for lane in self.lanes) else None

    def inspect_when_due(self, now: float, timeout_seconds: float) -> None:
        """Judge the server again, a second after the last time, beside everything else."""
        if now >= self._inspected + _JUDGED_SECONDS and (self._inspecting is None or self._inspecting.done()):
            self._inspected = now
            self._inspecting = asyncio.create_task(self._inspect(now + timeout_seconds))

    async def _inspect(self, deadline: float) -> None:
        lane = min((lane for lane in self.lanes if lane.state != "down"), key=lambda lane: lane.load, default=None)
        if lane is None:  # it is judged when it is connected to
            return
        loop = asyncio.get_running_loop()
        commands = [Command(each, loop.create_future(), deadline) for each in INSPECT]
        lane.submit(commands)
        replies = await asyncio.gather(*(command.future for command in commands), return_exceptions=True)
        if all(_tells(reply) for reply in replies):
            found = self._durability.judge(replies)
            for each in self.lanes:
                each.revise(found)

    async def send(self, words: Sequence[Sequence[Any]], deadline: float, *, writes: bool) -> list[Any]:
        """Replies to commands that run in order on one connection; an error among them is raised after all came."""
        loop = asyncio.get_running_loop()
        commands = [Command(each, loop.create_future(), deadline, writes=writes) for each in words]
        lanes, half = self.lanes, len(self.lanes) // 2
        if half and lanes[-1].waits:
            lanes = lanes[half:] if writes else lanes[:half]
        filling = next((lane for lane in lanes if lane.filling), None)
        (filling or min(lanes, key=lambda lane: lane.load)).submit(commands)
        return await _all(commands)

    def expire(self, now: float) -> None:
        for lane in self.lanes:
            lane.expire(now)

    async def close(self, why: Exception | None = None) -> None:
        if self._inspecting is not None:
            self._inspecting.cancel()
        await asyncio.gather(*(lane.close(why) for lane in self.lanes))


def _tells(reply: Any) -> bool:
    """Whether an answer to an inspection says anything of the server; a server that is busy says nothing."""
    return not isinstance(reply, BaseException) or (
        isinstance(reply, ResponseError) and not str(reply).startswith("BUSY")
    )


async def _all(commands: Sequence[Command]) -> list[Any]:
    """Every reply, in order; or the first error, when the last reply is here. They come together, so one wait does."""
    replies: list[Any] = []
    failure: Exception | None = None
    try:
        for command in commands:
            try:
                replies.append(await command.future)
            except Exception as error:  # noqa: BLE001 - raised below
                failure = failure or error
    finally:
        for command in commands:
            command.future.cancel()  # of a caller that was itself cancelled: nobody waits for the others
    if failure is not None:
        raise failure
    return replies
