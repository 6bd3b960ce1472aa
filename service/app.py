"""The composition root: settings in, an application out.

::

    request ─ Edge ─ Litestar ─ handler ─┬─ core    (pure: counts, windows, formats)
              key, id, deadline,         └─ store   (Conversations ─ Client ─ Lane ─ Redis or Valkey)
              log line
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from litestar import Litestar
from litestar.datastructures import State

from service.api import conversations, counting, docs, errors, health, history, messages, window
from service.api.context import Context
from service.api.edge import App, Edge, Keys
from service.core.models import load_models_toml
from service.core.text import ENCODINGS, count_text
from service.settings import Settings
from service.store import conversations as stored_conversations
from service.store import history as stored_history
from service.store.client import Client
from service.store.conversations import Conversations
from service.store.history import Histories

ROUTES = (
    *conversations.HANDLERS,
    *messages.HANDLERS,
    *history.HANDLERS,
    *window.HANDLERS,
    *counting.HANDLERS,
    *health.HANDLERS,
    *docs.HANDLERS,
)


def create_app(settings: Settings) -> App:
    """An ASGI application. Its lifespan opens the store and closes it."""
    if settings.redis_url is None:
        raise ValueError("create_app needs redis_url: the command line starts the embedded store and sets it")
    client = Client(
        settings.redis_url,
        scripts=(*stored_conversations.SCRIPTS, *stored_history.SCRIPTS),
        timeout_seconds=settings.store_timeout_seconds,
        connections=settings.store_connections,
    )
    retention_ms = settings.retention_seconds * 1000 if settings.retention_seconds else None
    stored = Conversations(client, retention_ms=retention_ms)
    context = Context(
        settings=settings,
        client=client,
        conversations=stored,
        histories=Histories(client, stored),
        models=load_models_toml(settings.models_file.read_text("utf-8")) if settings.models_file else {},
    )

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        for encoding in ENCODINGS:
            count_text("warm", encoding)  # the vocabularies load once, before anybody waits for them
        await client.open()
        try:
            yield
        finally:
            await client.close()

    inner = Litestar(
        route_handlers=ROUTES,
        lifespan=[lifespan],
        state=State({"context": context, "routes": ROUTES}),
        exception_handlers=errors.HANDLERS,
        request_max_body_size=settings.max_body_bytes,
        openapi_config=None,
        logging_config=None,
    )
    return Edge(cast("App", inner), keys=Keys(settings.api_keys), timeout_seconds=settings.request_timeout_seconds)
