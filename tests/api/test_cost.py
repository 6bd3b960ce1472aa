"""What a window costs at list prices, with its price tier, over HTTP."""

from datetime import UTC, date, datetime
from importlib.metadata import version
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, user


async def window(client: httpx.AsyncClient, conversation: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(f"/conversations/{conversation}/window", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def model(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/models/{name}")).json()
    return found


async def test_a_model_shows_its_prices_and_their_tiers(client: httpx.AsyncClient) -> None:
    """A model has the prices of its first tier, those of each higher tier, and the factor between their input prices."""
    prices = (await model(client, "gpt-6-sol"))["prices"]
    (tier,) = prices["tiers"]
    assert tier["above"] == 272_000
    assert tier["factor"] == 2.0
    assert [tier[name] for name in ("input", "cached_input", "cache_write")] == [
        2 * prices[name] for name in ("input", "cached_input", "cache_write")
    ]
    assert (await model(client, "gpt-4o-mini"))["prices"]["tiers"] == []


async def test_prices_have_a_source_and_a_day(client: httpx.AsyncClient) -> None:
    """Prices tell the version of their source, which is the installed one, and their day."""
    prices = (await model(client, "gpt-6-sol"))["prices"]
    assert prices["source"] == f"genai-prices {version('genai-prices')}"
    assert date.fromisoformat(prices["as_of"]) <= datetime.now(UTC).date()


@pytest.mark.parametrize(
    ("name", "price"), [("gemini-3.8-flash", 0.75), ("mistral-large-4", 0.7), ("deepseek-v4-flash", 0.15)]
)
async def test_a_price_that_comes_later_is_not_told(client: httpx.AsyncClient, name: str, price: float) -> None:
    """Of prices from a day on, those of the day of the list are told: none of next year, none of certain hours alone."""
    assert (await model(client, name))["prices"]["input"] == price


@pytest.mark.parametrize(
    ("name", "lifetimes", "writes"),
    [
        ("claude-sonnet-4-5", [300, 3600], [1.25, 2.0]),
        ("gpt-6-sol", [1800, 43_200], [1.25, 2.5]),
        ("gemini-2.5-pro", [300], [1.0]),
    ],
)
async def test_a_model_shows_its_prompt_cache(
    client: httpx.AsyncClient, name: str, lifetimes: list[int], writes: list[float]
) -> None:
    """A model has its cache's minimum, and each lifetime with the price of writing."""
    found = await model(client, name)
    cache = found["prompt_cache"]
    assert cache["minimum_tokens"] >= 1024
    assert [each["seconds"] for each in cache["lifetimes"]] == lifetimes
    assert [each["write"] / found["prices"]["input"] for each in cache["lifetimes"]] == pytest.approx(writes)
    assert (await model(client, "gpt-4"))["prompt_cache"] is None


async def test_a_window_above_a_tier_costs_the_tiers_price(client: httpx.AsyncClient) -> None:
    """All tokens of a window have the prices of the tier that the window reaches."""
    for words, above, factor in ((1_000, 0, 1.0), (280_000, 272_000, 2.0)):
        messages = [{"role": "user", "content": "word " * words}]
        found = (await client.post("/window", json={"model": "gpt-6-sol", "messages": messages})).json()
        total, cost = found["tokens"]["total"], found["cost"]
        assert cost == {
            "usd": pytest.approx(total * 2.0 * factor / 1e6),
            "tier": {"above": above, "factor": factor},
        }


async def test_hints_change_no_cost(client: httpx.AsyncClient, conversation: str) -> None:
    """With hints for the cache, a window has the cost that it has without."""
    long = "and what is on the second day? " * 400
    await append(client, conversation, user(long), assistant("Talks."), user("Thanks"))
    hinted = await window(client, conversation, model="gpt-5.2", cache="auto")
    plain = await window(client, conversation, model="gpt-5.2")
    assert plain["cost"] == hinted["cost"]


async def test_a_model_without_prices_has_no_cost(client: httpx.AsyncClient) -> None:
    """A window for a model whose prices are unknown has no ``cost``."""
    body = {"model": "nobody-made-this", "max_tokens": 1000, "messages": [{"role": "user", "content": "hello"}]}
    assert "cost" not in (await client.post("/window", json=body)).json()
