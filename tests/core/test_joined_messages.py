"""Messages that a server takes as one cost what the one costs: the total is the count of the window's own request."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.counts.models.models import find_model
from sash.problems import WindowDoesNotFit
from sash.windows.counted import CountRequest, count_in_format
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request

MODELS = (
    "nebius/deepseek-ai/DeepSeek-V3.2",
    "deepinfra/deepseek-ai/DeepSeek-V3",
    "novita/deepseek/deepseek-v4-pro",
    "siliconflow/Qwen/Qwen3-32B",
    "siliconflow/zai-org/GLM-4.6",
    "siliconflow/openai/gpt-oss-120b",
    "google/gemma-3-27b-it",
    "minimax-m2.5",
    "qwen3.5-plus",
)
"""Models whose servers or templates take one system message, or turns of user and assistant."""
WORDS = st.lists(st.sampled_from(["Be", "brief.", "hall", "2", "天気", "Привет", "`code`"]), min_size=1, max_size=6)
ROLES = st.sampled_from(["system", "developer", "user", "assistant"])
MESSAGES = st.lists(st.builds(lambda role, words: {"role": role, "content": " ".join(words)}, ROLES, WORDS), max_size=7)
QUESTION = {"role": "user", "content": "Where?"}


def window(model: str, messages: list[Any], **more: Any) -> Any:
    """Return the window of a chat."""
    entries: list[Any] = [{"message": each} for each in messages]
    wish = msgspec.convert({"model": model, "messages": entries, "reserve": 0, **more}, WindowRequest)
    return json.loads(window_of_request(wish, {})[0].body)


@examples(1)
@given(st.sampled_from(MODELS), MESSAGES, MESSAGES, st.sampled_from([{}, {"system": "Be brief."}]), st.booleans())
def test_the_total_is_the_count_of_the_request(
    model: str,
    messages: list[Any],
    few_shots: list[Any],
    prompt: dict[str, str],
    notes: bool,  # noqa: FBT001
) -> None:
    """System messages, few-shots and a note that are joined are counted as they are sent."""
    more = {"note": True, "limit": 1} if notes else {}
    made = window(model, [*messages, QUESTION], few_shots=few_shots, **prompt, **more)
    request = msgspec.convert({"model": model, **made["request"]}, CountRequest)
    assert count_in_format(request, find_model(model), "openai").tokens == made["tokens"]["total"]


@pytest.mark.parametrize("model", MODELS)
def test_a_refused_window_needs_room_for_the_joints(model: str) -> None:
    """The blank lines between system texts are in what a refused window needs, also where nothing else is around a text."""
    messages = [*({"role": "system", "content": f"Rule {number}."} for number in range(9)), QUESTION]
    with pytest.raises(WindowDoesNotFit) as refused:
        window(model, messages, max_tokens=1)
    needed = refused.value.members["needed"]
    assert window(model, messages, max_tokens=needed)["tokens"]["total"] <= needed
