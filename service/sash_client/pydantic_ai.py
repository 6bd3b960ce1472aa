# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""Pydantic AI's history in a Sash server: gets the window before each model request, and stores the reply after it.

(Written for pydantic-ai 2.68; it comes with the extra ``pydantic-ai``.)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import messages as m
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from sash_client.chat import assistant, calls_of, file_part, kept_in, parts_of, text_of
from sash_client.client import LOCAL, Pair, Sash, agree, append, path_of, query
from sash_client.ids import safe_id

METADATA = "pydantic_ai"
_SAID = (m.UserPromptPart, m.ToolReturnPart, m.RetryFeedbackPart)
"""Parts of requests that are stored. All others, such as system prompts, are the agent's own and are sent as they are."""


class SashHistory(AbstractCapability[Any]):
    """A history processor that also stores replies: keeps runs in a conversation, and sends the model a window of it.

    The conversation is ``conversation``, else the run's ``conversation_id``; a run needs no ``message_history``. The log
    agrees with one that it has: what is cut off or edited there becomes a branch.
    ``window`` are its parameters by name; ``reserve`` must have room for the agent's instructions, its tools and the reply.

    A refused request raises ``SashError``; content that chat messages have no place for raises ``ValueError``.
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
        self.sash = Sash(url, api_key)
        self._conversation = conversation
        self._window = query({"model": model, **window})

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Have the log agree with the run's messages, and send the window."""
        messages = request_context.messages
        window = await self.sash.ado(agree(self._path(ctx), list(to_entries(messages)), self._window))
        requests = [message for message in messages if isinstance(message, m.ModelRequest)]
        own = [part for request in requests for part in request.parts if not isinstance(part, _SAID)]
        *earlier, last = map(_message, window)
        request_context.messages = [m.ModelRequest(own), *earlier, replace(requests[-1], parts=last.parts)]
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: m.ModelResponse
    ) -> m.ModelResponse:
        """Append the reply."""
        del request_context
        await self.sash.ado(append(self._path(ctx), list(to_entries([response]))))
        return response

    def _path(self, ctx: RunContext[Any]) -> str:
        return path_of(self._conversation or str(ctx.conversation_id))


def to_entries(messages: Sequence[m.ModelMessage]) -> Iterator[dict[str, Any]]:
    """An entry for each reply and for each part of a request: a chat message, and the original in the metadata.

    Raises ValueError for content without a place in chat messages.
    """
    for message in messages:
        if isinstance(message, m.ModelResponse):
            yield _entry(_reply(message), message)
            continue
        said = [part for part in message.parts if isinstance(part, _SAID)]
        for part in sorted(said, key=lambda part: not isinstance(part, m.ToolReturnPart)):  # results follow their calls
            name = f"{part.timestamp.isoformat()}/{part.part_kind}/{getattr(part, 'tool_call_id', '')}"
            yield {**_entry(_request(part), m.ModelRequest([part])), "id": safe_id(name)}


def _entry(chat: dict[str, Any], message: m.ModelMessage) -> dict[str, Any]:
    (kept,) = m.ModelMessagesTypeAdapter.dump_python([message], mode="json")
    return {"message": chat, "metadata": {METADATA: kept}}


def _reply(message: m.ModelResponse) -> dict[str, Any]:
    texts = [part.content for part in message.parts if isinstance(part, m.TextPart)]
    calls = [part for part in message.parts if isinstance(part, m.ToolCallPart)]
    thoughts = [(part.content, part.signature) for part in message.parts if isinstance(part, m.ThinkingPart)]
    functions = [(call.tool_call_id, call.tool_name, call.args_as_json_str()) for call in calls]
    return assistant("\n\n".join(texts) if texts else None, functions, thoughts)


def _request(part: Any) -> dict[str, Any]:
    match part:
        case m.ToolReturnPart():
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()}
        case m.RetryFeedbackPart():
            return {"role": "user", "content": part.model_response()}
        case m.UserPromptPart(content=str(text)):
            return {"role": "user", "content": text}
        case _:
            return {"role": "user", "content": [_part(each) for each in part.content if each != m.CachePoint()]}


def _part(content: Any) -> dict[str, Any]:
    match content:
        case str() | m.TextContent():
            return {"type": "text", "text": content if isinstance(content, str) else content.content}
        case m.ImageUrl(url=url):
            return {"type": "image_url", "image_url": {"url": url}}
        case m.BinaryContent():
            return file_part(content.data_uri, content.identifier)
        case _:
            raise ValueError(f"{type(content).__name__} has no place in a chat message")


def to_history(entries: Iterable[dict[str, Any]]) -> list[m.ModelMessage]:
    """The ``message_history`` of stored entries, as ``GET …/messages`` gives them."""
    return [_message((entry["message"], entry)) for entry in entries]


def _message(pair: Pair) -> m.ModelMessage:
    """The original message if the window sends it unchanged, else one made from the message that the window sends."""
    chat, entry = pair
    if kept := kept_in(entry, METADATA):
        return m.ModelMessagesTypeAdapter.validate_python([kept])[0]
    match chat["role"]:
        case "assistant":
            calls = [m.ToolCallPart(name, arguments, identity) for identity, name, arguments in calls_of(chat)]
            return m.ModelResponse([*([m.TextPart(text)] if (text := text_of(chat)) else ()), *calls])
        case "tool":
            return m.ModelRequest([m.ToolReturnPart("", text_of(chat), chat["tool_call_id"])])
        case "user":
            return m.ModelRequest([m.UserPromptPart([_said(*part) for part in parts_of(chat)])])
        case _:
            return m.ModelRequest([m.SystemPromptPart(text_of(chat))])


def _said(kind: str, value: str) -> Any:
    if kind == "text":
        return value
    return m.BinaryContent.from_data_uri(value) if value.startswith("data:") else m.ImageUrl(value)
