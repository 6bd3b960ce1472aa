"""The OpenAI Agents SDK's ``Session`` over a Sash server.

``SashSession`` has the protocol's four methods. It imports the SDK only for settings that are a dictionary. Items are
stored and sent unchanged, in Sash's format ``responses``. (Written for openai-agents 0.24.)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from sash_client.client import (
    LOCAL,
    Ask,
    Sash,
    SashError,
    TokenEndpoint,
    add,
    asked,
    path_of,
    window_query,
)

_POPS = 5
_ITEMS = 100
_PAGE = 1000


class SashSession:
    """A session whose items are a conversation's messages.

    ``get_items()`` returns every item as it was added. With ``model`` it returns the
    window for that model instead: the items that fit, with documents, summary and the newest turn's reasoning. ``window``
    are its parameters by name; ``reserve`` must have room for the run's additions: instructions, tools, the question and
    the reply. ``get_items(limit)`` returns the last items as they were added, with and without a model, because the SDK
    compares them when it retries.

    A refused request raises ``SashError``; a result without its call is refused. Calls of one reply must be added together.
    """

    def __init__(
        self,
        session_id: str,
        *,
        url: str = LOCAL,
        api_key: str | None = None,
        model: str | None = None,
        session_settings: Any = None,
        **window: Any,
    ) -> None:
        self.session_id = session_id
        self.session_settings = _typed(session_settings) if isinstance(session_settings, dict) else session_settings
        self._is_closed = False
        self.sash = Sash(url, api_key)
        self._path = path_of(session_id)
        self._window = window_query(model, window)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """All items, or the last ``limit``, oldest first; with a model and no limit, the window. Raises SashError."""
        self._check_open()
        if limit is None:
            limit = getattr(self.session_settings, "limit", None)
        if limit is None and self._window:
            return await self.sash.ado(self._sent())
        return await self.sash.ado(self._added(limit))

    async def add_items(self, items: Sequence[Any]) -> None:
        """Append items, about 100 a request. A lone question that waits for its reply is not stored again.

        Raises SashError, whose ``problem`` has the items not stored as ``items``.
        The first of them may be stored all the same if the server failed or did not answer.
        """
        self._check_open()
        await self.sash.ado(self._add(items))

    async def pop_item(self) -> Any | None:
        """Take the last item away and return it; None when there is none. Raises SashError, and then nothing is taken away.

        A message of several items is replaced, in one step, by the same without its last one.
        """
        self._check_open()
        return await self.sash.ado(self._popped())

    async def clear_session(self) -> None:
        """Remove all items; the conversation's settings stay. Raises SashError."""
        self._check_open()
        await self.sash.ado(asked(self._rewind(0)))

    async def close(self) -> None:
        """Close the session, and the connections that were made on this event loop. All but this then raise RuntimeError."""
        self._is_closed = True
        await self.sash.aclose()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(f"{type(self).__name__} is closed: make another one for the same id")

    def _sent(self) -> TokenEndpoint[list[Any]]:
        """The window's items."""
        window, _ = yield Ask("GET", f"{self._path}/window", {**(self._window or {}), "format": "responses"})
        if window is None:
            return []
        request = window["request"]
        fixed = [{"role": "system", "content": request["instructions"]}] if "instructions" in request else []
        return [*fixed, *request["input"]]

    def _added(self, limit: int | None) -> TokenEndpoint[list[Any]]:
        """All items, or the last ``limit``, as they were added. They are read from the end."""
        found: list[Any] = []
        query: dict[str, Any] = {"order": "desc", "format": "responses", "media": "inline"}
        while limit is None or len(found) < limit:
            page, _ = yield Ask("GET", f"{self._path}/messages", {**query, "limit": min(_PAGE, limit or _PAGE)})
            messages = page["messages"] if page else []
            found = [item for entry in reversed(messages) for item in _items(entry)] + found
            if not page or page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
        return found if limit is None else found[max(0, len(found) - limit) :]

    def _add(self, items: Sequence[Any]) -> TokenEndpoint[None]:
        left = list(items)
        for part in _requests(items):
            try:
                yield from add(self._path, [{"message": part}], {"format": "responses"})
            except SashError as error:
                raise error.also(items=left) from error
            left = left[len(part) :]

    def _popped(self) -> TokenEndpoint[Any]:
        for _ in range(_POPS):
            last = {"order": "desc", "limit": 1, "format": "responses", "media": "inline"}
            page, version = yield Ask("GET", f"{self._path}/messages", last)
            if not page or not page["messages"]:
                return None
            (entry,) = page["messages"]
            items = _items(entry)
            try:
                yield self._without_last(items, entry["seq"] - 1, version)
            except SashError as error:
                if error.status != 412:  # another client changed the conversation meanwhile
                    raise
                continue
            if items:
                return items[-1]
        raise SashError(412, {"detail": "Others keep changing the conversation: nothing was taken away."})

    def _without_last(self, items: list[Any], seq: int, version: str | None) -> Ask:
        """The request that leaves the messages up to ``seq``, and behind them the items without the last one."""
        if len(items) <= 1:
            return self._rewind(seq, version)
        body = {"messages": [{"id": uuid4().hex, "message": items[:-1]}], "after_seq": seq}
        return Ask("POST", f"{self._path}/messages", {"format": "responses"}, body, if_match=version)

    def _rewind(self, seq: int, version: str | None = None) -> Ask:
        return Ask("POST", f"{self._path}/rewind", body={"to_seq": seq}, if_match=version)


def asked_once(history: list[Any], new: list[Any]) -> list[Any]:
    """For a run's ``session_input_callback``: a question that is asked again, as it got no reply, is sent once."""
    is_asked = bool(history) and len(new) == 1 and _question(history[-1]) == _question(new[0]) is not None
    return [*(history[:-1] if is_asked else history), *new]


def _question(item: Any) -> Any:
    return item.get("content") if item.get("role") == "user" else None


def _typed(settings: dict[str, Any]) -> Any:
    """The SDK's own settings of these names. Raises TypeError for others."""
    # The SDK takes a while to load.
    from agents.memory.session_settings import (  # type: ignore[import-not-found] # noqa: PLC0415
        coerce_session_settings,
    )

    return coerce_session_settings(settings)


def _requests(items: Sequence[Any]) -> Iterator[list[Any]]:
    """The items in parts, one for each request; the items of a reply stay together."""
    part: list[Any] = []
    for item in items:
        if len(part) >= _ITEMS and item.get("role", "assistant") != "assistant":
            yield part
            part = []
        part.append(item)
    if part:
        yield part


def _items(entry: Mapping[str, Any]) -> list[Any]:
    """The items of a stored entry; none while it is being written."""
    return [] if entry.get("status") == "in_progress" else entry.get("own") or [entry["message"]]
