"""Requests from browsers: pages of other origins can read nothing, pages of allowed origins can do what a client does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from conftest import Served, http, lifespan
from rigs.dialogue import append, problem, user

from sash.app import create_app
from sash.settings import ApiKey, Settings
from sash.store.redis.embedded import EmbeddedStore

PAGE = "https://chat.example.com"
KEYED = {"api_keys": (ApiKey("acme", "key-of-acme"),)}
ACME = {"Authorization": "Bearer key-of-acme"}


@asynccontextmanager
async def service(store: EmbeddedStore, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    options = {"redis_url": store.url, "store_connections": 1, "durability": "fast", **settings}
    async with lifespan(create_app(Settings(**options))) as app, http(app) as client:
        yield client


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:80", "127.9.8.7:8000", "[::1]", "[::1]:8000"]
)
async def test_loopback_hosts_are_answered(client: httpx.AsyncClient, host: str) -> None:
    """Without API keys a server answers requests for every loopback host, with any port."""
    assert (await client.get("/models", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "evil@localhost"),
        *("10.0.0.1", "0.0.0.0", "[::]", "localhost:80:80", "127.1", ""),
    ],
)
async def test_other_hosts_are_refused(client: httpx.AsyncClient, host: str) -> None:
    """Other hosts get 421 on every path, also open and unknown ones: a page whose name points to loopback reads nothing."""
    for method, path in (("GET", "/models"), ("GET", "/docs"), ("GET", "/nope"), ("OPTIONS", "/models")):
        told = problem(await client.request(method, path, headers={"Host": host}), 421, "misdirected-request")
        assert "SASH_API_KEYS" in told["detail"]
        came = f"'Host: {host}'" if host else "no Host"
        assert f"'Host: localhost'; {came} came" in told["detail"]


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"host": "::1"}, 421),
        (KEYED, 200),
        ({"allow_anonymous": True}, 200),
        ({"host": "0.0.0.0", "allow_anonymous": True}, 200),
    ],
    ids=["loopback", "keys", "anonymous", "anonymous for all"],
)
async def test_who_answers_to_any_host(store: EmbeddedStore, settings: dict[str, Any], status: int) -> None:
    """A server that requires API keys or allows anonymous access answers requests for any host; otherwise 421."""
    async with service(store, **settings) as client:
        key = ACME if "api_keys" in settings else {}
        answer = await client.get("/models", headers={"Host": "sash.example.com", **key})
        assert answer.status_code == status


async def test_the_host_that_is_listened_on_is_answered(store: EmbeddedStore) -> None:
    """A server answers requests for the loopback address that it listens on, however that address is written."""
    async with service(store, host="0:0:0:0:0:0:0:1") as client:
        assert (await client.get("/models", headers={"Host": "[0:0:0:0:0:0:0:1]:8000"})).status_code == 200


def test_a_rebound_name_over_a_socket(served: Served) -> None:
    """The running server refuses another host with 421 too."""
    assert httpx.get(f"{served.url}/models", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("slash", ["%2F", "%2f", "%5C", "%5c"])
async def test_an_encoded_slash_is_no_slash(client: httpx.AsyncClient, conversation: str, slash: str) -> None:
    """A path with an encoded slash or backslash is 404: it separates no segments, and no id contains one."""
    await append(client, conversation, user("x"))
    for path in (
        f"/conversations/{conversation}{slash}messages",
        f"/conversations{slash}{conversation}",
        f"{slash}models",
    ):
        problem(await client.get(path), 404, "not-found")
    problem(await client.delete(f"/conversations/{conversation}{slash}messages{slash}1"), 404, "not-found")


async def test_other_encoded_characters_are_themselves(client: httpx.AsyncClient, conversation: str) -> None:
    """An id may be percent-encoded, and so may the slashes in a model's name, which generated clients encode."""
    await append(client, conversation, user("x"))
    encoded = "".join(f"%{ord(letter):02x}" for letter in conversation)
    assert (await client.get(f"/conversations/{encoded}")).json()["id"] == conversation
    assert (await client.get("/models/openai%2Fgpt-4o")).json()["id"] == "openai/gpt-4o"


async def test_what_caches_and_browsers_are_told(client: httpx.AsyncClient, conversation: str) -> None:
    """Every answer says nosniff, and its Cache-Control fits its kind.

    Answers with an ETag and pages are revalidated, /openapi.json is cached for 300 seconds, and no other answer is stored.
    """
    appended = await client.post(f"/conversations/{conversation}/messages", json={"messages": [user("x")]})
    read = await client.get(f"/conversations/{conversation}")
    same = await client.get(f"/conversations/{conversation}", headers={"If-None-Match": read.headers["etag"]})
    kept = {
        "private, no-cache": [
            read,
            same,
            await client.head(f"/conversations/{conversation}"),
            await client.get(f"/conversations/{conversation}/window?model=gpt-4o"),
            await client.get("/conversations"),
        ],
        "no-store": [
            appended,
            await client.get("/conversations/absent"),
            await client.get("/nope"),
            await client.put("/models"),
            await client.options("/models"),
            await client.get("/stats"),
            await client.get("/metrics"),
            await client.get("/readyz"),
        ],
        "no-cache": [await client.get("/docs"), await client.get("/dashboard")],
        "max-age=300": [await client.get("/openapi.json")],
    }

    assert same.status_code == 304
    for value, answers in kept.items():
        for answer in answers:
            said = (answer.headers.get("cache-control"), answer.headers.get_list("x-content-type-options"))
            assert said == (value, ["nosniff"]), answer.request.url


@pytest.mark.parametrize("path", ["/docs", "/dashboard"])
async def test_pages_are_in_no_frame(client: httpx.AsyncClient, path: str) -> None:
    """A page may not be shown in a frame, and its content security policy begins with ``default-src 'none'``."""
    headers = (await client.get(path)).headers
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["content-security-policy"].startswith("default-src 'none'")


def opened_to(answer: httpx.Response) -> list[str]:
    """Return the origins that an answer allows."""
    return answer.headers.get_list("access-control-allow-origin")


async def test_no_origin_may_ask_unless_told(client: httpx.AsyncClient) -> None:
    """By default an answer has no CORS headers, and OPTIONS is answered as usual."""
    asking = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    for answer in (await client.get("/models", headers=asking), await client.options("/models", headers=asking)):
        assert not [name for name in answer.headers if name.startswith("access-control") or name == "vary"]
        assert answer.headers.get("allow", "GET, OPTIONS") == "GET, HEAD, OPTIONS" or answer.status_code == 200


async def test_a_page_may_ask(store: EmbeddedStore, conversation: str) -> None:
    """A preflight needs no key; a page of an allowed origin can read every answer and problem, and the headers it needs."""
    async with service(store, cors_origins=(PAGE, "http://localhost:3000"), **KEYED) as client:
        path = f"/conversations/{conversation}/messages"
        preflight = await client.options(
            path,
            headers={
                "Origin": PAGE,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
            },
        )
        assert (preflight.status_code, opened_to(preflight)) == (204, [PAGE])
        assert {"POST", "PATCH", "PUT", "DELETE"} <= set(preflight.headers["access-control-allow-methods"].split(", "))
        allowed = preflight.headers["access-control-allow-headers"].lower().split(", ")
        assert {"authorization", "content-type", "idempotency-key", "if-match", "if-none-match"} <= set(allowed)
        assert preflight.headers.get_list("vary") == ["Origin"]

        page = {"Origin": PAGE, **ACME}
        answers = [
            await client.post(path, json={"messages": [user("x")]}, headers=page),
            await client.get(f"/conversations/{conversation}", headers=page),
            await client.get(f"/conversations/{conversation}", headers={"Origin": PAGE}),
            await client.get("/nope", headers=page),
            await client.put("/models", headers=page),
            await client.get("/stats", headers=page),
            await client.post(path, json={"messages": [user("x")]}, headers={**page, "Idempotency-Key": "a b"}),
            await client.get("/livez", headers={**page, "Origin": "http://localhost:3000"}),
            await client.get("/livez", headers={"Origin": PAGE, "Access-Control-Request-Method": "GET"}),
        ]
        await client.delete(f"/conversations/{conversation}", headers=ACME)
    assert [answer.status_code for answer in answers] == [201, 200, 401, 404, 405, 401, 400, 200, 200]
    assert [opened_to(answer) for answer in answers] == [[PAGE]] * 7 + [["http://localhost:3000"], [PAGE]]
    for answer in answers:
        exposed = answer.headers["access-control-expose-headers"].lower().split(", ")
        assert {"etag", "link", "location", "retry-after", "x-request-id", "idempotency-replayed"} == set(exposed)
        assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", ["https://evil.example", PAGE + ".evil.example", PAGE + ":444", "null", "", "ü"])
async def test_another_page_may_not(store: EmbeddedStore, origin: str) -> None:
    """An answer to another origin allows no origin, so the browser hides it; ``Vary: Origin`` keeps it apart in caches."""
    async with service(store, cors_origins=(PAGE,), **KEYED) as client:
        headers = {"Origin": origin.encode(), "Access-Control-Request-Method": "GET"}
        for answer in (await client.options("/models", headers=headers), await client.get("/livez", headers=headers)):
            assert opened_to(answer) == []
            assert answer.headers.get_list("vary") == ["Origin"]


async def test_every_page_may_ask_where_told(store: EmbeddedStore) -> None:
    """With ``*`` in the settings, answers allow every origin with one ``*``."""
    async with service(store, cors_origins=("*",), **KEYED) as client:
        headers = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
        assert opened_to(await client.options("/models", headers=headers)) == ["*"]
        assert opened_to(await client.get("/models", headers={"Origin": PAGE})) == ["*"]
