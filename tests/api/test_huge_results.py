"""Real conversations with a huge tool result and reasoning added: every turn has a window, and stable cuts hold."""

from typing import Any

import httpx
import pytest
from bench.data_run import load_conversations
from recordings import NO_DATA
from rigs.dialogue import calling, result

WINDOW = {"model": "gpt-4o-mini", "max_tokens": 4000, "stable": "true"}
HUGE = "word " * 200_000
THOUGHT = "step " * 200


def with_huge_result(source: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return the turns, each ending with a user message, with a tool result of 200,000 words after a third of them."""
    turns: list[list[dict[str, Any]]] = [[]]
    for entry in source["entries"]:
        message = entry["message"]
        if message["role"] == "assistant":
            message = {**message, "reasoning_content": THOUGHT}
        turns[-1].append({**entry, "message": message})
        if message["role"] == "user":
            turns.append([])
    whole = [turn for turn in turns if turn]
    whole.insert(max(1, len(whole) // 3), [calling("huge"), result("huge", HUGE)])
    return whole


async def lived(client: httpx.AsyncClient, conversation: str, source: dict[str, Any]) -> tuple[int, int]:
    """Append every turn; return the number of windows after the first, and how many began where the one before did."""
    settings = {name: source[name] for name in ("system", "tools") if source.get(name)}
    assert (await client.post("/conversations", json={"id": conversation, **settings})).status_code == 201
    first_seq, turns, alike = None, 0, 0
    for turn in with_huge_result(source):
        answer = await client.post(f"/conversations/{conversation}/messages", params=WINDOW, json={"messages": turn})
        assert answer.status_code == 201, answer.text
        window = answer.json()["window"]
        assert window is not None, answer.json()["window_error"]
        assert window["tokens"]["total"] <= 4000
        if first_seq is not None:
            turns, alike = turns + 1, alike + (window["kept"]["first_seq"] == first_seq)
        first_seq = window["kept"]["first_seq"]
    await client.delete(f"/conversations/{conversation}")
    return turns, alike


async def test_some_conversations_go_on(client: httpx.AsyncClient, conversation: str) -> None:
    """In every fortieth conversation, every turn has a window of at most 4,000 tokens."""
    sources = load_conversations()
    if not sources:
        pytest.skip(NO_DATA)
    for source in sources[::40]:
        await lived(client, conversation, source)


@pytest.mark.nightly
async def test_nine_windows_of_ten_begin_where_the_one_before_did(
    client: httpx.AsyncClient, conversation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """At least 90% of windows begin where the one before did, so that the provider's prompt cache can be used."""
    sources = load_conversations()
    if not sources:
        pytest.skip(NO_DATA)
    done = [await lived(client, conversation, source) for source in sources]
    turns, alike = (sum(column) for column in zip(*done, strict=True))
    with capsys.disabled():
        print(f"\n{len(sources)} conversations, {turns:,} windows, {alike / turns:.1%} begin where the one before did")
    assert alike / turns >= 0.9
