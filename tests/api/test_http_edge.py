"""Rules for all requests: tenants and keys, methods, request ids, deadlines, and errors of the store or the server."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pytest
import pytest_asyncio
import redis
from conftest import http, lifespan
from rigs.dialogue import append, history, problem, user

from sash.api.middleware.asgi import App
from sash.api.middleware.request_body import RequestBody
from sash.app import create_app
from sash.settings import ApiKey, Settings
from sash.store.redis.embedded import EmbeddedStore
from sash.store.redis.versions import LAYOUT, LAYOUT_KEY, OLDEST_LAYOUT

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest_asyncio.fixture(scope="module")
async def locked(store: EmbeddedStore, encryption_key: tuple[bytes, ...]) -> AsyncIterator[App]:
    """Yield an application that requires API keys: two of one tenant, one of another."""
    keys = (ApiKey("red", "key-red"), ApiKey("red", "key-red-2"), ApiKey("blue", "key-blue"))
    settings = Settings(
        redis_url=store.url, store_connections=1, api_keys=keys, durability="fast", encryption_key=encryption_key
    )
    async with lifespan(create_app(settings)) as app:
        yield app


def bearing(app: App, key: str) -> httpx.AsyncClient:
    """Return a client with an API key."""
    return http(app, headers={"authorization": f"Bearer {key}"})


@pytest.mark.usefixtures("nothing_left")
async def test_tenants_do_not_see_each_other(locked: App, conversation: str) -> None:
    """Another tenant's conversation answers exactly as an absent one, and both tenants may use the same id."""
    async with bearing(locked, "key-red") as red, bearing(locked, "key-blue") as blue:
        await append(red, conversation, user("red's"))
        foreign = [
            await blue.get(f"/conversations/{conversation}"),
            await blue.get(f"/conversations/{conversation}/messages"),
            await blue.get(f"/conversations/{conversation}/window?model=gpt-4o"),
            await blue.patch(f"/conversations/{conversation}", json={"reserve": 1}),
            await blue.delete(f"/conversations/{conversation}"),
        ]
        absent = await blue.get("/conversations/not-there")

        for answer in foreign:
            told = problem(answer, 404, "not-found")
            assert {**told, "instance": ""} == {**absent.json(), "instance": ""}
        await append(blue, conversation, user("blue's"))
        texts = [(await history(client, conversation))[0]["message"]["content"] for client in (red, blue)]
        assert texts == ["red's", "blue's"]


@pytest.mark.usefixtures("nothing_left")
async def test_a_tenant_may_have_two_keys(locked: App, conversation: str) -> None:
    """API keys of one tenant open the same conversations, so that one can replace the other."""
    async with bearing(locked, "key-red") as old, bearing(locked, "key-red-2") as new:
        await append(old, conversation, user("x"))

        assert len(await history(new, conversation)) == 1


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer key-re", "Bearer key-red x", "Basic key-red", "key-red", "Bearer \xff"],
)
async def test_no_key(locked: App, header: str | None) -> None:
    """Without a known API key, every path but the probes', also an unknown one, is 401 with ``WWW-Authenticate: Bearer``."""
    headers = [] if header is None else [(b"authorization", header.encode("latin-1"))]
    async with http(locked, headers=headers) as client:
        for path in ("/conversations/x", "/models", "/nope"):
            answer = await client.get(path)
            problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"


async def test_open_paths(locked: App) -> None:
    """Probes need no API key."""
    async with http(locked) as client:
        assert (await client.get("/livez")).status_code == 200
        assert (await answer(client, "/readyz", 200)).json()["status"] == "ready"


async def test_alive_and_ready(client: httpx.AsyncClient) -> None:
    """Both probes answer JSON."""
    assert (await client.get("/livez")).json()["status"] == "alive"
    assert (await client.get("/readyz")).json()["status"] == "ready"


@pytest.mark.parametrize("layout", [OLDEST_LAYOUT - 1, LAYOUT + 1])
async def test_data_of_another_version_is_not_served(
    client: httpx.AsyncClient, server: redis.Redis, layout: int
) -> None:
    """A store without a layout's number gets it; with an older or a newer one, /readyz and all calls are 503 and name it."""
    server.delete(LAYOUT_KEY)
    async with asyncio.timeout(60):
        while server.get(LAYOUT_KEY) != str(LAYOUT):  # noqa: ASYNC110 - seen in the store
            await asyncio.sleep(0.05)
    server.set(LAYOUT_KEY, layout)
    try:
        told = f"layout {layout}"
        refused = [await answer(client, path, 503, told) for path in ("/readyz", "/conversations/c/messages")]
        refused.append(await client.post("/conversations/c/messages", json={"messages": [user("hello")]}))
    finally:
        server.set(LAYOUT_KEY, LAYOUT)
    for each in refused:
        problem(each, 503, "store-unavailable")
        assert told in each.json()["detail"]
    assert (await answer(client, "/readyz", 200)).json()["status"] == "ready"


async def answer(client: httpx.AsyncClient, path: str, status: int, told: str = "") -> httpx.Response:
    """Return the answer of a path once it has this status and text; fail after a minute."""
    async with asyncio.timeout(60):
        while (reply := await client.get(path)).status_code != status or told not in reply.text:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return reply


@pytest.mark.parametrize("path", ["/nope", "/conversations/a/nope", "/conversations/a/b/c", "/conversations/a%2Fb"])
async def test_unknown_paths(client: httpx.AsyncClient, path: str) -> None:
    """An unknown path is a 404 problem."""
    problem(await client.get(path), 404, "not-found")


async def test_the_address_alone_names_the_pages(client: httpx.AsyncClient) -> None:
    """An unknown path names the pages for people, and each is there."""
    detail = (await client.get("/nope")).json()["detail"]
    for path in ("/docs", "/dashboard"):
        assert path in detail
        assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/conversations/a", {"GET", "HEAD", "PATCH", "DELETE", "OPTIONS"}),
        ("DELETE", "/models", {"GET", "HEAD", "OPTIONS"}),
        ("GET", "/count", {"POST", "OPTIONS"}),
        ("HEAD", "/count", {"POST", "OPTIONS"}),
        ("POST", "/conversations/a/window", {"GET", "HEAD", "OPTIONS"}),
        ("BREW", "/livez", {"GET", "HEAD", "OPTIONS"}),
    ],
)
async def test_wrong_methods(client: httpx.AsyncClient, method: str, path: str, allowed: set[str]) -> None:
    """A method that a path does not support is a 405 problem, with the supported methods in Allow."""
    answer = await client.request(method, path)

    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == allowed
    if method != "HEAD":
        problem(answer, 405, "method-not-allowed")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/conversations", "GET, HEAD, OPTIONS, POST"),
        ("/conversations/a", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/conversations/a/messages/1", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("/conversations/a/summary", "DELETE, OPTIONS, PUT"),
        ("/conversations/import", "OPTIONS, POST"),
        ("/models/openai/gpt-4o", "GET, HEAD, OPTIONS"),
        ("/count", "OPTIONS, POST"),
    ],
)
async def test_options(client: httpx.AsyncClient, path: str, allowed: str) -> None:
    """OPTIONS names every method of the path, from all its handlers."""
    answer = await client.options(path)

    assert (answer.status_code, answer.content) == (204, b"")
    assert ", ".join(sorted(answer.headers["allow"].split(", "))) == allowed


async def test_options_of_nothing(client: httpx.AsyncClient) -> None:
    """OPTIONS on an unknown path is 404."""
    problem(await client.options("/nope"), 404, "not-found")


async def test_head(client: httpx.AsyncClient, conversation: str) -> None:
    """HEAD is GET without the body: the same status and headers, the length included."""
    await append(client, conversation, user("x"))
    for path in (
        f"/conversations/{conversation}",
        f"/conversations/{conversation}/messages",
        "/models",
        "/livez",
        "/nope",
    ):
        get, head = await client.get(path), await client.head(path)

        assert (head.status_code, head.content) == (get.status_code, b"")
        for name in ("content-type", "content-length", "etag"):
            assert head.headers.get(name) == get.headers.get(name)


async def test_request_ids(client: httpx.AsyncClient) -> None:
    """Every answer has a request id: the client's if it is a plain word, else a generated one, new each time."""
    for path in ("/models", "/nope", "/conversations/absent"):
        own = await client.get(path, headers={"x-request-id": "trace-1.a_B"})
        assert own.headers["x-request-id"] == "trace-1.a_B"
    ours = set()
    for given in ("", "two words", "x" * 65, "a\u00e9", "a;b", '"quoted"'):
        answer = await client.get("/models", headers=[(b"x-request-id", given.encode("utf-8"))])
        ours.add(answer.headers["x-request-id"])
    assert len(ours) == 6
    assert all(ID.fullmatch(each) for each in ours)


def scope_of(path: str, method: str = "POST") -> dict[str, Any]:
    """An ASGI scope of a request with a JSON body."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("sash", 80),
        "state": {},
    }


async def called(
    app: App, scope: dict[str, Any], receive: Callable[[], Any]
) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return status, JSON and headers of a request whose body comes from ``receive``."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    body = httpx.Response(200, content=b"".join(message.get("body", b"") for message in sent[1:])).json()
    return sent[0]["status"], body, {name.decode(): value.decode() for name, value in sent[0]["headers"]}


async def test_a_body_that_does_not_come(store: EmbeddedStore) -> None:
    """A request whose body does not arrive is 408 at the request timeout."""

    async def never() -> Any:
        await asyncio.sleep(30)

    settings = Settings(
        redis_url=store.url, request_timeout_seconds=0.2, store_timeout_seconds=0.2, store_connections=1
    )
    async with lifespan(create_app(settings)) as app:
        status, body, _ = await called(app, scope_of("/count"), never)

    assert (status, body["type"]) == (408, "/problems/request-timeout")


def dribble(body: bytes, bytes_a_second: float, looks: list[float]) -> Callable[[], Any]:
    """Return a ``receive`` for a body at this speed: each call gives the new bytes and adds its time to ``looks``."""
    loop = asyncio.get_running_loop()
    started, taken = loop.time(), 0

    async def receive() -> Any:
        nonlocal taken
        looks.append(loop.time())
        await asyncio.sleep(max(0, started + (taken + 1) / bytes_a_second - loop.time()))
        start, taken = taken, min(len(body), int((loop.time() - started) * bytes_a_second) + 1)
        return {"type": "http.request", "body": body[start:taken], "more_body": taken < len(body)}

    return receive


async def test_a_body_that_comes_in_crumbs(app: App) -> None:
    """A body of known length that arrives byte by byte is read whole, with less than one read per five bytes."""
    body, looks = b'{"model":"gpt-4o","messages":[' + b" " * 400 + b"]}", list[float]()
    scope = scope_of("/count")
    scope["headers"].append((b"content-length", str(len(body)).encode()))

    status, told, _ = await called(app, scope, dribble(body, 200, looks))

    assert (status, told["tokens"]) == (200, 3), told  # the priming of every request
    assert len(looks) < len(body) / 5


@pytest.mark.parametrize("pause_seconds", [0.0, 1.0])
async def test_a_body_in_small_pieces_is_not_slow(app: App, pause_seconds: float) -> None:
    """Pieces of a body that are already there are read at once, however small, also after a pause."""
    body = b'{"model":"gpt-4o","messages":[' + b" " * 2000 + b"]}"
    pieces = [body[at : at + 10] for at in range(0, len(body), 10)]
    pauses = 0

    async def receive() -> Any:
        if len(pieces) == 200:
            await asyncio.sleep(pause_seconds)
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    def profile(frame: FrameType, event: str, _called: Any) -> None:
        nonlocal pauses
        if event == "call" and frame.f_code is asyncio.sleep.__code__ and frame.f_back is not None:
            pauses += frame.f_back.f_code is RequestBody.receive.__code__

    sys.setprofile(profile)
    try:
        status, told, _ = await called(app, scope_of("/count"), receive)
    finally:
        sys.setprofile(None)

    assert (status, told["tokens"], pauses) == (200, 3, 0), told


async def imported_slowly(
    store: EmbeddedStore, bytes_a_second: float, entries: int, timeout_seconds: float
) -> tuple[int, dict[str, Any]]:
    """Return the status and answer of an import at this speed, with this request timeout."""
    settings = Settings(
        redis_url=store.url,
        request_timeout_seconds=timeout_seconds,
        store_timeout_seconds=timeout_seconds,
        durability="fast",
    )
    body = b'{"id":"slow"}\n' + b'{"message":{"role":"user","content":"xyzzy"}}\n' * entries
    scope = scope_of("/conversations/import")
    scope["headers"] = [(b"host", b"localhost"), (b"content-type", b"application/x-ndjson")]
    async with lifespan(create_app(settings)) as app, http(app) as client:
        status, told, _ = await called(app, scope, dribble(body, bytes_a_second, []))
        await client.delete("/conversations/slow")
    return status, told


async def test_an_import_may_take_longer_than_a_request(store: EmbeddedStore) -> None:
    """An import may last several request timeouts if its bytes arrive fast enough, here 5,000 bytes a second."""
    status, told = await imported_slowly(store, 5000, 500, 1.5)

    assert (status, told["messages"]["count"]) == (201, 500)


async def test_an_import_that_is_too_slow_is_ended(store: EmbeddedStore, server: redis.Redis) -> None:
    """An import below 1,000 bytes a second is 408, although bytes still arrive, and nothing is stored."""
    status, told = await imported_slowly(store, 400, 160, 0.5)

    assert (status, told["type"]) == (408, "/problems/request-timeout")
    assert "bytes a second" in told["detail"]
    assert list(server.scan_iter("*default/slow*")) == []


async def test_a_body_that_ends_early(app: App, server: Any) -> None:
    """A request whose client disconnects in the middle of the body is 400 and stores nothing."""
    pieces = iter(
        [
            {"type": "http.request", "body": b'{"messages":[{"message":', "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def broken() -> Any:
        return next(pieces)

    status, body, _ = await called(app, scope_of("/conversations/gone/messages"), broken)

    assert (status, body["type"]) == (400, "/problems/bad-request")
    assert list(server.scan_iter("*gone*")) == []


async def test_a_store_that_does_not_answer(tmp_path: Path) -> None:
    """While the store hangs, requests are 503 with Retry-After and /livez answers; afterwards requests succeed again."""
    with EmbeddedStore(tmp_path, fsync="everysec") as hung:
        settings = Settings(redis_url=hung.url, store_timeout_seconds=3.0, store_connections=2, durability="fast")
        async with lifespan(create_app(settings)) as app, http(app) as client:
            await append(client, "c", user("before"))
            os.kill(hung.pid, signal.SIGSTOP)
            try:
                answers = await asyncio.gather(
                    answer(client, "/readyz", 503),
                    client.get("/conversations/c"),
                    client.post("/conversations/c/messages", json={"messages": [user("during", id="d")]}),
                    client.get("/conversations/c/window?model=gpt-4o"),
                )
                alive = await client.get("/livez")
            finally:
                os.kill(hung.pid, signal.SIGCONT)

            for each in answers:
                problem(each, 503, "store-unavailable")
                assert int(each.headers["retry-after"]) >= 1
            assert alive.status_code == 200
            await answer(client, "/readyz", 200)
            body = await append(client, "c", user("during", id="d"))
            assert body["last_seq"] == 2
            assert len(await history(client, "c")) == 2


async def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    """Without a store the server starts and is alive, but readiness and conversations are 503."""
    settings = Settings(redis_url=f"unix://{tmp_path}/none.sock", store_timeout_seconds=0.3, store_connections=1)
    async with lifespan(create_app(settings)) as app, http(app) as client:
        assert (await client.get("/livez")).status_code == 200
        for path in ("/readyz", "/conversations/c"):
            answer = await client.get(path)
            problem(answer, 503, "store-unavailable")
            assert "retry-after" in answer.headers


async def test_a_full_store(tmp_path: Path) -> None:
    """At the store's memory limit appends are 507, while reading and erasing work."""
    with EmbeddedStore(tmp_path, fsync="everysec") as full:
        async with lifespan(create_app(Settings(redis_url=full.url, durability="fast"))) as app, http(app) as client:
            await append(client, "c", user("x"))
            with redis.Redis.from_url(full.url) as admin:
                admin.config_set("maxmemory", "1mb")
            answer = await client.post("/conversations/c/messages", json={"messages": [user("y")]})

            problem(answer, 507, "store-full")
            assert int(answer.headers["retry-after"]) >= 1
            assert len(await history(client, "c")) == 1
            assert (await client.delete("/conversations/c")).status_code == 204


async def test_a_full_store_takes_the_keys_of_erasures(tmp_path: Path) -> None:
    """At the store's memory limit a rewind and erasures under an Idempotency-Key are done, each once."""
    with EmbeddedStore(tmp_path, fsync="everysec") as full:
        async with lifespan(create_app(Settings(redis_url=full.url, durability="fast"))) as app, http(app) as client:
            await client.post("/conversations", json={"id": "c", "owner": "ann"})
            await client.post("/conversations", json={"id": "other", "owner": "ann"})
            await append(client, "c", user("x"), user("y"), user("z"))
            with redis.Redis.from_url(full.url) as admin:
                admin.config_set("maxmemory", "1mb")

            async def twice(method: str, path: str, **body: Any) -> list[int]:
                key = {"Idempotency-Key": f"{method}{path}"}
                return [(await client.request(method, path, headers=key, **body)).status_code for _ in range(2)]

            assert await twice("POST", "/conversations/c/rewind", json={"to_seq": 2}) == [200, 200]
            assert await twice("DELETE", "/conversations/c/messages/1") == [204, 204]
            assert len(await history(client, "c")) == 2
            assert await twice("DELETE", "/conversations/c") == [204, 204]
            assert await twice("DELETE", "/owners/ann") == [204, 204]
            assert (await client.get("/conversations")).json()["conversations"] == []


async def test_a_defect_tells_nothing(
    client: httpx.AsyncClient, server: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    """An internal error is a 500 problem without a traceback or stored data; the log has the failure, without data."""
    key = "sash:{default/damaged}:conversation"
    server.set(key, "xyzzy")
    try:
        answer = await client.get("/conversations/damaged")
    finally:
        server.delete(key)

    told = problem(answer, 500, "internal")
    assert set(told) == {"type", "title", "status", "detail", "instance"}
    assert "retry-after" in answer.headers
    assert "Traceback" not in answer.text
    logged = capsys.readouterr().out
    assert "request failed" in logged
    assert "xyzzy" not in logged
