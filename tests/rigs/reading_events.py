"""Read server-sent events as clients do."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx


class Followed:
    """An open stream: its events so far, oldest first, and the pauses that the server asked for."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.events: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self.comments = 0
        self.retries: list[int] = []
        self.ended = False
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def versions(self) -> list[int]:
        return [event.get("version", 0) for event in self.events]

    async def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            async for line in self.answer.aiter_lines():
                name, _, value = line.partition(":")
                if line.startswith(":"):
                    self.comments += 1
                elif name == "retry":
                    self.retries.append(int(value))
                elif line:
                    fields[name] = value.removeprefix(" ")
                elif "data" in fields:
                    event = json.loads(fields["data"])
                    assert event["type"] == fields.get("event", event["type"])
                    self.ids.append(fields.get("id", ""))
                    self.events.append(event)
                    fields = {}
                self._news.set()
        except httpx.TransportError:
            pass
        finally:
            self.ended = True
            self._news.set()

    async def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        """Return when the condition holds."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def following(
    client: httpx.AsyncClient, path: str, headers: dict[str, str] | None = None, **query: Any
) -> AsyncIterator[Followed]:
    """Yield an open stream of events."""
    async with client.stream("GET", path, params=query, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        followed = Followed(answer)
        try:
            yield followed
        finally:
            await followed.close()


def applied(events: list[dict[str, Any]], messages: dict[int, str]) -> dict[int, str]:
    """Return the ids by seq of a reader that had ``messages`` and takes the events, as the contract says to."""
    now = dict(messages)
    for event in events:
        if "to_seq" in event:
            now = {seq: identity for seq, identity in now.items() if seq <= event["to_seq"]}
        now = {seq: identity for seq, identity in now.items() if seq not in event.get("left_out", ())}
        now |= {message["seq"]: message["id"] for message in event.get("messages", ())}
    return now
