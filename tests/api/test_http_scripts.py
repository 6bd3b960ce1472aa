"""Windows and counts of text in many scripts, for models whose vocabulary is not here."""

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
    """The conversation's window, which must be made."""
    answer = await client.get(
        "/conversations/scripts/window", params={"model": model, "max_tokens": 30_000, "reserve": 0, **parameters}
    )
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def counted(client: httpx.AsyncClient, model: str, messages: list[dict[str, Any]]) -> int:
    """What POST /count says of the messages; of an unknown model's nothing."""
    answer = await client.post("/count", json={"model": model, "messages": messages})
    return int(answer.json()["tokens"]) if answer.status_code == 200 else 0


@pytest.mark.parametrize("model", [*ESTIMATED, "gpt-4o", "gpt-4-turbo"])
async def test_a_stored_conversation_in_many_scripts_costs_what_its_request_costs(
    client: httpx.AsyncClient, model: str
) -> None:
    """What was kept of the scripts at append gives the count that the window's own request gives."""
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
    """Documents that are dearer than the question they belong to are counted by their own scripts, cut or whole."""
    documents = [{"id": name, "text": LANGUAGES[name]} for name in ("ka", "en", "ta", "zh")]
    await append(
        client, {"message": {"role": "user", "content": "Which of these?"}, "grounding": {"documents": documents}}
    )

    made = await window(client, "llama-3.3-70b-instruct", max_tokens=room)

    assert made["tokens"]["grounding"] > 0
    assert await counted(client, made["model"], made["request"]["messages"]) <= made["tokens"]["total"] <= room


async def test_tool_definitions_of_open_models_are_json(client: httpx.AsyncClient) -> None:
    """Definitions cost an open model their JSON, which is more than what OpenAI bills for them."""
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
    """Text alone is counted by script as well."""
    answer = await client.post("/count", json={"model": "llama-3.3-70b-instruct", "text": LANGUAGES["ka"]})
    assert answer.json()["text"] > 5 * len(LANGUAGES["ka"]) / 4


async def test_an_exact_model_counts_text_in_any_script_as_before(client: httpx.AsyncClient) -> None:
    """What is kept for estimates costs an exact model nothing: its counts come from its own vocabulary."""
    await append(client, {"role": "user", "content": LANGUAGES["hi"]})
    made = await window(client, "gpt-4o")
    assert made["exact"]
    assert made["tokens"]["messages"] == 4 + 96
