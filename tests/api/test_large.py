"""Large answers share a budget: the slowest reader is cut first, and small answers hardly wait."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from sash.api.middleware.callers import Callers
from sash.api.middleware.large import Making, Sending
from sash.api.middleware.layer import Middleware
from sash.api.middleware.paths import Paths
from sash.operations.metrics import Metrics
from sash.operations.requests import Pseudonyms, Requests
from sash.store.data.limits import RateLimits
from sash.store.redis.client import Client


def asker(app: Any, *, making_bytes: int = 2_000_000, held_bytes: int = 32_000_000) -> Any:
    """Return a function that requests a page of messages from the middleware; its argument ``take`` receives the answer."""

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await scope["sash.exchange"].make_room()
        await app(scope, receive, send)

    limits = RateLimits(Client("redis://localhost:1"), None)
    metrics = Metrics()
    requests = Requests(metrics, Pseudonyms(), None)
    middleware = Middleware(
        page,
        once=page,
        keys=Callers(()),
        paths=Paths((), {}),
        limits=limits,
        timeout_seconds=5,
        max_body_bytes=1 << 20,
        max_import_bytes=1 << 20,
        metrics=metrics,
        requests=requests,
    )
    budgets = {"making": Making(making_bytes), "sending": Sending(held_bytes)}
    middleware.shared = msgspec.structs.replace(middleware.shared, **budgets)

    async def ask(take: Any) -> None:
        scope = {"type": "http", "method": "GET", "path": "/conversations/c/messages", "http_version": "1.1"}
        await middleware({**scope, "headers": []}, None, take)  # type: ignore[arg-type]

    return ask


def answers(body: bytes) -> Any:
    """An application that answers with the body."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


class Slow:
    """An application that makes each answer in a millisecond; ``most`` is the largest number made at the same time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.most = self._running = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await asyncio.sleep(0.001)
        finally:
            self._running -= 1
        await answers(bytes(self.size))(scope, receive, send)


@pytest.mark.parametrize(("held_bytes", "largest"), [(2 << 20, 32 << 10), (32 << 20, ((32 << 20) - (1 << 20)) // 400)])
async def test_a_large_body_goes_in_pieces_and_whole(held_bytes: int, largest: int) -> None:
    """A large body is sent unchanged, waits for the client after each piece, and a budget that fills has small pieces."""
    body, came = bytes(range(256)) * 4096, []

    async def take(message: Any) -> None:
        came.append(message)

    await asker(answers(body), held_bytes=held_bytes)(take)
    pieces = [message for message in came if message["type"] == "http.response.body"]
    assert b"".join(piece["body"] for piece in pieces) == body
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert max(len(piece["body"]) for piece in pieces) == largest


async def test_the_slowest_of_those_who_fill_the_budget_is_cut() -> None:
    """When the budget is full, a client that reads nothing is cut, and the other clients' requests end in time."""
    ask, stuck = asker(answers(bytes(1_000_000)), held_bytes=2_500_000), asyncio.Event()

    async def takes_nothing(message: Any) -> None:
        if message["type"] == "http.response.body":
            await stuck.wait()

    async def takes_slowly(message: Any) -> None:
        await asyncio.sleep(0.02 if message["type"] == "http.response.body" else 0)

    async def takes_all(message: Any) -> None:
        del message

    nothing, slowly = asyncio.create_task(ask(takes_nothing)), asyncio.create_task(ask(takes_slowly))
    await asyncio.sleep(0.4)
    await asyncio.wait_for(ask(takes_all), 3)
    await asyncio.wait_for(nothing, 1)
    await asyncio.wait_for(slowly, 5)


async def test_large_answers_are_made_a_few_at_a_time_and_small_ones_together() -> None:
    """Each answer is charged the size of the latest ones: large ones are made two at a time, small ones all together."""
    app = Slow(4_000_000)

    async def take(message: Any) -> None:
        del message

    ask = asker(app, making_bytes=8_000_000)
    await ask(take)
    app.most = 0
    await asyncio.gather(*(ask(take) for _ in range(20)))
    assert app.most <= 2
    app.size = 100
    for _ in range(100):
        await ask(take)
    app.most = 0
    await asyncio.gather(*(ask(take) for _ in range(50)))
    assert app.most == 50


async def test_those_who_give_up_say_nothing_of_the_next_ones() -> None:
    """Answers that were made but never sent also count as large: the next ones are made at most two at a time."""
    app, full = Slow(4_000_000), asyncio.Event()

    async def take(message: Any) -> None:
        if message["type"] == "http.response.body":
            await full.wait()

    ask = asker(app, held_bytes=app.size, making_bytes=2 * app.size)
    first = asyncio.create_task(ask(take))
    await asyncio.sleep(0.02)
    for _ in range(30):
        given_up = asyncio.create_task(ask(take))
        await asyncio.sleep(0.003)
        given_up.cancel()
        await asyncio.wait((given_up,))
    full.set()
    await asyncio.wait((first,))  # sent, or cut to make room for the others on a slow machine
    app.most = 0
    await asyncio.gather(*(ask(take) for _ in range(20)))
    assert app.most <= 2


async def test_whoever_is_gone_gives_his_turn_to_the_next() -> None:
    """Requests that are cancelled in the queue, or while they are made, give their part of the budget back."""
    ask = asker(answers(bytes(4_000_000)), making_bytes=4_000_000)

    async def take(message: Any) -> None:
        await asyncio.sleep(0.0001)
        del message

    await ask(take)
    for after in (0, 0.0005, 0.002):
        tasks = [asyncio.create_task(ask(take)) for _ in range(10)]
        await asyncio.sleep(after)
        for task in tasks[::2]:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
    await asyncio.wait_for(ask(take), 3)


async def test_a_large_answer_is_not_passed_over() -> None:
    """An answer of a known size waits for its room, before those that come later, and is then made alone."""
    making = Making(1_000_000)
    first = await making.take(600_000)
    large = asyncio.ensure_future(making.take(5_000_000))
    await asyncio.sleep(0)
    small = asyncio.ensure_future(making.take(100_000))
    await asyncio.sleep(0.01)
    assert [large.done(), small.done()] == [False, False]

    making.give(first, None)
    assert await large == 1_000_000
    await asyncio.sleep(0.01)
    assert not small.done()

    making.give(1_000_000, None)
    assert await small == 100_000
