"""A server, and the few lanes to it."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from service.store.commands import NOBODY, Command, Observer
from service.store.durability import Durability
from service.store.lanes import Connect, Lane


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
        self.lanes = [
            Lane(connect, prepare, durability, hands_back=hands_back, observer=observer) for _ in range(connections)
        ]

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
        await asyncio.gather(*(lane.close(why) for lane in self.lanes))


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
