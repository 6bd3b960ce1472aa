"""Windows while the history is edited: no window mixes messages from before and after an edit."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from conftest import opened
from rigs.dialogue import append, assistant, user, window
from rigs.entries import said

from sash.store.data.layout import target_at
from sash.store.data.script_calls import HistoryEdited
from sash.store.redis.embedded import EmbeddedStore

APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}


async def test_a_tail_that_is_too_short(client: httpx.AsyncClient, conversation: str) -> None:
    """When long old messages make the estimate of the tail too short, more is read and no message that fits is missing."""
    await append(client, conversation, user("old " * 4000), assistant("old " * 4000))
    for _ in range(4):
        await append(client, conversation, *[user("new")] * 100)

    body = await window(client, conversation, max_tokens=5000, explain="true")

    assert body["kept"] == {"messages": 400, "first_seq": 3, "last_seq": 402}
    assert len(body["request"]["messages"]) == 400


@pytest.mark.usefixtures("nothing_left")
async def test_a_second_read_of_another_history(store: EmbeddedStore, conversation: str) -> None:
    """A second read raises ``HistoryEdited`` if the conversation was erased, or erased and created anew, since the first."""
    async with opened(store.url) as conversations:
        await conversations.append(target_at("default", conversation), said("one", "two"), **APPEND)
        state = await conversations.reader.get(target_at("default", conversation))
        records = await conversations.reader.records(target_at("default", conversation), 1, 2, state=state)
        assert len(records) == 2
        assert (
            len(await conversations.reader.bodies(target_at("default", conversation), [(1, records)], state=state)) == 2
        )
        await conversations.append(target_at("default", conversation), said("three"), **APPEND)

        await conversations.erase(target_at("default", conversation), if_match="")
        reads: list[Any] = [
            lambda: conversations.reader.records(target_at("default", conversation), 1, 2, state=state),
            lambda: conversations.reader.bodies(target_at("default", conversation), [(1, records)], state=state),
            lambda: conversations.reader.grounding(target_at("default", conversation), {1: records[0]}, state=state),
        ]
        for again in (False, True):
            if again:
                later = {**APPEND, "now_ms": APPEND["now_ms"] + 1}
                await conversations.append(target_at("default", conversation), said("new"), **later)
            for read in reads:
                with pytest.raises(HistoryEdited):
                    await read()


async def test_windows_while_history_is_rewound(client: httpx.AsyncClient, conversation: str) -> None:
    """While a history is rewound and written anew, every window holds messages of only one of its generations."""
    documents = [{"text": "paper " * 30}]
    path = f"/conversations/{conversation}"

    def generation(name: str) -> list[dict[str, Any]]:
        long = [user(f"{name} " * 150, grounding={"documents": documents}) for _ in range(8)]
        return [*long, *[user(f"{name} x", grounding={"documents": documents}) for _ in range(80)]]

    await append(client, conversation, user("begin"), *generation("g0"))
    done = asyncio.Event()

    async def rewind() -> None:
        for n in range(1, 8):
            (await client.post(f"{path}/rewind", json={"to_seq": 1})).raise_for_status()
            await append(client, conversation, *generation(f"g{n}"))
        done.set()

    async def read() -> int:
        windows = 0
        while not done.is_set():
            for query in ({"max_tokens": 3000}, {"max_tokens": 4000, "grounding": "all", "dedupe": "none"}):
                answer = await client.get(f"{path}/window", params={"model": "gpt-4o", **query})
                assert answer.status_code == 200, answer.text
                texts = [message["content"] for message in json.loads(answer.content)["request"]["messages"]]
                assert len({text.split()[0] for text in texts} - {"begin"}) <= 1, texts
                windows += 1
        return windows

    _, *counts = await asyncio.gather(rewind(), read(), read())

    assert min(counts) > 0


async def test_windows_while_history_grows(client: httpx.AsyncClient, conversation: str) -> None:
    """While a writer appends, every window holds exactly the messages from its first to its last seq."""
    done = asyncio.Event()

    async def write() -> None:
        for n in range(1, 301):
            await append(client, conversation, user(str(n)))
        done.set()

    async def read() -> int:
        windows = 0
        while not done.is_set():
            answer = await client.get(f"/conversations/{conversation}/window", params={"model": "gpt-4o", "limit": 40})
            if answer.status_code == 404:
                continue
            body = answer.json()
            said_at = [int(message["content"]) for message in body["request"]["messages"]]
            assert said_at == list(range(body["kept"]["first_seq"], body["kept"]["last_seq"] + 1))
            windows += 1
        return windows

    _, *windows = await asyncio.gather(write(), *(read() for _ in range(6)))
    assert sum(windows) > 100
