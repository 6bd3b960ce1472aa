# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""LlamaIndex's memory in a Sash server: agents and chat engines send the window, and their messages are stored.

(Written for llama-index-core 0.14; it comes with the extra ``llama-index``.)
"""

import json
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.memory import BaseMemory

from sash_client.chat import assistant, calls_of, file_part, kept_in, parts_of, text_of
from sash_client.client import (
    LOCAL,
    Ask,
    Pair,
    Sash,
    TokenEndpoint,
    add,
    agreed,
    asked,
    listed,
    path_of,
    query,
    turn,
)

METADATA = "llama_index"
_ROLES = {"chatbot": "assistant", "model": "assistant", "function": "tool"}
_MEDIA = (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)


class SashMemory(BaseMemory):
    """A memory whose messages are a conversation's: ``get`` returns the window for ``model``, ``get_all`` every message.

    ``window`` are its parameters by name; ``reserve`` must have room for the agent's system prompt, its tools, the steps of
    the run and the reply. A refused request raises ``SashError``.
    """

    conversation: str
    url: str = LOCAL
    api_key: str | None = Field(default=None, exclude=True, repr=False)
    model: str
    window: dict[str, Any]
    _sash: Sash = PrivateAttr()

    def __init__(
        self, *, conversation: str, model: str, url: str = LOCAL, api_key: str | None = None, **window: Any
    ) -> None:
        window.pop("class_name", None)  # a dump has it, and the parameters under one name
        given = {**window.pop("window", {}), **window}
        super().__init__(conversation=conversation, model=model, url=url, api_key=api_key, window=given)
        self._sash = Sash(url, api_key)

    @classmethod
    def class_name(cls) -> str:
        """The name under which LlamaIndex writes the class."""
        return "SashMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> "SashMemory":
        """A memory of these parameters."""
        return cls(**kwargs)

    @property
    def sash(self) -> Sash:
        """The connection, for ``close`` and ``aclose``."""
        return self._sash

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002 - the framework's name
        """The window's messages. ``input`` and other arguments are for other memories."""
        del input, kwargs
        return self.sash.do(self._sent())

    async def aget(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """Like ``get``, without blocking the event loop."""
        del input, kwargs
        return await self.sash.ado(self._sent())

    def get_all(self) -> list[ChatMessage]:
        """Every message as it was put."""
        return self.sash.do(self._all())

    async def aget_all(self) -> list[ChatMessage]:
        """Like ``get_all``, without blocking the event loop."""
        return await self.sash.ado(self._all())

    def put(self, message: ChatMessage) -> None:
        """Append a message."""
        self.put_messages([message])

    async def aput(self, message: ChatMessage) -> None:
        """Like ``put``, without blocking the event loop."""
        await self.aput_messages([message])

    def put_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Append messages, 100 in one step. A lone question that waits for its reply is not stored again."""
        self.sash.do(self._put(messages))

    async def aput_messages(self, messages: Sequence[ChatMessage]) -> None:
        """Like ``put_messages``, without blocking the event loop."""
        await self.sash.ado(self._put(messages))

    def set(self, messages: Sequence[ChatMessage]) -> None:
        """Have the log agree with these messages, the whole chat, in one step. What differs becomes a branch."""
        self.sash.do(self._replace(messages))

    async def aset(self, messages: Sequence[ChatMessage]) -> None:
        """Like ``set``, without blocking the event loop."""
        await self.sash.ado(self._replace(messages))

    def reset(self) -> None:
        """Take all messages away; they become a branch, and the conversation's settings stay."""
        self.sash.do(self._replace([]))

    async def areset(self) -> None:
        """Like ``reset``, without blocking the event loop."""
        await self.sash.ado(self._replace([]))

    def _sent(self) -> TokenEndpoint[list[ChatMessage]]:
        pairs = yield from turn(path_of(self.conversation), [], query({"model": self.model, **self.window}))
        return list(map(to_message, pairs))

    def _all(self) -> TokenEndpoint[list[ChatMessage]]:
        entries = yield from listed(path_of(self.conversation))
        return [to_message((entry["message"], entry)) for entry in entries]

    def _put(self, messages: Sequence[ChatMessage]) -> TokenEndpoint[Any]:
        return add(path_of(self.conversation), list(map(to_entry, messages)))

    def _replace(self, messages: Sequence[ChatMessage]) -> TokenEndpoint[None]:
        path = path_of(self.conversation)
        if messages:
            yield from agreed(path, list(map(to_entry, messages)), {"list": "whole"})
        else:
            yield from asked(Ask("POST", f"{path}/rewind", body={"to_seq": 0}))


def to_entry(message: ChatMessage) -> dict[str, Any]:
    """The entry of a message, with the original in the metadata unless it has media, which would be stored twice."""
    entry: dict[str, Any] = {"message": to_chat(message)}
    if not any(isinstance(block, _MEDIA) for block in message.blocks):
        entry["metadata"] = {METADATA: message.model_dump(mode="json")}
    return entry


def to_chat(message: ChatMessage) -> dict[str, Any]:
    """The message in the form of chat completions. Raises ValueError for content that chat messages have no place for."""
    role = _ROLES.get(message.role.value, message.role.value)
    if role == "assistant":
        calls = [_call(block) for block in message.blocks if isinstance(block, ToolCallBlock)]
        thoughts = [
            (block.content, block.additional_information.get("signature"))
            for block in message.blocks
            if isinstance(block, ThinkingBlock) and block.content
        ]
        return assistant(message.content, calls, thoughts)
    if role == "tool":
        call = {"tool_call_id": found} if (found := message.additional_kwargs.get("tool_call_id")) else {}
        return {"role": role, **call, "content": message.content or ""}
    if all(isinstance(block, TextBlock) for block in message.blocks):
        return {"role": role, "content": message.content or ""}
    return {"role": role, "content": [part for block in message.blocks for part in _parts(block)]}


def _call(block: ToolCallBlock) -> tuple[str, str, str]:
    given = block.tool_kwargs
    return (
        block.tool_call_id or block.tool_name,
        block.tool_name,
        given if isinstance(given, str) else json.dumps(given),
    )


def _parts(block: Any) -> list[dict[str, Any]]:
    match block:
        case TextBlock(text=text):
            return [{"type": "text", "text": text}]
        case ImageBlock(url=url) if url is not None:
            return [{"type": "image_url", "image_url": {"url": str(url)}}]
        case DocumentBlock(title=title):
            return [file_part(block.inline_url(), title or "document")]
        case ImageBlock() | AudioBlock():
            return [file_part(block.inline_url(), "file")]
        case VideoBlock():
            raise ValueError("VideoBlock has no place in a chat message")
        case _:
            return []  # a mark for a cache, a citation: the metadata has them


def to_message(pair: Pair) -> ChatMessage:
    """The original message if the window sends it unchanged, else one made from the message that the window sends."""
    chat, entry = pair
    if kept := kept_in(entry, METADATA):
        return ChatMessage.model_validate(kept)
    blocks = [_block(*part) for part in parts_of(chat)] if chat["role"] == "user" else [TextBlock(text=text_of(chat))]
    blocks += [
        ToolCallBlock(tool_call_id=identity, tool_name=name, tool_kwargs=given)
        for identity, name, given in calls_of(chat)
    ]
    more = {"tool_call_id": chat["tool_call_id"]} if "tool_call_id" in chat else {}
    return ChatMessage(role=chat["role"], blocks=blocks, additional_kwargs=more)


def _block(kind: str, value: str) -> Any:
    if kind == "text":
        return TextBlock(text=value)
    head, _, data = value.partition(";base64,")
    if not data:
        return ImageBlock(url=value)
    media = head.removeprefix("data:")
    if media.startswith("image/"):
        return ImageBlock(image=b64decode(data), image_mimetype=media)
    if media.startswith("audio/"):
        return AudioBlock(audio=b64decode(data), format=media.removeprefix("audio/"))
    return DocumentBlock(data=b64decode(data), document_mimetype=media)
