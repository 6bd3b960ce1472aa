"""Idempotency-Key: a request takes effect once, however often it is sent.

An ASGI wrapper around the handlers, for requests with the header. A request that took effect is answered again from what
is there now, with the first answer's status and the same ids. A request that failed changed nothing, so it runs again.

A run may also die half-way. Handlers therefore name each change by the request's token, and give entries without an id the
same ids as the first run.
"""

import asyncio
import contextlib
import re
from hashlib import sha256
from typing import NamedTuple

from sash.api.middleware.asgi import App, Message, Receive, Scope, Send
from sash.api.middleware.paths import Paths
from sash.api.middleware.request_body import read_whole
from sash.problems import BadRequest, Conflict, KeyInProgress, KeyReused, StoreFull, StoreUnavailable
from sash.store.data.claims import HOLD_MS, Claim, Claims, Done
from sash.store.data.entries import wall_ms
from sash.store.data.layout import life_of
from sash.tasks import end_tasks

_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PURE = re.compile(r"/(?:count|window|mcp|conversations/[^/]+/tools/[^/]+)")
"""Paths of operations that store nothing: a repeated request is simply computed again."""
_STREAMED = "/conversations/import"
_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_HOLD_SECONDS = HOLD_MS / 3000
_OK = range(200, 300)
_UNSURE = range(500, 600)
_GONE = 404


class WholeAnswer(NamedTuple):
    """A whole answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Idempotent:
    """The wrapper: an ASGI application around another."""

    def __init__(self, app: App, claims: Claims, paths: Paths) -> None:
        self._app = app
        self._claims = claims
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = _key(scope)
        if key is None or not self._is_taken(scope):
            await self._app(scope, receive, send)
            return
        body = streamed = None
        if scope["path"] == _STREAMED:
            receive = streamed = _Streamed(receive)
        else:
            body = await read_whole(receive)
            receive = _replay(body, receive)
        erases = scope["method"] == "DELETE" or scope["path"].endswith("/rewind")
        claim = await self._claims.take(scope["sash.tenant"], key, _fingerprint(scope, body), wall_ms(), erases=erases)
        if claim == "busy":
            raise KeyInProgress("A request under this key is running: send the request again for its answer.")
        if claim == "other":
            raise _reused()
        scope["sash.exchange"].claim = claim
        if claim.done is not None:
            answer = await self._repeat(scope, receive, claim.done, streamed)
        else:
            answer = await self._run(scope, receive, claim, streamed)
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    def _is_taken(self, scope: Scope) -> bool:
        """Whether the path takes the method, or is unknown. The router refuses a method that the path does not take."""
        methods = self._paths.methods(scope["path"])
        return not methods or scope["method"] in methods

    async def _rest(self, scope: Scope, streamed: "_Streamed") -> bytes:
        """Read the rest of a streamed body. Returns the SHA-256 of the whole body. Raises TooLarge, BadRequest."""
        while streamed.more:
            message = await streamed()
            if message["type"] == "http.disconnect":
                raise BadRequest("The body ended early.")
            scope["sash.exchange"].extend()
        return streamed.digest()

    async def _repeat(self, scope: Scope, receive: Receive, done: Done, streamed: "_Streamed | None") -> WholeAnswer:
        """Answer a request that took effect before from what is there now, with its first status.

        Raises Conflict, KeyReused.
        """
        caught = _Caught()
        await self._app(scope, receive, caught.send)
        if streamed is not None and await self._rest(scope, streamed) != done.read:
            raise _reused()
        answer = caught.answer()
        if answer.status == _GONE:
            raise Conflict("This request was done before, and what it made or changed has been erased since.")
        if answer.status not in _OK:
            return answer
        return WholeAnswer(done.status, [*answer.headers, (b"idempotency-replayed", b"true")], answer.body)

    async def _run(self, scope: Scope, receive: Receive, claim: Claim, streamed: "_Streamed | None") -> WholeAnswer:
        caught, holding = _Caught(), asyncio.create_task(self._hold(claim))
        try:
            try:
                await self._app(scope, receive, caught.send)
            finally:
                await end_tasks(holding)
            answer = caught.answer()
            if claim.again and scope["method"] == "DELETE" and answer.status == _GONE and not _is_branch(scope["path"]):
                answer = WholeAnswer(204, [], b"")  # an earlier run, which ended without an answer, did the erasure
            if answer.status in _OK:
                read = await self._rest(scope, streamed) if streamed is not None else scope["sash.exchange"].shown
                await self._claims.finish(claim, status=answer.status, life=_life(answer), read=read)
            else:
                await self._claims.release(claim, done=None if answer.status in _UNSURE else False)
        except BaseException:
            with contextlib.suppress(StoreUnavailable, StoreFull):
                await self._claims.release(claim, done=None)
            raise
        return answer

    async def _hold(self, claim: Claim) -> None:
        """Hold the key while the request runs. If this process dies, the hold expires."""
        while True:
            await asyncio.sleep(_HOLD_SECONDS)
            with contextlib.suppress(StoreUnavailable, StoreFull):
                await self._claims.hold(claim, wall_ms())


def _is_branch(path: str) -> bool:
    """Return whether a path is a branch's. One that is gone was dropped, or is the log now: only its handler knows."""
    return "/branches/" in path


def is_pure(path: str) -> bool:
    """Whether the operation at a path, or at a path's template, stores nothing."""
    return _PURE.fullmatch(path) is not None


def _key(scope: Scope) -> str | None:
    """The request's key; None for operations that store nothing. Raises BadRequest."""
    if scope["method"] not in _METHODS or is_pure(scope["path"]):
        return None
    keys = [value for name, value in scope["headers"] if name == b"idempotency-key"]
    if len(keys) > 1 or not _KEY.fullmatch(keys[0]):
        raise BadRequest.at("#/header/idempotency-key", "An idempotency key is 1 to 255 visible ASCII characters")
    return str(keys[0], "ascii")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body first, then the messages of ``receive``."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


class _Streamed:
    """A body that is too long to hold in memory. Its length identifies it until it is read, and then its hash.

    Until the first run is done, another file of the same length under the same key cannot be told from the first: it gets
    ``KeyInProgress``, or takes over the run if the first one ended without an answer.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._hash = sha256()
        self.more = True

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._hash.update(message.get("body", b""))
            self.more = message.get("more_body", False)
        return message

    def digest(self) -> bytes:
        return self._hash.digest()


def _reused() -> KeyReused:
    return KeyReused.at("#/header/idempotency-key", "This key was used with another request: use a new one")


def _fingerprint(scope: Scope, body: bytes | None) -> bytes:
    """A hash of the method, path, query and body. For a streamed body, not read yet, its length is hashed instead."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    parts = (scope["method"].encode(), scope["path"].encode(), scope["query_string"], length if body is None else body)
    return sha256(b"\0".join(sha256(part).digest() for part in parts)).digest()


def _life(answer: WholeAnswer) -> str:
    """The life of the conversation whose state the answer's ETag names; empty without one."""
    tags = [value for name, value in answer.headers if name.lower() == b"etag"]
    return life_of(tags[0].decode().strip('"')) if tags else ""


class _Caught:
    """Collects a whole answer before it is sent."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")

    def answer(self) -> WholeAnswer:
        return WholeAnswer(self._status, self._headers, bytes(self._body))
