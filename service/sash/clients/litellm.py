# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""A hook for LiteLLM's proxy: chats that name a conversation are kept in a Sash server, and the model is sent the window.

(Written for litellm 1.108; its proxy brings what the hook needs beside httpx2.)
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fastapi import HTTPException
from litellm import stream_chunk_builder
from litellm.integrations.custom_logger import CustomLogger

from sash.clients.chat import new_in
from sash.clients.sash_client import LOCAL, Ask, Asking, Sash, SashError, append, path_of, query

HEADER = "x-sash-conversation"
_CHATS = {"completion", "acompletion"}
_PATH = "sash_path"
"""The name in a request's metadata under which the hook remembers the conversation."""


class SashHook(CustomLogger):
    """Keeps the chats of requests with the header ``x-sash-conversation``; others pass as they are.

    A request's new messages, those behind its last reply, are appended, and the window is sent in place of all messages but
    the system's. ``model`` is the model that windows are for, by default the request's; name it if the proxy's names are its
    own. ``window`` are the other parameters by name; ``reserve`` must have room for the system's messages, tools and reply.

    What Sash refuses is the proxy's answer, with Sash's status and problem.
    """

    def __init__(
        self, *, url: str = LOCAL, api_key: str | None = None, model: str | None = None, **window: Any
    ) -> None:
        super().__init__()
        self.sash = Sash(url, api_key)
        self._model = model
        self._window = window

    def conversation(self, data: dict[str, Any], key: Any) -> str | None:
        """The name of the request's conversation, None if it is not kept. The user of the proxy's key is part of it.

        So no user reads another's conversation. Override it to name conversations otherwise.
        """
        headers = (data.get("proxy_server_request") or {}).get("headers") or {}
        if not (named := headers.get(HEADER)):
            return None
        return f"{key.user_id}/{named}" if key.user_id else str(named)

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Append the new messages, and send the window."""
        del cache
        name = self.conversation(data, user_api_key_dict) if call_type in _CHATS else None
        if name is None:
            return data
        fixed, new = new_in(data["messages"])
        path = path_of(name)
        try:
            request = await self.sash.ado(self._turn(path, data, new))
        except SashError as error:
            raise HTTPException(error.status or 503, dict(error.problem)) from error
        data |= {**request, **data, "messages": [*fixed, *request["messages"]]}
        data.setdefault("metadata", {})[_PATH] = path
        return data

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        """Append the reply."""
        del user_api_key_dict
        if path := _path(data):
            await self.sash.ado(append(path, [_reply(response)]))

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """Append the reply before its last chunk is passed on; what came of one that breaks off, as interrupted."""
        del user_api_key_dict
        path = _path(request_data)
        chunks: list[Any] = []
        held: list[Any] = []
        try:
            async for chunk in response:
                chunks.append(chunk)
                if path and (held or _is_last(chunk)):
                    held.append(chunk)
                else:
                    yield chunk
        finally:
            if path and any(_has_words(chunk) for chunk in chunks):
                entry = _reply(stream_chunk_builder(chunks)) | ({} if held else {"status": "interrupted"})
                # A reader that goes away cancels this task, and what it waits for; the append goes on.
                await asyncio.shield(self.sash.ado(append(path, [entry])))
        for chunk in held:
            yield chunk

    def _turn(self, path: str, data: dict[str, Any], new: list[dict[str, Any]]) -> Asking[dict[str, Any]]:
        window = query({"model": self._model or data["model"], **self._window})
        stored = yield from append(path, [{"message": message} for message in new], window)
        if stored is None:
            stored = {"window": (yield Ask("GET", f"{path}/window", window)).value}
        if (made := stored["window"]) is None:
            problem = stored.get("window_error") or {"status": 404, "detail": "There is no such conversation."}
            raise SashError(problem["status"], problem)
        request: dict[str, Any] = made["request"]
        return request


def _path(data: dict[str, Any]) -> str | None:
    return (data.get("metadata") or {}).get(_PATH)


def _reply(response: Any) -> dict[str, Any]:
    return {"message": response.choices[0].message.model_dump(exclude_none=True)}


def _is_last(chunk: Any) -> bool:
    return any(choice.finish_reason for choice in chunk.choices)


def _has_words(chunk: Any) -> bool:
    return any(choice.delta.content or choice.delta.tool_calls for choice in chunk.choices)
