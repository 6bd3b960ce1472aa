# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""LangChain 1's agent middleware for a Sash server: gets the window before the model call, and appends after it.

(Written for langchain 1.4 and 1.5; it comes with the extra ``langchain``.)
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    convert_to_messages,
    convert_to_openai_messages,
    message_to_dict,
    messages_from_dict,
)
from langgraph.config import get_config

from sash_client.chat import kept_in
from sash_client.client import LOCAL, Pair, Sash, TokenEndpoint, agree, append, path_of, query
from sash_client.ids import safe_id

METADATA = "langchain"
_REASONING = {"thinking", "redacted_thinking", "reasoning"}
_SAID = {"text", "refusal", "image_url", "input_audio", "file"}


class SashMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps an agent's messages in a conversation, and sends the model a window of it instead of the agent's state.

    The conversation is ``conversation``, else the run's ``thread_id``. It agrees with the agent's messages, which may be new
    ones only, or a checkpoint's: a reply that was removed, or a question that was edited, is so there. ``window`` are its
    parameters by name; ``reserve`` must have room for the agent's own prompt, its tools and the reply.

    A refused request raises ``SashError``.
    """

    def __init__(
        self,
        *,
        model: str,
        conversation: str | None = None,
        url: str = LOCAL,
        api_key: str | None = None,
        **window: Any,
    ) -> None:
        super().__init__()
        self.sash = Sash(url, api_key)
        self._conversation = conversation
        self._window = query({"model": model, **window})

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Have the log agree, call the model with the window, append the reply. Raises SashError, ValueError."""
        path = self._path()
        pairs = self.sash.do(self._turn(path, request.messages))
        response = handler(request.override(messages=to_messages(pairs)))
        self.sash.do(append(path, [_reply(message) for message in response.result]))
        return response

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Like ``wrap_model_call``, without blocking the event loop."""
        path = self._path()
        pairs = await self.sash.ado(self._turn(path, request.messages))
        response = await handler(request.override(messages=to_messages(pairs)))
        await self.sash.ado(append(path, [_reply(message) for message in response.result]))
        return response

    def _path(self) -> str:
        name = self._conversation or get_config().get("configurable", {}).get("thread_id")
        if not name:
            raise ValueError("Name a conversation, or invoke the agent with a thread_id in its configuration.")
        return path_of(str(name))

    def _turn(self, path: str, messages: Sequence[AnyMessage]) -> TokenEndpoint[list[Pair]]:
        return agree(path, [to_entry(message) for message in messages], self._window)


def _reply(message: BaseMessage) -> dict[str, Any]:
    """The entry of the model's reply, which has an id."""
    message.id = message.id or str(uuid4())
    return to_entry(message)


def to_entry(message: BaseMessage) -> dict[str, Any]:
    """The entry of a message: a chat message, and in the metadata the fields that cannot be restored from it."""
    chat = to_chat(message)
    written, given_back = message_to_dict(message), message_to_dict(_plain(chat))
    rest = {name: value for name, value in written["data"].items() if given_back["data"].get(name, ...) != value}
    entry = {"message": chat, "metadata": {METADATA: {"type": written["type"], "data": rest}}}
    return entry | ({"id": safe_id(message.id)} if message.id else {})


def to_chat(message: BaseMessage) -> dict[str, Any]:
    """The message in the form of chat completions, with reasoning in ``thinking_blocks``, where it is counted too."""
    chat: dict[str, Any] = convert_to_openai_messages(message)
    if chat["role"] == "tool":
        chat.pop("name", None)
    if isinstance(message, AIMessage) and isinstance(chat["content"], list):
        parts = chat["content"]
        chat["content"] = [part for part in parts if part.get("type") in _SAID] or None
        if reasoning := [part for part in parts if part.get("type") in _REASONING]:
            chat["thinking_blocks"] = reasoning
    return chat


def to_messages(pairs: Sequence[Pair]) -> list[AnyMessage]:
    """The messages of a window: the originals of those sent unchanged, else messages made from the sent ones."""
    return [_message(chat, kept_in(entry, METADATA)) for chat, entry in pairs]


def _message(chat: dict[str, Any], kept: Any) -> AnyMessage:
    plain = _plain(chat)
    if not isinstance(kept, dict):
        return plain
    data = message_to_dict(plain)["data"] | kept["data"] | {"type": kept["type"]}
    (message,) = messages_from_dict([{"type": kept["type"], "data": data}])
    return message


def _plain(chat: dict[str, Any]) -> AnyMessage:
    (message,) = convert_to_messages([{**chat, "content": chat.get("content") or ""}])
    return message
