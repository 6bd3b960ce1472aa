"""Agreements beside appends: ``python -m tests.bench.agree``.

Microseconds of processor time of the service and of the store, for one question more with its window: as an append, and as
a list that the log is to agree with. Each round has every way, one request after another in turn, so that a neighbour on the
machine slows all alike; the ratio is the median of the rounds'. Then the whole chat that agrees already.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import redis
import uvloop

from sash.api.middleware.asgi import App
from sash.store.redis.embedded import EmbeddedStore
from tests.bench.inprocess import ask, worker

TIMES, ROUNDS = 10, 40
LONG = 2000
_WORDS = "the talk about builds is in room two at four "
_Request = Callable[[str], tuple[str, str, bytes]]


def message(place: int, size: int) -> dict[str, Any]:
    """Return a message of about ``size`` characters."""
    text = f"{place} {_WORDS * (size // len(_WORDS) + 1)}"[:size]
    return {"role": "assistant" if place % 2 else "user", "content": text}


def ways(chat: list[dict[str, Any]], new: dict[str, Any]) -> dict[str, _Request]:
    """Return the requests that add ``new`` to a conversation with this chat."""

    def way(method: str, query: str, messages: list[dict[str, Any]]) -> _Request:
        body = msgspec.json.encode({"messages": messages})
        return lambda name: (method, f"/conversations/{name}/messages?model=gpt-4o-mini{query}", body)

    return {
        "append": way("POST", "", [new]),
        "PUT after_seq": way("PUT", f"&after_seq={len(chat) - 1}", [chat[-1], new]),
        "PUT list=end": way("PUT", "&list=end", [chat[-1], new]),
        "PUT whole list": way("PUT", "", [*chat, new]),
    }


async def measured(app: App, store: redis.Redis, requests: list[tuple[str, str, bytes]]) -> tuple[float, float]:
    """Return the microseconds of the service and of the store for one of these requests."""
    store_begun, begun = store_seconds(store), time.process_time()
    for request in requests:
        await ask(app, *request)
    spent, store_spent = time.process_time() - begun, store_seconds(store) - store_begun
    return spent / len(requests) * 1e6, store_spent / len(requests) * 1e6


def store_seconds(store: redis.Redis) -> float:
    """Return the processor time of the store's main thread so far."""
    told: Any = store.info("cpu")
    return float(told["used_cpu_sys_main_thread"]) + float(told["used_cpu_user_main_thread"])


async def begin(app: App, name: str, chat: list[dict[str, Any]]) -> None:
    """Store a chat."""
    for first in range(0, len(chat), 100):
        body = msgspec.json.encode({"messages": chat[first : first + 100]})
        await ask(app, "POST", f"/conversations/{name}/messages", body)


async def one_more(app: App, store: redis.Redis, length: int) -> list[str]:
    """Return lines that tell what one more question costs, by its way."""
    chat, new = [message(place, 160) for place in range(length)], message(length, 160)
    requests = ways(chat, new)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in requests}
    for turn in range(ROUNDS):
        spent = dict.fromkeys(requests, (0.0, 0.0))
        for each in range(TIMES):
            for place in range(len(requests)):
                await begin(app, f"c{length}-{turn}-{place}-{each}", chat)
            for place, (name, way) in enumerate(requests.items()):
                service, its_store = await measured(app, store, [way(f"c{length}-{turn}-{place}-{each}")])
                spent[name] = (spent[name][0] + service / TIMES, spent[name][1] + its_store / TIMES)
        for name, both in spent.items():
            found[name].append(both)
    plain = [sum(both) for both in found["append"]]
    lines = [f"one question more than {length} messages of 160 characters, with its window"]
    for name, rounds in found.items():
        service, its_store = (min(part) for part in zip(*rounds, strict=True))
        ratio = statistics.median(sum(both) / append for both, append in zip(rounds, plain, strict=True))
        lines.append(f"  {name:16} {service:7.0f} + {its_store:5.0f} us of service and store   {ratio:5.2f}")
    return lines


async def whole(app: App, store: redis.Redis) -> str:
    """Return a line that tells what a long list that agrees costs."""
    chat = [message(place, 400) for place in range(LONG)]
    await begin(app, "long", chat)
    body = msgspec.json.encode({"messages": chat})
    request = ("PUT", "/conversations/long/messages", body)
    await ask(app, *request)
    spent = [await measured(app, store, [request]) for _ in range(30)]
    service, its_store = (min(part) / 1000 for part in zip(*spent, strict=True))
    return f"a list of {LONG} messages of 400 characters that agrees: {service:.1f} + {its_store:.1f} ms"


async def measure(url: str) -> list[str]:
    """Return all figures."""
    with redis.Redis.from_url(url) as store:
        async with worker(url) as app:
            lines = [line for length in (2, 20, 60) for line in await one_more(app, store, length)]
            return [*lines, await whole(app, store)]


def main() -> None:
    """Measure on a store of its own."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedStore(Path(folder)) as store:
        print("\n".join(uvloop.run(measure(store.url))))


if __name__ == "__main__":
    main()
