"""The OpenAI Agents SDK's ``Session`` over a Sash server.

``SashSession`` has the protocol's four methods and imports nothing of the SDK. (Written for openai-agents 0.24.)
"""

from collections.abc import Sequence
from typing import Any

from service.clients.client import LOCAL, Ask, Asking, Sash, SashError, append, asked, listed, path_of, query
from service.clients.items import to_entries, to_items

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
        url: str = LOCAL,
        api_key: str | None = None,
        model: str | None = None,
        session_settings: Any = None,
        **window: Any,
    ) -> None:
        if model is None and window:
            raise ValueError(f"{', '.join(window)}: only a window has these, and a window needs a model")
        self.session_id = session_id
        self.session_settings = session_settings
        self.sash = Sash(url, api_key)
        self._path = path_of(session_id)
        self._window = query({"model": model, "format": "responses", **window}) if model else None

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """All items, or the last ``limit``, oldest first; with a model and no limit, the window. Raises SashError."""
        if limit is None:
            settings = self.session_settings
            limit = settings.get("limit") if isinstance(settings, dict) else getattr(settings, "limit", None)
        if limit is None and self._window:
            return await self.sash.ado(self._windowed())
        entries = await self.sash.ado(listed(self._path, limit))  # an entry has at least one item
        items = [item for entry in entries for item in to_items(entry)]
        return items if limit is None else items[max(0, len(items) - limit) :]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Append items; more than 100 messages are several appends. Raises SashError, ValueError."""
        await self.sash.ado(append(self._path, to_entries(items)))

    async def pop_item(self) -> Any | None:
        """Take the last item away and return it; None when there is none. Raises SashError.

        A message of several items is put back without its last one.
        """
        return await self.sash.ado(self._popped())

    async def clear_session(self) -> None:
        """Forget all items; the conversation's settings stay. Raises SashError."""
        await self.sash.ado(asked(self._rewind(0)))

    async def close(self) -> None:
        """Close the connections that were made on this event loop."""
        await self.sash.aclose()

    def _windowed(self) -> Asking[list[Any]]:
        window, _ = yield Ask("GET", f"{self._path}/window", self._window)
        if window is None:
            return []
        request = window["request"]
        fixed = [{"role": "system", "content": request["instructions"]}] if request.get("instructions") else []
        return [*fixed, *request["input"]]

    def _popped(self) -> Asking[Any]:
        for _ in range(_POPS):
            page, version = yield Ask("GET", f"{self._path}/messages", {"order": "desc", "limit": 1})
            if not page or not page["messages"]:
                return None
            (entry,) = page["messages"]
            try:
                yield self._rewind(entry["seq"] - 1, version)
            except SashError as error:
                if error.status != 412:  # somebody appended meanwhile: the last item is another one
                    raise
                continue
            if items := to_items(entry):
                yield from append(self._path, to_entries(items[:-1]))
                return items[-1]
        raise SashError(412, {"detail": "Others keep changing the conversation: nothing was taken away."})

    def _rewind(self, seq: int, version: str | None = None) -> Ask:
        return Ask("POST", f"{self._path}/rewind", body={"to_seq": seq}, if_match=version)
