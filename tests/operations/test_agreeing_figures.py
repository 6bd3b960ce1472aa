"""Figures that agree: windows however they are asked for, refused scrapes, and the tenants of a service with keys."""

from typing import Any

import httpx
import pytest
import structlog
from conftest import http, lifespan
from rigs.dialogue import statistics, user
from store.whole import until_ready

from sash.app import create_app
from sash.settings import ApiKey, Settings
from sash.store.redis.embedded import EmbeddedStore

KEY = {"authorization": "Bearer key-of-acme-0123456789"}
METRICS = {"authorization": "Bearer metrics-key-0123456789"}


async def metric(client: httpx.AsyncClient, name: str) -> float:
    """Return the value of one series of ``/metrics``, 0 where there is none."""
    text = (await client.get("/metrics", headers=METRICS)).text
    return next((float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(f"{name} ")), 0.0)


async def tenants(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Return the tenants of ``/stats``, each with its figures."""
    client.headers.update(METRICS)
    found: list[dict[str, Any]] = (await statistics(client))["quarter"]["tenants"]
    del client.headers["authorization"]
    return found


@pytest.mark.parametrize("how", ["GET", "append", "POST"])
async def test_a_window_is_timed_however_it_is_asked_for(
    client: httpx.AsyncClient, conversation: str, how: str
) -> None:
    """A read, an append with its window and ``POST /window`` count in the time of windows; an append alone does not."""
    path = f"/conversations/{conversation}"
    await client.post(f"{path}/messages", json={"messages": [user("hello")]})
    count = "sash_window_request_duration_seconds_count"
    before = await metric(client, count)

    match how:
        case "GET":
            await client.get(f"{path}/window?model=gpt-4o")
        case "append":
            await client.post(f"{path}/messages?model=gpt-4o", json={"messages": [user("more")]})
        case _:
            await client.post("/window", json={"model": "gpt-4o", "messages": [user("hello")]})
    await client.post(f"{path}/messages", json={"messages": [user("alone")]})

    assert await metric(client, count) == before + 1
    assert (await statistics(client))["quarter"]["requests"]["window_milliseconds"]["p50"] is not None


async def test_refused_scrapes_and_tenants(own: EmbeddedStore) -> None:
    """A scrape without the key is counted as a refusal and logged; pages of operators are no tenant's requests."""
    settings = Settings(
        redis_url=own.url,
        durability="fast",
        api_keys=(ApiKey("acme", "key-of-acme-0123456789"),),
        metrics_key="metrics-key-0123456789",
    )
    refused = 'sash_refused_total{problem="unauthorized"}'
    with structlog.testing.capture_logs() as lines:
        async with lifespan(create_app(settings)) as app, http(app) as client:
            before = await metric(client, refused)
            for path in ("/metrics", "/status", "/stats"):
                assert (await client.get(path)).status_code == 401
            for path in ("/docs", "/docs/pages", "/dashboard", "/openapi.json", "/"):
                assert (await client.get(path)).status_code == 200
            assert (await client.get("/conversations?owner=x", headers=KEY)).status_code == 200
            assert await metric(client, refused) == before + 3
            told = await tenants(client)

    assert [line["status"] for line in lines if line.get("problem") == "unauthorized"] == [401] * 3
    assert [each["tenant"] for each in told] == ["acme"]


async def test_the_root_is_a_page_of_four_addresses(client: httpx.AsyncClient) -> None:
    """A browser gets a page with four links that lead somewhere, and a program the same addresses as JSON."""
    page = await client.get("/", headers={"accept": "text/html,*/*"})
    told = await client.get("/")

    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert list(told.json().values()) == ["/docs", "/docs/pages", "/dashboard", "/openapi.json", "/readyz"]
    for path in told.json().values():
        assert f"href={path[1:]}>" in page.text
        answer = await until_ready(client) if path == "/readyz" else await client.get(path)
        assert answer.status_code == 200
