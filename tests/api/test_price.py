"""``price=auto`` over HTTP: below a price tier, shorter while the cache is cold, and the lifetime that is asked for."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter
from rigs.dialogue import append, assistant, user
from test_cost import lived, window

MINUTE, HOUR, DAY = 60, 3_600, 86_400
TYPES: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(MessageCreateParamsNonStreaming),
    "openai": TypeAdapter(CompletionCreateParamsNonStreaming),
    "responses": TypeAdapter(ResponseCreateParamsNonStreaming),
}


def talk(turns: int, pause_seconds: int, last_seconds: int | None = None) -> Iterator[tuple[int, str, str]]:
    """Questions after a pause, each with its reply after five seconds; the last question comes after another pause."""
    at = 0
    for turn in range(turns):
        yield at, "user", f"what is on day {turn}? " + "and then? " * 40
        at += 5
        yield at, "assistant", f"talks on day {turn}. " * 20
        at += pause_seconds if turn < turns - 1 or last_seconds is None else last_seconds
    yield at, "user", "and after that?"


async def built(client: httpx.AsyncClient, *messages: dict[str, Any], **query: Any) -> dict[str, Any]:
    answer = await client.post("/window", json={"messages": messages, **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_window_stays_below_a_price_tier(client: httpx.AsyncClient) -> None:
    """A chat that would be above the tier is sent below it, and ``stop_reason`` says that it is for the price."""
    chat = [{"role": ("user", "assistant")[n % 2], "content": "word " * 20_000} for n in range(15)]
    dear = await built(client, *chat, model="gpt-6-sol", stable="auto")
    cheap = await built(client, *chat, model="gpt-6-sol", stable="auto", price="auto")
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


@pytest.mark.parametrize(("last", "is_shorter"), [(MINUTE, False), (HOUR, True)])
async def test_a_window_is_shorter_after_a_long_pause(
    client: httpx.AsyncClient, conversation: str, last: int, *, is_shorter: bool
) -> None:
    """After an hour's pause a window has half the budget, and the next ones begin at the same message."""
    await lived(client, conversation, *talk(25, MINUTE, last))
    query = {"model": "gpt-5.2", "max_tokens": 6_000, "stable": "auto"}
    plain = await window(client, conversation, **query)
    found = await window(client, conversation, price="auto", **query)
    if not is_shorter:
        assert found["kept"] == plain["kept"]
        return
    assert found["tokens"]["total"] <= 3_000 < plain["tokens"]["total"]
    assert (found["stop_reason"], found["cost"]["cache"]) == ("price", "cold")
    assert found["cost"]["usd"] < plain["cost"]["usd"]
    said = [*talk(25, MINUTE, last)]
    at = said[-1][0]
    more = [(at + 5, "assistant", "Talks."), (at + 30, "user", "Thanks")]
    await lived(client, f"{conversation}-on", *said, *more)
    later = await window(client, f"{conversation}-on", price="auto", **query)
    assert later["kept"]["first_seq"] == found["kept"]["first_seq"]


async def test_price_auto_has_a_stable_cut(client: httpx.AsyncClient, conversation: str) -> None:
    """``price=auto`` alone cuts as with ``stable=auto``, for a model whose name the conversation gives, too."""
    await lived(client, conversation, *talk(40, MINUTE))
    query = {"model": "gpt-5.2", "max_tokens": 3_000}
    alone = await window(client, conversation, price="auto", **query)
    assert alone["kept"] == (await window(client, conversation, stable="auto", **query))["kept"]
    await client.patch(f"/conversations/{conversation}", json={"model": "gpt-5.2"})
    named = await window(client, conversation, price="auto", max_tokens=3_000)
    assert named["kept"] == alone["kept"]


@pytest.mark.parametrize(
    ("model", "form", "pause", "asked"),
    [
        ("claude-sonnet-5", "anthropic", MINUTE, ""),
        ("claude-sonnet-5", "anthropic", 20 * MINUTE, "1h"),
        ("gpt-6.1-sol", "responses", 2 * HOUR, "12h"),
        ("gpt-6.1-sol", "openai", 2 * HOUR, "nothing"),
        ("claude-sonnet-5", "anthropic", DAY, "nothing"),
    ],
)
async def test_the_lifetime_that_is_asked_for_follows_the_pauses(
    client: httpx.AsyncClient, conversation: str, model: str, form: str, pause: int, asked: str
) -> None:
    """A window asks for the lifetime that is cheapest with the conversation's pauses, or that messages are not written."""
    await lived(client, conversation, *talk(12, pause))
    query = {"model": model, "format": form, "cache": "auto", "stable": "auto"}
    found = await window(client, conversation, price="auto", **query)
    request = found["request"]
    if form == "anthropic":
        blocks = [block for message in request["messages"] for block in message["content"]]
        marks = [block["cache_control"] for block in blocks if "cache_control" in block]
        assert {mark.get("ttl", "") for mark in marks} == (set() if asked == "nothing" else {asked})
    else:
        assert request["prompt_cache_options"] == ({"mode": "explicit"} if asked == "nothing" else {"ttl": asked})
    TYPES[form].validate_python({"model": model, "max_tokens": 1, **request})
    plain = await window(client, conversation, **query)
    assert "ttl" not in str(plain["request"])
    if asked == "nothing":
        assert found["cost"]["expected_write_tokens"] == 0
        assert found["cost"]["usd"] < plain["cost"]["usd"]
    elif asked:
        assert found["cost"]["cache"] == "warm"
        assert plain["cost"]["cache"] == "cold"


async def test_an_append_and_a_read_give_the_same_window(client: httpx.AsyncClient, conversation: str) -> None:
    """The window in an append's answer is the one that a read returns, and a read with its ETag is 304."""
    await lived(client, conversation, *talk(12, 20 * MINUTE))
    query = {"model": "gpt-5.2", "max_tokens": 1_500, "price": "auto", "cache": "auto"}
    made = await append(client, conversation, assistant("Talks."), user("Thanks"), **query)
    assert made["window"] == await window(client, conversation, **query)
    url, tag = f"/conversations/{conversation}/window", (await client.get(f"/conversations/{conversation}")).headers
    answer = await client.get(url, params=query, headers={"If-None-Match": tag["etag"]})
    assert answer.status_code == 304
