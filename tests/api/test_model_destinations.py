"""``GET /models/{id}`` shows who reads a model's requests, what they want, and where it is known from."""

import pytest
from httpx import AsyncClient

from sash.core.providers import PROVIDERS


async def read(client: AsyncClient, model: str) -> dict[str, dict[str, object]]:
    """Return a model's destinations by format."""
    reply = await client.get(f"/models/{model}")
    assert reply.status_code == 200
    return {each["format"]: each for each in reply.json()["destinations"]}


async def test_an_operator_sees_why_a_host_gets_no_reasoning(client: AsyncClient) -> None:
    """The host that a name says is told, with what it refuses and the reports of it."""
    found = (await read(client, "groq/qwen/qwen3-32b"))["openai"]
    assert found["host"] == "groq"
    reasoning = next(fact for fact in found["facts"] if fact["kind"] == "reasoning")
    assert (reasoning["value"], reasoning["of"], reasoning["name"]) == ("refused", "host", "groq")
    assert "vercel/ai 8057" in reasoning["evidence"]
    assert reasoning["read_on"] == "2026-11-29"


async def test_a_models_formats_differ_in_what_they_want(client: AsyncClient) -> None:
    """Claude is told with chat completions, its own format and Bedrock's; each has the media that it takes."""
    found = await read(client, "claude-opus-4-8")
    assert {"openai", "anthropic", "converse"} <= found.keys() <= PROVIDERS.keys()
    assert found["converse"]["host"] == "bedrock"
    assert found["anthropic"]["takes"]["files"] == ["application/pdf"]
    assert found["openai"]["takes"] == {"pictures": None, "files": None, "sounds": []}
    assert all("no_reply" in {fact["value"] for fact in each["facts"]} for each in found.values())


@pytest.mark.parametrize(
    ("model", "formats", "wanted"),
    [
        ("deepseek-v4-pro", {"openai", "anthropic", "responses"}, ("responses", "reasoning", "filled")),
        ("minimax-m2.5", {"openai", "anthropic"}, ("anthropic", "beside_calls", "results")),
        ("us.meta.llama4-maverick-17b-instruct-v1:0", {"openai", "converse"}, ("converse", "beside_calls", "nothing")),
        ("command-a-03-2025", {"openai", "cohere"}, ("cohere", "empty_question", "refused")),
        ("ollama/gemma3:4b", {"openai", "ollama"}, ("openai", "links", "refused")),
        ("hosted_vllm/Qwen/Qwen3-32B", {"openai"}, ("openai", "reasoning_in", "both")),
    ],
)
async def test_each_format_that_a_maker_or_a_host_serves_is_told(
    client: AsyncClient, model: str, formats: set[str], wanted: tuple[str, str, str]
) -> None:
    """DeepSeek's own addresses of Claude's form and of Responses are told, and Bedrock's form of a model that it sells."""
    found = await read(client, model)
    assert formats <= found.keys()
    form, kind, value = wanted
    assert {fact["kind"]: fact["value"] for fact in found[form]["facts"]}[kind] == value


async def test_the_list_of_models_has_no_destinations(client: AsyncClient) -> None:
    """The list stays short."""
    models = (await client.get("/models")).json()["models"]
    assert all(each["destinations"] is None for each in models)
