"""What an append takes of the store's one thread, which runs the commands of all workers, over the afternoon's append.

A row is the median of the rounds' ratios. Each round asks Sash and the afternoon's service in turn, one request at a time
and then over 32 connections, where the store reads several requests at once and writes them to disk together. Conversations
have few messages in the rows without a window, and 28 to 36 in the others.
"""

import redis

from tests.bench.figures import Figure
from tests.bench.load import load, request
from tests.bench.memory import main_thread_seconds
from tests.bench.rig import body_of

ROUNDS = 5
CONVERSATIONS, TURNS = 256, 4
_MOST, _WANTED = 2, 1.5
_SIZE = 400
_WINDOW = "?model=gpt-4o-mini&max_tokens=126976"
KINDS = (("an append", 1, ""), ("an append with its window", 28, _WINDOW))
"""Each row's name, the messages that its conversations begin with, and its query."""


async def _taken_us(store: redis.Redis, port: int, name: str, begins: int, query: str, connections: int) -> float:
    """Return the microseconds of the store's main thread for an append of one message to each of many conversations."""
    paths = [f"/conversations/{name}-{place}/messages" for place in range(CONVERSATIONS)]
    begin = [request("POST", path, body_of(begins, _SIZE)) for path in paths]
    await load(port, begin, count=CONVERSATIONS, connections=4)
    asked, count = [request("POST", path + query, body_of(1, _SIZE)) for path in paths], CONVERSATIONS * TURNS
    before = main_thread_seconds(store)
    run = await load(port, asked, count=count, connections=connections)
    assert not run.errors, f"{run.errors} of {count} appends failed"
    return (main_thread_seconds(store) - before) / count * 1e6


async def measure(store: redis.Redis, ours: int, afternoons: int) -> list[Figure]:
    """Return the rows, measured with the services at these ports, which share the store."""
    figures = []
    for connections in (1, 32):
        for kind, begins, query in KINDS:
            pairs = []
            for turn in range(ROUNDS):
                name = f"thread{connections}-{begins}-{turn}"
                ports = (ours, afternoons)[:: 1 if turn % 2 else -1]
                taken = {port: await _taken_us(store, port, name, begins, query, connections) for port in ports}
                pairs.append((taken[ours], taken[afternoons]))
            middle = sorted(pairs)[len(pairs) // 2]
            figures.append(
                Figure(
                    f"the store's thread for {kind}, {connections} at a time / for the afternoon's",
                    [one / other for one, other in pairs],
                    most=_MOST,
                    wanted=_WANTED,
                    note=f"{middle[0]:,.0f} and {middle[1]:,.0f} µs",
                )
            )
    return figures
