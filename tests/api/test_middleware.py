"""The middleware: deadlines, cancellation, keys, request ids, log lines, and the cost of a plain read."""

import asyncio
import sys
import time
from io import BytesIO
from types import FrameType
from typing import Any

import httpx
import pytest

from sash.api.middleware.callers import Callers
from sash.api.middleware.drain import Drain
from sash.api.middleware.layer import Middleware
from sash.api.middleware.paths import Paths
from sash.operations.metrics import Metrics
from sash.operations.requests import Pseudonyms, Requests, in_json
from sash.settings import ApiKey
from sash.store.data.limits import RateLimits
from sash.store.redis.client import Client

LIMIT_SECONDS = 0.2


def middleware(
    app: Any, *, keys: Callers | None = None, timeout_seconds: float = LIMIT_SECONDS, **options: Any
) -> Middleware:
    """Return the middleware around an application, without a store."""
    limits = RateLimits(Client("redis://localhost:1"), None)
    metrics = options.pop("metrics", Metrics())
    return Middleware(
        app,
        once=app,
        keys=keys or Callers(()),
        paths=Paths((), {}),
        limits=limits,
        timeout_seconds=timeout_seconds,
        max_body_bytes=1 << 20,
        max_import_bytes=1 << 20,
        metrics=metrics,
        requests=Requests(metrics, Pseudonyms(), options.pop("log", None)),
        **options,
    )


def http(app: Middleware, **options: Any) -> httpx.AsyncClient:
    """Return a client of the middleware that does not check answers against the OpenAPI document."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", **options)


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers with two bytes."""
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b"{}"})


async def hang(scope: Any, receive: Any, send: Any) -> None:
    """An application that never answers."""
    del scope, receive, send
    await asyncio.Event().wait()


async def test_a_read_that_takes_too_long() -> None:
    """Fifty reads at their deadline are 503 with Retry-After, none after another, and are no longer counted as running."""
    metrics, began = Metrics(), time.monotonic()
    async with http(middleware(hang, metrics=metrics)) as client:
        answers = await asyncio.gather(*(client.get("/conversations/c") for _ in range(50)))

    assert LIMIT_SECONDS <= time.monotonic() - began < 25 * LIMIT_SECONDS
    assert {(each.status_code, each.json()["type"]) for each in answers} == {(503, "/problems/deadline-exceeded")}
    assert all("retry-after" in each.headers for each in answers)
    assert not metrics.running


async def test_a_request_in_time_is_not_cut() -> None:
    """Each request has its own deadline: an earlier request that is cut does not end a later one."""

    async def one(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].endswith("/slow"):
            scope["sash.exchange"].deadline = 0.0  # is past
            await hang(scope, receive, send)
        await asyncio.wait([slow])
        await answer(scope, receive, send)

    async with http(middleware(one, timeout_seconds=30)) as client:
        slow = asyncio.create_task(client.get("/conversations/slow"))
        assert (await client.get("/conversations/quick")).status_code == 200
        assert (await slow).status_code == 503


async def test_a_request_that_gets_on_may_take_longer() -> None:
    """Each sign of progress restarts a request's deadline."""
    limit_seconds = 2.0

    async def long(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(3):
            await asyncio.sleep(limit_seconds / 2)
            scope["sash.exchange"].extend()
        await answer(scope, receive, send)

    async with http(middleware(long, timeout_seconds=limit_seconds)) as client:
        assert (await client.get("/conversations/c")).status_code == 200


@pytest.mark.parametrize("late", [False, True])
async def test_a_cancellation_from_outside_passes(late: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A cancellation from outside sends no answer, even if the deadline comes at the same moment."""
    lines: list[Any] = []
    app, said = middleware(hang, timeout_seconds=30, log=lines.append), list[Any]()
    exchanges: list[Any] = []

    async def ask() -> None:
        async def send(message: Any) -> None:
            said.append(message)

        scope = {"type": "http", "method": "GET", "path": "/conversations/c", "http_version": "1.1", "headers": []}
        exchanges.append(scope)
        await app(scope, None, send)  # type: ignore[arg-type]

    task = asyncio.create_task(ask())
    await asyncio.sleep(0.01)
    if late:
        exchanges[0]["sash.exchange"].cut()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == []
    assert [line["status"] for line in lines] == [0]


async def test_what_came_of_a_cut_request_can_go_on() -> None:
    """The task of a request that was cut is not left cancelled and can wait for other things afterwards."""

    async def ask() -> int:
        async with http(middleware(hang)) as client:
            await client.get("/conversations/c")
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        task = asyncio.current_task()
        return task.cancelling() if task else -1

    assert await asyncio.create_task(ask()) == 0


async def test_ids_of_requests_differ() -> None:
    """Ids of 1,000 requests differ, over two rings and however many come in a millisecond."""
    apps = [middleware(answer), middleware(answer)]
    ids = []
    for app in apps:
        async with http(app) as client:
            ids += [(await client.get("/conversations/c")).headers["x-request-id"] for _ in range(500)]
    assert len(set(ids)) == 1000


@pytest.mark.parametrize(("authorization", "status"), [(None, 401), ("Bearer key-red", 200), ("Bearer key-blue", 401)])
async def test_a_key_is_asked_for_where_there_are_any(authorization: str | None, status: int) -> None:
    """If API keys exist, a request without a valid one is 401, except on open paths."""
    app = middleware(answer, keys=Callers((ApiKey("red", "key-red"),)))
    headers = {"authorization": authorization} if authorization else {}
    async with http(app, headers=headers) as client:
        assert (await client.get("/conversations/c")).status_code == status
        assert (await client.get("/livez")).status_code == 200


async def test_figures_need_their_key_where_nothing_else_needs_one() -> None:
    """With SASH_METRICS_KEY, /stats needs that key even if there are no API keys."""
    async with http(middleware(answer, keys=Callers((), metrics_key="m1"))) as client:
        assert (await client.get("/stats")).status_code == 401
        assert (await client.get("/conversations/c")).status_code == 200


async def test_a_plain_read_enters_little() -> None:
    """A plain read enters at most 9 functions of Sash in 4 modules, log line included, and starts no task or timer."""
    entered: set[tuple[str, str]] = set()
    begun: list[str] = []

    def profile(frame: FrameType, event: str, called: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("sash."):
            entered.add((module, frame.f_code.co_qualname))
        if event == "c_call" and called.__name__ in {"call_later", "call_at", "create_task", "Task"}:
            begun.append(called.__name__)

    def route(_: Any) -> None:
        """Serve as a handler with an operation id, like those of the framework."""

    async def operation(scope: Any, receive: Any, send: Any) -> None:
        scope["route_handler"] = route
        await answer(scope, receive, send)

    async def send(message: Any) -> None:
        del message

    route.operation_id = "getConversation"  # type: ignore[attr-defined]
    written = BytesIO()
    app = middleware(operation, log=in_json(written.write))
    for turn in range(3):
        scope = {"type": "http", "method": "GET", "path": "/conversations/c", "http_version": "1.1"}
        sys.setprofile(profile if turn == 2 else None)
        await app({**scope, "headers": [(b"host", b"localhost")]}, None, send)  # type: ignore[arg-type]
        sys.setprofile(None)
    assert written.getvalue().count(b'"operation":"getConversation"') == 3
    assert ("sash.api.middleware.layer", "_send") in entered
    assert len(entered) <= 9, sorted(entered)
    assert len({module for module, _ in entered}) <= 4, sorted(entered)
    assert begun == []


async def test_a_method_that_nobody_knows_is_cut_in_the_log() -> None:
    """The log cuts an unknown method to the limit of a field, because a client may send one of any length."""
    lines: list[Any] = []
    async with http(middleware(answer, log=lines.append)) as client:
        await client.request("X" * 5000, "/conversations/c")
        await client.get("/conversations/c")
    assert [len(line["method"]) for line in lines] == [501, 3]


async def test_a_read_has_no_body() -> None:
    """A read gets the server's own ``receive``; a write does not, because its body is checked."""
    given: list[Any] = []

    async def look(scope: Any, receive: Any, send: Any) -> None:
        given.append(receive)
        await answer(scope, receive, send)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        del message

    for method in ("GET", "POST"):
        scope = {"type": "http", "method": method, "path": "/count", "http_version": "1.1", "headers": []}
        await middleware(look)(scope, receive, send)
    assert [each is receive for each in given] == [True, False]


@pytest.mark.parametrize(("version", "said"), [("1.1", [b"close"]), ("1.0", [b"close"]), ("2", [])])
async def test_who_drains_closes_connections(version: str, said: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """During a drain, answers over HTTP/1 close the connection; HTTP/2 has no such header, and earlier answers lack it."""
    monkeypatch.setattr(Drain, "_look", lambda _: None)  # keep the drain from ending the process
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    app = middleware(answer)
    for _ in range(2):
        scope = {"type": "http", "method": "GET", "path": "/models", "http_version": version, "headers": []}
        await app(scope, None, send)  # type: ignore[arg-type]
        app.drain.begin()
    headers = [[value for name, value in each["headers"] if name == b"connection"] for each in sent[::2]]
    assert headers == [[], said]
