"""The OpenAI Agents SDK's ``Session`` over a Sash server.

``SashSession`` has the protocol's four methods and imports nothing of the SDK. (Written for openai-agents 0.24.)
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import httpx2

from service.clients.answers import (
    WAITS_SECONDS,
    SashError,
    appends,
    is_passing,
    options,
    path_of,
    query,
    read,
    request_headers,
    wait_seconds,
    window_of,
)
from service.clients.items import to_entries, to_items

_PAGE = 1000
_POPS = 5


class SashSession:
    """A session whose items are a conversation's messages.

    ``get_items()`` gives every item as it was added. With ``model`` it gives the window for that model instead, as input
    items: what fits, with documents and summary, without reasoning; ``window`` are its parameters by name, and ``reserve``
    has to hold what the run adds: instructions, tools, the question and the reply. ``get_items(limit)`` gives the last items
    as they were added, with and without a model: the SDK compares them when it retries.

    What Sash refuses raises ``SashError``; a result whose call is not there is refused.
    """

    def __init__(
        self,
        session_id: str,
        *,
        url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        model: str | None = None,
        session_settings: Any = None,
        **window: Any,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._path = path_of(session_id)
        self._options = options(url, api_key)
        self._window = window_of(model, window, format="responses")
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """All items, or the last ``limit``, oldest first; with a model and no limit, the window. Raises SashError."""
        if limit is None:
            settings = self.session_settings
            limit = settings.get("limit") if isinstance(settings, dict) else getattr(settings, "limit", None)
        if limit is None and self._window is not None:
            return await self._windowed(self._window)
        return await self._last(limit)

    async def add_items(self, items: Sequence[Any]) -> None:
        """Append items; more than 100 messages are several appends. Raises SashError, ValueError."""
        for body in appends(to_entries(items)):
            await self._ask("POST", "/messages", body=body)

    async def pop_item(self) -> Any | None:
        """Take the last item away and return it; None when there is none. Raises SashError.

        A message of several items is put back without its last one.
        """
        for _ in range(_POPS):
            listed = await self._listed({"order": "desc", "limit": 1})
            if listed is None or not listed[0]["messages"]:
                return None
            page, version = listed
            (entry,) = page["messages"]
            items = to_items(entry)
            try:
                await self._ask(
                    "POST", "/rewind", body=b'{"to_seq": %d}' % (entry["seq"] - 1), headers={"If-Match": version}
                )
            except SashError as error:
                if error.status == 412:  # somebody appended meanwhile: the last item is another one
                    continue
                raise
            if not items:
                continue
            await self.add_items(items[:-1])
            return items[-1]
        raise SashError(412, {"detail": "Others keep changing the conversation: nothing was taken away."})

    async def clear_session(self) -> None:
        """Forget all items; the conversation's settings stay. Raises SashError."""
        await self._ask("POST", "/rewind", body=b'{"to_seq": 0}', absent_ok=True)

    async def close(self) -> None:
        """Close the connections that were made on this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _windowed(self, parameters: dict[str, Any]) -> list[Any]:
        response = await self._ask("GET", "/window", params=parameters, absent_ok=True)
        if response is None:
            return []
        request = read(response)["request"]
        fixed = [{"role": "system", "content": request["instructions"]}] if request.get("instructions") else []
        return [*fixed, *request["input"]]

    async def _last(self, limit: int | None) -> list[Any]:
        """The last items, read from the newest on: an entry has at least one, so that many entries are enough."""
        items: list[Any] = []
        cursor: str | None = None
        while limit is None or len(items) < limit:
            size = _PAGE if limit is None else min(_PAGE, limit - len(items))
            listed = await self._listed({"order": "desc", "limit": size, "cursor": cursor})
            if listed is None:
                break
            page, _ = listed
            items = [item for entry in reversed(page["messages"]) for item in to_items(entry)] + items
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return items if limit is None else items[max(0, len(items) - limit) :]

    async def _listed(self, parameters: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
        """A page of history and the version it was read at; None when there is no conversation."""
        response = await self._ask("GET", "/messages", params=query(parameters), absent_ok=True)
        return None if response is None else (read(response), response.headers["etag"])

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        absent_ok: bool = False,
    ) -> httpx2.Response | None:
        """The answer, asked for again where that may help; None for an absent conversation where that is all right."""
        headers = {**request_headers(method, path), **(headers or {})}
        for wait in (*WAITS_SECONDS, None):
            pause = wait or 0.0
            try:
                response = await self._client().request(
                    method, self._path + path, params=params, content=body, headers=headers
                )
            except httpx2.TransportError:
                if wait is None:
                    raise
            else:
                if wait is None or not is_passing(response):
                    break
                pause = wait_seconds(response, wait)
            await asyncio.sleep(pause)
        if response.status_code == 404 and absent_ok:
            return None
        if response.status_code >= 400:
            read(response)
        return response

    def _client(self) -> httpx2.AsyncClient:
        """The client of the running loop: the SDK's run_sync has one loop, its run another."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx2.AsyncClient(**self._options)
        return self._clients[loop]
