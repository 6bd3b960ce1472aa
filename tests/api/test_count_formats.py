"""POST /count with a provider's own request in the body."""

from typing import Any

import httpx
import pytest

QUESTION = "Who brought the spare jib on Sunday?"
REQUESTS: dict[str, dict[str, Any]] = {
    "responses": {"model": "gpt-5-mini", "instructions": "Be brief.", "input": QUESTION, "store": False},
    "anthropic": {
        "model": "claude-sonnet-4-5",
        "max_tokens": 1024,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}],
    },
    "gemini": {
        "model": "models/gemini-2.5-flash",
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
        "generationConfig": {"temperature": 0},
    },
}


@pytest.mark.parametrize("form", REQUESTS)
async def test_a_request_is_counted_as_the_provider_takes_it(client: httpx.AsyncClient, form: str) -> None:
    """A provider's request counts as many tokens as its text in chat messages; fields that add no tokens are ignored."""
    body = REQUESTS[form]
    answer = await client.post("/count", params={"format": form}, json=body)
    assert answer.status_code == 200, answer.text
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    expected = await client.post("/count", json={"model": body["model"], "messages": chat})
    assert answer.json() == expected.json()


async def test_what_is_reported_corrects_it(client: httpx.AsyncClient, conversation: str) -> None:
    """A usage report corrects the estimate for a provider's request too."""
    body = {**REQUESTS["anthropic"], "model": f"{conversation}/claude-sonnet-4-5"}  # no other test's estimates change
    before = (await client.post("/count?format=anthropic", json=body)).json()["tokens"]
    await client.post(
        f"/conversations/{conversation}/messages",
        json={"messages": [{"message": {"role": "user", "content": QUESTION}}]},
    )
    report = {"model": body["model"], "prompt_tokens": 2_000, "window_tokens": 1_000}
    assert (await client.post(f"/conversations/{conversation}/usage", json=report)).status_code < 300
    after = (await client.post("/count?format=anthropic", json=body)).json()["tokens"]
    assert after >= 2 * before


@pytest.mark.parametrize(
    ("query", "body", "pointer"),
    [
        ("format=claude", REQUESTS["anthropic"], "#/query/format"),
        ("format=anthropic", {"messages": []}, "#/model"),
        ("format=anthropic", {"model": "claude-sonnet-4-5"}, "#"),
        ("format=anthropic", {"model": "claude-sonnet-4-5", "messages": [7]}, "#/messages/0"),
        ("format=gemini", {"model": 5, "contents": []}, "#/model"),
    ],
)
async def test_what_is_no_request_is_refused(
    client: httpx.AsyncClient, query: str, body: dict[str, Any], pointer: str
) -> None:
    """An unknown format, or a body that the provider would refuse, is 4xx with a pointer to the error."""
    answer = await client.post(f"/count?{query}", json=body)
    assert 400 <= answer.status_code < 500, answer.text
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


async def test_a_model_of_an_unknown_maker_is_counted_as_a_bound(client: httpx.AsyncClient) -> None:
    """A name that nobody lists is counted as a bound, which is more than any family with figures says, and no less."""
    sent = {"messages": [{"role": "user", "content": "How many tokens has this?"}]}
    bound = (await client.post("/count", json=sent | {"model": "nobody-knows"})).json()
    known = (await client.post("/count", json=sent | {"model": "meta-llama/llama-3.1-8b"})).json()
    assert (bound["exact"], bound["counting"], known["counting"]) == (False, "unknown", "estimate")
    assert bound["tokens"] > known["tokens"]


async def test_a_count_says_how_it_was_made(client: httpx.AsyncClient) -> None:
    """A count is exact where bills have shown its shape, and else told with the vendor's vocabulary."""
    said = {"role": "user", "content": "hi"}
    named = [{**said, "name": "Ann"}, {"role": "function", "name": "look", "content": "1"}]
    plain, odd = [
        (await client.post("/count", json={"model": "gpt-4.1-nano", "messages": messages})).json()
        for messages in ([said], named)
    ]
    assert (plain["exact"], plain["counting"]) == (True, "exact")
    assert (odd["exact"], odd["counting"]) == (False, "vocabulary")
