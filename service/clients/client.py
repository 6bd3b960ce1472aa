"""A Sash server as the adapters see it: what is asked, how often, and what the answers mean.

A generator describes requests that follow from each other's answers. ``Sash.do`` sends them and waits, ``Sash.ado`` sends
them on an event loop, so that each way through the contract is written once.
"""

import asyncio
import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import httpx2

from service.clients.ids import safe_id

T = TypeVar("T")

LOCAL = "http://127.0.0.1:8000"
PAGE = 1000
_TIMEOUT_SECONDS = 30.0
_WAITS_SECONDS = (0.1, 0.5, 2.0)
"""Before the second, third and fourth attempt. What is sent may be sent twice: entries carry ids, other changes a key."""
_PASSING = {409, 429, 502, 503, 504}
_LONGEST_WAIT_SECONDS = 10.0
_ENTRIES = 100


class SashError(Exception):
    """The server said no: ``status``, and ``problem``, its answer (RFC 9457)."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        self.status = status
        self.problem = problem


class Ask(NamedTuple):
    """A request."""

    method: str
    path: str
    params: Mapping[str, Any] | None = None
    body: Any = None
    if_match: str | None = None


class Answer(NamedTuple):
    """JSON and the version that it was read at; both None when there is nothing at the path."""

    value: Any
    etag: str | None


Asking = Generator[Ask, Answer, T]
Pair = tuple[dict[str, Any], dict[str, Any] | None]
"""A chat message of a window, and the stored entry that says the same; None where the window made or changed it."""


class Sash:
    """One server, over kept connections. A request that failed in passing is sent again, four times at most."""

    def __init__(self, url: str = LOCAL, api_key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": _TIMEOUT_SECONDS}
        self._client: httpx2.Client | None = None
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()

    def do(self, asking: Asking[T]) -> T:
        """What the requests come to; an error is the generator's first. Raises SashError, httpx2.TransportError."""
        step: Callable[[], Ask] = partial(next, asking)
        while True:
            try:
                ask = step()
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            try:
                step = partial(asking.send, self._answer(_request(ask)))
            except SashError as error:
                step = partial(asking.throw, error)

    async def ado(self, asking: Asking[T]) -> T:
        """The same without blocking the event loop."""
        step: Callable[[], Ask] = partial(next, asking)
        while True:
            try:
                ask = step()
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            try:
                step = partial(asking.send, await self._answer_async(_request(ask)))
            except SashError as error:
                step = partial(asking.throw, error)

    def close(self) -> None:
        """Close the connections of ``do``."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def aclose(self) -> None:
        """Close the connections that ``ado`` made on this event loop."""
        if client := self._clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    def _answer(self, request: dict[str, Any]) -> Answer:
        self._client = client = self._client or httpx2.Client(**self._options)
        for wait in _WAITS_SECONDS:
            try:
                response = client.request(**request)
                pause = _pause_seconds(response, wait)
            except httpx2.TransportError:
                pause = wait
            if pause is None:
                return _read(response)
            time.sleep(pause)
        return _read(client.request(**request))

    async def _answer_async(self, request: dict[str, Any]) -> Answer:
        loop = asyncio.get_running_loop()  # a client lives on one: the Agents SDK's run_sync has another than its run
        if (client := self._clients.get(loop)) is None:
            client = self._clients[loop] = httpx2.AsyncClient(**self._options)
        for wait in _WAITS_SECONDS:
            try:
                response = await client.request(**request)
                pause = _pause_seconds(response, wait)
            except httpx2.TransportError:
                pause = wait
            if pause is None:
                return _read(response)
            await asyncio.sleep(pause)
        return _read(await client.request(**request))


def _request(ask: Ask) -> dict[str, Any]:
    """One request, the same however often it is sent. A change that carries no entries' ids carries a key."""
    headers = {"Content-Type": "application/json"}
    if ask.method != "GET" and not ask.path.endswith("/messages"):
        headers["Idempotency-Key"] = uuid4().hex
    if ask.if_match is not None:
        headers["If-Match"] = ask.if_match
    content = None if ask.body is None else json.dumps(ask.body).encode()
    return {"method": ask.method, "url": ask.path, "params": ask.params, "content": content, "headers": headers}


def _pause_seconds(response: httpx2.Response, wait: float) -> float | None:
    """How long to wait before the request is sent again, at least ``wait``; None when the answer is final."""
    asked = response.headers.get("retry-after", "")
    if response.status_code not in _PASSING or (response.status_code == 409 and not asked):
        return None
    return max(wait, min(float(asked), _LONGEST_WAIT_SECONDS)) if asked.isascii() and asked.isdigit() else wait


def _read(response: httpx2.Response) -> Answer:
    if response.status_code < 400:
        return Answer(response.json() if response.content else None, response.headers.get("etag"))
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"detail": f"HTTP {response.status_code} without a problem in it: that may be no Sash server."}
    if problem.get("type") == "/problems/not-found":
        return Answer(None, None)
    raise SashError(response.status_code, problem)


def path_of(name: str) -> str:
    """Where the conversation of that name is."""
    return f"/conversations/{safe_id(name)}"


def query(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they stand in a URL: those that are None are left to the server."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}


def asked(ask: Ask) -> Asking[Any]:
    """The JSON of one answer; None where there is nothing."""
    answer = yield ask
    return answer.value


def append(path: str, entries: Sequence[Mapping[str, Any]], window: Mapping[str, Any] | None = None) -> Asking[Any]:
    """Append entries, as many at once as a server takes; the last answer, with the window where parameters ask for one.

    An entry without an id gets one: sent again, because its answer was lost, it is stored once.
    """
    answer = None
    for start in range(0, len(entries), _ENTRIES):
        part = [{"id": uuid4().hex, **entry} for entry in entries[start : start + _ENTRIES]]
        params = window if start + _ENTRIES >= len(entries) else None
        answer, _ = yield Ask("POST", f"{path}/messages", params, {"messages": part})
    return answer


def listed(path: str, limit: int | None = None) -> Asking[list[dict[str, Any]]]:
    """The last ``limit`` entries, or all of them, oldest first."""
    entries: list[dict[str, Any]] = []
    cursor: str | None = None
    while limit is None or len(entries) < limit:
        size = PAGE if limit is None else min(PAGE, limit - len(entries))
        page, _ = yield Ask("GET", f"{path}/messages", query({"order": "desc", "limit": size, "cursor": cursor}))
        entries += page["messages"] if page else ()
        if page is None or (cursor := page["next_cursor"]) is None:
            break
    return entries[::-1]


def turn(path: str, entries: Sequence[Mapping[str, Any]], window: Mapping[str, Any]) -> Asking[list[Pair]]:
    """Append entries; the window that follows, empty without a conversation, and what each message was made from.

    An entry's metadata has what its framework knows beside the chat message. A message that the window changed, by documents
    or by cutting it, comes without its entry.
    """
    stored = yield from append(path, entries, window)
    if stored is None:
        found, _ = yield Ask("GET", f"{path}/window", window)
    elif (found := stored["window"]) is None:
        raise SashError(stored["window_error"]["status"], stored["window_error"])
    if found is None:
        return []
    known: dict[str, list[dict[str, Any]]] = {}
    for entry in (yield from listed(path, _reach(found["kept"]))):
        known.setdefault(_said(entry["message"]), []).append(entry)
    pairs: list[Pair] = []
    for message in reversed(found["request"]["messages"]):
        same = known.get(_said(message))
        pairs.append((message, same.pop() if same else None))
    return pairs[::-1]


def _reach(kept: Mapping[str, Any]) -> int:
    """How many of the newest entries may be in a window: far older ones, such as pinned ones, are taken as they are sent."""
    return 0 if not kept["messages"] else min(kept["last_seq"] - kept["first_seq"] + 1, 2 * kept["messages"])


def _said(message: Mapping[str, Any]) -> str:
    return json.dumps(message, sort_keys=True)
