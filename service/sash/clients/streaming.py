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

A writer stores what came every ``beat_seconds``, also if nothing did. Who sees no change for ``patience_seconds`` takes it
for dead. If it lives after all, or another tab took its reply away, Sash refuses its next part (410), and it stops.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

from sash.clients.ids import safe_id
from sash.clients.sash_client import Ask, Asking, Sash, SashError, append, asked, path_of, window_query

Speak = Callable[[dict[str, Any]], AsyncGenerator[str, None]]
"""Sends a window's request to a model, and yields the reply's text in pieces."""
_BEAT_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0
_LOOK_SECONDS = 0.25
_CONFLICT, _GONE, _MOVED = 409, 410, 412
_log = logging.getLogger(__name__)
_ending: set[asyncio.Task[Any]] = set()
"""Tasks that store the ends of replies. They are held here, as Python may drop a task that nobody holds."""


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
        self.sash = Sash(url, api_key)
        self._window = window_query(model, window)
        self._paces = beat_seconds, patience_seconds

    async def ask(
        self, conversation: str, question: Mapping[str, Any], *, instead_of: str | None = None
    ) -> "StreamedReply":
        """Append a question, which has an ``id``, and return its reply. The same question again is a retry.

        ``instead_of`` is the id of a stored question: it and all behind it are forgotten in the same step.

        Raises SashError: 404 where that question is not there, 409 where another text is stored under the question's id, 422
        where no window fits. An unanswered question stays, and can be asked again.
        """
        path = path_of(conversation)
        while True:
            found = await self.sash.ado(_standing(path, question))
            reply = await self._begun(path, question, instead_of) if found is None else await self._known(path, found)
            if reply is not None:
                return reply

    async def _begun(self, path: str, question: Mapping[str, Any], instead_of: str | None) -> "StreamedReply | None":
        """The reply to a new question; None where another request asked the same at the same time."""
        after = None if instead_of is None else await self.sash.ado(_before(path, instead_of))
        draft = _draft(safe_id(f"{question['id']}-reply"))
        try:
            stored = await self.sash.ado(append(path, [question, draft], self._window, after_seq=after))
        except SashError as error:
            if error.status == _CONFLICT and "#/messages/1" in str(error.problem.get("errors")):
                return None
            raise
        return None if stored["messages"][0]["duplicate"] else await self._writing(path, draft, stored)

    async def _known(self, path: str, found: _Standing) -> "StreamedReply | None":
        """The reply to a stored question; None where it changed meanwhile."""
        reply = found.reply and StreamedReply(self.sash, path, found.reply, self._paces)
        if reply and reply.status == "in_progress":
            if await reply.changed():
                return reply if reply.status == "in_progress" else None
            if not found.is_last:
                await reply.end("interrupted")
                return None
        if reply and (reply.status not in ("in_progress", "interrupted") or not found.is_last):
            return reply
        if not found.is_last:
            detail = "The chat went on without a reply to this question: ask it under an id of its own."
            raise SashError(_CONFLICT, {"status": _CONFLICT, "title": "The chat went on", "detail": detail})
        draft = _draft(uuid4().hex)
        body = {"messages": [draft], "after_seq": found.seq}
        try:
            stored = await self.sash.ado(asked(Ask("POST", f"{path}/messages", self._window, body, found.etag)))
        except SashError as error:
            if error.status == _MOVED:
                return None
            raise
        return await self._writing(path, draft, stored)

    async def _writing(self, path: str, draft: dict[str, Any], stored: Mapping[str, Any]) -> "StreamedReply":
        entry = {**draft, "message": {"content": ""}, "seq": stored["last_seq"]}
        window = stored["window"]
        reply = StreamedReply(self.sash, path, entry, self._paces, window)
        if window is None:
            await reply.end("interrupted")
            raise SashError(stored["window_error"]["status"], stored["window_error"])
        return reply


class StreamedReply:
    """The reply to one question. ``request`` is what the model is to be sent; None where the reply is written already.

    ``receipt`` is that of the window that it answers, which is stored with it.
    """

    def __init__(
        self,
        sash: Sash,
        path: str,
        entry: Mapping[str, Any],
        paces: tuple[float, float],
        window: Mapping[str, Any] | None = None,
    ) -> None:
        self.id: str = entry["id"]
        self.seq: int = entry["seq"]
        self.request: dict[str, Any] | None = window["request"] if window else None
        self.receipt: str | None = window.get("receipt") if window else None
        self.status, self.text = "", ""
        self._sash, self._path = sash, path
        self._beat_seconds, self._patience_seconds = paces
        self._entry: Mapping[str, Any] | None = None
        self._take(entry)

    def events(self, speak: Speak) -> AsyncGenerator[str, None]:
        """Yield the reply as server-sent events: each piece of text as JSON, then ``end`` with status and seq.

        The status is ``completed``, ``interrupted``, or ``gone`` if another request took the reply away. What came is stored
        also if the reader goes away.
        """
        return self._told() if self.request is None else self._written(speak, self.request)

    async def end(self, status: str) -> None:
        """Store the end. Where that is refused, the status says what stands: ``gone``, or that of another writer's end."""
        try:
            await self._store(status)
        except SashError as error:
            if error.status == _CONFLICT:
                self._take(await self._sash.ado(self._read()))
                return
            _log.warning("The end of a reply was not stored: %s", error)
            status = "gone" if error.status == _GONE else "interrupted"
        self.status = status

    async def changed(self) -> bool:
        """Wait until the stored reply is another one. False if nothing changed for ``patience_seconds``."""
        before, since = self._entry, time.monotonic()
        while time.monotonic() < since + self._patience_seconds:
            await asyncio.sleep(_LOOK_SECONDS)
            entry = await self._sash.ado(self._read())
            if entry != before:
                self._take(entry)
                return True
        return False

    async def _written(self, speak: Speak, request: dict[str, Any]) -> AsyncGenerator[str, None]:
        beating = asyncio.create_task(self._beat())
        status = "interrupted"
        try:
            async with aclosing(speak(request)) as pieces:
                async for piece in pieces:
                    self.text += piece
                    yield _data(piece)
                    if self.status == "gone":
                        break
            status = "completed"
        except Exception as error:  # noqa: BLE001 - whatever the provider's SDK raises
            _log.warning("The model's reply broke off: %s", type(error).__name__)
            _log.debug("The model's reply broke off.", exc_info=True)
        finally:
            beating.cancel()
            ending = asyncio.create_task(self.end(status))
            _ending.add(ending)
            ending.add_done_callback(_ending.discard)
            await asyncio.shield(ending)  # a reader that went away cancels this request
        yield self._end()

    async def _told(self) -> AsyncGenerator[str, None]:
        told = 0
        while self.status == "in_progress":
            yield _data(self.text[told:])
            told = len(self.text)
            try:
                if not await self.changed():
                    await self.end("interrupted")  # its writer died
            except SashError as error:
                _log.warning("A reply could not be followed: %s", error)
                self.status = "interrupted"
        yield _data(self.text[told:])
        yield self._end()

    async def _beat(self) -> None:
        for number in count(1):
            await asyncio.sleep(self._beat_seconds)
            try:
                await self._store("in_progress", metadata={"beat": number})
            except SashError as error:
                if error.status == _GONE:
                    self.status = "gone"
                    return
                _log.warning("A part of a reply was not stored: %s", error)

    async def _store(self, status: str, **beside: Any) -> None:
        said = {"id": self.id, "role": "assistant", "content": self.text, "status": status}
        if self.receipt is not None:
            said["receipt"] = self.receipt
        await self._sash.ado(append(self._path, [{**said, "continues": True, **beside}]))

    def _read(self) -> Asking[Any]:
        return asked(Ask("GET", f"{self._path}/messages/id:{self.id}"))

    def _take(self, entry: Mapping[str, Any] | None) -> None:
        """Take what is stored: an entry, or None where it is not there any more."""
        self._entry = entry
        if entry is None or entry.get("redacted"):
            self.status = "gone"
            return
        self.status, self.text = entry.get("status") or "completed", _text(entry["message"].get("content"))

    def _end(self) -> str:
        return f"event: end\n{_data({'status': self.status, 'seq': self.seq})}"


def _draft(identity: str) -> dict[str, Any]:
    return {"id": identity, "role": "assistant", "content": "", "status": "in_progress"}


def _standing(path: str, question: Mapping[str, Any]) -> Asking[_Standing | None]:
    """The stored question and its reply; None where it is not stored. Raises SashError where its text is another one."""
    entry, _ = yield Ask("GET", f"{path}/messages/id:{question['id']}")
    if entry is None:
        return None
    yield from append(path, [question])  # a retry, which stores nothing
    chat, etag = yield Ask("GET", path)
    behind, _ = yield Ask("GET", f"{path}/messages/{entry['seq'] + 1}")
    if chat is None:
        return None
    reply = behind if behind and behind["message"]["role"] == "assistant" else None
    return _Standing(entry["seq"], reply, chat["messages"]["last_seq"] <= entry["seq"] + (reply is not None), etag)


def _before(path: str, identity: str) -> Asking[int]:
    """The seq before an entry. Raises SashError where it is not there."""
    entry, _ = yield Ask("GET", f"{path}/messages/id:{identity}")
    if entry is None:
        detail = f"There is no question {identity!r} to ask this one instead of: a rewind or an erasure took it away."
        raise SashError(404, {"status": 404, "title": "There is nothing here", "detail": detail})
    return int(entry["seq"]) - 1


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"
