# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""Microsoft Agent Framework's history in a Sash server: a run begins with the window, and its messages are stored.

(Written for agent-framework-core 1.23; it comes with the extra ``agent-framework``.)
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from agent_framework import Content, HistoryProvider, Message, SessionContext

from sash_client.chat import assistant, calls_of, file_part, kept_in, parts_of, text_of
from sash_client.client import LOCAL, Pair, Sash, agree, append, path_of, query, turn
from sash_client.ids import safe_id

METADATA = "agent_framework"
_MEDIA = {"data", "uri"}


class SashHistoryProvider(HistoryProvider):
    """A history provider whose messages are a conversation's: ``conversation``, else the session's id.

    ``window`` are its parameters by name; ``reserve`` must have room for what a run adds: instructions, tools, the question,
    the steps and the reply. The other arguments of a HistoryProvider, such as ``store_inputs``, are ``options``.

    A refused request raises ``SashError``.
    """

    def __init__(
        self,
        *,
        model: str,
        conversation: str | None = None,
        url: str = LOCAL,
        api_key: str | None = None,
        options: dict[str, Any] | None = None,
        **window: Any,
    ) -> None:
        super().__init__(**{"source_id": "sash", **(options or {})})
        self.sash = Sash(url, api_key)
        self._conversation = conversation
        self._window = query({"model": model, **window})

    async def before_run(self, *, context: SessionContext, **others: Any) -> None:
        """Have the log agree with the run's input, and begin the run with the window. Raises as ``get_messages``.

        The input may be the whole chat, its end, or a new question.
        """
        if not (self.store_inputs and context.input_messages):
            await super().before_run(context=context, **others)
            return
        entries = [entry for message in context.input_messages for entry in to_entries(message)]
        pairs = await self.sash.ado(agree(self._path(context.session_id), entries, self._window))
        messages = list(map(to_message, pairs))
        asked = max((place for place, message in enumerate(messages) if message.role == "user"), default=0)
        context.extend_messages(self, messages[:asked])
        context.input_messages = messages[asked:]

    async def after_run(self, *, context: SessionContext, **others: Any) -> None:
        """Append the reply, and the input unless it is stored already. Raises as ``get_messages``."""
        given = context.input_messages
        context.input_messages = [] if self.load_messages else given
        await super().after_run(context=context, **others)
        context.input_messages = given

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The window's messages. Raises SashError; ValueError without a conversation and a session's id."""
        del state, kwargs
        return list(map(to_message, await self.sash.ado(turn(self._path(session_id), [], self._window))))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append messages. Raises as ``get_messages``."""
        del state, kwargs
        entries = [entry for message in messages for entry in to_entries(message)]
        await self.sash.ado(append(self._path(session_id), entries))

    def _path(self, session_id: str | None) -> str:
        if not (name := self._conversation or session_id):
            raise ValueError("Name a conversation, or run the agent with a session.")
        return path_of(name)


def to_entries(message: Message) -> Iterator[dict[str, Any]]:
    """An entry of a message, and one for each result in it. The metadata has the original, unless it has media."""
    results = [content for content in message.contents if content.type == "function_result"]
    others = [content for content in message.contents if content.type != "function_result"]
    if others or not results:
        named = {"id": safe_id(message.message_id)} if message.message_id and message.role == "user" else {}
        yield _entry(_chat(message.role, others), message, others) | named
    for result in results:
        chat = {"role": "tool", "tool_call_id": result.call_id, "content": _text(result.result)}
        yield _entry(chat, message, [result])


def _entry(chat: dict[str, Any], message: Message, contents: Sequence[Content]) -> dict[str, Any]:
    if any(content.type in _MEDIA for content in contents):
        return {"message": chat}
    role = "tool" if chat["role"] == "tool" else message.role
    part = Message(
        role,
        contents,
        author_name=message.author_name,
        message_id=message.message_id,
        additional_properties=message.additional_properties,
    )
    return {"message": chat, "metadata": {METADATA: part.to_dict()}}


def _chat(role: str, contents: Sequence[Content]) -> dict[str, Any]:
    """The chat message of contents. What a chat message has no place for is in the metadata alone."""
    if role == "assistant":
        texts = [content.text or "" for content in contents if content.type == "text"]
        calls = [
            (content.call_id, content.name, _text(content.arguments))
            for content in contents
            if content.type == "function_call"
        ]
        thoughts = [
            (content.text, content.protected_data)
            for content in contents
            if content.type == "text_reasoning" and content.text
        ]
        return assistant("".join(texts) if texts or not calls else None, calls, thoughts)
    parts = [part for content in contents if (part := _part(content)) is not None]
    if all(part["type"] == "text" for part in parts):
        return {"role": role, "content": "".join(part["text"] for part in parts)}
    return {"role": role, "content": parts}


def _part(content: Content) -> dict[str, Any] | None:
    if content.type == "text":
        return {"type": "text", "text": content.text or ""}
    if content.type not in _MEDIA:
        return None
    uri = content.uri or ""
    return file_part(uri, "file") if uri.startswith("data:") else {"type": "image_url", "image_url": {"url": uri}}


def _text(value: Any) -> str:
    """The JSON of a value that is no text; none is an empty text."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)


def to_message(pair: Pair) -> Message:
    """The original message if the window sends it unchanged, else one made from the message that the window sends."""
    chat, entry = pair
    if kept := kept_in(entry, METADATA):
        return Message.from_dict(kept)
    if chat["role"] == "tool":
        return Message("tool", [Content.from_function_result(chat["tool_call_id"], result=text_of(chat))])
    contents = [_content(*part) for part in parts_of(chat)] if chat["role"] == "user" else []
    if not contents and (text := text_of(chat)):
        contents = [Content.from_text(text)]
    contents += [Content.from_function_call(each, name, arguments=given) for each, name, given in calls_of(chat)]
    return Message(chat["role"], contents)


def _content(kind: str, value: str) -> Content:
    if kind == "text":
        return Content.from_text(value)
    media = value.partition(";")[0].removeprefix("data:") if value.startswith("data:") else "image/*"
    return Content.from_uri(value, media_type=media)
