"""A window in Anthropic's and Gemini's form is a request that its provider takes, and costs what it says."""

import json
import os
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sash.api.count_handlers import count_in_format
from sash.core.counts.models import find_model
from sash.problems import FormatCannotCarry, InvalidEntry, WindowDoesNotFit
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request
from validators import anthropic, gemini
from validators.logs import entries_of, groups

Object = dict[str, Any]

JUDGES = {"anthropic": anthropic.refused, "gemini": gemini.refused}
MODELS = {
    "anthropic": ["claude-sonnet-4-5", "claude-opus-4-8", "claude-opus-5-5", "deepseek-chat"],
    "gemini": ["gemini-2.5-flash", "gemini-3-pro-preview", "gemini-3.8-flash"],
}
MESSAGE = TypeAdapter(MessageCreateParamsNonStreaming)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
WAYS = st.fixed_dictionaries(
    {},
    optional={
        "reasoning": st.sampled_from(["none", "all", "turn"]),
        "cache": st.just("auto"),
        "limit": st.integers(1, 6),
        "max_tokens": st.sampled_from([200, 800]),
        "start": st.just("user"),
        "stable": st.just("true"),
        "dedupe": st.just("messages"),
        "tool_result_max_tokens": st.just(16),
        "tool_results_kept": st.integers(0, 1),
        "system": st.sampled_from(["Be brief.", " "]),
        "tools": st.just([TOOL]),
        "note": st.just(True),  # noqa: FBT003
    },
)
many = settings(
    max_examples=int(os.environ.get("EXAMPLES", "400")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def window_of(form: str, model: str, conversation: Any, ways: Object) -> Object:
    stable = {"stable": True} if ways.get("stable") else {}
    try:
        wanted = WindowRequest(
            **{**ways, **stable, "model": model, "format": form, "messages": entries_of(conversation), "reserve": 0}
        )
        made: Object = json.loads(window_of_request(wanted, {})[0].body)
    except (WindowDoesNotFit, FormatCannotCarry, InvalidEntry) as problem:
        assume(not problem)
        raise
    return made


def read(value: Any) -> Any:
    """Return the value with its lists read: pydantic judges their items only then."""
    if isinstance(value, dict):
        return {name: read(each) for name, each in value.items()}
    return value if isinstance(value, str | int | float | None) else [read(each) for each in value]


def judge(form: str, model: str, window: Object) -> None:
    request = window["request"]
    if not request[{"anthropic": "messages", "gemini": "contents"}[form]]:
        return  # nothing but instructions, or nothing that may be sent: the client adds its next message
    assert JUDGES[form](request, model) == []
    if form == "anthropic":
        assert read(MESSAGE.validate_python({"model": model, "max_tokens": 1, **request}))
    else:
        for content in request["contents"]:
            types.Content.model_validate(content)
        types.GenerateContentConfig.model_validate(request["config"])
    counted = count_in_format({"model": model, **request}, find_model(model), form)
    assert counted.tokens <= window["tokens"]["total"]


@pytest.mark.no_cover
@many
@given(st.data())
@pytest.mark.parametrize("form", JUDGES)
def test_a_window_is_a_request_that_its_provider_takes(form: str, data: st.DataObject) -> None:
    """Neither the rules of the provider nor its SDK's types refuse a window, and its total covers what is sent."""
    model = data.draw(st.sampled_from(MODELS[form]))
    conversation, ways = data.draw(groups(form)), data.draw(WAYS)
    judge(form, model, window_of(form, model, conversation, ways))
