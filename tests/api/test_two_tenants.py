"""Random operations of two tenants with the same ids, compared with a model of two dictionaries."""

import asyncio
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import httpx
from conftest import http, lifespan
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.app import create_app
from sash.core.stored.redaction import REDACTED_TEXT
from sash.settings import ApiKey, Settings
from sash.store.redis.embedded import EmbeddedStore

KEYS = (ApiKey("acme", "key-of-acme-0123456789"), ApiKey("beta", "key-of-beta-0123456789"))
TENANTS = st.sampled_from([0, 1])
TALKS = st.sampled_from(["same", "other"])
ENTRIES = st.integers(1, 6)
NAMES = ("append", "append", "append", "rewind", "redact", "change", "summary", "fork", "move", "erase", "read")
STEPS = st.tuples(st.sampled_from(NAMES), TENANTS, TALKS, ENTRIES)
NDJSON = {"Content-Type": "application/x-ndjson"}


@dataclass
class Talk:
    """A conversation in the model: entries (number in the id, text), system prompt, summary (text, last seq covered)."""

    entries: list[tuple[int, str]] = field(default_factory=list)
    system: str | None = None
    summary: tuple[str, int] | None = None


Model = list[dict[str, Talk]]


async def step(  # noqa: C901 - a case for each call
    client: httpx.AsyncClient, model: Model, name: str, tenant: int, talk: str, number: int
) -> None:
    """Do the operation in the service and in the model; the service's status must be the one that the model expects."""
    talks = model[tenant]
    known = talks.get(talk)
    headers = {"Authorization": f"Bearer {KEYS[tenant].key}"}
    path, target = f"/conversations/{talk}", "other" if talk == "same" else "same"
    text = f"{tenant} {talk} {number}"

    async def ask(method: str, path: str, expected: int, body: Any = None) -> None:
        reply = await client.request(method, path, json=body, headers=headers)
        assert reply.status_code == expected, reply.text

    match name:
        case "append":
            known = talks.setdefault(talk, Talk())
            stored = dict(known.entries).get(number)
            # A fork may have brought another text under this id; under a redacted message's id any text is a duplicate.
            expected = 201 if stored is None else 200 if stored in (text, REDACTED_TEXT) else 409
            entry = {"id": f"e{number}", "message": {"role": "user", "content": text}}
            await ask("POST", f"{path}/messages", expected, {"messages": [entry]})
            if stored is None:
                known.entries.append((number, text))
        case "rewind":
            expected = 404 if known is None else 200 if number <= len(known.entries) else 422
            await ask("POST", f"{path}/rewind", expected, {"to_seq": number})
            if known is not None:
                del known.entries[number:]
                if known.summary and known.summary[1] > len(known.entries):
                    known.summary = None
        case "redact":
            there = known is not None and number <= len(known.entries)
            await ask("DELETE", f"{path}/messages/{number}", 204 if there else 404)
            if known is not None and there and known.entries[number - 1][1] != REDACTED_TEXT:
                known.entries[number - 1] = known.entries[number - 1][0], REDACTED_TEXT
                if known.summary and known.summary[1] >= number:
                    known.summary = None
        case "change":
            await ask("PATCH", path, 404 if known is None else 200, {"system": text})
            if known is not None:
                known.system = text
        case "summary":
            expected = 404 if known is None else 200 if number <= len(known.entries) else 422
            await ask("PUT", f"{path}/summary", expected, {"text": text, "through_seq": number})
            if known is not None and expected == 200:
                known.summary = text, number
        case "fork":
            await ask("POST", f"{path}/fork", 404 if known is None else 409 if target in talks else 201, {"id": target})
            if known is not None:
                talks.setdefault(target, deepcopy(known))
        case "move":
            exported = await client.get(f"{path}/export", headers=headers)
            assert exported.status_code == (404 if known is None else 200)
            if known is not None:
                where = f"/conversations/import?id={target}"
                reply = await client.post(where, content=exported.content, headers=headers | NDJSON)
                assert reply.status_code == (409 if target in talks else 201), reply.text
                talks.setdefault(target, deepcopy(known))
        case "erase":
            await ask("DELETE", path, 404 if talks.pop(talk, None) is None else 204)
        case _:
            await compare(client, model)


async def compare(client: httpx.AsyncClient, model: Model) -> None:
    """Check that each tenant has exactly the conversations of the model."""
    for tenant, talks in enumerate(model):
        headers = {"Authorization": f"Bearer {KEYS[tenant].key}"}
        for name in ("same", "other"):
            path = f"/conversations/{name}"
            window = await client.get(f"{path}/window?model=gpt-4o", headers=headers)
            if (talk := talks.get(name)) is None:
                assert window.status_code == 404
                continue
            texts = [text for _, text in talk.entries]
            said = [message["content"] for message in window.json()["request"]["messages"]]
            assert said == ([talk.system] if talk.system else []) + texts
            state = (await client.get(path, headers=headers)).json()
            summary = state["summary"] and (state["summary"]["text"], state["summary"]["through_seq"])
            assert (state.get("system"), summary) == (talk.system, talk.summary)
            stored = (await client.get(f"{path}/messages", headers=headers)).json()["messages"]
            assert [(each["id"], each["message"]["content"]) for each in stored] == [
                (f"e{number}", text) for number, text in talk.entries
            ]


async def test_two_tenants_never_meet(store: EmbeddedStore) -> None:
    """Whatever two tenants do, each sees what a service of its own would have shown."""
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

        @examples(0.4)
        @given(steps=st.lists(STEPS, max_size=25))
        def run(steps: list[tuple[str, int, str, int]]) -> None:
            asyncio.run_coroutine_threadsafe(play(steps), loop).result(60)

        await asyncio.to_thread(run)


async def test_two_writers_of_one_conversation_lose_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """Two concurrent writers with 1,000 appends each get 2,000 seqs without a gap, each writer's in order."""
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
