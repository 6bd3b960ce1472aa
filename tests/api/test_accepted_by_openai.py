"""Windows in OpenAI's forms are requests that OpenAI takes, and their totals are what their requests count."""

import itertools
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseInputItemParam
from openai_histories import steps
from pydantic import TypeAdapter, ValidationError
from validators import openai, responses

JUDGES = {"openai": openai.refused, "responses": responses.refused}
ITEMS = TypeAdapter(ResponseInputItemParam)
QUESTION = {"role": "user", "content": "And now?"}
_made = itertools.count()


async def appended(client: httpx.AsyncClient, history: list[tuple[str, list[Any]]]) -> str:
    """Append each step in its format. Returns the conversation's name."""
    conversation = f"accepted-{next(_made)}"
    for form, messages in [*history, ("openai", [QUESTION])]:
        answer = await client.post(
            f"/conversations/{conversation}/messages", params={"format": form}, json={"messages": messages}
        )
        assert answer.status_code in (200, 201), (answer.text, messages)
    return conversation


def complete(value: Any) -> Any:
    """Read pydantic's lazy lists, which validate their members only then."""
    if isinstance(value, dict):
        return {key: complete(each) for key, each in value.items()}
    return value if isinstance(value, str | int | float | None) else [complete(each) for each in value]


def unknown_to_the_sdk(item: dict[str, Any]) -> bool:
    """Whether OpenAI's SDK has no type for this item."""
    try:
        complete(ITEMS.validate_python(item))
    except ValidationError:
        return True
    return False


@pytest.mark.no_cover
@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini"])
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=steps, data=st.data())
async def test_a_window_is_taken_and_counted(
    client: httpx.AsyncClient, form: str, history: Any, data: st.DataObject
) -> None:
    """Whatever the history holds: no refusal, and the total is /count of the request, or more for an estimate."""
    conversation = await appended(client, history)
    wanted = {
        "model": data.draw(st.sampled_from(["gpt-4o-mini", "gpt-5", "gpt-4", "claude-sonnet-4-5", "gemini-2.5-pro"])),
        "reasoning": data.draw(st.sampled_from(["turn", "all", "none"])),
        **data.draw(st.sampled_from([{}, {}, {"limit": 3}, {"tool_results_kept": 0}, {"tool_result_max_tokens": 8}])),
        "cache": data.draw(st.sampled_from(["none", "auto"])),
    }
    answer = await client.get(f"/conversations/{conversation}/window", params={**wanted, "format": form})
    window = answer.json()
    await client.delete(f"/conversations/{conversation}")
    assert answer.status_code == 200, answer.text
    request = window["request"]
    if form in JUDGES:
        assert JUDGES[form](request, wanted["model"]) == []
    if form == "responses":
        assert [item for item in request["input"] if unknown_to_the_sdk(item)] == []
    body = {"model": wanted["model"], **request}
    count = await client.post("/count", params={"format": form}, json=body)
    assert count.status_code == 200, count.text
    tokens, total = count.json()["tokens"], window["tokens"]["total"]
    assert tokens <= total
    assert tokens == total or not window["exact"]
