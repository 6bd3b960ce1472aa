"""For those who run the service: figures for Prometheus, statistics for programs, the dashboard for people."""

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get

from service.api.context import context_of
from service.api.conversations import JSON
from service.api.openapi.operation import documented
from service.operations.dashboard import dashboard
from service.operations.status import Status, status
from service.operations.summary import Stats

Req = Request[Any, Any, Any]
_encoder = msgspec.json.Encoder()


@get("/metrics", operation_id="getMetrics")
@documented(
    "Figures for Prometheus", "operations", gives=str, gives_types=("text/plain", "application/openmetrics-text")
)
async def get_metrics(request: Req) -> Response[bytes]:
    """Figures of this machine's workers in Prometheus' format, or OpenMetrics where that is asked for."""
    context = context_of(request)
    context.metrics.present(**context.client.load._asdict())
    accept = request.headers.get("accept", "")
    body, media_type = await asyncio.to_thread(context.metrics.registry.exposition, accept)
    return Response(body, media_type=media_type)


@get("/stats", operation_id="getStats")
@documented("Window statistics of the deployment", "operations", gives=Stats)
async def get_stats(request: Req) -> Response[bytes]:
    """Window statistics of the whole deployment, by model, for the last hour, the last day and since the start."""
    stats = await context_of(request).statistics.read()
    return Response(_encoder.encode(stats), media_type=JSON)


@get("/status", operation_id="getStatus", sync_to_thread=False)
@documented("How the service is", "operations", gives=Status)
def get_status(request: Req) -> Response[bytes]:
    """How the store and this worker are, at once: the store is not asked."""
    context = context_of(request)
    return Response(_encoder.encode(status(context.watch, context.requests, context.client)), media_type=JSON)


@get("/dashboard", operation_id="getDashboard", sync_to_thread=False)
@documented("The statistics for people", "operations", gives=str, gives_types=("text/html",))
def get_dashboard() -> Response[bytes]:
    """The statistics for people, and a conversation with its window; the page asks for a key where keys are on."""
    page = dashboard()
    return Response(page.body, headers=page.headers, media_type="text/html")


HANDLERS = (get_metrics, get_stats, get_status, get_dashboard)
