"""The adapters' client of a Sash server: requests, retries, and the reading of answers.

A generator yields requests and receives their answers, on which its next requests may depend. ``Sash.do`` sends the
requests and blocks, ``Sash.ado`` sends them on an event loop, so that each sequence of requests is written once.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import uuid4
from weakref import WeakKeyDictionary

import httpx2

from sash_client.errors import (
    SashError,
    SashUnreachable,
    pause_seconds,
    read_json,
    refusal,
    tell_pause,
    unreachable,
)
from sash_client.event_source import EventSource
from sash_client.ids import safe_id

__all__ = ["Ask", "Sash", "SashError", "SashUnreachable"]

T = TypeVar("T")

LOCAL = "http://127.0.0.1:8000"
_PAGE = 1000
_TIMEOUT_SECONDS = 30.0
_WAITS_SECONDS = (0.1, 0.5, 2.0)
"""Pauses before the second to fourth attempt. A request may be sent twice: entries have ids, other changes a key."""
_ENTRIES = 100
_TOO_LARGE = 413
_MEMBERS = {"conversation_id", "created_at", "next_cursor"}
"""Each answer about conversations has one of these members. Another program's server may answer with other JSON."""


class Ask(NamedTuple):
    """A request. A ``body`` of bytes is sent as it is, any other value as JSON."""

    method: str
    path: str
    params: Mapping[str, Any] | None = None
    body: Any = None
    if_match: str | None = None
    content_type: str = "application/json"


class Answered(NamedTuple):
    """An answer's JSON and ETag; both None if there is nothing at the path."""

    value: Any
    etag: str | None


TokenEndpoint = Generator[Ask, Answered, T]
Pair = tuple[dict[str, Any], dict[str, Any] | None]
"""A chat message of a window, and the stored entry with the same message; None if the window made or changed it."""


class Sash:
    """One server, over persistent connections. A request that fails temporarily is sent again after ``waits_seconds``."""

    def __init__(
        self,
        url: str = LOCAL,
        api_key: str | None = None,
        *,
        timeout_seconds: float = _TIMEOUT_SECONDS,
        waits_seconds: Sequence[float] = _WAITS_SECONDS,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.waits_seconds = waits_seconds
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout_seconds}
        self._client: httpx2.Client | None = None
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()

    def do(self, asking: TokenEndpoint[T]) -> T:
        """The generator's result. The generator may handle a SashError. Raises SashError."""
        answer: Answered | SashError | None = None
        while True:
            try:
                ask = _next(asking, answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            answer = self._answer(ask)

    async def ado(self, asking: TokenEndpoint[T]) -> T:
        """Like ``do``, without blocking the event loop."""
        answer: Answered | SashError | None = None
        while True:
            try:
                ask = _next(asking, answer)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            answer = await self._answer_async(ask)

    def follow(
        self, conversation: str, *, after: int | str | None = None, body: bool = False, view: str | None = None
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield a conversation's events, each version's once and in order, over lost connections; ends with ``erased``.

        ``after`` is the version that is known, an event's id or an ETag; without it the first event is ``reset``. With
        ``body`` messages are whole; with ``view`` events have what this agent sees, and are ``unseen`` where it is nothing.
        Raises SashError where the server refuses it for good.
        """
        asked = query({"after": after, "body": body, "view": view})
        return EventSource(self._options, f"{path_of(conversation)}/events", asked).events()

    def follow_owner(self, owner: str) -> AsyncGenerator[dict[str, Any]]:
        """Yield the events of an owner's conversations, as a sidebar needs them: first ``listed``. Raises as ``follow``."""
        return EventSource(self._options, f"/owners/{quote(owner, safe='')}/events", {}).events()

    def close(self) -> None:
        """Close the connections of ``do``."""
        if self._client is not None:
            self._client.close()
            self._client = None

    async def aclose(self) -> None:
        """Close the connections that ``ado`` made on this event loop."""
        if client := self._clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    def _answer(self, ask: Ask) -> Answered | SashError:
        self._client = client = self._client or httpx2.Client(**self._options)
        request, waits = _request(ask), iter(self.waits_seconds)
        while True:
            try:
                response = client.request(**request)
                answer, pause = _read(response, ask), pause_seconds(response, next(waits, None))
            except httpx2.RequestError as error:
                answer, pause = unreachable(error), next(waits, None)
            if pause is None:
                return answer
            tell_pause(answer, pause)
            time.sleep(pause)

    async def _answer_async(self, ask: Ask) -> Answered | SashError:
        loop = asyncio.get_running_loop()  # a client belongs to one loop; the Agents SDK's run_sync has its own
        if (client := self._clients.get(loop)) is None:
            client = self._clients[loop] = httpx2.AsyncClient(**self._options)
        request, waits = _request(ask), iter(self.waits_seconds)
        while True:
            try:
                response = await client.request(**request)
                answer, pause = _read(response, ask), pause_seconds(response, next(waits, None))
            except httpx2.RequestError as error:
                answer, pause = unreachable(error), next(waits, None)
            if pause is None:
                return answer
            tell_pause(answer, pause)
            await asyncio.sleep(pause)


def _next(asking: TokenEndpoint[Any], answer: Answered | SashError | None) -> Ask:
    """The generator's next request after an answer; the first one after None. Raises StopIteration at the end."""
    return asking.throw(answer) if isinstance(answer, SashError) else asking.send(answer)  # type: ignore[arg-type]


def _request(ask: Ask) -> dict[str, Any]:
    """The arguments of a request, the same at each attempt.

    A change has an Idempotency-Key, except for those that are stored once without it: entries and imports have ids.
    """
    headers = {"Content-Type": ask.content_type}
    if ask.method != "GET" and not ask.path.endswith(("/messages", "/import")):
        headers["Idempotency-Key"] = uuid4().hex
    if ask.if_match is not None:
        headers["If-Match"] = ask.if_match
    content = ask.body if isinstance(ask.body, bytes | None) else json.dumps(ask.body).encode()
    return {"method": ask.method, "url": ask.path, "params": ask.params, "content": content, "headers": headers}


def _read(response: httpx2.Response, ask: Ask) -> Answered | SashError:
    """The answer in a response, or the refusal."""
    value, etag = read_json(response), response.headers.get("etag")
    if response.is_success and isinstance(value, dict) and value.keys() & _MEMBERS:
        return Answered(value, etag)
    if response.status_code == 204 and ask.method == "DELETE":
        return Answered(None, etag)
    refused = refusal(response)
    return Answered(None, None) if refused.is_absent(ask.path) else refused


def path_of(name: str) -> str:
    """The path of the conversation with this name."""
    return f"/conversations/{safe_id(name)}"


def query(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in the form of a query string, without those that are None."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}


def window_query(model: str | None, window: Mapping[str, Any]) -> dict[str, Any] | None:
    """The query string of a window for the model; None without a model. Raises ValueError for parameters without a model."""
    if model is None and window:
        raise ValueError(f"{', '.join(window)}: only a window has these, and a window needs a model")
    return query({"model": model, **window}) if model else None


def asked(ask: Ask) -> TokenEndpoint[Any]:
    """The JSON of one answer; None if there is nothing at the path."""
    answer = yield ask
    return answer.value


def append(
    path: str,
    entries: Sequence[Mapping[str, Any]],
    window: Mapping[str, Any] | None = None,
    *,
    after_seq: int | None = None,
    if_match: str | None = None,
) -> TokenEndpoint[Any]:
    """Append entries, 100 in a request. Returns the last answer, with a window if ``window`` has its parameters.

    An entry without an id gets one, so that it is stored once even if the request is sent again. With ``after_seq`` the
    messages after that one become a branch in the step of the first request, which ``if_match`` is for.
    """
    answer = None
    for start in range(0, len(entries), _ENTRIES):
        part = [{"id": uuid4().hex, **entry} for entry in entries[start : start + _ENTRIES]]
        params = window if start + _ENTRIES >= len(entries) else None
        after = {} if start or after_seq is None else {"after_seq": after_seq}
        answer, _ = yield Ask(
            "POST", f"{path}/messages", params, {"messages": part, **after}, None if start else if_match
        )
    return answer


def before(path: str, identity: str) -> TokenEndpoint[tuple[int, str | None]]:
    """The seq before a stored message, and the chat's ETag. Raises SashError, with status 404 where it is not there."""
    _, etag = yield Ask("GET", path)
    entry, _ = yield Ask("GET", f"{path}/messages/id:{identity}")
    if entry is None:
        detail = (
            f"There is no message {identity!r} in whose place others could stand: a rewind or an erasure took it away."
        )
        raise SashError(404, {"status": 404, "title": "There is nothing here", "detail": detail})
    return entry["seq"] - 1, etag


def paged(
    path: str, member: str, parameters: Mapping[str, Any], limit: int | None = None
) -> TokenEndpoint[list[dict[str, Any]]]:
    """The first ``limit`` elements of a listing, or all of them; ``member`` is their name on a page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while limit is None or len(found) < limit:
        size = _PAGE if limit is None else min(_PAGE, limit - len(found))
        page, _ = yield Ask("GET", path, query({**parameters, "limit": size, "cursor": cursor}))
        found += page[member] if page else ()
        if page is None or (cursor := page["next_cursor"]) is None:
            break
    return found


def listed(path: str, limit: int | None = None) -> TokenEndpoint[list[dict[str, Any]]]:
    """The last ``limit`` entries, or all of them, oldest first."""
    return (yield from paged(f"{path}/messages", "messages", {"order": "desc", "media": "inline"}, limit))[::-1]


def turn(path: str, entries: Sequence[Mapping[str, Any]], window: Mapping[str, Any]) -> TokenEndpoint[list[Pair]]:
    """Append entries. Returns the messages of the window after it with their entries; empty without a conversation.

    An entry's metadata has the framework's data that the chat message lacks. A message that the window changed, by documents
    or by cutting it, has no entry.
    """
    stored = yield from append(path, entries, window)
    if stored is None:
        found, _ = yield Ask("GET", f"{path}/window", window)
        return (yield from _pairs(path, found)) if found is not None else []
    return (yield from _pairs(path, window_in(stored)))


def agree(path: str, chat: Sequence[Mapping[str, Any]], window: Mapping[str, Any]) -> TokenEndpoint[list[Pair]]:
    """Make the log agree with a chat, as ``agreed`` does. Returns the messages of the window after it as ``turn`` does."""
    return (yield from _pairs(path, window_in((yield from agreed(path, chat, window)))))


def agreed(path: str, chat: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]) -> TokenEndpoint[Any]:
    """Make the log agree with the end of a chat, entries; with ``list="whole"`` among the parameters, with the chat.

    What agrees stays as it is stored. What differs becomes a branch: a regenerated reply, an edited question. An entry
    without an id gets one. A long chat that is not in the log yet takes several requests. Returns the last answer.
    """
    messages, query = [{"id": uuid4().hex, **entry} for entry in chat], {"list": "end", **parameters}
    try:
        return (yield from asked(Ask("PUT", f"{path}/messages", query, {"messages": messages})))
    except SashError as error:
        if error.status != _TOO_LARGE:
            raise
        if (yield Ask("GET", path)).value is None:
            return (yield from append(path, messages, {name: query[name] for name in parameters if name != "list"}))
        if query["list"] != "whole":
            raise
    # What a part puts away is a branch, in which the next part finds it.
    for end in range(_ENTRIES, len(messages) + _ENTRIES, _ENTRIES):
        answer = yield from asked(Ask("PUT", f"{path}/messages", query, {"messages": messages[:end]}))
    return answer


def add(
    path: str, entries: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any] | None = None
) -> TokenEndpoint[Any]:
    """Append entries. A lone question in the words of the one that waits for its reply is that one, asked again."""
    alone = entries[0]["message"] if len(entries) == 1 else {}
    (said,) = alone if isinstance(alone, list) and len(alone) == 1 else [alone]
    is_question = isinstance(said, Mapping) and said.get("role") == "user"
    if is_question:
        return (yield from agreed(path, entries, parameters or {}))
    return (yield from append(path, entries, parameters))


def window_in(answer: Mapping[str, Any]) -> Any:
    """The window in an answer. Raises SashError where it could not be made."""
    if answer["window"] is None:
        raise SashError(answer["window_error"]["status"], answer["window_error"])
    return answer["window"]


def _pairs(path: str, found: Mapping[str, Any]) -> TokenEndpoint[list[Pair]]:
    """The messages of a window with their entries."""
    known: dict[str, list[dict[str, Any]]] = {}
    for entry in (yield from listed(path, _reach(found["kept"]))):
        known.setdefault(_said(entry["message"]), []).append(entry)
    pairs: list[Pair] = []
    for message in reversed(found["request"]["messages"]):
        same = known.get(_said(message))
        pairs.append((message, same.pop() if same else None))
    return pairs[::-1]


def _reach(kept: Mapping[str, Any]) -> int:
    """The number of newest entries to read for a window. Far older messages, such as pinned ones, get no entry."""
    return 0 if not kept["messages"] else min(kept["last_seq"] - kept["first_seq"] + 1, 2 * kept["messages"])


def _said(message: Mapping[str, Any]) -> str:
    return json.dumps(message, sort_keys=True)
