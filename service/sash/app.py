"""The composition root: makes the application from settings.

::

    request ─ Middleware ─┬─ Direct ─── window, append, ─┬─ core    (pure: law, counts, providers, chat)
              id, key,    │             agreement, events│
              deadline,   └─ Litestar ─ all others ──────┴─ store   (Conversations ─ Client ─ Redis or Valkey)
              log line
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import cast

from litestar import Litestar
from litestar.datastructures import State

from sash.api import (
    agree_handlers,
    append_handlers,
    branch_handlers,
    conversation_handlers,
    count_handlers,
    docs,
    history_handlers,
    mcp_handlers,
    media_handlers,
    message_handlers,
    operation_handlers,
    owner_handlers,
    search_handlers,
    tool_handlers,
    transfer_handlers,
    window_handlers,
)
from sash.api.context import Context, Recall, Watching
from sash.api.events import event_handlers
from sash.api.events.event_bodies import Events
from sash.api.events.followers import Followers
from sash.api.incoming import Direct, Incoming
from sash.api.middleware import errors
from sash.api.middleware.asgi import App
from sash.api.middleware.browsers import Cors, Hosts, loopback_hosts
from sash.api.middleware.callers import Callers
from sash.api.middleware.idempotency import Idempotent
from sash.api.middleware.layer import Middleware
from sash.api.middleware.paths import Paths
from sash.api.openapi.operation import operation_of
from sash.api.queries import check_no_query
from sash.core.counts.models.models import Model, list_models
from sash.core.counts.text.vocabularies import load_vocabularies
from sash.extras import how_to_install
from sash.operations.embedder import Embedder
from sash.operations.eraser import Eraser
from sash.operations.indexer import Indexer
from sash.operations.logging import get_logger
from sash.operations.media_watch import MediaWatch
from sash.operations.metrics import Metrics
from sash.operations.readiness import closed
from sash.operations.registry import WORKER_VARIABLE, ended
from sash.operations.requests import Pseudonyms, RequestLog, Requests, log_request
from sash.operations.statistics import Statistics
from sash.operations.summarizer import Summarizer
from sash.operations.summary import Prices
from sash.operations.tracing import OpenTelemetry, wants_spans
from sash.operations.upstreams import Upstreams
from sash.operations.watch import Watch
from sash.processor import PROCESSOR
from sash.settings import Settings, read_models
from sash.store.data.limits import RateLimits
from sash.store.data.object_storage import open_objects
from sash.store.data.stores import Stores, stores_of
from sash.store.data.usage import model_or_unknown
from sash.store.redis import datafiles
from sash.store.redis.client import Client
from sash.tasks import end_tasks
from sash.windows.again import ServedWindows
from sash.windows.model_rules import ModelRules
from sash.windows.recaller import Embeddings, Recaller
from sash.windows.stored import Windows
from sash.windows.tool_answers import ToolAnswers
from sash.windows.vocabulary_counts import Counts

ROUTES = (
    conversation_handlers.create_conversation,
    conversation_handlers.get_conversation,
    conversation_handlers.change_conversation,
    conversation_handlers.delete_conversation,
    append_handlers.append_messages,
    agree_handlers.agree_messages,
    message_handlers.list_messages,
    message_handlers.get_message,
    event_handlers.follow_conversation,
    event_handlers.follow_owner,
    branch_handlers.list_branches,
    branch_handlers.swap_branch,
    branch_handlers.drop_branch,
    media_handlers.get_media,
    history_handlers.redact_message,
    history_handlers.change_message,
    history_handlers.rewind_conversation,
    history_handlers.put_summary,
    history_handlers.delete_summary,
    history_handlers.fork_conversation,
    transfer_handlers.export_conversation,
    transfer_handlers.import_conversation,
    count_handlers.report_usage,
    owner_handlers.list_conversations,
    owner_handlers.delete_owner,
    owner_handlers.get_erasure,
    owner_handlers.search_owner,
    window_handlers.get_window,
    window_handlers.compare_windows,
    window_handlers.build_window,
    search_handlers.search_messages,
    tool_handlers.answer_tool,
    mcp_handlers.answer_mcp,
    count_handlers.count,
    count_handlers.models,
    count_handlers.model,
    operation_handlers.live,
    operation_handlers.ready,
    operation_handlers.get_metrics,
    operation_handlers.get_stats,
    operation_handlers.get_status,
    operation_handlers.get_dashboard,
    docs.get_root,
    docs.get_openapi,
    docs.get_docs,
    docs.get_typescript_client,
    docs.get_problem,
    docs.get_pages,
    docs.get_page,
    docs.get_runbook,
)

_DIRECT = (
    append_handlers.append_messages,
    agree_handlers.agree_messages,
    window_handlers.get_window,
    window_handlers.build_window,
    event_handlers.follow_conversation,
    event_handlers.follow_owner,
)


def create_app(
    settings: Settings, *, log: RequestLog | None = log_request, ends_on_sigterm: bool = False
) -> Middleware:
    """An ASGI application. Its lifespan connects to the store, and disconnects at the end.

    An application that mounts it enters ``lifespan()`` in its own lifespan, since ASGI servers tell that one alone.

    ``log`` writes the lines of requests. With ``ends_on_sigterm`` the process drains and ends on SIGTERM (drain.py).
    """
    spans = _spans()
    metrics = Metrics(spans)
    store = _store(settings, metrics)
    models = read_models(settings.models_file, settings.tokenizers)
    pseudonyms = Pseudonyms()
    upstreams = Upstreams(metrics, pseudonyms)
    embedder = _embedder(settings, metrics, upstreams)
    counts = Counts(store.reader, store.columns, store.media)
    recall = _recall(settings, store, counts, embedder, spans)
    if spans is not None:
        is_named = settings.trace_conversation_ids
        spans.conversation_of = lambda of: of.id if is_named else pseudonyms.of(of.tenant, of.id)
    watching = _watching(store, metrics, models, log, pseudonyms, upstreams)
    followers = Followers(
        store.following,
        Events(store.following, store.reader),
        metrics.events,
        limit=settings.max_followers,
        tenant_limit=settings.tenant_followers,
        went_back=watching.watch.backwards.seen_ms,
    )
    rules = ModelRules(store.kept_models, models)
    windows = Windows(
        store.conversations, store.calibrations, counts, models, recall.recaller, rules, settings.send_members
    )
    context = Context(
        settings=settings,
        models=models,
        store=store,
        windows=windows,
        served=ServedWindows(windows, store.earlier, rules, models),
        recall=recall,
        watching=watching,
        followers=followers,
        summarizer=_summarizer(settings, store, upstreams),
    )
    stored = (rules, followers, store.owners, store.tenants, store.client)
    parts = [part for part in (context.summarizer, recall.indexer, embedder, *stored) if part]

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        load_vocabularies()
        await PROCESSOR.run(load_vocabularies)
        metrics.windows.names.know({model.id: model.provider for model in list_models(models)})
        await store.client.open()
        eraser = Eraser(store.owner_erasures, store.owners)
        running = (watching.watch, watching.statistics, store.erasures, store.tenants, eraser, followers)
        tasks = [asyncio.create_task(each.run()) for each in running]
        try:
            yield
        finally:
            await end_tasks(*tasks)
            await watching.statistics.flush_or_later()  # so that a drained worker's figures are not lost
            metrics.registry.share()
            ended(os.getpid())
            for part in parts:
                await part.close()
            if spans is not None:
                spans.close()

    paths = Paths(ROUTES, {str(route.operation_id): operation_of(route).summary for route in ROUTES})
    framework = Litestar(
        route_handlers=ROUTES,
        lifespan=[lifespan],
        state=State({"context": context, "routes": ROUTES, "paths": paths}),
        request_class=Incoming,
        before_request=check_no_query,
        exception_handlers=errors.HANDLERS,
        request_max_body_size=None,  # handlers read bodies by themselves, and bound them
        openapi_config=None,
        logging_config=None,
    )
    app = cast("App", framework)
    middleware = Middleware(
        Direct(context, app, _DIRECT),
        once=Idempotent(app, store.claims, paths),
        keys=Callers(
            settings.api_keys, store.api_keys, required=settings.require_keys, metrics_key=settings.metrics_key
        ),
        paths=paths,
        lifespan=framework.lifespan,
        limits=RateLimits(store.client, settings.rate_limit),
        timeout_seconds=settings.request_timeout_seconds,
        max_body_bytes=settings.max_body_bytes,
        max_import_bytes=settings.max_import_bytes,
        requests=context.watching.requests,
        metrics=metrics,
        spans=spans,
        hosts=_hosts(settings),
        cors=Cors(settings.cors_origins) if settings.cors_origins else None,
        ends_on_sigterm=ends_on_sigterm,
    )
    middleware.drain.also.append(followers.drain)
    return middleware


def _hosts(settings: Settings) -> Hosts | None:
    """The Host headers that are answered; None for all. Restricted only on loopback without keys."""
    if settings.loopback and settings.anonymous and not settings.allow_anonymous:
        return loopback_hosts(settings.host)
    return None


def _store(settings: Settings, metrics: Metrics) -> Stores:
    """The store of the settings; the lifespan connects to it."""
    if settings.redis_url is None:
        raise ValueError("create_app needs redis_url: the command line starts the embedded store and sets it")
    client = Client(
        settings.redis_url,
        timeout_seconds=settings.store_timeout_seconds,
        connections=settings.store_connections,
        durability=settings.durability,
        data_files=os.environ.get(datafiles.VARIABLE, ""),
        observer=metrics,
    )
    return stores_of(
        client,
        retention_seconds=settings.retention_seconds,
        encryption_keys=settings.encryption_key,
        objects=open_objects(settings.media_place, settings.store_timeout_seconds),
    )


def _recall(
    settings: Settings, store: Stores, counts: Counts, embedder: Embedder | None, spans: OpenTelemetry | None
) -> Recall:
    embeddings = Embeddings(embedder.model, embedder.vector_of) if embedder else None
    indexer = Indexer(store.reader, store.index, default=settings.recall, embedder=embedder)
    recaller = Recaller(
        store.reader,
        store.index,
        counts,
        default=settings.recall,
        embeddings=embeddings,
        notice=indexer.notice,
        **({"searched": spans.searched} if spans is not None else {}),
    )
    return Recall(recaller, indexer, ToolAnswers(store.reader, recaller, store.owners))


def _watching(
    store: Stores,
    metrics: Metrics,
    models: Mapping[str, Model],
    log: RequestLog | None,
    pseudonyms: Pseudonyms,
    upstreams: Upstreams,
) -> Watching:
    requests = Requests(metrics, pseudonyms, log)
    statistics = Statistics(store.client, metrics, requests, prices=lambda name: _prices(name, models))
    watch = Watch(
        store.client,
        metrics,
        pseudonyms,
        closed=lambda: closed(store.client, store.data_keys),
        media=MediaWatch(
            store.media, store.erasures, metrics.registry, leads=os.environ.get(WORKER_VARIABLE, "0") == "0"
        ),
        data_dir=datafiles.folder_of(os.environ.get(datafiles.VARIABLE, "")),
    )
    return Watching(metrics, requests, statistics, watch, upstreams)


def _summarizer(settings: Settings, store: Stores, upstreams: Upstreams) -> Summarizer | None:
    """The built-in summariser; None if its endpoint is not set."""
    if settings.summarizer_url is None:
        return None
    return Summarizer(
        store.reader,
        store.summaries,
        upstreams,
        url=settings.summarizer_url,
        model=settings.summarizer_model,
        key=settings.summarizer_key,
        prompt=settings.summarizer_prompt,
        kind=settings.summarizer_kind,
    )


def _embedder(settings: Settings, metrics: Metrics, upstreams: Upstreams) -> Embedder | None:
    """The embedder; None if its endpoint is not set."""
    if settings.embeddings_url is None or settings.embeddings_model is None:
        return None
    return Embedder(
        metrics,
        upstreams,
        url=settings.embeddings_url,
        model=settings.embeddings_model,
        key=settings.embeddings_key,
    )


def _spans() -> OpenTelemetry | None:
    """OpenTelemetry spans; None if its variables name no endpoint or the extra ``otel`` is not installed."""
    if not wants_spans(os.environ):
        return None
    try:
        return OpenTelemetry.from_environment()
    except ImportError:
        get_logger().warning(f"no spans: {how_to_install('otel')}")
        return None


def _prices(name: str, models: Mapping[str, Model]) -> Prices:
    """A model's list prices; all None for an unknown model."""
    model = model_or_unknown(name, models)
    return Prices(model.input_price, model.cached_input_price, model.cache_write_price)
