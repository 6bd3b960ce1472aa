"""One reply of a chat that streams: its writer, and those who are told.

::

    writer (a task) ─── text ──▶ readers of this process
        └── what came, each second ──▶ Sash ──▶ readers of other processes, who look four times a second

A writer stores what came every ``beat_seconds``, also if nothing did. Who sees no change for ``patience_seconds`` takes it
for dead. If it lives after all, or another tab took its reply away, Sash refuses its next part (410), and it stops.

What a reply takes the place of is a branch. If the model fails before the first word, it comes back.
"""

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from itertools import count
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, NamedTuple

from sash_client.client import Ask, Sash, SashError, TokenEndpoint, append, asked

Speak = Callable[[dict[str, Any]], AsyncGenerator[str, None]]
"""Sends a window's request to a model, and yields the reply's text in pieces."""
HEADERS: Final = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Of an answer with events: no proxy keeps them, or holds them back."""
CONFLICT: Final = 409
_GONE: Final = 410
_MOVED: Final = 412
_LOOK_SECONDS: Final = 0.25
_TELL_SECONDS: Final = 1.0
_HEARTBEAT_SECONDS: Final = 15.0
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_log = logging.getLogger(__name__)
_tasks: set[asyncio.Task[Any]] = set()
"""Tasks that write replies and store their ends. They are held here, as Python may drop a task that nobody holds."""


class Paces(NamedTuple):
    """How often a writer stores what came, and how long it may be silent."""

    beat_seconds: float
    patience_seconds: float


class StreamedReply:
    """The reply to one question. ``request`` is what the model is to be sent; None where another process writes it.

    ``receipt`` is that of the window that it answers, which is stored with it.
    """

    headers: Mapping[str, str] = HEADERS

    def __init__(self, sash: Sash, path: str, entry: Mapping[str, Any], paces: Paces) -> None:
        self.id: str = entry["id"]
        self.seq: int = entry["seq"]
        self.request: dict[str, Any] | None = None
        self.receipt: str | None = None
        self.retake: Callable[[], Awaitable[StreamedReply | None]] | None = None
        """Gives the reply in place of this one, if its writer died."""
        self.status, self.text = "", ""
        self._sash, self._path = sash, path
        self._paces = paces
        self._entry: Mapping[str, Any] | None = None
        self._failure = ""
        self._writing: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._take(entry)

    def events(self, speak: Speak) -> AsyncGenerator[str, None]:
        """Yield the reply as server-sent events: pieces of text as JSON, then ``end`` with status and seq.

        The status is ``completed``, ``interrupted``, ``gone`` if another request took the reply away, or ``kept`` if the
        model failed before a word, and what the reply was to take the place of was put back. Before the end of one that
        failed comes ``failed``, which says why. While another process writes it and is silent, ``waiting`` says how long.
        """
        return self._told(speak) if self.request is None else self._written(speak, self.request)

    async def stop(self) -> None:
        """End a reply that is written here, and return when what came is stored."""
        if self._writing is None:
            if self.status == "in_progress":
                await self._finish("interrupted")
            return
        self._writing.cancel()
        await asyncio.wait([self._writing])

    async def end(self, status: str) -> None:
        """Store the end. Where that is refused, the status says what stands: ``gone``, or that of another one's end."""
        try:
            await self._store(status)
        except SashError as error:
            if error.status == CONFLICT:
                self._take(await self._sash.ado(self._read()))
                return
            _log.warning("The end of a reply was not stored: %s", error)
            status = "gone" if error.status == _GONE else "interrupted"
        self.status = status

    # ---- the writer

    async def _written(self, speak: Speak, request: dict[str, Any]) -> AsyncGenerator[str, None]:
        if self._writing is None:
            self._writing = _held(self._write(speak, request))
            self._writing.add_done_callback(lambda _: self._news.set())
        told = 0
        while True:
            is_done = self._writing.done()
            if len(self.text) > told:
                piece, told = self.text[told:], len(self.text)
                yield _data(piece)
            elif is_done:
                break
            else:
                self._news.clear()
                try:
                    async with asyncio.timeout(_HEARTBEAT_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    yield ":\n\n"
        if self._failure:
            yield self._failure
        yield self._end()

    async def _write(self, speak: Speak, request: dict[str, Any]) -> None:
        """Write the reply to its end, whoever reads it."""
        beating = _held(self._beat())
        status = "interrupted"
        try:
            async with aclosing(speak(request)) as pieces:
                async for piece in pieces:
                    self.text += piece
                    self._news.set()
            status = "completed"
        except Exception as error:  # noqa: BLE001 - whatever the provider's SDK raises
            why = _why(error)
            _log.warning("The model's reply broke off: %s, at %s", why, _place(error))
            _log.debug("The model's reply broke off.", exc_info=True)
            self._failed({"type": "/problems/model-failed", "title": "The model failed", "status": 502, "detail": why})
        finally:
            beating.cancel()
            if self.status == "in_progress":
                await asyncio.shield(_held(self._finish(status)))

    async def _finish(self, status: str) -> None:
        """Store the end; in place of a reply without a word comes back what it took the place of."""
        if status == "interrupted" and not self.text:
            try:
                if (seq := await self._sash.ado(_bring_back(self._path, self.id))) is not None:
                    self.status, self.seq = "kept", seq
                    return
            except SashError as error:
                _log.warning("An earlier reply did not come back; it is a branch: %s", error)
        await self.end(status)

    async def _beat(self) -> None:
        for number in count(1):
            await asyncio.sleep(self._paces.beat_seconds)
            try:
                await self._store("in_progress", beat=number)
            except SashError as error:
                if error.status not in (_GONE, CONFLICT):
                    _log.warning("A part of a reply was not stored: %s", error)
                    continue
                with suppress(SashError):
                    self._take(await self._sash.ado(self._read()))
                self.status = "gone" if self.status == "in_progress" else self.status
                if self._writing is not None:
                    self._writing.cancel()
                return

    async def _store(self, status: str, **beside: Any) -> None:
        said = {"id": self.id, "role": "assistant", "content": self.text, "status": status, "continues": True}
        beside_it = {"metadata": beside, "receipt": self.receipt}
        await self._sash.ado(append(self._path, [said | {name: each for name, each in beside_it.items() if each}]))

    # ---- the readers of other processes

    async def _told(self, speak: Speak) -> AsyncGenerator[str, None]:
        told, since, is_alive = 0, time.monotonic(), False
        while self.status == "in_progress":
            if is_alive and len(self.text) > told:
                yield _data(self.text[told:])
                told = len(self.text)
            try:
                if await self._changed():
                    since, is_alive = time.monotonic(), True
                    continue
                silent = time.monotonic() - since
                if silent < self._paces.patience_seconds:
                    limit = self._paces.patience_seconds
                    yield f"event: waiting\n{_data({'seconds': round(silent, 1), 'of': limit})}"
                    continue
                other = await self.retake() if self.retake and not is_alive else None
                if other is None:
                    await self._settle()
                    continue
            except SashError as error:
                _log.warning("A reply could not be followed: %s", error)
                self._failed(error.problem)
                self.status = "interrupted"
                continue
            async for event in other.events(speak):
                yield event
            return
        yield _data(self.text[told:])
        if self._failure:
            yield self._failure
        yield self._end()

    async def _settle(self) -> None:
        """End the reply of a writer that died, unless another request ended or replaced it."""
        self._take(await self._sash.ado(self._read()))
        if self.status == "in_progress":
            await self.end("interrupted")

    async def _changed(self) -> bool:
        """Wait until the stored reply has changed, for one second at most."""
        before, until = self._entry, time.monotonic() + min(_TELL_SECONDS, self._paces.patience_seconds)
        while time.monotonic() < until:
            await asyncio.sleep(_LOOK_SECONDS)
            entry = await self._sash.ado(self._read())
            if entry != before:
                self._take(entry)
                return True
        return False

    def _read(self) -> TokenEndpoint[Any]:
        return asked(Ask("GET", f"{self._path}/messages/id:{self.id}"))

    def _take(self, entry: Mapping[str, Any] | None) -> None:
        """Take what is stored: an entry, or None where it is not there any more."""
        self._entry = entry
        if entry is None or entry.get("redacted"):
            self.status = "gone"
            return
        self.status, self.text = entry.get("status") or "completed", _text(entry["message"].get("content"))

    def _failed(self, problem: Mapping[str, Any]) -> None:
        self._failure = f"event: failed\n{_data(problem)}"

    def _end(self) -> str:
        return f"event: end\n{_data({'status': self.status, 'seq': self.seq})}"


def _bring_back(path: str, reply: str) -> TokenEndpoint[int | None]:
    """Go back to the branch that the newest reply, which has this id, took the place of.

    Returns its last seq; None where there is none, or the chat went on. Raises SashError.
    """
    page, etag = yield Ask("GET", f"{path}/messages", {"order": "desc", "limit": 1})
    entry = page["messages"][0] if page and page["messages"] else None
    if entry is None or entry["id"] != reply:
        return None
    found, _ = yield Ask("GET", f"{path}/branches")
    places = (entry["seq"] - 2, entry["seq"] - 1)  # behind its question, or with it
    branches = [each for each in found["branches"] if each["parent"] is None and each["after_seq"] in places]
    if not branches:
        return None
    try:
        taken, _ = yield Ask("POST", f"{path}/branches/{branches[0]['id']}", if_match=etag)
    except SashError as error:
        if error.status != _MOVED:
            raise
        return None
    return int(taken["after_seq"] + taken["messages"])


def _held(work: Any) -> asyncio.Task[Any]:
    task = asyncio.create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
    return task


def _why(error: BaseException) -> str:
    """What is said of an error: its name and cause, and what a provider's error has besides its message."""
    cause, status, code = error.__cause__, getattr(error, "status_code", None), getattr(error, "code", None)
    said = [type(error).__name__, *([f"by {type(cause).__name__}"] if cause else [])]
    said += [f"HTTP {status}"] if isinstance(status, int) else []
    said += [code] if isinstance(code, str) and _CODE.fullmatch(code) else []
    return ", ".join(said)


def _place(error: BaseException) -> str:
    """Where in the application's code an error came from."""
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename != __file__]
    return f"{Path(frames[0].filename).name}:{frames[0].lineno}" if frames else "an unknown place"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _data(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"
