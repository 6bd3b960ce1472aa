"""A request as handlers take it, and the calls of every turn, which come to their handlers directly."""

from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler

from sash.api.context import Context
from sash.api.headers import JSON_BODY, MediaType, if_match, if_none_match, refuse_coded
from sash.api.middleware.asgi import App, Headers, Receive, Scope, Send
from sash.api.middleware.exchange import Exchange
from sash.api.middleware.request_body import read_whole
from sash.api.queries import read_query
from sash.core.chat.bounds import IDS, WHAT_IDS_ARE
from sash.core.chat.json_bodies import decode_json
from sash.operations.logging import best_effort
from sash.problems import BadRequest, Pointer, PreconditionFailed, UnsupportedMediaType
from sash.processor import PROCESSOR
from sash.store.data.changing import no_entry
from sash.store.data.claims import Claim
from sash.store.data.entries import new_id
from sash.store.data.layout import Target, target_at
from sash.store.data.replies import Shut, State
from sash.store.data.script_calls import no_conversation
from sash.windows.answer import Made

T = TypeVar("T")

LONG_BYTES = 32 * 1024
"""Work on this many bytes or more runs in a thread, so that the event loop stays free for other requests."""
_JSON = (b"content-type", b"application/json")

TAKEN = frozenset({"import"})
"""Ids that no conversation may have: ``/conversations/import`` is an operation, so DELETE would not reach it."""


class Incoming(Request[Any, Any, Any]):
    """A request, opened once: the framework, or ``Direct``, makes one for its handler, and the handler passes it on.

    Under an Idempotency-Key it has a claim: a request that took effect before changes nothing more, and is answered from
    what is there.
    """

    __slots__ = ("claim", "context", "exchange", "life_before", "line", "tenant")

    context: Context
    """The objects that handlers share."""
    exchange: Exchange
    """The request with its answer, as the middleware keeps them: its id, deadline, headers and memory."""
    line: dict[str, Any]
    """The request's log line, to which handlers add figures."""
    tenant: str
    """The tenant of the request's API key."""
    claim: Claim | None
    """The claim of its Idempotency-Key; None without one."""
    life_before: str | None
    """The life of the conversation in which this request took effect before, under its key; None if it did not.

    It is empty where the first answer named no state.
    """

    def __init__(self, scope: Any, receive: Any, send: Any, context: Context | None = None) -> None:
        """The middleware has put the exchange and the tenant into ``scope``.

        The framework gives no ``context``. With one, the request cannot keep what the framework parses, such as the query.
        """
        if context is None:
            super().__init__(scope, receive, send)
            context = scope["litestar_app"].state["context"]
        else:
            self.scope, self.receive, self.send = scope, receive, send
        self.context = context
        self.exchange = exchange = scope["sash.exchange"]
        self.line = exchange.line
        self.tenant = scope["sash.tenant"]
        self.claim = claim = exchange.claim
        self.life_before = claim.done.life if claim is not None and claim.done is not None else None

    @property
    def target(self) -> Target:
        """The conversation that the path names. Raises BadRequest for an id that cannot be one."""
        identity = self.scope["path_params"]["conversation_id"]
        if identity in TAKEN:
            raise taken(identity, "#/path/conversation_id")
        if not IDS.fullmatch(identity):
            detail = f"The conversation id must be {WHAT_IDS_ARE}."
            raise BadRequest(detail, errors=[Pointer("#/path/conversation_id", WHAT_IDS_ARE)])
        return target_at(self.tenant, identity)

    def query(self, kind: type[T]) -> T:
        """The query string as a Struct. Raises BadRequest with the parameter's name."""
        scope = self.scope
        query: T = read_query(scope["query_string"], kind, scope["route_handler"])  # type: ignore[arg-type] # a class is hashable
        return query

    def if_match(self) -> str:
        """The ETag that If-Match requires, as ``headers.if_match`` reads it; the empty string without the header."""
        given = self.exchange.headers.get(b"if-match")
        return if_match(given) if given is not None else ""

    def refuse_state(self, what: str) -> None:
        """Raise PreconditionFailed where If-Match names a state of ``what``, which has none; ``"0"`` names its absence."""
        if self.if_match() not in ("", "0"):
            raise PreconditionFailed(f"{what} has no ETag that If-Match could name: leave the header out.")

    def is_known(self, tag: str) -> bool:
        """Whether If-None-Match names this state, so that the client has it already."""
        given = self.exchange.headers.get(b"if-none-match")
        known = if_none_match(given) if given is not None else ()
        return tag in known or "*" in known

    def read_body(self, media_type: MediaType = JSON_BODY) -> Awaitable[bytes]:
        """The body's bytes, unchanged. Raises UnsupportedMediaType, BadRequest, TooLarge."""
        headers = self.exchange.headers
        if b"content-encoding" in headers:
            refuse_coded(headers)
        if not media_type(headers.get(b"content-type", b"")):
            raise UnsupportedMediaType(
                "Send JSON in UTF-8: Content-Type: application/json.", headers={"Accept": "application/json"}
            )
        return read_whole(self.receive)

    async def decode(self, decoder: msgspec.json.Decoder[T], media_type: MediaType = JSON_BODY) -> T:
        """The body as the decoder's type. Raises UnsupportedMediaType, BadRequest, TooLarge."""
        body = await self.read_body(media_type)
        return await run_in_turn_if_large(len(body), decode_json, body, decoder)

    @property
    def was_done(self) -> bool:
        """Whether this request took effect before, under its Idempotency-Key."""
        return self.life_before is not None

    async def look_for_earlier_run(self) -> None:
        """Have ``was_done`` tell whether an earlier run, which ended without an answer, did what this one is asked to do."""
        if self.claim is not None and self.claim.again and not self.was_done:
            self.life_before = await self.context.store.reader.life_of(self.target, self.claim.token)

    @property
    def key_token(self) -> str | None:
        """The request's name in the store, which its repeats have too; None without an Idempotency-Key."""
        return self.claim.token if self.claim is not None else None

    def token(self) -> str:
        """The same; a new name without an Idempotency-Key. A change that is sent twice under one token is made once."""
        return self.key_token or new_id()

    def fresh_id(self, place: int = 0) -> str:
        """A new id. Under an Idempotency-Key every run of the request gets the same id for the same ``place``."""
        claim = self.claim
        return new_id() if claim is None else new_id(claim.began_ms, seed=f"{claim.token}:{place}")

    def require_same_life(self, state: State) -> None:
        """Raise NotFound if this request took effect in a conversation that has ended, and another has its id now."""
        if self.life_before not in (None, state.life):
            raise no_conversation()

    async def require_life(self, state: State | Shut) -> None:
        """Under an Idempotency-Key, bind the request to the life of the conversation that its first run found.

        Raises NotFound if that life has ended.
        """
        claim = self.claim
        if claim is not None and await self.context.store.claims.aim(claim, state.life) != state.life:
            raise no_conversation()

    def require_same_entry(self, entry_id: str) -> None:
        """Under an Idempotency-Key, bind the request to the message that its answer shows, by a digest of its id.

        Raises NotFound if the first answer showed another: that is gone, and this one stands in its place.
        """
        claim = self.claim
        if claim is None:
            return
        shown = blake2b(entry_id.encode(), key=claim.token.encode(), digest_size=16).digest()
        if claim.done is not None and claim.done.read not in (b"", shown):
            raise no_entry()
        self.exchange.shown = shown

    def tell_made(self, target: Target, made: Made, state: State, seconds: float) -> None:
        """Report a conversation's window, made in ``seconds``, to the summariser, the metrics and the log line."""
        context, plan = self.context, made.asked.plan
        context.watching.metrics.windows.record_window(made, seconds, self.line, target)
        if context.summarizer is not None and plan.query.view is None:  # a summary is of what all may see
            with best_effort:
                context.summarizer.notice(target, state, made.window, plan.model)


async def run_in_turn_if_large(size_bytes: int, function: Callable[..., T], *arguments: Any) -> T:
    """The function's result; the call waits for its turn (processor.py) if ``size_bytes`` is at least LONG_BYTES."""
    if size_bytes < LONG_BYTES:
        return function(*arguments)
    return await PROCESSOR.run(function, *arguments)


def taken(identity: str | None, pointer: str) -> BadRequest:
    """The problem with an id that no conversation may have, as it is in a path of the service: ``import``."""
    return BadRequest.at(pointer, f"A conversation cannot be called {identity}: that is a path of its own")


class Answer(msgspec.Struct, frozen=True):
    """An ASGI application that answers with ``body`` as JSON, and an ETag if it has one. A 304 is sent without a body.

    The framework's response checks headers, cookies and media types for each answer.
    """

    body: bytes
    etag: str = ""
    status: int = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        body, etag, status = self.body, self.etag, self.status
        headers: Headers = []
        if status != 304:
            headers += _JSON, (b"content-length", str(len(body)).encode())
        if etag:
            headers.append((b"etag", f'"{etag}"'.encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Direct:
    """An ASGI application that calls ``handlers`` directly, and the application ``app`` for the rest.

    The framework's routing, arguments and response take a sixth of a window's processor time, and a handler that reads its
    request and makes its answer by itself does not need them. A handler's path is of one word, such as ``/window``, or of
    two with its parameter between them: ``/conversations/{id}/window``.
    """

    def __init__(self, context: Context, app: App, handlers: Sequence[HTTPRouteHandler]) -> None:
        self._context = context
        self._app = app
        self._calls: dict[tuple[Any, ...], tuple[HTTPRouteHandler, Any, str]] = {}
        """By method, words, and whether a parameter stands between them: the handler, its function, the parameter's name."""
        for handler in handlers:
            for path in handler.paths:
                _, first, *more = path.split("/")
                parameter, last = more or ("", "")
                name = parameter.strip("{}").partition(":")[0]  # the framework writes {name:str}
                for method in handler.http_methods:
                    self._calls[method, first, last, name != ""] = handler, handler.fn, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        first, _, rest = scope.get("path", "")[1:].partition("/")
        between, _, last = rest.partition("/")
        if found := self._calls.get((scope.get("method"), first, last, between != "")):
            scope["route_handler"], answer_to, parameter = found
            if parameter:
                scope["path_params"] = {parameter: between}
            answer = await answer_to(Incoming(scope, receive, send, self._context))
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)
