"""The composition root: makes the application from settings.

::

    request ─ Ring ─┬─ Direct ─── window, append ─┬─ core    (pure: counts, windows, formats)
      id, key,      └─ Litestar ─ all others ─────┴─ store   (Conversations ─ Client ─ Redis or Valkey)
      deadline, log line
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

from litestar import Litestar
from litestar.datastructures import State

from service.api import (
    conversations,
    counting,
    docs,
    errors,
    history,
    messages,
    operations,
    owners,
    search,
    transfer,
    window,
)
from service.api.asgi import App
from service.api.body import check_no_query
from service.api.browsers import Cors, loopback_hosts
from service.api.context import Context
from service.api.direct import Direct
from service.api.idempotency import Idempotent
from service.api.keys import Callers
from service.api.paths import Paths
from service.api.ring import Ring
from service.core.models import Model, list_models
from service.core.text.vocabularies import load_vocabularies
from service.operations.embedder import Embedder
from service.operations.indexer import Indexer
from service.operations.logging import RequestLog, get_logger, log_request
from service.operations.metrics import Metrics
from service.operations.pseudonyms import Pseudonyms
from service.operations.readiness import judged
from service.operations.registry import ended
from service.operations.requests import Requests
from service.operations.statistics import Statistics
from service.operations.summarizer import Summarizer
from service.operations.summary import Prices
from service.operations.tracing import OpenTelemetry, wants_spans
from service.operations.watch import Watch
from service.settings import Settings, read_models
from service.store import datafiles
from service.store.claims import Claims
from service.store.client import Client
from service.store.columns import Columns
from service.store.conversations import Conversations
from service.store.datakeys import DataKeys
from service.store.history import Histories
from service.store.indexing import Index
from service.store.keys import ApiKeys
from service.store.limits import RateLimits
from service.store.owners import Owners
from service.store.tenants import Tenants
from service.store.usage import Calibrations, model_or_unknown
from service.tasks import end_tasks
from service.windows.recaller import Embeddings, Recaller
from service.windows.stored import Windows
from service.windows.vocabularies import Counts

ROUTES = (
    conversations.create_conversation,
    conversations.get_conversation,
    conversations.change_conversation,
    conversations.delete_conversation,
    messages.append_messages,
    messages.list_messages,
    messages.get_message,
    history.redact_message,
    history.rewind_conversation,
    history.put_summary,
    history.delete_summary,
    history.fork_conversation,
    transfer.export_conversation,
    transfer.import_conversation,
    counting.report_usage,
    owners.list_conversations,
    owners.delete_owner,
    window.get_window,
    window.build_window,
    search.search_messages,
    counting.count,
    counting.models,
    counting.model,
    operations.live,
    operations.ready,
    operations.get_metrics,
    operations.get_stats,
    operations.get_status,
    operations.get_dashboard,
    docs.get_openapi,
    docs.get_docs,
    docs.get_problem,
)


def create_app(settings: Settings, *, log: RequestLog | None = log_request, ends_on_sigterm: bool = False) -> App:
    """An ASGI application. Its lifespan connects to the store, and disconnects at the end.

    ``log`` writes the lines of requests. With ``ends_on_sigterm`` the process drains and ends on SIGTERM (drain.py).
    """
    if settings.redis_url is None:
        raise ValueError("create_app needs redis_url: the command line starts the embedded store and sets it")
    metrics = Metrics()
    spans = _spans(metrics)
    client = Client(
        settings.redis_url,
        timeout_seconds=settings.store_timeout_seconds,
        connections=settings.store_connections,
        durability=settings.durability,
        data_files=os.environ.get(datafiles.VARIABLE, ""),
        observer=metrics,
    )
    retention_ms = settings.retention_seconds * 1000 if settings.retention_seconds else None
    data_keys = DataKeys(client, settings.encryption_key)
    stored = Conversations(client, retention_ms=retention_ms, data_keys=data_keys)
    histories = Histories(client, stored)
    index = Index(client, stored.reader, data_keys)
    embedder = _embedder(settings, metrics)
    embeddings = Embeddings(embedder.model, embedder.vector_of) if embedder else None
    counts = Counts(stored.reader, Columns(client))
    recaller = Recaller(stored.reader, index, counts, default=settings.recall, embeddings=embeddings)
    claims = Claims(client, data_keys)
    calibrations = Calibrations(client)
    models = read_models(settings.models_file, settings.tokenizers)
    pseudonyms = Pseudonyms()
    requests = Requests(metrics, pseudonyms, log)
    statistics = Statistics(client, metrics, requests, prices=lambda name: _prices(name, models))
    watch = Watch(
        client,
        metrics,
        pseudonyms,
        ready=lambda: judged(client, data_keys),
        data_dir=datafiles.folder_of(os.environ.get(datafiles.VARIABLE, "")),
    )
    context = Context(
        settings=settings,
        client=client,
        conversations=stored,
        reader=stored.reader,
        windows=Windows(stored, calibrations, counts, models, recaller),
        histories=histories,
        claims=claims,
        calibrations=calibrations,
        owners=Owners(client, stored),
        tenants=Tenants(client, stored.reader),
        models=models,
        metrics=metrics,
        statistics=statistics,
        watch=watch,
        requests=requests,
        recaller=recaller,
        indexer=Indexer(stored.reader, index, default=settings.recall, embedder=embedder),
        index=index,
        summarizer=_summarizer(settings, stored, histories),
    )

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        load_vocabularies()
        metrics.windows.know(model.id for model in list_models(models))
        await client.open()
        tasks = [asyncio.create_task(each.run()) for each in (watch, statistics)]
        try:
            yield
        finally:
            await end_tasks(*tasks)
            await statistics.flush_or_later()  # so that a drained worker's figures are not lost
            metrics.registry.share()
            ended(os.getpid())
            if context.summarizer is not None:
                await context.summarizer.close()
            await context.indexer.close()
            if embedder is not None:
                await embedder.close()
            await counts.close()
            await context.owners.close()
            await client.close()
            if spans is not None:
                spans.close()

    framework = Litestar(
        route_handlers=ROUTES,
        lifespan=[lifespan],
        state=State({"context": context, "routes": ROUTES}),
        before_request=check_no_query,
        exception_handlers=errors.HANDLERS,
        request_max_body_size=None,  # handlers read bodies by themselves, and bound them
        openapi_config=None,
        logging_config=None,
    )
    app, paths = cast("App", framework), Paths(ROUTES)
    return Ring(
        Direct(framework, app, (messages.append_messages, window.get_window)),
        once=Idempotent(app, claims, paths),
        keys=Callers(
            settings.api_keys, ApiKeys(client), required=settings.require_keys, metrics_key=settings.metrics_key
        ),
        paths=paths,
        limits=RateLimits(client, settings.rate_limit),
        timeout_seconds=settings.request_timeout_seconds,
        max_body_bytes=settings.max_body_bytes,
        max_import_bytes=settings.max_import_bytes,
        requests=requests,
        metrics=metrics,
        spans=spans,
        hosts=_hosts(settings),
        cors=Cors(settings.cors_origins) if settings.cors_origins else None,
        ends_on_sigterm=ends_on_sigterm,
    )


def _hosts(settings: Settings) -> re.Pattern[bytes] | None:
    """The Host headers that are answered; None for all. Restricted only on loopback without keys."""
    if settings.loopback and settings.anonymous and not settings.allow_anonymous:
        return loopback_hosts(settings.host)
    return None


def _summarizer(settings: Settings, conversations: Conversations, histories: Histories) -> Summarizer | None:
    """The built-in summariser; None if its endpoint is not set."""
    if settings.summarizer_url is None or settings.summarizer_model is None:
        return None
    return Summarizer(
        conversations.reader,
        histories,
        url=settings.summarizer_url,
        model=settings.summarizer_model,
        key=settings.summarizer_key,
        prompt=settings.summarizer_prompt,
    )


def _embedder(settings: Settings, metrics: Metrics) -> Embedder | None:
    """The embedder; None if its endpoint is not set."""
    if settings.embeddings_url is None or settings.embeddings_model is None:
        return None
    return Embedder(metrics, url=settings.embeddings_url, model=settings.embeddings_model, key=settings.embeddings_key)


def _spans(metrics: Metrics) -> OpenTelemetry | None:
    """OpenTelemetry spans; None if its variables name no endpoint or the extra ``otel`` is not installed."""
    if not wants_spans(os.environ):
        return None
    try:
        spans = OpenTelemetry.from_environment()
    except ImportError:
        get_logger().warning("no spans: install sash[otel]")
        return None
    metrics.spans = spans
    return spans


def _prices(name: str, models: Mapping[str, Model]) -> Prices:
    """A model's list prices; all None for an unknown model."""
    model = model_or_unknown(name, models)
    return Prices(model.input_price, model.cached_input_price, model.cache_write_price)
