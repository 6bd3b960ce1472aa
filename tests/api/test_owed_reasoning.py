"""Reasoning that a destination wants back: no parameter takes it, and a blank stands where there is none."""

from typing import Any

import pytest

from sash import count, window

ASKED = {"role": "user", "content": "Where is the talk?"}
CHOICES = ("turn", "all", "none")


def called(number: int, **more: Any) -> list[dict[str, Any]]:
    """Return a call and its result."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "find", "arguments": '{"day": 1}'}}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "Hall 2."}
    return [{"role": "assistant", "content": None, "tool_calls": [call], **more}, result]


HISTORY = [
    ASKED,
    *called(1),
    {"role": "assistant", "content": "In hall 2.", "reasoning_content": "I know it."},
    ASKED,
    *called(2, reasoning_content="I look it up."),
    ASKED,
    *called(3, reasoning_content="Again."),
]


def owed(request: Any) -> list[str | None]:
    """Return the reasoning of the calls in a request."""
    return [each.get("reasoning_content") for each in request["messages"] if each.get("tool_calls")]


@pytest.mark.parametrize("reasoning", CHOICES)
@pytest.mark.parametrize("model", ["kimi-k2.5", "moonshotai/kimi-k2-thinking", "openrouter/moonshotai/kimi-k2.6"])
def test_a_call_without_reasoning_has_kimis_blank(model: str, reasoning: str) -> None:
    """Each call to Kimi has reasoning: its own, or a space, which is told and counted; also calls of examples."""
    made = window(HISTORY, model=model, reasoning=reasoning, few_shots=[ASKED, *called(9), HISTORY[3]])
    assert owed(made.request) == [" ", " ", "I look it up.", "Again."]
    assert made.mended.reasons["no_reasoning"] == 2
    assert count(made.request, model=model).tokens == made.tokens.total


@pytest.mark.parametrize("reasoning", CHOICES)
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("deepseek-v4-pro", [" ", "I look it up.", "Again."]),
        ("openrouter/deepseek/deepseek-v4-flash", [" ", "I look it up.", "Again."]),
        ("groq/moonshotai/kimi-k2.5", [None, None, None]),
        ("gpt-4o", [None, None, None]),
    ],
)
def test_what_a_destination_wants_is_sent_whatever_is_asked(
    model: str, reasoning: str, expected: list[str | None]
) -> None:
    """DeepSeek gets what its calls have and a blank for others, and a host that refuses reasoning gets none."""
    made = window(HISTORY, model=model, reasoning=reasoning)
    assert owed(made.request) == expected
    assert count(made.request, model=model).tokens == made.tokens.total


DETAILS = [{"type": "reasoning.text", "text": "I look it up.", "format": "unknown", "index": 0}]
SEALED = [{"type": "reasoning.encrypted", "data": "c2VhbGVk"}]
WRITTEN = {
    "both": {"reasoning": "I look it up.", "reasoning_details": DETAILS},
    "reasoning": {"reasoning": "I look it up."},
    "details": {"reasoning_details": DETAILS},
}
MEMBERS = ("reasoning_content", "reasoning", "reasoning_details")


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("model", ["kimi-k2.5", "deepseek-v4-pro"])
def test_openrouters_reasoning_stands_where_the_maker_reads_it(model: str, written: str) -> None:
    """Kimi and DeepSeek read `reasoning_content` alone, so what came in OpenRouter's members is sent there."""
    made = window([ASKED, *called(1, **WRITTEN[written]), ASKED], model=model)
    call = made.request["messages"][1]
    assert {name: call[name] for name in MEMBERS if name in call} == {"reasoning_content": "I look it up."}
    assert made.mended.reasons == {"reasoning_member": 1}
    assert count(made.request, model=model).tokens <= made.tokens.total


@pytest.mark.parametrize("written", WRITTEN)
def test_vllm_gets_reasoning_in_both_members_that_its_versions_read(written: str) -> None:
    """Earlier versions of vLLM read `reasoning_content`, later ones `reasoning`."""
    model = "hosted_vllm/moonshotai/Kimi-K2.5"
    made = window([ASKED, *called(1, **WRITTEN[written]), ASKED], model=model)
    call = made.request["messages"][1]
    assert (call["reasoning_content"], call["reasoning"]) == ("I look it up.", "I look it up.")
    assert made.mended.reasons == {"reasoning_member": 1}
    assert count(made.request, model=model).tokens <= made.tokens.total


@pytest.mark.parametrize("written", WRITTEN)
def test_openrouter_gets_its_details_back(written: str) -> None:
    """OpenRouter takes `reasoning_details` for Kimi as they came; `reasoning` alone is refused there, too."""
    model, given = "openrouter/moonshotai/kimi-k2.5", WRITTEN[written]
    made = window([ASKED, *called(1, **given), ASKED], model=model)
    call = made.request["messages"][1]
    expected = {"reasoning_content": "I look it up."} if written == "reasoning" else given
    assert {name: call[name] for name in MEMBERS if name in call} == expected
    assert count(made.request, model=model).tokens == made.tokens.total


def test_kimi_gets_a_blank_for_sealed_reasoning() -> None:
    """Details that only their issuer reads are no reasoning for Kimi's own servers; OpenRouter has the issuer."""
    history = [ASKED, *called(1, reasoning_details=SEALED), ASKED]
    made = window(history, model="kimi-k2.5")
    assert owed(made.request) == [" "]
    assert "reasoning_details" not in made.request["messages"][1]
    assert count(made.request, model="kimi-k2.5").tokens <= made.tokens.total
    there = window(history, model="openrouter/moonshotai/kimi-k2.5").request["messages"][1]
    assert there["reasoning_details"] == SEALED
