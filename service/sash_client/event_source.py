"""Follow changes as they come, over lost connections: a client's side of server-sent events.

::

    async for event in sash.follow("c-1", after=8, body=True): ...

Each event is the service's JSON, and comes once and in order. A connection that is lost, or silent for three heartbeats, is
opened again behind the last event that came.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, NamedTuple

import httpx2

from sash_client.errors import (
    LONGEST_WAIT_SECONDS,
    PASSING,
    SashError,
    SashUnreachable,
    refusal,
    tell_pause,
    unreachable,
)

_PAUSE_SECONDS: Final = 1.0
"""Before the first attempt to come back, where the server names no other pause."""
_DOUBLED: Final = 4
"""How often the pause is doubled, at most."""
_SILENT_SECONDS: Final = 45.0
"""Three heartbeats of the service."""
_STREAM: Final = "text/event-stream"


class SentEvent(NamedTuple):
    """What the server sent: an event, or what has no data: a heartbeat, or a pause to come back after."""

    data: str
    id: str
    retry: str


class EventSource:
    """The events at a path of the service. ``options`` are those of the HTTP client."""

    def __init__(self, options: Mapping[str, Any], path: str, query: Mapping[str, Any]) -> None:
        self._options = {**options, "timeout": httpx2.Timeout(options["timeout"], read=_SILENT_SECONDS)}
        self._path = path
        self._query = query
        self._last_id = ""
        self._pause_seconds = _PAUSE_SECONDS
        self._failures = 0

    async def events(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield each event; of a conversation the last one is ``erased``. Raises SashError where it is refused for good."""
        async with httpx2.AsyncClient(**self._options) as client:
            while True:
                trouble: SashError | None = None
                try:
                    async with client.stream("GET", self._path, params=self._query, headers=self._headers) as response:
                        if trouble := await _refused(response):
                            self._require_passing(trouble)
                        else:
                            async for sent in sent_events(response):
                                self._failures = 0
                                if sent.retry.isdecimal():
                                    self._pause_seconds = int(sent.retry) / 1000
                                if not sent.data:
                                    continue
                                self._last_id = sent.id or self._last_id
                                event = json.loads(sent.data)
                                yield event
                                if self._is_end(event):
                                    return
                except httpx2.RequestError as error:
                    trouble = unreachable(error)
                except _Erased as erased:
                    yield erased.event
                    return
                await asyncio.sleep(self._next_pause(trouble))

    @property
    def _headers(self) -> dict[str, str]:
        return {"Accept": _STREAM, **({"Last-Event-ID": self._last_id} if self._last_id else {})}

    def _is_end(self, event: Mapping[str, Any]) -> bool:
        return event["type"] == "erased" and self._path.startswith("/conversations/")

    def _require_passing(self, refused: SashError) -> None:
        """Raise a refusal that is final; _Erased where the conversation went away."""
        if self._last_id and refused.is_absent(self._path):
            raise _Erased({"type": "erased", "conversation_id": self._path.split("/")[2], "version": 0})
        if refused.status not in PASSING:
            raise refused

    def _next_pause(self, trouble: SashError | None) -> float:
        """The seconds before the next attempt: longer with each failure, and not the same for all who were cut at once.

        They are at least what a refusal asks for. Where the last attempt failed, the log says so.
        """
        longest = min(LONGEST_WAIT_SECONDS, self._pause_seconds * 2.0 ** min(self._failures, _DOUBLED))
        self._failures += 1
        seconds: float = round(longest * random.uniform(0.5, 1), 1)  # noqa: S311 - it spreads them
        if trouble is not None:
            seconds = max(seconds, 0 if isinstance(trouble, SashUnreachable) else trouble.retry_after_seconds or 0)
            tell_pause(trouble, seconds)
        return seconds


class _Erased(Exception):  # noqa: N818 - it is no mistake
    """A conversation that was followed is not there any more."""

    def __init__(self, event: dict[str, Any]) -> None:
        super().__init__()
        self.event = event


async def _refused(response: httpx2.Response) -> SashError | None:
    """The refusal in an answer that is no stream."""
    if response.is_success and response.headers.get("content-type", "").startswith(_STREAM):
        return None
    await response.aread()
    return refusal(response)


async def sent_events(response: httpx2.Response) -> AsyncGenerator[SentEvent]:
    """Yield what comes, each when it is whole. Lines end as the standard has it, and not where Python would end them."""
    rest, fields, data = b"", {"id": "", "retry": ""}, list[str]()
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            text = line.removesuffix(b"\r").decode()
            name, _, value = text.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
            elif name in fields:
                fields[name] = value.removeprefix(" ")
            elif not text:
                yield SentEvent("\n".join(data), fields["id"], fields["retry"])
                fields, data = {"id": "", "retry": ""}, []
