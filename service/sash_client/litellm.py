# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""A hook for LiteLLM's proxy: chats that name a conversation are kept in a Sash server, and the model is sent the window.

(Written for litellm 1.108; its proxy brings what the hook needs beside httpx2.)
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from fastapi import HTTPException
from litellm import stream_chunk_builder
from litellm.integrations.custom_logger import CustomLogger

from sash_client.client import LOCAL, Sash, SashError, TokenEndpoint, agreed, append, path_of, query, window_in

HEADER = "x-sash-conversation"
_CHATS = {"completion", "acompletion"}
_KEPT = "sash_reply"
"""The name in a request's metadata under which the hook remembers the conversation and the reply."""
_FIXED = {"system", "developer"}
_CONFLICT, _GONE = 409, 410


class SashHook(CustomLogger):
    """Keeps the chats of requests with the header ``x-sash-conversation``; others pass as they are.

    The log agrees with a request's messages, which may be the whole chat, its end, or new ones only, and begins a reply; the
    window is sent in place of all messages but the system's. A reply that another request took away meanwhile is not stored.
    With ``list="whole"`` requests have the whole chat, and an edit of the first question is told from a new one.

    ``model`` is the model that windows are for, by default the request's; name it if the proxy's names are its own.
    ``window`` are the other parameters by name; ``reserve`` must have room for the system's messages, tools and reply.

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
        fixed = [message for message in data["messages"] if message["role"] in _FIXED]
        said = [message for message in data["messages"] if message["role"] not in _FIXED]
        path, reply = path_of(name), uuid4().hex
        try:
            request = await self.sash.ado(self._turn(path, data["model"], said, reply))
        except SashError as error:
            after = error.headers.get("Retry-After")
            headers = {"Retry-After": after} if after else None
            raise HTTPException(error.problem["status"], error.problem, headers) from error
        data |= {**request, **data, "messages": [*fixed, *request["messages"]]}
        data.setdefault("metadata", {})[_KEPT] = [path, reply]
        return data

    async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> None:
        """Append the reply."""
        del user_api_key_dict
        if kept := _kept(data):
            await self._end(kept, _reply(response))

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> None:
        """End the reply of a model that failed."""
        del original_exception, user_api_key_dict, traceback_str
        if kept := _kept(request_data):
            await self._end(kept, None)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: AsyncIterator[Any], request_data: dict[str, Any]
    ) -> AsyncGenerator[Any, None]:
        """End the reply before its last chunk is passed on; with what came of one that breaks off, as interrupted."""
        del user_api_key_dict
        kept = _kept(request_data)
        chunks: list[Any] = []
        held: list[Any] = []
        try:
            async for chunk in response:
                chunks.append(chunk)
                if kept and (held or _is_last(chunk)):
                    held.append(chunk)
                else:
                    yield chunk
        finally:
            if kept:
                said = _reply(stream_chunk_builder(chunks)) if any(map(_has_words, chunks)) else None
                # A reader that goes away cancels this task, and what it waits for; the append goes on.
                await asyncio.shield(self._end(kept, said, is_whole=bool(held)))
        for chunk in held:
            yield chunk

    async def _end(self, kept: "_Kept", said: dict[str, Any] | None, *, is_whole: bool = True) -> None:
        """Store the end of a reply; None where no word came."""
        status = "completed" if is_whole and said else "interrupted"
        entry = {**_begun(kept.reply), **(said or {}), "status": status, "continues": True}
        try:
            await self.sash.ado(append(kept.path, [entry]))
        except SashError as error:
            if error.status not in (_GONE, _CONFLICT):  # taken away, or ended before
                raise

    def _turn(self, path: str, model: str, said: list[dict[str, Any]], reply: str) -> TokenEndpoint[dict[str, Any]]:
        window = query({"model": self._model or model, **self._window})
        stored = yield from agreed(path, [*({"message": message} for message in said), _begun(reply)], window)
        try:
            request: dict[str, Any] = window_in(stored)["request"]
        except SashError:
            with suppress(SashError):
                yield from append(path, [{**_begun(reply), "status": "interrupted", "continues": True}])
            raise
        return request


class _Kept(NamedTuple):
    """The path of a request's conversation, and the id of its reply."""

    path: str
    reply: str


def _kept(data: dict[str, Any]) -> _Kept | None:
    kept = (data.get("metadata") or {}).get(_KEPT)
    return _Kept(*kept) if kept else None


def _begun(reply: str) -> dict[str, Any]:
    return {"id": reply, "message": {"role": "assistant", "content": ""}, "status": "in_progress"}


def _reply(response: Any) -> dict[str, Any]:
    return {"message": response.choices[0].message.model_dump(exclude_none=True)}


def _is_last(chunk: Any) -> bool:
    return any(choice.finish_reason for choice in chunk.choices)


def _has_words(chunk: Any) -> bool:
    return any(choice.delta.content or choice.delta.tool_calls for choice in chunk.choices)
