"""Windows and counts of text in many scripts, for models whose vocabulary Sash does not have."""

import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

LANGUAGES: dict[str, str] = tomllib.loads((Path(__file__).parents[1] / "truth" / "languages.toml").read_text("utf-8"))
ESTIMATED = ("llama-3.3-70b-instruct", "qwen3-max", "unheard-of-model")


async def append(client: httpx.AsyncClient, *messages: dict[str, Any]) -> None:
    """Append to the conversation ``scripts``."""
    answer = await client.post(
        "/conversations/scripts/messages",
        json={"messages": [{"message": each} if "role" in each else each for each in messages]},
    )
    assert answer.status_code == 201, answer.text


async def window(client: httpx.AsyncClient, model: str, **parameters: Any) -> dict[str, Any]:
    """Return the conversation's window; the request must succeed."""
    answer = await client.get(
        "/conversations/scripts/window", params={"model": model, "max_tokens": 30_000, "reserve": 0, **parameters}
    )
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def counted(client: httpx.AsyncClient, model: str, messages: list[dict[str, Any]]) -> int:
    """Return the tokens of the messages by POST /count; 0 for an unknown model."""
    answer = await client.post("/count", json={"model": model, "messages": messages})
    return int(answer.json()["tokens"]) if answer.status_code == 200 else 0


@pytest.mark.parametrize("model", [*ESTIMATED, "gpt-4o", "gpt-4-turbo"])
async def test_a_stored_conversation_in_many_scripts_costs_what_its_request_costs(
    client: httpx.AsyncClient, model: str
) -> None:
    """A stored conversation in many scripts has the tokens that /count gives for its window's request."""
    said = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(LANGUAGES.values())]
    asked = {"name": "find", "arguments": '{"place": "मुंबई", "year": 20261122}'}
    calls = [{"id": "a", "type": "function", "function": asked}]
    await append(client, *said[:60])
    await append(client, {"role": "user", "content": "Order 20261122-004417 of 2026-11-22 10:30:55?"})
    await append(
        client,
        {"role": "assistant", "content": None, "tool_calls": calls},
    )
    await append(client, {"role": "tool", "tool_call_id": "a", "content": LANGUAGES["ta"]})

    made = await window(client, model)

    assert made["kept"]["messages"] == 63
    if model != "unheard-of-model":
        assert made["tokens"]["total"] == await counted(client, model, made["request"]["messages"])


@pytest.mark.parametrize("room", [30_000, 900, 250])
async def test_documents_in_another_script_fit(client: httpx.AsyncClient, room: int) -> None:
    """Documents that cost more than their question are counted by their own scripts, cut or whole, and fit the budget."""
    documents = [{"id": name, "text": LANGUAGES[name]} for name in ("ka", "en", "ta", "zh")]
    await append(
        client, {"message": {"role": "user", "content": "Which of these?"}, "grounding": {"documents": documents}}
    )

    made = await window(client, "llama-3.3-70b-instruct", max_tokens=room)

    assert made["tokens"]["grounding"] > 0
    assert await counted(client, made["model"], made["request"]["messages"]) <= made["tokens"]["total"] <= room


async def test_tool_definitions_of_open_models_are_json(client: httpx.AsyncClient) -> None:
    """Tool definitions are counted as JSON for an open model, which is more than OpenAI bills for them."""
    tool = {
        "name": "look",
        "description": "देखो",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
    body = {"messages": [], "tools": [{"type": "function", "function": tool}]}
    costs = [
        (await client.post("/count", json={**body, "model": model})).json()["tools"]
        for model in ("llama-4-maverick", "gpt-4o")
    ]
    assert costs[0] > 2 * costs[1]


async def test_plain_text_by_script(client: httpx.AsyncClient) -> None:
    """Text without messages is counted by script too."""
    answer = await client.post("/count", json={"model": "llama-3.3-70b-instruct", "text": LANGUAGES["ka"]})
    assert answer.json()["text"] > 5 * len(LANGUAGES["ka"]) / 4


async def test_an_exact_model_counts_text_in_any_script_as_before(client: httpx.AsyncClient) -> None:
    """Data stored for estimates does not change the counts of an exact model, which come from its own vocabulary."""
    await append(client, {"role": "user", "content": LANGUAGES["hi"]})
    made = await window(client, "gpt-4o")
    assert made["exact"]
    assert made["tokens"]["messages"] == 4 + 96
