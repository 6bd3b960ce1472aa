"""A chat that streams: replies are stored as they come, told to everybody who asks, and written anew if their writer dies.

::

    chats = StreamingChats("http://127.0.0.1:8000", model="gpt-4o-mini")
    reply = await chats.ask("c-1", {"id": "q-1", "role": "user", "content": "is there a talk?"})
    async for event in reply.events(speak): ...       # speak(request) yields the model's text in pieces

The question and a reply in progress are appended in one step, so one request at a time writes a reply:

    the question is new                                                   it is written
    its reply is complete                                                 it is told
    its reply is in progress, and grows                                   it is told as it grows
    its reply broke off, or its writer died, and nothing came after it    it is written anew, in its place
    its reply broke off, or its writer died, and the chat went on         what came of it is told

A reply is written by a task of its own, to its end, whoever goes away; ``stop`` ends it. Another process sees that it is
written by what it stores (``streamed_reply``).
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4
from weakref import WeakValueDictionary

from sash_client.chat_route import ChatRoute
from sash_client.client import Ask, Sash, SashError, TokenEndpoint, append, asked, before, path_of, window_query
from sash_client.ids import safe_id
from sash_client.streamed_reply import CONFLICT, Paces, Speak, StreamedReply

__all__ = ["SashError", "Speak", "StreamedReply", "StreamingChats"]

_BEAT_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 5.0
_MOVED: Final = 412


class _Standing(NamedTuple):
    """A stored question: its seq, its reply if there is one, whether nothing came after these, and the chat's ETag."""

    seq: int
    reply: dict[str, Any] | None
    is_last: bool
    etag: str | None


class StreamingChats:
    """The chats of one Sash server. ``window`` are parameters of the windows that the model is sent."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        model: str,
        beat_seconds: float = _BEAT_SECONDS,
        patience_seconds: float = _PATIENCE_SECONDS,
        **window: Any,
    ) -> None:
        """A writer stores what came each ``beat_seconds``; one that is silent for ``patience_seconds`` counts as dead."""
        self.sash = Sash(url, api_key)
        self._window = window_query(model, window)
        self._paces = Paces(beat_seconds, patience_seconds)
        self._written: WeakValueDictionary[tuple[str, str], StreamedReply] = WeakValueDictionary()

    async def ask(
        self, conversation: str, question: Mapping[str, Any], *, instead_of: str | None = None
    ) -> StreamedReply:
        """Append a question, which has an ``id``, and return its reply. The same question again is a retry.

        ``instead_of`` is the id of a stored question: it and all behind it become a branch in the same step. If the model
        fails before its first word, they come back.

        Raises SashError: 404 where that question is not there, 409 where another text is stored under the question's id, 422
        where no window fits. An unanswered question stays, and can be asked again.
        """
        path = path_of(conversation)
        while True:
            found = await self.sash.ado(_standing(path, question))
            reply = await self._begun(path, question, instead_of) if found is None else await self._known(path, found)
            if reply is not None:
                return reply

    def app(self, speak: Speak) -> ChatRoute:
        """An ASGI application whose ``POST /{chat}`` asks and streams, to mount in FastAPI or Starlette."""
        return ChatRoute(self, speak)

    async def stop(self, conversation: str, question: str) -> None:
        """End the reply to a question, if it is in progress, whoever writes it: what came is stored as ``interrupted``."""
        path = path_of(conversation)
        found = await self.sash.ado(_found(path, question))
        if found is None or found.reply is None or found.reply.get("status") != "in_progress":
            return
        if (reply := self._written.get((path, found.reply["id"]))) is not None:
            await reply.stop()
        else:
            await self._reply(path, found.reply).end("interrupted")

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncGenerator[None]:
        """A lifespan for the application: when it shuts down, replies that are still being written are ended."""
        try:
            yield
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """End all replies that this process writes, as ``stop`` does, and close the connections."""
        await asyncio.gather(*(reply.stop() for reply in list(self._written.values())))
        await self.sash.aclose()

    async def _begun(self, path: str, question: Mapping[str, Any], instead_of: str | None) -> StreamedReply | None:
        """The reply to a new question; None where another request asked the same, or changed the chat, meanwhile."""
        after_seq, etag = None, None
        if instead_of is not None:
            after_seq, etag = await self.sash.ado(before(path, instead_of))
        return await self._begin(path, [question, _draft(safe_id(f"{question['id']}-reply"))], after_seq, etag)

    async def _begin(
        self, path: str, entries: Sequence[Mapping[str, Any]], after_seq: int | None, etag: str | None
    ) -> StreamedReply | None:
        """Append entries, of which the last is a reply in progress. None where another request was quicker."""
        body = {"messages": entries, **({} if after_seq is None else {"after_seq": after_seq})}
        try:
            stored = await self.sash.ado(asked(Ask("POST", f"{path}/messages", self._window, body, etag)))
        except SashError as error:
            is_asked = error.status == CONFLICT and "#/messages/1" in str(error.problem.get("errors"))
            if error.status == _MOVED or is_asked:
                return None
            raise
        if stored["messages"][0]["duplicate"]:
            return None
        reply = self._reply(path, {**entries[-1], "message": {"content": ""}, "seq": stored["last_seq"]})
        if (window := stored["window"]) is None:
            await reply.stop()
            raise SashError(stored["window_error"]["status"], stored["window_error"])
        self._written[path, reply.id] = reply
        reply.request, reply.receipt = window["request"], window.get("receipt")
        return reply

    async def _known(self, path: str, found: _Standing) -> StreamedReply | None:
        """The reply to a stored question; None where it changed meanwhile."""
        if found.reply is not None:
            written = self._written.get((path, found.reply["id"]))
            if written is not None and written.status == "in_progress":
                return written
            reply = self._reply(path, found.reply)
            if reply.status == "in_progress":
                reply.retake = partial(self._retaken, path, found.seq, reply.id)
                return reply
            if reply.status != "interrupted" or not found.is_last:
                return reply
        if not found.is_last:
            detail = "The chat went on without a reply to this question: ask it under an id of its own."
            raise SashError(CONFLICT, {"status": CONFLICT, "title": "The chat went on", "detail": detail})
        return await self._anew(path, found)

    async def _retaken(self, path: str, question: int, dead: str) -> StreamedReply | None:
        """The reply in place of one whose writer died, or the one that another request began there."""
        while (found := await self.sash.ado(_behind(path, question))) is not None:
            if found.reply is None or found.reply["id"] != dead or found.reply.get("status") != "in_progress":
                reply = await self._known(path, found)
            elif found.is_last:
                reply = await self._anew(path, found)
            else:
                await self._reply(path, found.reply).end("interrupted")
                continue
            if reply is not None:
                return reply
        return None

    async def _anew(self, path: str, found: _Standing) -> StreamedReply | None:
        """A new reply to the newest question, in place of one that broke off; None where the chat changed meanwhile."""
        return await self._begin(path, [_draft(uuid4().hex)], found.seq, found.etag)

    def _reply(self, path: str, entry: Mapping[str, Any]) -> StreamedReply:
        return StreamedReply(self.sash, path, entry, self._paces)


def _draft(identity: str) -> dict[str, Any]:
    return {"id": identity, "role": "assistant", "content": "", "status": "in_progress"}


def _standing(path: str, question: Mapping[str, Any]) -> TokenEndpoint[_Standing | None]:
    """The stored question and its reply; None where it is not stored. Raises SashError where its text is another one."""
    entry, _ = yield Ask("GET", f"{path}/messages/id:{question['id']}")
    if entry is None:
        return None
    yield from append(path, [question])  # a retry, which stores nothing
    return (yield from _behind(path, entry["seq"]))


def _found(path: str, question: str) -> TokenEndpoint[_Standing | None]:
    """The question with this id and its reply; None where it is not stored."""
    entry, _ = yield Ask("GET", f"{path}/messages/id:{question}")
    return None if entry is None else (yield from _behind(path, entry["seq"]))


def _behind(path: str, seq: int) -> TokenEndpoint[_Standing | None]:
    """The question with this seq and its reply; None where the conversation is gone."""
    chat, etag = yield Ask("GET", path)
    if chat is None:
        return None
    last = chat["messages"]["last_seq"] or 0
    behind = (yield Ask("GET", f"{path}/messages/{seq + 1}")).value if last > seq else None
    reply = behind if behind and behind["message"]["role"] == "assistant" else None
    return _Standing(seq, reply, last <= seq + (reply is not None), etag)
