"""Hints for the provider's prompt cache, and usage reports with its tokens, over HTTP."""

import json
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, problem, result, user

CLAUDE, GPT, OLD = "claude-sonnet-5", "gpt-5.2", "gpt-4"


async def window(client: httpx.AsyncClient, conversation: str, **query: Any) -> dict[str, Any]:
    answer = await client.get(f"/conversations/{conversation}/window", params={"cache": "auto", **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_a_conversation_keeps_its_key(client: httpx.AsyncClient, conversation: str) -> None:
    """A conversation's prompt cache key is the same in every turn, differs after an erase and does not contain its id."""
    await append(client, conversation, user("Hello"))
    first = (await window(client, conversation, model=GPT))["request"]
    await append(client, conversation, assistant("Hi."), user("And now?"))
    again = (await window(client, conversation, model=GPT, format="responses"))["request"]
    assert first.keys() == {"messages", "prompt_cache_key"}
    assert first["prompt_cache_key"] == again["prompt_cache_key"]
    assert conversation not in first["prompt_cache_key"]
    await client.delete(f"/conversations/{conversation}")
    await append(client, conversation, user("Hello"))
    assert (await window(client, conversation, model=GPT))["request"]["prompt_cache_key"] != first["prompt_cache_key"]


@pytest.mark.parametrize(
    ("name", "form"),
    [("gpt-4", "openai"), ("gpt-4o-mini", "anthropic"), ("claude-2", "anthropic"), ("claude-sonnet-5", "openai"),
     ("gemini-3.8-flash", "gemini"), ("mistral-large-4", "openai")],
)  # fmt: skip
async def test_nothing_is_sent_that_would_not_be_taken(
    client: httpx.AsyncClient, conversation: str, name: str, form: str
) -> None:
    """The request is that without hints if the model has no cache, takes no hints in the format, or is of another maker."""
    await append(client, conversation, user("Hello"))
    hinted = await window(client, conversation, model=name, format=form)
    bare = await window(client, conversation, model=name, format=form, cache="none")
    assert hinted["request"] == bare["request"]


async def test_an_append_answers_with_hints_too(client: httpx.AsyncClient, conversation: str) -> None:
    """The window in an append's answer, with its cache hints, is the window that a read returns."""
    query = {"model": CLAUDE, "format": "anthropic", "cache": "auto", "stable": "auto"}
    made = await append(client, conversation, user("Hello " * 2000), **query)
    assert made["window"]["request"]["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert made["window"] == await window(client, conversation, **query)


async def test_a_model_without_a_cache_gets_no_hint(client: httpx.AsyncClient, conversation: str) -> None:
    """A model without a cache gets no hint; ``cache=none`` gives no hints either."""
    await append(client, conversation, user("Hello"))
    old = await window(client, conversation, model=OLD)
    assert old["request"].keys() == {"messages"}
    plain = await window(client, conversation, model=CLAUDE, format="anthropic", cache="none")
    assert "cache_control" not in json.dumps(plain["request"])


async def test_cached_tokens_are_at_most_the_input_tokens(client: httpx.AsyncClient, conversation: str) -> None:
    """Cached tokens are taken, and refused above the input tokens."""
    await append(client, conversation, user("Hello"))
    report = {"model": GPT, "window_tokens": 812, "input_tokens": 812, "cached_tokens": 640, "cache_write_tokens": 100}
    assert (await client.post(f"/conversations/{conversation}/usage", json=report)).status_code == 200
    refused = await client.post(f"/conversations/{conversation}/usage", json={**report, "input_tokens": 72})
    assert problem(refused, 422, "unprocessable")["errors"][0]["pointer"] == "#/cached_tokens"


async def test_hints_do_not_depend_on_how_much_is_read(client: httpx.AsyncClient, conversation: str) -> None:
    """A window has the hints of POST /window, where the question before is far back, and where none is."""
    steps = [each for n in range(100) for each in (calling(f"c{n}"), result(f"c{n}", f"result {n} " * 20))]
    histories = {
        "steps": [user("go " * 400), *steps, assistant("done"), user("thanks")],
        "questions": [user("go"), assistant("yes"), *(user(f"and then {n}? " * 20) for n in range(120))],
        "replies": [user("go"), *(assistant(f"step {n} " * 30) for n in range(100)), user("and?")],
    }
    for name, messages in histories.items():
        identity = f"{conversation}-{name}"
        for first in range(0, len(messages), 100):
            await append(client, identity, *messages[first : first + 100])
        for model, limit in ((GPT, 5), (CLAUDE, 20), ("gpt-5.6", 70), ("qwen-max", 5)):
            query = {"model": model, "limit": limit, "max_tokens": 3000}
            given = (await client.post("/window", json={"cache": "auto", "messages": messages, **query})).json()
            stored = await window(client, identity, **query)
            for each in (given, stored):
                each["request"].pop("prompt_cache_key", None)
            assert stored["request"] == given["request"], (name, model)


async def test_recalled_messages_stand_beside_hints(client: httpx.AsyncClient, conversation: str) -> None:
    """A window with hints recalls messages that are newer than the newest reply, like a window without hints."""
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    about = [user("hello"), assistant("hi"), user("my dog is called Rex"), *(user(f"and then {n}?") for n in range(60))]
    query = {"model": GPT, "max_tokens": 300, "recall_max_tokens": 60}
    made = await append(client, conversation, *about, user("what is my dog called"), **query, cache="auto")
    assert made["window"]["recalled"]["messages"]
    plain = await window(client, conversation, **{**query, "cache": "none"})
    assert plain["request"]["messages"] == made["window"]["request"]["messages"]


async def test_a_block_without_a_type_is_refused(client: httpx.AsyncClient) -> None:
    """Anthropic answers 400 to a block without a type."""
    sent = {"model": CLAUDE, "messages": [{"role": "user", "content": [{"text": "no type"}]}]}
    answer = await client.post("/window", params={"format": "anthropic"}, json=sent)
    assert answer.status_code == 400
    assert "The field 'type' is missing" in answer.json()["detail"]
