"""What a long conversation said at its beginning is found at its end, by the tools that windows bring."""

import itertools
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from recall.far_back import talks, with_facts
from recordings import DATA, NO_DATA
from rigs.dialogue import indexed

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=NO_DATA)


async def shares(client: httpx.AsyncClient, fresh: Callable[[], str], wanted: list[Any]) -> dict[str, float]:
    """Return the share of the commands and of the paths that one call of ``history_search`` finds."""
    found = {"command": 0, "path": 0}
    count = 0
    for seed, talk in enumerate(wanted):
        conversation = fresh()
        messages, facts = with_facts(talk, seed)
        await client.post("/conversations", json={"id": conversation, "recall": "lexical", "model": "gpt-4o-mini"})
        for start in range(0, len(messages), 90):
            part = {"messages": messages[start : start + 90]}
            answer = await client.post(f"/conversations/{conversation}/messages", json=part)
            assert answer.status_code == 201, answer.text
        await indexed(client, conversation)
        window = (await client.get(f"/conversations/{conversation}/window?history_tools=true&max_tokens=8000")).json()
        sent = str(window["request"]["messages"])
        for fact in facts:
            assert fact.command not in sent
            count += 1
            for what, said in (("command", fact.command), ("path", fact.path)):
                arguments = {"query": f"{what} to {fact.looks_for}"}
                body = {"call_id": "call_1", "arguments": arguments}
                told = await client.post(f"/conversations/{conversation}/tools/history_search", json=body)
                found[what] += said in told.json()["message"]["content"]
        await client.delete(f"/conversations/{conversation}")
    return {what: number / count for what, number in found.items()}


@pytest.mark.parametrize("kind", ["people", "tools"])
async def test_a_path_and_a_command_of_the_third_turn_are_found(
    client: httpx.AsyncClient, fresh: Callable[[], str], kind: str
) -> None:
    """At least 95 % are found at turn 400, in a talk of people and in one with tools."""
    talk = next(itertools.islice(talks(DATA), 0 if kind == "people" else 5, None))
    found = await shares(client, fresh, [talk])
    assert min(found.values()) >= 0.95, found


@pytest.mark.nightly
async def test_in_all_conversations(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """At least 95 % of all."""
    found = await shares(client, fresh, [*talks(DATA)])
    print(found)
    assert min(found.values()) >= 0.95
