"""A member of a provider's own message may have any JSON value: the message is read or refused, and nothing fails."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.providers.reading.native import read_messages
from sash.problems import Problem

MESSAGES: dict[str, list[dict[str, Any]]] = {
    "responses": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so", "annotations": []}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "local_shell_call_output", "id": "l1", "call_id": "c2", "output": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "x"}]}],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}], "id": "m"},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
            "stop_reason": "x",
        },
    ],
    "gemini": [
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "id": "c", "response": {"output": "x"}}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "YQ=="}]},
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "YQ=="}}, {"text": "see"}]},
    ],
    "interactions": [
        {"type": "function_result", "call_id": "c", "name": "look", "result": [{"type": "text", "text": "x"}]},
        {"type": "model_output", "content": [{"type": "text", "text": "so"}]},
        {"type": "function_call", "id": "c", "name": "look", "arguments": {}},
    ],
    "converse": [
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"a": 1}}]}}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "look", "input": {}}}]},
        {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": "YQ=="}}}]},
    ],
    "ollama": [
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]},
        {"role": "tool", "tool_name": "look", "content": "x", "images": ["YQ=="]},
    ],
    "cohere": [
        {
            "role": "assistant",
            "tool_plan": "p",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "document", "document": {"data": "x"}}]},
    ],
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place of a value, as what holds it and its key there."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.mark.parametrize("form", MESSAGES)
@given(data=st.data())
@examples(4)
def test_any_value_is_read_or_refused(form: str, data: st.DataObject) -> None:
    """With any value in any place a message is read, or refused with a problem."""
    message = copy.deepcopy(data.draw(st.sampled_from(MESSAGES[form])))
    holder, key = data.draw(st.sampled_from(list(enumerate(places(message)))))[1]
    holder[key] = data.draw(VALUES)
    with suppress(Problem):
        read_messages(form, [message], ["/messages/0"])
