"""What handlers share: made once by the composition root, found in the application's state."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from litestar import Request

from service.core.models import Model
from service.settings import Settings
from service.store.client import Client
from service.store.conversations import Conversations
from service.store.entries import new_id
from service.store.history import Histories


class Context(msgspec.Struct, frozen=True):
    settings: Settings
    client: Client
    conversations: Conversations
    histories: Histories
    models: Mapping[str, Model]
    """A deployment's own models, by name."""


def context_of(request: Request[Any, Any, Any]) -> Context:
    """The context of a request's application."""
    context: Context = request.app.state.context
    return context


def tenant_of(request: Request[Any, Any, Any]) -> str:
    """Whose request this is; the edge found out before any handler ran."""
    tenant: str = request.scope["sash.tenant"]  # type: ignore[typeddict-item]
    return tenant


def request_token(request: Request[Any, Any, Any]) -> str:
    """What names this request to the store, so that a change asked for twice is made once."""
    token: str | None = request.scope.get("sash.token")  # type: ignore[assignment]
    return token or new_id()


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
