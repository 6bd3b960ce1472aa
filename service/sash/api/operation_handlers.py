"""For the service's operators: GET /livez (is the process alive), /readyz (may it take traffic), /metrics, /stats, /status
and /dashboard."""

import asyncio

import msgspec
from litestar import Response, get

from sash.api.incoming import Incoming
from sash.api.openapi.operation import documented
from sash.api.schemas import Alive, Ready, ReadyStore
from sash.operations.dashboard import dashboard
from sash.operations.status import Status, status
from sash.operations.summary import Stats
from sash.problems import StoreUnavailable


@get("/livez", operation_id="live", sync_to_thread=False)
@documented("Is the process alive", "operations")
def live() -> Alive:
    """The process answers. The store is not checked."""
    return Alive("alive")


@get("/readyz", operation_id="ready", sync_to_thread=False)
@documented("May it take traffic", "operations")
def ready(request: Incoming) -> Ready:
    """Any server of the store serves any verb, as seen in the last seconds; otherwise 503, and what to change.

    Nothing is asked for the answer. What a part of the store refuses is in ``degraded``, and more of it in ``GET /status``.
    """
    if request.exchange.shared.drain.began:
        raise StoreUnavailable("Not ready: the service is stopping.")
    context = request.context
    watch, servers = context.watching.watch, context.store.client.servers
    now = watch.condition
    if not (watch.is_ready and servers):
        raise StoreUnavailable(f"Not ready: {now.title[0].lower()}{now.title[1:]}. {now.look}")
    found, degraded = servers[0], [each.told for each in watch.shards if each.why]
    store = ReadyStore(found.appendonly, found.appendfsync, found.how)  # type: ignore[arg-type] # as the store says
    return Ready("ready", context.settings.durability, store, degraded)


@get("/metrics", operation_id="getMetrics")
@documented(
    "Figures for Prometheus", "operations", gives=str, gives_types=("text/plain", "application/openmetrics-text")
)
async def get_metrics(request: Incoming) -> Response[bytes]:
    """Figures of this machine's workers in Prometheus' format, or OpenMetrics if ``Accept`` names it."""
    context = request.context
    context.watching.metrics.present(**msgspec.structs.asdict(context.store.client.load))
    accept = request.headers.get("accept", "")
    body, media_type = await asyncio.to_thread(context.watching.metrics.registry.exposition, accept)
    return Response(body, headers={"Content-Type": media_type})


@get("/stats", operation_id="getStats")
@documented("Window statistics of the deployment", "operations", is_open=True)
async def get_stats(request: Incoming) -> Stats:
    """Window statistics of the whole deployment, by model, for the last hour, the last day and since the start."""
    return await request.context.watching.statistics.read()


@get("/status", operation_id="getStatus", sync_to_thread=False)
@documented(
    "The state of the service", "operations", gives=Status, gives_types=("application/json", "text/html"), is_open=True
)
def get_status(request: Incoming) -> Response[bytes]:
    """The latest known state of the store and this worker, as JSON, or as a page for browsers.

    The store is not asked, so the answer comes at once.
    """
    if "text/html" in request.headers.get("accept", ""):
        page = dashboard()
        return Response(page.body, headers={**page.headers, "Vary": "Accept"}, media_type="text/html")
    context = request.context
    watching, required = context.watching, not context.settings.anonymous
    now = status(
        watching.watch,
        watching.requests.lately,
        context.store.client,
        watching.upstreams,
        keys_required=required,
        followers=context.followers.count,
    )
    return Response(msgspec.json.encode(now), headers={"Vary": "Accept"})


@get("/dashboard", operation_id="getDashboard", sync_to_thread=False)
@documented("The dashboard", "operations", gives=str, gives_types=("text/html",))
def get_dashboard() -> Response[bytes]:
    """A page of the statistics, and of a conversation with its window. The page asks for a key if keys are on."""
    page = dashboard()
    return Response(page.body, headers=page.headers, media_type="text/html")
