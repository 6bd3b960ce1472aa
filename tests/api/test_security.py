"""Tenants and keys: no tenant reads another's data or knows of it, and keys and rates limit what a client may do."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from conftest import http, lifespan

from sash.api.middleware.layer import OPEN_PATHS, is_open
from sash.app import ROUTES, create_app
from sash.cli import main
from sash.operations.requests import RequestLog, log_request
from sash.settings import ApiKey, Settings, SettingsError
from sash.store.data.api_keys import ApiKeys
from sash.store.data.owner_erasures import OwnerErasures
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

KEYS = (ApiKey("acme", "key-of-acme-0123456789"), ApiKey("beta", "key-of-beta-0123456789"))
IDS = {"conversation_id": "secret-talk", "seq": "1", "branch": "b-1", "owner_id": "somebody"}
BODIES: dict[str, Any] = {
    "changeConversation": {"reserve": 5},
    "appendMessages": None,  # creates an absent conversation, for each tenant its own
    "rewindConversation": {"to_seq": 1},
    "changeMessage": {"pinned": True},
    "putSummary": {"text": "t", "through_seq": 1},
    "forkConversation": {"id": "other"},
    "answerTool": {"call_id": "call-1", "arguments": {"first": 1}},
    "reportUsage": {"model": "gpt-4o-mini", "prompt_tokens": 5, "window_tokens": 5},
}
VIEWS = ("", "/messages", "/window?model=gpt-4o-mini")
TIMES = re.compile(rb'"(?:created_at|updated_at)":"[^"]*"|W/"[^"]*"|"etag":"\\"[^"]*"|"receipt":"[^"]*"')
STORED = [
    (handler.operation_id, method, next(iter(handler.paths)))
    for handler in ROUTES
    for method in sorted(handler.http_methods)
    if "conversation_id" in next(iter(handler.paths))
    and handler.operation_id not in ("appendMessages", "agreeMessages", "compareWindows")
]


@asynccontextmanager
async def service(
    store: EmbeddedStore, *, log: RequestLog | None = log_request, **settings: Any
) -> AsyncIterator[httpx.AsyncClient]:
    options = {"redis_url": store.url, "store_connections": 1, "durability": "fast", **settings}
    async with lifespan(create_app(Settings(**options), log=log)) as app, http(app) as client:
        yield client


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


ACME, BETA = (bearer(each.key) for each in KEYS)


def turn(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"message": {"role": "user", "content": text}, **more}]}


@pytest.mark.parametrize(("operation", "method", "path"), STORED)
async def test_a_foreign_conversation_answers_as_an_absent_one(
    operation: str, method: str, path: str, store: EmbeddedStore
) -> None:
    """In every operation, another tenant's conversation is 404 with the same bytes as an absent one, except request ids."""
    filled = path
    for name, value in IDS.items():
        filled = filled.replace(f"{{{name}:str}}", value)
    query = {"getWindow": "?model=gpt-4o-mini", "searchMessages": "?query=hush"}.get(operation, "")
    body = BODIES.get(operation)
    async with service(store, api_keys=KEYS) as client:
        await client.post("/conversations/secret-talk/messages", json=turn("hush"), headers=ACME)
        foreign = await client.request(method, filled + query, json=body, headers=BETA)
        assert (await client.delete("/conversations/secret-talk", headers=ACME)).status_code == 204
        absent = await client.request(method, filled + query, json=body, headers=BETA)
    assert foreign.status_code == absent.status_code == 404
    assert foreign.content == absent.content
    assert _comparable(foreign) == _comparable(absent)


@pytest.mark.parametrize("path", ["window?receipt=", "window/diff?from="])
async def test_a_receipt_tells_another_tenant_nothing(path: str, store: EmbeddedStore) -> None:
    """The receipt of another tenant's window is refused in the same way, whether there is such a conversation or not."""
    async with service(store, api_keys=KEYS) as client:
        question = "/conversations/secret-talk/messages?model=gpt-4o-mini"
        made = await client.post(question, json=turn("hush"), headers=ACME)
        asked = f"/conversations/secret-talk/{path}{made.json()['window']['receipt']}"
        assert (await client.get(asked, headers=ACME)).status_code == 200
        foreign = await client.get(asked, headers=BETA)
        assert (await client.delete("/conversations/secret-talk", headers=ACME)).status_code == 204
        absent = await client.get(asked, headers=BETA)
        assert (await client.get(asked, headers=ACME)).status_code == 410
    assert foreign.status_code == absent.status_code == 422
    assert foreign.content == absent.content
    assert _comparable(foreign) == _comparable(absent)


NAMING: dict[str, tuple[str, str, Any]] = {
    "createConversation": ("POST", "/conversations", {"id": "secret-talk", "owner": "somebody"}),
    "appendMessages": ("POST", "/conversations/secret-talk/messages?model=gpt-4o-mini", {"messages": []}),
    "agreeMessages": ("PUT", "/conversations/secret-talk/messages?model=gpt-4o-mini", {"messages": []}),
    "importConversation": ("POST", "/conversations/import?id=secret-talk", b'{"owner":"somebody"}'),
    "importConversation, in the file": ("POST", "/conversations/import", b'{"id":"secret-talk"}'),
    "forkConversation, to it": ("POST", "/conversations/own/fork", {"id": "secret-talk"}),
    "listConversations": ("GET", "/conversations?owner=somebody", None),
    "searchOwner": ("GET", "/owners/somebody/search?query=hush", None),
    "deleteOwner": ("DELETE", "/owners/somebody", None),
}
"""Operations for which another tenant's conversation id is free, and another tenant's owner has no conversations."""


@pytest.mark.parametrize("what", NAMING)
async def test_anothers_ids_are_free(what: str, store: EmbeddedStore) -> None:
    """An id that another tenant uses gets the same answer as a free one, and the other tenant's data does not change."""
    method, path, body = NAMING[what]
    given = {"content": body} if isinstance(body, bytes) else {"json": body}
    if what in {"appendMessages", "agreeMessages"}:
        given = {"json": turn("mine", id="m")}
    form = {"Content-Type": "application/x-ndjson" if isinstance(body, bytes) else "application/json"}
    answers, seen = [], []
    async with service(store, api_keys=KEYS) as client:
        for theirs in (True, False):
            if theirs:
                await client.post("/conversations", json={"id": "secret-talk", "owner": "somebody"}, headers=ACME)
                await client.post("/conversations/secret-talk/messages", json=turn("hush", id="m"), headers=ACME)
            await client.post("/conversations/own/messages", json=turn("mine"), headers=BETA)
            seen.append([(await client.get(f"/conversations/secret-talk{at}", headers=ACME)).content for at in VIEWS])
            answers.append(await client.request(method, path, headers={**BETA, **form}, **given))
            seen.append([(await client.get(f"/conversations/secret-talk{at}", headers=ACME)).content for at in VIEWS])
            if theirs:
                assert (await client.delete("/owners/somebody", headers=ACME)).status_code == 204
            for each in ("own", "secret-talk"):
                await client.delete(f"/conversations/{each}", headers=BETA)
    assert {operation.operation_id for operation in ROUTES} >= {name.split(",")[0] for name in NAMING}
    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert answers[0].status_code == answers[1].status_code < 300
    timeless = [TIMES.sub(b"", answer.content) for answer in answers]
    assert timeless[0] == timeless[1]
    assert b"hush" not in answers[0].content


async def test_anothers_erasure_is_not_there(store: EmbeddedStore) -> None:
    """An erasure of another tenant's owner is 404 with the same bytes as an absent one."""
    client = Client(store.url)
    await client.open()
    await OwnerErasures(client).begin("e-1", "acme", "nobody", left=7, now_ms=1)
    async with service(store, api_keys=KEYS) as callers:
        own = await callers.get("/erasures/e-1", headers=ACME)
        foreign = await callers.get("/erasures/e-1", headers=BETA)
        while own.json()["finished_at"] is None:
            own = await callers.get("/erasures/e-1", headers=ACME)
        absent = await callers.get("/erasures/e-2", headers=BETA)
    await client.close()
    assert (own.status_code, foreign.status_code, absent.status_code) == (200, 404, 404)
    assert foreign.content.replace(b"e-1", b"e-2") == absent.content


def test_every_operation_that_names_something_is_tried_by_another_tenant() -> None:
    """The tests above cover every operation that names a conversation or an owner; a new one must be added to them."""
    tried = (
        {operation for operation, _, _ in STORED}
        | {name.split(",")[0] for name in NAMING}
        | {"getErasure", "compareWindows"}
    )
    told_apart = {"followOwner", "answerMcp"}  # test_owner_events.py, test_history_tools.py
    named_nothing = told_apart | {
        "countTokens",
        "buildWindow",
        "listModels",
        "getModel",
        "getStats",
        "getStatus",
        "getMetrics",
    }
    open_ones = {handler.operation_id for handler in ROUTES if is_open(next(iter(handler.paths)))}
    assert {handler.operation_id for handler in ROUTES} - tried - open_ones == named_nothing


def _comparable(reply: httpx.Response) -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in reply.headers.items() if name not in {"x-request-id", "date"})


async def test_tenants_with_the_same_ids_have_different_talks(store: EmbeddedStore) -> None:
    """An append under an id that another tenant uses begins a separate conversation."""
    async with service(store, api_keys=KEYS) as client:
        for headers, text in ((ACME, "of acme"), (BETA, "of beta")):
            reply = await client.post("/conversations/same/messages", json=turn(text, id="m"), headers=headers)
            assert reply.status_code == 201
        windows = [
            (await client.get("/conversations/same/window?model=gpt-4o-mini", headers=headers)).json()
            for headers in (ACME, BETA)
        ]
        for headers in (ACME, BETA):
            await client.delete("/conversations/same", headers=headers)
    said = [[message["content"] for message in window["request"]["messages"]] for window in windows]
    assert said == [["of acme"], ["of beta"]]


async def test_a_wrong_key_is_told_from_a_missing_one(store: EmbeddedStore) -> None:
    """Without a key the answer shows the header to send. With a wrong one it says that the key is unknown."""
    async with service(store, api_keys=KEYS) as http_client:
        missing = await http_client.get("/models")
        wrong = [await http_client.get("/models", headers=bearer(key)) for key in ("nonsense", "sash_0_1")]
    assert missing.json()["detail"] == "Send an API key: Authorization: Bearer <key>."
    assert {each.json()["detail"] for each in wrong} == {"This API key is unknown or was revoked."}


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", f"Basic {KEYS[0].key}", KEYS[0].key, "Bearer sash_ab_cd", "Bearer ü"],
)
async def test_a_key_that_opens_nothing_is_401(authorization: str, store: EmbeddedStore) -> None:
    """A missing or wrong key is 401 on all paths but the open ones, unknown paths included."""
    calls = {("GET", "/nothing"), ("GET", "/livez/")} | {
        (method, re.sub(r"\{\w+:\w+\}", "x", next(iter(handler.paths))))
        for handler in ROUTES
        for method in handler.http_methods
    }
    async with service(store, api_keys=KEYS) as client:
        headers = {"Authorization": authorization.encode()}
        replies = {call: await client.request(*call, headers=headers) for call in sorted(calls)}
    opened = {path for (_, path), reply in replies.items() if reply.status_code != 401}
    assert opened == {*OPEN_PATHS, "/problems/x", "/docs/pages/x"}
    closed = [reply for (_, path), reply in replies.items() if path not in opened]
    assert {(reply.status_code, reply.headers["www-authenticate"]) for reply in closed} == {(401, "Bearer")}


async def test_a_key_is_made_used_and_revoked_while_the_service_runs(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new key works at once, for its tenant alone; after it is revoked, it works for five seconds from its last check."""
    now = 0.0
    monkeypatch.setitem(ApiKeys.__init__.__kwdefaults__, "clock", lambda: now)
    client = Client(store.url)
    await client.open()
    keys = ApiKeys(client)
    path = "/conversations/of-acme"
    async with service(store, require_keys=True) as http_client:
        assert (await http_client.get(path)).status_code == 401
        key, kept = await keys.create("acme", 1)
        other, another = await keys.create("beta", 2)
        try:
            assert await keys.all() == [kept, another]
            made = await http_client.post(f"{path}/messages", json=turn("hush"), headers=bearer(key))
            assert made.status_code == 201
            assert (await http_client.get(path, headers=bearer(other))).status_code == 404
            assert await keys.revoke(kept.id)
            assert not await keys.revoke(kept.id)
            assert await keys.all() == [another]
            now = 4.9
            assert (await http_client.get(path, headers=bearer(key))).status_code == 200
            now = 5.0
            assert (await http_client.get(path, headers=bearer(key))).status_code == 401
            assert (await http_client.get(path, headers=bearer(other))).status_code == 404
        finally:
            await keys.revoke(kept.id)
            await keys.revoke(another.id)
    async with service(store, api_keys=KEYS) as http_client:
        assert (await http_client.delete(path, headers=ACME)).status_code == 204
    await client.close()


async def test_what_is_stored_of_a_key_opens_nothing(store: EmbeddedStore) -> None:
    """The store holds only a hash of a key; the hash, the id and a changed secret are not accepted as keys."""
    client = Client(store.url)
    await client.open()
    keys = ApiKeys(client)
    key, kept = await keys.create("acme", 1)
    (flat,) = await client.commands([("HGETALL", "sash:{keys}:api")])
    changed = key[:-1] + ("a" if key[-1] != "a" else "b")
    guesses = [f"sash_{kept.id}_{kept.digest}", f"sash_{kept.id}_", f"sash_{kept.id}", key[:-1], key + "x", changed]
    answers = [await keys.find(guess) for guess in guesses]
    assert (await keys.find(key)).tenant == "acme"
    await keys.revoke(kept.id)
    await client.close()
    secret = key.split("_", 2)[2]
    assert secret.encode() not in b"".join(flat)
    assert len(secret) >= 43
    assert answers == [None] * len(guesses)


async def test_strangers_who_guess_do_not_fill_the_memory(store: EmbeddedStore) -> None:
    """At most 4,096 answers about keys are remembered."""
    client = Client(store.url)
    await client.open()
    keys = ApiKeys(client)
    for i in range(4200):
        await keys.find(f"sash_{i}_x")
    await client.close()
    assert len(keys._answers) == 4096


def test_keys_are_made_listed_and_revoked_on_the_command_line(store: EmbeddedStore, monkeypatch: Any) -> None:
    """``keys create`` prints the key, ``keys list`` shows only its id, and ``keys revoke`` removes it once."""
    monkeypatch.setenv("SASH_REDIS_URL", store.url)
    run = CliRunner().invoke
    made = run(main, ["keys", "create", "--tenant", "acme"])
    key = made.stdout.strip()
    identity = key.split("_")[1]
    listed = run(main, ["keys", "list", "--tenant", "acme"])
    revoked = run(main, ["keys", "revoke", identity])
    assert (made.exit_code, listed.exit_code, revoked.exit_code) == (0, 0, 0)
    assert identity in listed.output
    assert key.split("_", 2)[2] not in listed.output
    assert run(main, ["keys", "revoke", identity]).exit_code == 1
    assert run(main, ["keys", "create", "--tenant", "no/slash"]).exit_code == 2


@pytest.mark.parametrize("path", ["/models", "/conversations/c-1", "/nothing"])
async def test_a_wrong_key_is_refused_where_none_is_required(path: str, store: EmbeddedStore) -> None:
    """An unknown key is 401 where keys are not required, too, and the answer says so; other schemes are no keys."""
    async with service(store) as client:
        wrong = [await client.get(path, headers=bearer(key)) for key in ("wrong", "sash_0_1")]
        open_to_all = [await client.get(path, headers={"Authorization": given}) for given in ("Bearer", "Basic YTpi")]
        status = (await client.get("/status")).json()
    assert {each.status_code for each in wrong} == {401}
    assert all("The service requires none (SASH_REQUIRE_KEYS is not set)" in each.json()["detail"] for each in wrong)
    assert 401 not in {each.status_code for each in open_to_all}
    assert status["keys_required"] is False


def test_a_new_key_that_nobody_needs_is_told(store: EmbeddedStore, monkeypatch: Any) -> None:
    """``keys create`` and ``doctor`` say that no key is required, until the settings require one."""
    monkeypatch.setenv("SASH_REDIS_URL", store.url)
    run = CliRunner().invoke
    made = run(main, ["keys", "create", "--tenant", "acme"])
    told = run(main, ["doctor", "--json"])
    monkeypatch.setenv("SASH_REQUIRE_KEYS", "1")
    second = run(main, ["keys", "create", "--tenant", "acme"])
    told_then = run(main, ["doctor", "--json"])
    for each in (made, second):
        assert run(main, ["keys", "revoke", each.stdout.split("_")[1]]).exit_code == 0

    assert "no key is required until the service runs with SASH_REQUIRE_KEYS=1" in made.stderr
    assert "no key is required" not in second.stderr
    findings = [
        next(each for each in json.loads(said.stdout) if each["subject"] == "API keys") for said in (told, told_then)
    ]
    assert [each["verdict"] for each in findings] == ["advice", "good"]
    assert findings[0]["change"] == "set SASH_REQUIRE_KEYS=1"


def test_keys_of_an_embedded_store_that_does_not_run(tmp_path: Any, monkeypatch: Any) -> None:
    """A keys command starts an embedded store that does not run, and the next command finds the key."""
    monkeypatch.delenv("SASH_REDIS_URL", raising=False)
    monkeypatch.setenv("SASH_DATA_DIR", str(tmp_path / "data"))
    made = CliRunner().invoke(main, ["keys", "create", "--tenant", "acme"])
    listed = CliRunner().invoke(main, ["keys", "list"])
    assert made.stdout.split("_")[1] in listed.output


@pytest.mark.parametrize("command", [["keys", "list"], ["keys", "create", "--tenant", "acme"], ["logs-hash", "c-1"]])
def test_no_store_is_made_where_no_service_runs(tmp_path: Any, monkeypatch: Any, command: list[str]) -> None:
    """Where no store is named and none is there, a command makes none: it says how to name the store, and exits with 2."""
    for name in ("SASH_REDIS_URL", "SASH_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(main, command)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "sash: there is no sash-data here: name the service's store, SASH_DATA_DIR or SASH_REDIS_URL\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "sash.example"])
def test_nobody_listens_to_everyone_without_keys(host: str) -> None:
    """A host beyond this machine is refused if no key is required; requiring keys contradicts allowing anonymous use."""
    with pytest.raises(SettingsError, match="no key is required"):
        Settings.read({"SASH_HOST": host})
    assert Settings.read({"SASH_HOST": host, "SASH_REQUIRE_KEYS": "1"}).require_keys
    with pytest.raises(SettingsError, match="contradict"):
        Settings.read({"SASH_HOST": host, "SASH_REQUIRE_KEYS": "1", "SASH_ALLOW_ANONYMOUS": "1"})


async def test_a_tenant_over_its_rate_is_told_when_to_come_back(store: EmbeddedStore) -> None:
    """A tenant over its rate in all processes together gets 429 with Retry-After and the limit; another tenant does not."""
    settings = {"api_keys": KEYS, "rate_limit": 20.0}
    async with service(store, **settings) as one, service(store, **settings) as other:
        started = time.monotonic()
        asking = [client.get("/models/gpt-4o", headers=ACME) for _ in range(30) for client in (one, other)]
        replies = await asyncio.gather(*asking)
        seconds = time.monotonic() - started
        spared = await one.get("/models/gpt-4o", headers=BETA)
        open_path = await one.get("/livez")
    served = sum(reply.status_code == 200 for reply in replies)
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert 18 <= served <= 21 + 20 * seconds
    assert int(refused.headers["retry-after"]) >= 1
    assert (refused.json()["type"], refused.json()["limit"]) == ("/problems/too-many-requests", 20.0)
    assert (spared.status_code, open_path.status_code) == (200, 200)


async def test_requests_at_once_get_no_more_than_the_rate(store: EmbeddedStore) -> None:
    """Of sixty requests that arrive together, a tenant with five a second gets the five of the burst."""
    async with service(store, api_keys=(ApiKey("crowd", "key-of-crowd"),), rate_limit=5.0) as client:
        headers = bearer("key-of-crowd")
        started = time.monotonic()
        replies = await asyncio.gather(*(client.get("/models/gpt-4o", headers=headers) for _ in range(60)))
    seconds = time.monotonic() - started
    assert 5 <= sum(reply.status_code == 200 for reply in replies) <= 6 + 5 * seconds


async def test_the_operator_sees_which_tenant_is_over_its_rate(store: EmbeddedStore) -> None:
    """A request over the rate is listed in /status with its tenant; one with an unknown key has none."""
    flooding = (ApiKey("flooding", "key-of-flooding"),)
    async with service(store, api_keys=flooding, rate_limit=1.0, metrics_key="key-of-metrics") as client:
        for _ in range(4):
            await client.get("/models/gpt-4o", headers=bearer("key-of-flooding"))
        await client.get("/models/gpt-4o", headers=bearer("key-of-nobody"))
        told = (await client.get("/status", headers=bearer("key-of-metrics"))).json()["worker"]["refusals"]
    named = {(each["problem"], each["tenant"]) for each in told}
    assert named == {("too-many-requests", "flooding"), ("unauthorized", None)}


async def test_without_a_store_the_rate_refuses_nobody() -> None:
    """While the store is away, requests that do not need it are served without a rate limit."""
    settings = Settings(redis_url="unix:///nowhere", rate_limit=1.0, store_timeout_seconds=0.2)
    async with lifespan(create_app(settings)) as app, http(app) as client:
        count = {"model": "gpt-4o", "text": "hello"}
        replies = [await client.post("/count", json=count) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 200]


async def test_the_address_of_an_image_is_never_fetched(store: EmbeddedStore) -> None:
    """The service never connects to a URL in a message, in an append, a count or a window."""
    knocks: list[bytes] = []

    async def knocked(reader: Any, writer: Any) -> None:
        knocks.append(await reader.read(100))
        writer.close()

    listener = await asyncio.start_server(knocked, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    image = {"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{port}/x.png"}}
    message = {"role": "user", "content": [{"type": "text", "text": "look"}, image]}
    async with service(store) as client:
        path = "/conversations/looking"
        appended = await client.post(f"{path}/messages?model=gpt-4o", json={"messages": [{"message": message}]})
        counted = await client.post("/count", json={"model": "gpt-4o", "messages": [message]})
        formats = [
            await client.get(f"{path}/window?model=gpt-4o&format={each}")
            for each in ("openai", "responses", "anthropic", "gemini")
        ]
        await client.delete(path)
    await asyncio.sleep(0.1)
    listener.close()
    assert (appended.status_code, counted.status_code) == (201, 200)
    assert formats[0].status_code == 200
    assert knocks == []


def test_open_paths_are_few() -> None:
    """The open paths are exactly these; a new one must be added here."""
    assert {
        "/",
        "/livez",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/docs/pages",
        "/dashboard",
        "/runbook",
        "/clients/sash.ts",
    } == OPEN_PATHS


async def test_a_key_may_bear_limits_of_its_own(store: EmbeddedStore) -> None:
    """A key's own rate gives 429 with Retry-After, and its own body size 413 with the limit; another key has neither."""
    client = Client(store.url)
    await client.open()
    keys = ApiKeys(client)
    narrow, kept = await keys.create("narrow", 1, rate=0.5, max_body_bytes=2000)
    wide, other = await keys.create("wide", 1)
    try:
        async with service(store, require_keys=True) as http_client:
            long = {"messages": [{"message": {"role": "user", "content": "x" * 3000}}]}
            refused = await http_client.post("/window", json=long, headers=bearer(narrow))
            assert (refused.status_code, refused.json()["limit"]) == (413, 2000)
            again = await http_client.get("/models/gpt-4o", headers=bearer(narrow))
            assert (again.status_code, again.headers["retry-after"], again.json()["limit"]) == (429, "2", 0.5)
            for _ in range(5):
                reply = await http_client.post("/window", json={"model": "gpt-4o"} | long, headers=bearer(wide))
                assert reply.status_code == 200
    finally:
        assert await keys.revoke(kept.id)
        assert await keys.revoke(other.id)
        await client.close()


async def limit_of(client: httpx.AsyncClient, key: str) -> float:
    """Return the limit that a key's first refusal names: a bucket may have filled a little since the last request."""
    replies = await asyncio.gather(*(client.get("/models/gpt-4o", headers=bearer(key)) for _ in range(30)))
    refused = next(reply for reply in replies if reply.status_code != 200)
    assert refused.status_code == 429
    return refused.json()["limit"]


async def test_keys_with_rates_of_their_own_do_not_draw_from_one_bucket(store: EmbeddedStore) -> None:
    """Keys of one tenant with their own rates, and the tenant's other keys, are each limited separately."""
    client = Client(store.url)
    await client.open()
    keys = ApiKeys(client)
    fast, one = await keys.create("rated", 1, rate=1000)
    slow, two = await keys.create("rated", 1, rate=2)
    plain, three = await keys.create("rated", 1)
    try:
        async with service(store, require_keys=True, rate_limit=5.0) as http_client:
            served = dict.fromkeys((fast, slow, plain), 0)
            started = time.monotonic()
            for _ in range(20):
                for key in served:
                    reply = await http_client.get("/models/gpt-4o", headers=bearer(key))
                    served[key] += reply.status_code == 200
            seconds = time.monotonic() - started
            limits = [await limit_of(http_client, key) for key in (slow, plain)]
    finally:
        for kept in (one, two, three):
            assert await keys.revoke(kept.id)
        await client.close()
    assert served[fast] == 20
    assert 2 <= served[slow] <= 3 + 2 * seconds
    assert 5 <= served[plain] <= 6 + 5 * seconds
    assert limits == [2.0, 5.0]


async def test_a_body_of_no_stated_length_is_bounded_by_the_key_too(store: EmbeddedStore) -> None:
    """A key's limit on the size of bodies holds for chunked bodies too, with and without an Idempotency-Key."""
    client = Client(store.url)
    await client.open()
    keys = ApiKeys(client)
    key, kept = await keys.create("narrow", 1, max_body_bytes=2000)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 1000

    try:
        async with service(store, require_keys=True) as http_client:
            headers = {**bearer(key), "Content-Type": "application/json"}
            for more in ({}, {"Idempotency-Key": "bounded"}):
                path = "/conversations/c/messages"
                refused = await http_client.post(path, content=chunks(), headers={**headers, **more})
                assert (refused.status_code, refused.json()["limit"]) == (413, 2000)
    finally:
        assert await keys.revoke(kept.id)
        await client.close()
