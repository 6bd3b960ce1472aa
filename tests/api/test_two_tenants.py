"""Two tenants who do anything in any order, with the same ids, beside a model that is two plain dictionaries."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from conftest import http, lifespan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.app import create_app
from service.settings import ApiKey, Settings
from service.store.embedded import EmbeddedStore

KEYS = (ApiKey("acme", "key-of-acme-0123456789"), ApiKey("beta", "key-of-beta-0123456789"))
TENANTS = st.sampled_from([0, 1])
TALKS = st.sampled_from(["same", "other"])
ENTRIES = st.integers(1, 6)
STEPS = st.one_of(
    st.tuples(st.just("append"), TENANTS, TALKS, ENTRIES),
    st.tuples(st.just("append"), TENANTS, TALKS, ENTRIES),
    st.tuples(st.just("rewind"), TENANTS, TALKS, ENTRIES),
    st.tuples(st.just("fork"), TENANTS, TALKS, ENTRIES),
    st.tuples(st.just("erase"), TENANTS, TALKS, ENTRIES),
    st.tuples(st.just("read"), TENANTS, TALKS, ENTRIES),
)
Model = list[dict[str, list[str]]]


async def step(client: httpx.AsyncClient, model: Model, name: str, tenant: int, talk: str, number: int) -> None:
    """Do it in the service and in the model; what the service answers must be what the model says."""
    talks = model[tenant]
    ask: Callable[..., Any] = client.request
    headers = {"Authorization": f"Bearer {KEYS[tenant].key}"}
    path = f"/conversations/{talk}"
    match name:
        case "append":
            text = f"{tenant} {talk} {number}"
            entry = {"id": f"e{number}", "message": {"role": "user", "content": text}}
            reply = await ask("POST", f"{path}/messages", json={"messages": [entry]}, headers=headers)
            known = talks.setdefault(talk, [])
            old = text in known or any(each.endswith(f" {number}") for each in known)
            if old and text not in known:  # a fork brought another's text under this id
                assert reply.status_code == 409
                return
            assert reply.status_code == (200 if old else 201)
            if not old:
                known.append(text)
        case "rewind" if talk in talks and number <= len(talks[talk]):
            reply = await ask("POST", f"{path}/rewind", json={"to_seq": number}, headers=headers)
            assert reply.status_code == 200
            del talks[talk][number:]
        case "fork" if talk in talks:
            target = "other" if talk == "same" else "same"
            reply = await ask("POST", f"{path}/fork", json={"id": target}, headers=headers)
            assert reply.status_code == (409 if target in talks else 201)
            talks.setdefault(target, list(talks[talk]))
        case "erase":
            reply = await ask("DELETE", path, headers=headers)
            assert reply.status_code == (204 if talks.pop(talk, None) is not None else 404)
        case _:
            await compare(client, model)


async def compare(client: httpx.AsyncClient, model: Model) -> None:
    """Every talk of every tenant, and none that is not there."""
    for tenant, talks in enumerate(model):
        headers = {"Authorization": f"Bearer {KEYS[tenant].key}"}
        for talk in ("same", "other"):
            reply = await client.get(f"/conversations/{talk}/window?model=gpt-4o", headers=headers)
            if talk in talks:
                said = [message["content"] for message in reply.json()["request"]["messages"]]
                assert said == talks[talk]
            else:
                assert reply.status_code == 404


async def test_two_tenants_never_meet(store: EmbeddedStore) -> None:
    """Whatever they do, each sees what a service of its own would have shown."""
    app = create_app(Settings(redis_url=store.url, store_connections=1, durability="fast", api_keys=KEYS))
    loop = asyncio.get_running_loop()
    async with lifespan(app), http(app) as client:

        async def play(steps: list[tuple[str, int, str, int]]) -> None:
            model: Model = [{}, {}]
            for each in steps:
                await step(client, model, *each)
            await compare(client, model)
            for tenant, talks in enumerate(model):
                for talk in talks:
                    headers = {"Authorization": f"Bearer {KEYS[tenant].key}"}
                    await client.delete(f"/conversations/{talk}", headers=headers)

        @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(steps=st.lists(STEPS, max_size=25))
        def run(steps: list[tuple[str, int, str, int]]) -> None:
            asyncio.run_coroutine_threadsafe(play(steps), loop).result(60)

        await asyncio.to_thread(run)


async def test_two_writers_of_one_conversation_lose_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """A thousand appends each, at once: two thousand turns, a dense sequence, each writer's own in order."""
    path = f"/conversations/{conversation}/messages"

    async def write(writer: str) -> list[int]:
        seqs = []
        for number in range(1000):
            entry = {"id": f"{writer}{number}", "message": {"role": "user", "content": writer}}
            reply = await client.post(path, json={"messages": [entry]})
            assert reply.status_code == 201
            seqs.append(reply.json()["last_seq"])
        return seqs

    first, second = await asyncio.gather(write("a"), write("b"))
    assert first == sorted(first)
    assert second == sorted(second)
    assert sorted(first + second) == list(range(1, 2001))
