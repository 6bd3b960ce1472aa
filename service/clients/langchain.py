# mypy: disable-error-code="import-not-found,misc"
"""LangChain's chat history over a Sash server. (Written for langchain-core 1.7; it comes with the extra ``langchain``.)"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    BaseMessage,
    BaseMessageChunk,
    convert_to_messages,
    message_chunk_to_message,
    message_to_dict,
    messages_from_dict,
)

from service.clients.answers import (
    WAITS_SECONDS,
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
from service.commands.sources.conversation import SourceError, safe_id
from service.commands.sources.langchain import to_steps

METADATA = "langchain"
_PAGE = 1000


class SashChatMessageHistory(BaseChatMessageHistory):
    """A chat history that is a conversation.

    ``messages`` is the whole history, every field of every message as it was added. With ``model`` it is the window for that
    model instead: what fits, with documents, summary and system prompt; ``window`` are its parameters by name, and
    ``reserve`` has to hold what the chain adds (its own prompt, the question) and the reply.

    A message with an ``id`` is stored once, however often it is added. What Sash refuses raises ``SashError``.
    """

    def __init__(
        self,
        session_id: str,
        *,
        url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        model: str | None = None,
        **window: Any,
    ) -> None:
        super().__init__()
        self._path = path_of(session_id)
        self._client = httpx2.Client(**options(url, api_key))
        self._window = window_of(model, window)

    @property
    def messages(self) -> list[BaseMessage]:
        """The window with a model, else the whole history; empty for a conversation that is not there yet."""
        if self._window is None:
            return self._history()
        window = self._ask("GET", "/window", params=self._window, absent={"request": {"messages": []}})
        messages: list[BaseMessage] = convert_to_messages(window["request"]["messages"])
        return messages

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages; more than 100 are several appends. Raises SashError, ValueError."""
        for body in appends([entry for message in messages if (entry := to_entry(message)) is not None]):
            self._ask("POST", "/messages", body=body)

    def clear(self) -> None:
        """Forget all messages; the conversation's settings stay. Raises SashError."""
        self._ask("POST", "/rewind", body=b'{"to_seq": 0}', absent=())

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _history(self) -> list[BaseMessage]:
        messages: list[BaseMessage] = []
        cursor: str | None = ""
        while cursor is not None:
            params = query({"limit": _PAGE, "cursor": cursor or None})
            page = self._ask("GET", "/messages", params=params, absent={"messages": [], "next_cursor": None})
            messages += map(from_entry, page["messages"])
            cursor = page["next_cursor"]
        return messages

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        body: bytes | None = None,
        absent: Any = None,
    ) -> Any:
        """The answer, asked for again where that may help; ``absent``, where given, for an absent conversation."""
        headers = request_headers(method, path)
        for wait in (*WAITS_SECONDS, None):
            pause = wait or 0.0
            try:
                response = self._client.request(method, self._path + path, params=params, content=body, headers=headers)
            except httpx2.TransportError:
                if wait is None:
                    raise
            else:
                if wait is None or not is_passing(response):
                    break
                pause = wait_seconds(response, wait)
            time.sleep(pause)
        return absent if response.status_code == 404 and absent is not None else read(response)


def to_entry(message: BaseMessage) -> dict[str, Any] | None:
    """The entry of a message, None for one that is only an instruction to LangChain. Raises ValueError.

    The chat message is what windows are made of; the fields that it does not give back are kept in the metadata.
    """
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    written = message_to_dict(message)
    try:
        steps, _ = to_steps([written], f"message {message.id or ''}".strip())
    except SourceError as error:
        raise ValueError(str(error)) from None
    if not steps:
        return None
    chat = steps[0].message
    entry: dict[str, Any] = {"message": chat}
    if message.id:
        entry["id"] = safe_id(message.id)
    given_back = message_to_dict(_plain(chat))
    rest = {name: value for name, value in written["data"].items() if given_back["data"].get(name, ...) != value}
    if rest or written["type"] != given_back["type"]:
        entry["metadata"] = {METADATA: {"type": written["type"], "data": rest}}
    return entry


def from_entry(entry: Mapping[str, Any]) -> BaseMessage:
    """The message that an entry was made from; for one that another client appended, one that says the same."""
    plain = _plain(entry["message"])
    kept = (entry.get("metadata") or {}).get(METADATA)
    if not isinstance(kept, dict) or entry.get("redacted"):
        return plain
    data = message_to_dict(plain)["data"] | kept["data"] | {"type": kept["type"]}
    (message,) = messages_from_dict([{"type": kept["type"], "data": data}])
    return message


def _plain(chat: Mapping[str, Any]) -> BaseMessage:
    (message,) = convert_to_messages([{**chat, "content": chat.get("content") or ""}])
    return message
