"""``price=auto`` over HTTP: below a price tier, where that can be."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, user
from test_cost import window


async def built(client: httpx.AsyncClient, *messages: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = await client.post("/window", json={"messages": messages, **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("stable", ["auto", False])
async def test_a_window_stays_below_a_price_tier(client: httpx.AsyncClient, stable: object) -> None:
    """A chat that would be above the tier is sent below it, and ``stop_reason`` says that it is for the price."""
    chat = [{"role": ("user", "assistant")[n % 2], "content": "word " * 20_000} for n in range(15)]
    dear = await built(client, *chat, model="gpt-6-sol", stable=stable)
    cheap = await built(client, *chat, model="gpt-6-sol", stable=stable, price="auto")
    assert (dear["stop_reason"], dear["cost"]["tier"]["factor"]) == ("complete", 2.0)
    assert (cheap["stop_reason"], cheap["cost"]["tier"]["factor"]) == ("price", 1.0)
    assert cheap["tokens"]["total"] <= 272_000
    assert cheap["kept"]["last_seq"] == 15
    assert cheap["budget"] == dear["budget"]


async def test_what_must_be_in_is_sent_above_the_tier(client: httpx.AsyncClient) -> None:
    """A question that is above the tier alone is sent whole, and history with it is not."""
    chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    question = {"role": "user", "content": "word " * 280_000}
    found = await built(client, *chat, question, model="gpt-6-sol", stable="auto", price="auto")
    assert found["cost"]["tier"] == {"above": 272_000, "factor": 2.0}
    assert (found["kept"]["messages"], found["stop_reason"]) == (1, "price")


async def test_below_a_tier_price_auto_changes_nothing(client: httpx.AsyncClient) -> None:
    """A window that is below the tier anyway is the same with ``price=auto``, and slides as without."""
    chat = [{"role": ("user", "assistant")[n % 2], "content": f"day {n} " * 200} for n in range(31)]
    query = {"model": "gpt-6-sol", "max_tokens": 3_000}
    cheap = await built(client, *chat, price="auto", **query)
    assert cheap["dropped"]["messages"] > 0
    assert cheap == await built(client, *chat, **query)


async def test_an_append_and_a_read_give_the_same_window(client: httpx.AsyncClient, conversation: str) -> None:
    """The window in an append's answer is the one that a read returns."""
    query = {"model": "gpt-6-sol", "price": "auto", "cache": "auto"}
    for _ in range(8):
        await append(client, conversation, user("word " * 20_000), assistant("word " * 20_000))
    made = await append(client, conversation, user("Thanks"), **query)
    assert made["window"]["stop_reason"] == "price"
    assert made["window"] == await window(client, conversation, **query)
