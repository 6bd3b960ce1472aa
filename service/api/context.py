"""The objects that handlers share, and helpers that read a request's scope."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request

from service.api.ring import Exchange
from service.core.models import Model
from service.operations.indexer import Indexer
from service.operations.logging import best_effort
from service.operations.metrics import Metrics
from service.operations.requests import Requests
from service.operations.served import tell_window
from service.operations.statistics import Statistics
from service.operations.summarizer import Summarizer
from service.operations.watch import Watch
from service.settings import Settings
from service.store.claims import Claim, Claims
from service.store.client import Client
from service.store.conversations import Conversations
from service.store.entries import new_id
from service.store.history import Histories
from service.store.indexing import Index
from service.store.owners import Owners
from service.store.reading import Reader
from service.store.replies import Shut, State
from service.store.scripts import no_conversation
from service.store.tenants import Tenants
from service.store.usage import Calibrations
from service.windows.answer import Made
from service.windows.recaller import Recaller
from service.windows.stored import Windows

Req = Request[Any, Any, Any]


class Context(msgspec.Struct, frozen=True):
    """The objects that handlers share. ``service/app.py`` makes one when the application starts."""

    settings: Settings
    client: Client
    conversations: Conversations
    reader: Reader
    windows: Windows
    histories: Histories
    claims: Claims
    calibrations: Calibrations
    owners: Owners
    tenants: Tenants
    models: Mapping[str, Model]
    """A deployment's own models, by name."""
    metrics: Metrics
    statistics: Statistics
    watch: Watch
    requests: Requests
    recaller: Recaller
    index: Index
    indexer: Indexer
    summarizer: Summarizer | None = None
    long_lines: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while an import's line that is longer than a body may be is decoded."""
    drifting: set[str] = msgspec.field(default_factory=set)
    """Ids of exact models whose drift this process has logged."""


def context_of(request: Req) -> Context:
    """The context of a request's application."""
    context: Context = request.app.state.context
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


def tell_made(request: Req, context: Context, name: tuple[str, str], made: Made, state: State, seconds: float) -> None:
    """Report a conversation's window, made in ``seconds``, to the summariser, the metrics and the log line."""
    with best_effort:
        tell_window(context.metrics, made, seconds, line_of(request), key=(*name, made.head.model))
    with best_effort:
        if context.summarizer is not None:
            context.summarizer.notice(*name, state, made.window, made.asked.limits.model)


async def require_life(request: Req, context: Context, state: State | Shut) -> None:
    """Under an Idempotency-Key, bind the request to the conversation's life that its first run found.

    Raises NotFound if that life has ended: the id now names another conversation.
    """
    claim: Claim | None = request.scope.get("sash.claim")  # type: ignore[assignment]
    if claim is not None and await context.claims.aim(claim, state.life) != state.life:
        raise no_conversation()


def fresh_id(request: Req, place: int = 0) -> str:
    """A new id. Under an Idempotency-Key every run of the request gets the same id for the same ``place``."""
    token: str | None = request.scope.get("sash.token")  # type: ignore[assignment]
    if token is None:
        return new_id()
    began_ms: int = request.scope["sash.began_ms"]  # type: ignore[typeddict-item]
    return new_id(began_ms, seed=f"{token}:{place}")


def extend_deadline(request: Req) -> None:
    """Move the request's deadline to a full timeout from now: a transfer that makes progress may go on."""
    exchange: Exchange = request.scope["sash.exchange"]  # type: ignore[typeddict-item]
    exchange.extend()


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
