"""However a history came into the store, its messages and its windows in every format are the same."""

import itertools
import json
from collections.abc import AsyncIterator, Iterable
from random import Random
from typing import Any

import httpx
import pytest
import pytest_asyncio
from conftest import http, lifespan
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from profiles import examples
from rigs.servers import binaries, server
from validators.conversations import conversations
from validators.divisions import as_bulk, divided
from validators.logs import Group

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

MODELS = {
    "openai": "gpt-4o-mini",
    "responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "interactions": "gemini-2.5-flash",
    "converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "ollama": "qwen3:8b",
}
NDJSON = {"Content-Type": "application/x-ndjson"}
COMPUTED = frozenset({"seq", "id", "digest", "created_at", "tokens", "grounding_tokens"})
"""Members of an exported message that an import may find out by itself."""
SERVERS = [name for name, path in binaries().items() if path is not None and name != "valkey-9"]
STORES = [(name, key) for name in ("embedded", *SERVERS) for key in ((), (b"ways".ljust(32),))]
_names = (f"w{number}" for number in itertools.count(100_001))
"""Names of the same tokens, because lines tell where a whole result is."""
few = settings(examples(0.06), database=None, phases=[Phase.generate])  # a second each: too long to shrink


@pytest_asyncio.fixture(scope="module", params=STORES, ids=[f"{name}{' encrypted' * len(key)}" for name, key in STORES])
async def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """Yield a client of an application on the embedded store and on each server, with encryption and without."""
    name, key = request.param
    folder = tmp_path_factory.mktemp("ways")
    binary = binaries().get(name)
    store = server(binary, folder) if binary is not None else EmbeddedStore(folder, fsync="everysec")
    with store as running:
        given = Settings(redis_url=running.url, durability="fast", encryption_key=key)
        async with lifespan(create_app(given)) as app, http(app) as client:
            yield client


async def appended(client: httpx.AsyncClient, groups: Iterable[Group]) -> str:
    """Append each group in one request. Returns the conversation's name."""
    name = next(_names)
    await client.post("/conversations", json={"id": name})
    for form, messages in groups:
        answer = await client.post(
            f"/conversations/{name}/messages", params={"format": form}, json={"messages": messages}
        )
        assert answer.status_code in (200, 201), answer.text
    return name


async def forked(client: httpx.AsyncClient, source: str) -> str:
    name = next(_names)
    answer = await client.post(f"/conversations/{source}/fork", json={"id": name})
    assert answer.status_code == 201, answer.text
    return name


async def moved(client: httpx.AsyncClient, source: str, *, without: frozenset[str] = frozenset()) -> str:
    """Export a copy, erase it, and import what was exported, ``without`` some members of each message."""
    name = await forked(client, source)
    head, *lines = (await client.get(f"/conversations/{name}/export")).content.splitlines()
    await client.delete(f"/conversations/{name}")
    told = [{key: value for key, value in json.loads(line).items() if key not in without} for line in lines]
    body = b"\n".join([head, *(json.dumps(each).encode() for each in told)])
    answer = await client.post("/conversations/import", content=body, headers=NDJSON)
    assert answer.status_code == 201, answer.text
    return name


async def seen(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    """All that a client reads of a conversation's messages, and its windows in every format."""
    path = f"/conversations/{name}"
    told = (await client.get(f"{path}/messages", params={"limit": 500})).json()
    messages = [
        {key: value for key, value in each.items() if key not in ("id", "created_at")} for each in told["messages"]
    ]
    found: dict[str, Any] = {"messages": messages}
    for (form, model), budget in itertools.product(MODELS.items(), (100_000, 600)):
        query = {"model": model, "format": form, "uncarried": "drop", "reserve": 0, "max_tokens": budget}
        window = (await client.get(f"{path}/window", params=query)).json()
        told = {part: window.get(part) for part in ("request", "tokens", "kept", "mended", "status", "costs")}
        found[f"{form} {budget}"] = json.loads(json.dumps(told).replace(name, "w"))
    return found


@few
@given(conversations(), st.randoms(use_true_random=False))
async def test_a_history_is_the_same_whichever_way_it_came(
    client: httpx.AsyncClient, conversation: list[Group], random: Random
) -> None:
    """In one request, message by message, in any chunks, by a fork, by an export and by an import: one history."""
    bulk = await appended(client, as_bulk(conversation))
    expected = await seen(client, bulk)
    ways = {
        "one by one": await appended(client, divided(conversation, lambda: True)),
        "in chunks": await appended(client, divided(conversation, lambda: random.random() < 0.5)),
        "forked": await forked(client, bulk),
        "exported": await moved(client, bulk),
        "imported": await moved(client, bulk, without=COMPUTED),
    }
    for way, name in ways.items():
        found = await seen(client, name)
        for part, value in expected.items():
            assert found[part] == value, (way, part)
    for name in (bulk, *ways.values()):
        await client.delete(f"/conversations/{name}")


CALL = {"functionCall": {"name": "look", "args": {}}}
WAITING: dict[str, list[dict[str, Any]]] = {
    "gemini": [
        {"role": "user", "parts": [{"text": "Which?"}]},
        {"role": "model", "parts": [CALL]},
        {"role": "model", "parts": [{"text": "One moment."}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "Gradle"}}}]},
    ],
    "responses": [
        {"role": "user", "content": "Which?"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"role": "assistant", "content": "One moment."},
        {"type": "function_call_output", "call_id": "c1", "output": "Gradle"},
    ],
    "interactions": [
        {"type": "user_input", "content": [{"type": "text", "text": "Which?"}]},
        {"type": "function_call", "id": "c1", "name": "look", "arguments": {}},
        {"type": "model_output", "content": [{"type": "text", "text": "One moment."}]},
        {"type": "function_result", "call_id": "c1", "name": "look", "result": "Gradle"},
    ],
    "anthropic": [
        {"role": "user", "content": "Which?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "One moment."}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Gradle"}]},
    ],
}


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("form", WAITING)
async def test_words_behind_a_call_stand_behind_its_result(
    client: httpx.AsyncClient,
    form: str,
    is_answered: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A call and words in one request: in every format the result, or the line for none, stands right behind the call."""
    messages = WAITING[form] if is_answered else WAITING[form][:-1]
    asked = {"openai": {"role": "user", "content": "And?"}}
    bulk = await appended(client, [(form, messages), *((name, [each]) for name, each in asked.items())])
    single = await appended(client, [*((form, [each]) for each in messages), ("openai", [asked["openai"]])])
    expected = await seen(client, bulk)
    assert await seen(client, single) == expected
    for part, told in expected.items():
        if part.endswith(" 100000"):
            sent = json.dumps(told["request"])
            result = "Gradle" if is_answered else "No result was recorded"
            assert sent.index("look") < sent.index(result) < sent.index("One moment."), part
    for name in (bulk, single):
        await client.delete(f"/conversations/{name}")
