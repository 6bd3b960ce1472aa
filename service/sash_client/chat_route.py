"""The route of a chat that streams, as an ASGI application: FastAPI and Starlette mount it, and uvicorn serves it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from sash_client.errors import SashError
from sash_client.streamed_reply import Speak, StreamedReply

if TYPE_CHECKING:
    from sash_client.streaming import StreamingChats

_BODY_BYTES: Final = 4 * 1024 * 1024
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ChatRoute:
    """``POST /{chat}`` with ``{"id", "text"}`` asks a question, and streams its reply.

    ``"instead_of"`` is the id of a question that it takes the place of. It knows no users: mount it behind what does.
    """

    def __init__(self, chats: "StreamingChats", speak: Speak) -> None:
        self._chats = chats
        self._speak = speak

    async def __call__(self, scope: Mapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        try:
            reply = await self._asked(scope, await _body(receive))
        except SashError as refused:
            problem = refused.problem
            await _begin(send, int(problem["status"]), refused.headers)
            await send({"type": "http.response.body", "body": json.dumps(problem).encode()})
            return
        await _begin(send, 200, reply.headers)
        telling, leaving = asyncio.ensure_future(self._tell(reply, send)), asyncio.ensure_future(_left(receive))
        done, left = await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if telling in done:
            telling.result()

    async def _asked(self, scope: Mapping[str, Any], body: bytes) -> StreamedReply:
        """The reply to a request's question. Raises SashError."""
        chat = str(scope["path"]).removeprefix(scope.get("root_path", "")).strip("/")
        if scope["method"] != "POST" or not chat or "/" in chat:
            raise _refused(404, "Not found", "There is POST /{chat} alone.")
        try:
            asked = json.loads(body)
        except ValueError:
            asked = None
        match asked:
            case {"id": str(identity), "text": str(text)} if isinstance(asked.get("instead_of"), str | None):
                question = {"id": identity, "role": "user", "content": text}
                return await self._chats.ask(chat, question, instead_of=asked.get("instead_of"))
            case _:
                raise _refused(422, "No question", 'Send {"id": "q-1", "text": "…"}, and "instead_of" to change one.')

    async def _tell(self, reply: StreamedReply, send: _Send) -> None:
        async with aclosing(reply.events(self._speak)) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _refused(status: int, title: str, detail: str) -> SashError:
    return SashError(status, {"title": title, "detail": detail})


async def _begin(send: _Send, status: int, headers: Mapping[str, str]) -> None:
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def _body(receive: _Receive) -> bytes:
    """The request's body. Raises SashError for one that is larger than Sash takes."""
    body, has_more = b"", True
    while has_more:
        message = await receive()
        body, has_more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > _BODY_BYTES:
            raise _refused(413, "Too large", "A question has at most 4 MiB.")
    return body


async def _left(receive: _Receive) -> None:
    """Return when the reader has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
