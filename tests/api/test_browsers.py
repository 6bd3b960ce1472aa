"""What browsers may do with a service: pages of other sites nothing, those that are allowed what a client does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from conftest import Served, http, lifespan
from dialogue import append, problem, user

from service.app import create_app
from service.settings import ApiKey, Settings
from service.store.embedded import EmbeddedStore

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
    """Without keys a service answers to every name of this machine, with any port."""
    assert (await client.get("/models", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "evil@localhost"),
        *("10.0.0.1", "0.0.0.0", "[::]", "localhost:80:80", "127.1", ""),
    ],
)
async def test_other_hosts_are_refused(client: httpx.AsyncClient, host: str) -> None:
    """A page whose name was bound to loopback reads nothing: on no path, open ones and unknown ones included."""
    for method, path in (("GET", "/models"), ("GET", "/docs"), ("GET", "/nope"), ("OPTIONS", "/models")):
        told = problem(await client.request(method, path, headers={"Host": host}), 421, "misdirected-request")
        assert "SASH_API_KEYS" in told["detail"]


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
    """A service that needs keys does, as they keep others out, and so does one that was told to let everyone in."""
    async with service(store, **settings) as client:
        answer = await client.get("/models", headers={"Host": "sash.example.com", **ACME})
        assert answer.status_code == status


async def test_the_host_that_is_listened_on_is_answered(store: EmbeddedStore) -> None:
    """A loopback address that no list has is a service's own when it was told to listen there."""
    async with service(store, host="0:0:0:0:0:0:0:1") as client:
        assert (await client.get("/models", headers={"Host": "[0:0:0:0:0:0:0:1]:8000"})).status_code == 200


def test_a_rebound_name_over_a_socket(served: Served) -> None:
    """The running service refuses it too."""
    assert httpx.get(f"{served.url}/models", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("slash", ["%2F", "%2f", "%5C", "%5c"])
async def test_an_encoded_slash_is_no_slash(client: httpx.AsyncClient, conversation: str, slash: str) -> None:
    """No id holds one, so that nothing is there; and it separates nothing."""
    await append(client, conversation, user("x"))
    for path in (
        f"/conversations/{conversation}{slash}messages",
        f"/conversations{slash}{conversation}",
        f"{slash}models",
    ):
        problem(await client.get(path), 404, "not-found")
    problem(await client.delete(f"/conversations/{conversation}{slash}messages{slash}1"), 404, "not-found")


async def test_other_encoded_characters_are_themselves(client: httpx.AsyncClient, conversation: str) -> None:
    """An id may be encoded; and a model's name holds slashes, which generated clients encode."""
    await append(client, conversation, user("x"))
    encoded = "".join(f"%{ord(letter):02x}" for letter in conversation)
    assert (await client.get(f"/conversations/{encoded}")).json()["id"] == conversation
    assert (await client.get("/models/openai%2Fgpt-4o")).json()["id"] == "openai/gpt-4o"


async def test_what_caches_and_browsers_are_told(client: httpx.AsyncClient, conversation: str) -> None:
    """No answer's type is guessed; what has an ETag is asked for again, and the rest is kept by nobody."""
    appended = await client.post(f"/conversations/{conversation}/messages", json={"messages": [user("x")]})
    read = await client.get(f"/conversations/{conversation}")
    same = await client.get(f"/conversations/{conversation}", headers={"If-None-Match": read.headers["etag"]})
    kept = {
        "private, no-cache": [
            read,
            same,
            await client.head(f"/conversations/{conversation}"),
            await client.get(f"/conversations/{conversation}/window?model=gpt-4o"),
        ],
        "no-store": [
            appended,
            await client.get("/conversations"),
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
    """Nobody lays a page of theirs over one of ours; a page runs its own script alone."""
    headers = (await client.get(path)).headers
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["content-security-policy"].startswith("default-src 'none'")


def opened_to(answer: httpx.Response) -> list[str]:
    """The origins that an answer names."""
    return answer.headers.get_list("access-control-allow-origin")


async def test_no_origin_may_ask_unless_told(client: httpx.AsyncClient) -> None:
    """By default an answer says nothing of origins, and OPTIONS is what it always is."""
    asking = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
    for answer in (await client.get("/models", headers=asking), await client.options("/models", headers=asking)):
        assert not [name for name in answer.headers if name.startswith("access-control") or name == "vary"]
        assert answer.headers.get("allow", "GET, OPTIONS") == "GET, HEAD, OPTIONS" or answer.status_code == 200


async def test_a_page_may_ask(store: EmbeddedStore, conversation: str) -> None:
    """A preflight needs no key; answers and problems of every kind are the page's to read, with the headers it needs."""
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
    """What it gets names no origin, so that its browser keeps it from the page; caches tell the two apart."""
    async with service(store, cors_origins=(PAGE,), **KEYED) as client:
        headers = {"Origin": origin.encode(), "Access-Control-Request-Method": "GET"}
        for answer in (await client.options("/models", headers=headers), await client.get("/livez", headers=headers)):
            assert opened_to(answer) == []
            assert answer.headers.get_list("vary") == ["Origin"]


async def test_every_page_may_ask_where_told(store: EmbeddedStore) -> None:
    """One star is every origin, once."""
    async with service(store, cors_origins=("*",), **KEYED) as client:
        headers = {"Origin": PAGE, "Access-Control-Request-Method": "GET"}
        assert opened_to(await client.options("/models", headers=headers)) == ["*"]
        assert opened_to(await client.get("/models", headers={"Origin": PAGE})) == ["*"]
