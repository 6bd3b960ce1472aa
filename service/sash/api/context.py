"""The objects that handlers share, and helpers that read a request's scope."""

import asyncio
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from litestar import Request

from sash.api.events.followers import Followers
from sash.api.ring.exchange import Exchange
from sash.core.counts.models.models import Model
from sash.operations.indexer import Indexer
from sash.operations.logging import best_effort
from sash.operations.metrics import Metrics
from sash.operations.requests import Requests
from sash.operations.served import tell_window
from sash.operations.statistics import Statistics
from sash.operations.summarizer import Summarizer
from sash.operations.watch import Watch
from sash.settings import Settings
from sash.store.data.claims import Claim
from sash.store.data.entries import new_id, wall_ms
from sash.store.data.histories import no_entry
from sash.store.data.layout import Target
from sash.store.data.replies import Shut, State
from sash.store.data.script_calls import no_conversation
from sash.store.data.stores import Stores
from sash.windows.again import ServedWindows
from sash.windows.answer import Made
from sash.windows.recaller import Recaller
from sash.windows.stored import Windows
from sash.windows.tool_answers import ToolAnswers

Req = Request[Any, Any, Any]


class Recall(msgspec.Struct, frozen=True):
    """The search for older messages, and the upkeep of their index."""

    recaller: Recaller
    indexer: Indexer
    answers: ToolAnswers


class Watching(msgspec.Struct, frozen=True):
    """Metrics and other figures for operators."""

    metrics: Metrics
    requests: Requests
    statistics: Statistics
    watch: Watch


class Context(msgspec.Struct, frozen=True):
    """The objects that handlers share. ``service/sash/app.py`` makes one when the application starts."""

    settings: Settings
    models: Mapping[str, Model]
    """A deployment's own models, by name."""
    store: Stores
    windows: Windows
    served: ServedWindows
    recall: Recall
    watching: Watching
    followers: Followers
    summarizer: Summarizer | None = None
    long_lines: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while an import's line that is longer than a body may be is decoded."""
    drifting: set[str] = msgspec.field(default_factory=set)
    """Ids of exact models whose drift this process has logged."""


def context_of(request: Req) -> Context:
    """The context of a request's application."""
    context: Context = request.scope["litestar_app"].state["context"]
    return context


def line_of(request: Req) -> dict[str, Any]:
    """The request's log line, to which handlers add figures."""
    line: dict[str, Any] = request.scope["sash.line"]  # type: ignore[typeddict-item]
    return line


def tenant_of(request: Req) -> str:
    """The request's tenant, which the ring found from its API key."""
    tenant: str = request.scope["sash.tenant"]  # type: ignore[typeddict-item]
    return tenant


def request_token(request: Req) -> str:
    """The request's name in the store: a change that is sent twice under one token is made once."""
    token: str | None = request.scope.get("sash.token")  # type: ignore[assignment]
    return token or new_id()


def life_before(request: Req) -> str | None:
    """The life of the conversation in which this request took effect before, under its Idempotency-Key; None if it did not.

    A request that took effect changes nothing more: it is answered from what is there. The life is empty where its first
    answer named no state.
    """
    claim: Claim | None = request.scope.get("sash.claim")  # type: ignore[assignment]
    return claim.done.life if claim is not None and claim.done is not None else None


def was_done(request: Req) -> bool:
    """Whether this request took effect before, under its Idempotency-Key."""
    return life_before(request) is not None


def tell_made(request: Req, context: Context, target: Target, made: Made, state: State, seconds: float) -> None:
    """Report a conversation's window, made in ``seconds``, to the summariser, the metrics and the log line."""
    with best_effort:
        tell_window(
            context.watching.metrics,
            made,
            seconds,
            line_of(request),
            key=(target.name, made.head.model, made.asked.query.view),
        )
    with best_effort:
        context.watching.metrics.windows.given()
        if context.summarizer is not None and made.asked.query.view is None:  # a summary is of what all may see
            context.summarizer.notice(target, state, made.window, made.asked.limits.model)


def touched(context: Context, target: Target, settings: bytes) -> None:
    """Note a change of a conversation for the lists that it is on: its owner's and its tenant's."""
    context.store.owners.touch(target, settings)
    context.store.tenants.note(target, wall_ms())


def require_same_life(request: Req, state: State) -> None:
    """Raise NotFound if this request took effect in a life of the conversation that has ended: the id names another now."""
    if life_before(request) not in (None, state.life):
        raise no_conversation()


async def require_life(request: Req, context: Context, state: State | Shut) -> None:
    """Under an Idempotency-Key, bind the request to the conversation's life that its first run found.

    Raises NotFound if that life has ended.
    """
    claim: Claim | None = request.scope.get("sash.claim")  # type: ignore[assignment]
    if claim is not None and await context.store.claims.aim(claim, state.life) != state.life:
        raise no_conversation()


def require_same_entry(request: Req, entry_id: str) -> None:
    """Under an Idempotency-Key, bind the request to the message that its answer shows. The claim holds a digest of its id.

    Raises NotFound if the first answer showed another: that is gone, and this one stands in its place.
    """
    claim: Claim | None = request.scope.get("sash.claim")  # type: ignore[assignment]
    if claim is None:
        return
    shown = blake2b(entry_id.encode(), key=claim.token.encode(), digest_size=16).digest()
    if claim.done is not None and claim.done.read not in (b"", shown):
        raise no_entry()
    request.scope["sash.shown"] = shown  # type: ignore[typeddict-unknown-key]


def is_keyed(request: Req) -> bool:
    """Whether the request has an Idempotency-Key."""
    return request.scope.get("sash.token") is not None


def fresh_id(request: Req, place: int = 0) -> str:
    """A new id. Under an Idempotency-Key every run of the request gets the same id for the same ``place``."""
    token: str | None = request.scope.get("sash.token")  # type: ignore[assignment]
    if token is None:
        return new_id()
    began_ms: int = request.scope["sash.began_ms"]  # type: ignore[typeddict-item]
    return new_id(began_ms, seed=f"{token}:{place}")


def exchange_of(request: Req) -> Exchange:
    """The request with its answer, as the ring keeps them."""
    exchange: Exchange = request.scope["sash.exchange"]  # type: ignore[typeddict-item]
    return exchange


def extend_deadline(request: Req) -> None:
    """Move the request's deadline to a full timeout from now: a transfer that makes progress may go on."""
    exchange_of(request).extend()
