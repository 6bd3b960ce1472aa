"""Reasoning that a server wants back is in every window, whatever ``reasoning`` says."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, user, window

TOLD = {"deepseek-v4-pro", "deepseek-v4-flash", "kimi-k2.5", "kimi-k3"}


def called(number: int) -> list[dict[str, Any]]:
    """A question that is answered after a call; the call and the answer have reasoning."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    return [
        user(f"The weather of day {number}?"),
        {"role": "assistant", "content": "", "reasoning_content": f"I call, {number}. " * 9, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": "sunny"},
        {"role": "assistant", "content": "It is sunny.", "reasoning_content": f"I answer, {number}. " * 9},
    ]


async def counted(client: httpx.AsyncClient, made: dict[str, Any]) -> int:
    answer = await client.post("/count", json={"model": made["model"], **made["request"]})
    tokens: int = answer.json()["tokens"]
    return tokens


@pytest.mark.parametrize("stable", ["false", "true"])
@pytest.mark.parametrize("reasoning", ["none", "turn", "all"])
@pytest.mark.parametrize("model", ["deepseek-v4-pro", "kimi-k2.5", "deepseek-v3.1"])
async def test_calls_come_with_their_reasoning(
    client: httpx.AsyncClient, conversation: str, model: str, reasoning: str, stable: str
) -> None:
    """Each call in a window has its reasoning for models whose servers want it, for others as the parameter says."""
    await append(client, conversation, *(entry for number in range(6) for entry in called(number)), user("And now?"))
    for most in (20_000, 300):
        made = await window(client, conversation, model=model, reasoning=reasoning, stable=stable, max_tokens=most)
        calls = [message for message in made["request"]["messages"] if message.get("tool_calls")]
        replies = [each for each in made["request"]["messages"] if each["role"] == "assistant" and each not in calls]
        assert calls or most < 20_000
        assert all("reasoning_content" in each for each in calls) is (model in TOLD or reasoning == "all")
        assert all("reasoning_content" in each for each in replies) is (reasoning == "all")
        assert await counted(client, made) <= made["tokens"]["total"] <= most


@pytest.mark.parametrize("model", ["cerebras/zai-glm-4.7", "groq/qwen/qwen3-32b", "groq/moonshotai/kimi-k2.5"])
async def test_a_host_that_refuses_reasoning_gets_none(
    client: httpx.AsyncClient, conversation: str, model: str
) -> None:
    """Where the host stands in the model's name, no request has reasoning, and none is counted."""
    await append(client, conversation, *called(1), *called(2), user("And now?"))
    for reasoning in ("all", "turn"):
        made = await window(client, conversation, model=model, reasoning=reasoning, max_tokens=9_000)
        assert not any("reasoning_content" in message for message in made["request"]["messages"])
        assert made["tokens"]["reasoning"] == 0


async def test_a_claude_form_of_deepseek_wants_it_too(client: httpx.AsyncClient, conversation: str) -> None:
    """DeepSeek's endpoint of Anthropic's form gets the thinking of each message with calls."""
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    thought = {"type": "thinking", "thinking": "I need the tool.", "signature": "c2ln"}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "1"}
    turns = [("user", "q"), ("assistant", [thought, use]), ("user", [result]), ("assistant", "done"), ("user", "next")]
    await append(client, conversation, *({"role": r, "content": c} for r, c in turns), format="anthropic")
    for reasoning in ("none", "turn"):
        made = await window(client, conversation, model="deepseek-v4-pro", format="anthropic", reasoning=reasoning)
        assert made["request"]["messages"][1]["content"] == [thought, use]
