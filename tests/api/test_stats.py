"""GET /stats: figures of all requests to the deployment."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from conftest import http, lifespan
from rigs.dialogue import problem

from sash.app import create_app
from sash.settings import ApiKey, Settings
from sash.store.redis.embedded import EmbeddedStore


@pytest.fixture
def own_store(tmp_path: Path) -> Any:
    """Yield a store that only this test uses."""
    with EmbeddedStore(tmp_path / "store", fsync="everysec") as running:
        yield running


@pytest_asyncio.fixture
async def own(own_store: EmbeddedStore) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application that only this test uses."""
    async with (
        lifespan(create_app(Settings(redis_url=own_store.url, store_connections=1, durability="fast"))) as app,
        http(app) as client,
    ):
        yield client


async def say(client: httpx.AsyncClient, role: str, text: str, **entry: Any) -> None:
    body = {"messages": [{"message": {"role": role, "content": text}, **entry}]}
    assert (await client.post("/conversations/c-1/messages", json=body)).status_code == 201


async def window(client: httpx.AsyncClient, **query: Any) -> Any:
    answer = await client.get("/conversations/c-1/window", params={"model": "gpt-4o", **query})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stats(client: httpx.AsyncClient) -> Any:
    answer = await client.get("/stats")
    assert answer.status_code == 200
    return answer.json()


async def test_a_window_is_counted(own: httpx.AsyncClient):
    """The statistics count a window with the model, stop reason and tokens of its answer."""
    await say(own, "user", "Where is the cloakroom?")
    read = await window(own)
    figures = (await stats(own))["hour"]
    (model,) = figures["models"]
    assert model["model"] == "gpt-4o"
    assert (model["windows"], model["kept_messages"], model["stop_reasons"]["complete"]) == (1, 1, 1)
    assert model["tokens"]["p50"] == pytest.approx(read["tokens"]["total"], rel=0.25)
    assert model["fill"]["histogram"] == [1] + [0] * 19
    assert figures["timeline"][-1]["windows"] + figures["timeline"][-2]["windows"] == 1


async def test_all_three_ranges(own: httpx.AsyncClient):
    """A new window is in the figures of the hour, of the day and since the start."""
    await say(own, "user", "Hello")
    await window(own)
    told = await stats(own)
    assert [told[name]["all"]["windows"] for name in ("hour", "day", "start")] == [1, 1, 1]


async def test_what_is_dropped(own: httpx.AsyncClient):
    """The dropped messages and tokens in the statistics are those of the window."""
    for number in range(8):
        await say(own, "user", f"This is remark number {number} and it goes on for a few more words.")
    read = await window(own, max_tokens=60)
    model = (await stats(own))["hour"]["all"]
    assert read["dropped"]["messages"] > 0
    assert (model["dropped_messages"], model["dropped_tokens"]) == (
        read["dropped"]["messages"],
        read["dropped"]["tokens"],
    )


async def test_documents_that_are_not_sent_again(own: httpx.AsyncClient):
    """The documents of the newest question do not count as saved."""
    documents = {"documents": [{"id": "a", "text": "The cloakroom is in the basement, beside the stairs."}]}
    await say(own, "user", "Where is the cloakroom?", grounding=documents)
    await window(own)
    assert (await stats(own))["hour"]["all"]["grounding_tokens_saved"] == 0


async def test_documents_of_earlier_questions_are_saved(own: httpx.AsyncClient):
    """The saved tokens are those of earlier questions' documents that the window dropped."""
    documents = {"documents": [{"id": "a", "text": "The cloakroom is in the basement, beside the stairs."}]}
    await say(own, "user", "Where is the cloakroom?", grounding=documents)
    await say(own, "user", "Thanks. And the bar?")
    read = await window(own)
    figures = (await stats(own))["hour"]["all"]
    assert figures["grounding_tokens_saved"] == read["dropped"]["grounding_tokens"] > 0
    assert figures["saved"]["documents_usd"] > 0


async def test_documents_that_were_cut(own: httpx.AsyncClient):
    """Tokens cut from the newest question's documents count as trimmed, not as saved, because the client wanted them."""
    documents = {"documents": [{"id": "a", "text": "The cloakroom is in the basement. " * 30}]}
    await say(own, "user", "Where is the cloakroom?", grounding=documents)
    read = await window(own, max_tokens=80)
    figures = (await stats(own))["hour"]["all"]
    assert read["grounding"]["truncated"]
    assert figures["grounding_tokens_trimmed"] == read["dropped"]["grounding_tokens"]
    assert (figures["grounding_truncations"], figures["grounding_tokens_saved"]) == (1, 0)


async def test_what_the_cache_did(own: httpx.AsyncClient):
    """The share of a model's reported input tokens that came from the provider's cache, and what that saved."""
    await say(own, "user", "Hello")
    report = {
        "model": "gpt-4o",
        "window_tokens": 812,
        "input_tokens": 812,
        "cached_tokens": 640,
        "cache_write_tokens": 9,
    }
    assert (await own.post("/conversations/c-1/usage", json=report)).status_code == 200
    (model,) = (await stats(own))["start"]["models"]
    assert model["cache"]["hit_share"] == pytest.approx(640 / 812, abs=0.001)
    assert model["cache"]["saved_usd"] > 0


async def test_money_has_the_prices_of_the_tier(own: httpx.AsyncClient):
    """The bill of a window above a price tier counts at the tier's prices."""
    await say(own, "user", "word " * 280_000)
    read = await window(own, model="gpt-6-sol")
    total, cost = read["tokens"]["total"], read["cost"]
    assert cost["tier"]["factor"] == 2.0
    prices = (await own.get("/models/gpt-6-sol")).json()["prices"]
    report = {"model": "gpt-6-sol", "window_tokens": total, "prompt_tokens": total, "cached_tokens": 1_000}
    assert (await own.post("/conversations/c-1/usage", json=report)).status_code == 200
    found = (await stats(own))["hour"]["all"]["cost"]
    dearer = [prices["tiers"][0][name] for name in ("input", "cached_input")]
    assert found["billed_usd"] == pytest.approx(((total - 1_000) * dearer[0] + 1_000 * dearer[1]) / 1e6, abs=1e-6)
    assert cost["usd"] == pytest.approx(total * dearer[0] / 1e6, abs=1e-6)


async def test_without_api_keys_there_is_one_tenant(own: httpx.AsyncClient):
    """The statistics have requests, refusals and window tokens by tenant; without API keys all are the tenant default's."""
    await say(own, "user", "Hello")
    await window(own)
    await own.get("/conversations/nobody")
    figures = await stats(own)
    (tenant,) = figures["hour"]["tenants"]
    assert (tenant["tenant"], tenant["client_errors"]) == ("default", 1)
    assert tenant["requests"] == 3
    assert tenant["window_tokens"] > 0
    assert [each["problem"] for each in figures["quarter"]["requests"]["problems"]] == ["not-found"]


async def test_stable_cuts_are_reused(own: httpx.AsyncClient):
    """A stable cut moves a quarter of the budget (six messages) at once, so most stable windows reuse the one before."""
    for stable in ("true", "false"):
        for number in range(60):
            role = "assistant" if number % 2 else "user"
            await say(own, role, f"{number} This remark has a dozen words or so, like all the others.")
            await window(own, max_tokens=400, stable=stable)
    figures = (await stats(own))["hour"]["all"]
    assert figures["stable"]["windows"] > 20
    assert figures["stable"]["same_beginning"] > 0.7 * figures["stable"]["windows"]
    assert figures["stable"]["share"] > 0.5 > 0.1 > figures["sliding"]["share"]


async def test_reuse_is_what_really_stands_in_the_same_place(own: httpx.AsyncClient):
    """The reused tokens are those of the messages that two windows both begin with."""
    for number in range(12):
        await say(own, "user", f"{number} This remark has a dozen words or so, like all the others.")
    first = await window(own, max_tokens=150, stable="true")
    await say(own, "user", "One more.")
    second = await window(own, max_tokens=150, stable="true")
    former, latter = first["request"]["messages"], second["request"]["messages"]
    assert latter[: len(former)] == former
    assert (await stats(own))["hour"]["all"]["stable"]["reused_tokens"] == first["tokens"]["total"] - 3


async def test_a_window_that_somebody_only_looks_at_is_not_counted(own: httpx.AsyncClient):
    """A window with ``explain`` is not counted, neither as served nor as one that does not fit."""
    await say(own, "user", "Hello")
    await window(own, explain="true")
    refused = await own.get("/conversations/c-1/window?model=gpt-4o&max_tokens=1&explain=true")
    figures = (await stats(own))["hour"]["all"]
    assert refused.status_code == 422
    assert (figures["windows"], figures["does_not_fit"]) == (0, 0)


async def test_what_models_ask_is_counted(own: httpx.AsyncClient):
    """Receipts that were given and asked for again, and calls of the history tools, have their figures."""
    await say(own, "user", "Hello")
    receipt = (await window(own))["receipt"]
    assert (await own.get("/conversations/c-1/window", params={"receipt": receipt})).status_code == 200
    call = {"call_id": "c", "arguments": {"first": 1}}
    answer = (await own.post("/conversations/c-1/tools/history_read", json=call)).json()
    figures = (await stats(own))["hour"]["requests"]
    assert figures["receipts"] == {"given": 1, "again": 1, "gone": []}
    assert figures["tools"] == {"searches": 0, "reads": 1, "over_mcp": 0, "tokens": answer["tokens"]}


async def test_a_window_that_does_not_fit(own: httpx.AsyncClient):
    """A window that does not fit is counted, whether its messages are stored or in the body."""
    await say(own, "user", "This alone is more than the five tokens that are allowed.")
    assert (await own.get("/conversations/c-1/window?model=gpt-4o&max_tokens=5")).status_code == 422
    body = {"model": "gpt-4o", "max_tokens": 5, "messages": [{"message": {"role": "user", "content": "too " * 9}}]}
    assert (await own.post("/window", json=body)).status_code == 422
    assert (await stats(own))["hour"]["all"]["does_not_fit"] == 2


async def test_a_window_of_a_body_is_counted(own: httpx.AsyncClient):
    """A window of messages in the body is counted as served."""
    body = {"model": "gpt-4o", "messages": [{"message": {"role": "user", "content": "Hello"}}]}
    assert (await own.post("/window", json=body)).status_code == 200
    assert (await stats(own))["hour"]["all"]["windows"] == 1


async def test_reported_usage(own: httpx.AsyncClient):
    """A report compares the billed tokens with the predicted ones."""
    await say(own, "user", "Hello")
    body = {"model": "gpt-4o", "prompt_tokens": 12, "window_tokens": 10}
    assert (await own.post("/conversations/c-1/usage", json=body)).status_code == 200
    prediction = (await stats(own))["hour"]["all"]["prediction"]
    assert (prediction["reports"], prediction["under"], prediction["under_tokens"]) == (1, 1, 2)
    assert prediction["mean_error_tokens"] == -2


async def test_what_was_refused(own: httpx.AsyncClient):
    """Refused requests count as client errors, not as server errors."""
    await own.get("/conversations/nobody")
    await own.get("/nothing/here")
    requests = (await stats(own))["hour"]["requests"]
    assert (requests["requests"], requests["client_errors"], requests["server_errors"]) == (2, 2, 0)


async def test_to_ask_whether_a_chat_began_is_no_mistake(own: httpx.AsyncClient):
    """A session's first read, of a conversation that is not there yet, is no client error, and nothing was refused."""
    for path in ("messages", "window?model=gpt-4o-mini"):
        assert (await own.get(f"/conversations/nobody/{path}")).status_code == 404
    found = await stats(own)
    assert (found["hour"]["requests"]["requests"], found["hour"]["requests"]["client_errors"]) == (2, 0)
    assert found["quarter"]["requests"]["problems"] == []


async def test_a_stopped_replica_adds_what_it_counted(own_store: EmbeddedStore):
    """A stopped replica's last counts are in the statistics that the next one returns."""
    settings = Settings(redis_url=own_store.url, store_connections=1, durability="fast")
    async with lifespan(create_app(settings)) as app, http(app) as client:
        await say(client, "user", "Hello")
        await window(client)
    async with lifespan(create_app(settings)) as app, http(app) as client:
        assert (await stats(client))["hour"]["all"]["windows"] == 1


FIGURES = ("/stats", "/metrics")
KEYED = {"api_keys": (ApiKey("acme", "k1"),)}


async def figures(store: EmbeddedStore, authorization: str, **settings: Any) -> list[httpx.Response]:
    """Return the answers of ``/stats`` and ``/metrics`` to a client with this Authorization header."""
    options = {"redis_url": store.url, "store_connections": 1, "durability": "fast", **settings}
    headers = {"Authorization": authorization} if authorization else {}
    async with lifespan(create_app(Settings(**options))) as app, http(app) as client:
        return [await client.get(path, headers=headers) for path in FIGURES]


@pytest.mark.parametrize("authorization", ["", "Bearer k1", "Bearer wrong", "Basic m1", "Bearer "])
@pytest.mark.parametrize("settings", [{**KEYED, "metrics_key": "m1"}, {"metrics_key": "m1"}], ids=["keyed", "open"])
async def test_figures_need_the_metrics_key(own_store: EmbeddedStore, settings: Any, authorization: str):
    """The figures cover all tenants, so only the metrics key opens them, and the 401 names SASH_METRICS_KEY."""
    for answer in await figures(own_store, authorization, **settings):
        assert "SASH_METRICS_KEY" in problem(answer, 401, "unauthorized")["detail"]
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("settings", [KEYED, {"require_keys": True}], ids=["configured", "stored"])
async def test_without_a_metrics_key_figures_are_closed_where_keys_are_needed(own_store: EmbeddedStore, settings: Any):
    """If keys are required and no metrics key is set, the figures are 401, which names the setting."""
    for answer in await figures(own_store, "Bearer k1", **settings):
        assert "set SASH_METRICS_KEY" in problem(answer, 401, "unauthorized")["detail"]


async def test_the_metrics_key_opens_figures(own_store: EmbeddedStore):
    """The metrics key opens the figures, which name no tenant, and opens no tenant's conversations."""
    settings = {**KEYED, "metrics_key": "m1"}
    for answer in await figures(own_store, "Bearer m1", **settings):
        assert answer.status_code == 200
        assert "acme" not in answer.text
    options = Settings(redis_url=own_store.url, store_connections=1, durability="fast", **settings)
    async with lifespan(create_app(options)) as app, http(app) as client:
        assert (await client.get("/conversations", headers={"Authorization": "Bearer m1"})).status_code == 401


async def test_figures_are_open_where_no_key_is(own_store: EmbeddedStore):
    """Without any keys, the figures are open."""
    assert [answer.status_code for answer in await figures(own_store, "")] == [200, 200]
