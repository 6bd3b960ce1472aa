"""A cut result keeps the provider's own parts beside its text, at their cost: linked documents, and files with names."""

from typing import Any, Final

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import append, window

from sash.core.counts.measures import native_parts

MODELS: Final = {
    "converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "anthropic": "claude-opus-4-5",
    "responses": "gpt-5",
}
NAMES: Final = ("a", "x" * 200, "Длинное имя " * 12)
PARTS: Final[dict[str, Any]] = {
    "converse": [
        lambda name: {"document": {"name": name, "source": {"s3Location": {"uri": "s3://bucket/" + name}}}},
        lambda name: {"document": {"name": name, "format": "pdf", "source": {"bytes": "JVBERi0xLjQK" * 40}}},
    ],
    "anthropic": [
        lambda name: {"type": "document", "source": {"type": "file", "file_id": name}},
        lambda name: {"type": "tool_reference", "tool_name": name},
    ],
    "responses": [lambda name: {"type": "input_file", "file_id": name}, lambda name: {"type": "odd", "text": name}],
}
"""The parts of a result that tell a document or a tool with a name, by form."""


def chat(form: str, text: str, part: dict[str, Any]) -> list[dict[str, Any]]:
    """A question, a call, and its result: a text, if it is not empty, and this part."""
    match form:
        case "converse":
            content = [*([{"text": text}] if text else []), part]
            return [
                {"role": "user", "content": [{"text": "Which?"}]},
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "look", "input": {}}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": content}}]},
            ]
        case "anthropic":
            content = [*([{"type": "text", "text": text}] if text else []), part]
            return [
                {"role": "user", "content": "Which?"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content}]},
            ]
        case _:
            output = [*([{"type": "input_text", "text": text}] if text else []), part]
            return [
                {"role": "user", "content": "Which?"},
                {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": output},
            ]


async def check(client: httpx.AsyncClient, form: str, messages: list[dict[str, Any]], **wanted: Any) -> int:
    """Check that a window is within its budget and not below /count of its request. Return its total; 0 if nothing fits."""
    body = {"model": MODELS[form], "reserve": 0, "messages": messages, **wanted}
    answer = await client.post("/window", params={"format": form}, json=body)
    made = answer.json()
    if answer.status_code == 422:
        assert made["type"] == "/problems/window-does-not-fit", answer.text
        return 0
    assert answer.status_code == 200, answer.text
    total: int = made["tokens"]["total"]
    assert total <= made["budget"]
    answer = await client.post("/count", params={"format": form}, json={"model": MODELS[form], **made["request"]})
    assert answer.json()["tokens"] <= total
    return total


@examples(0.6)
@given(data=st.data(), form=st.sampled_from([*MODELS]))
async def test_a_cut_result_beside_its_parts_is_in_the_budget(
    client: httpx.AsyncClient, form: str, data: st.DataObject
) -> None:
    """A result of any text beside a part that has a name is cut to any budget, and the name is counted with it."""
    text = data.draw(st.sampled_from(["", "yes ", "Привет, мир "])) * data.draw(st.sampled_from([1, 20, 400]))
    part = data.draw(st.sampled_from(PARTS[form]))(data.draw(st.sampled_from(NAMES)))
    messages = chat(form, text, part)
    total = await check(client, form, messages)
    for _ in range(4):
        limits = {"max_tokens": st.integers(total // 2, total), "tool_result_max_tokens": st.integers(1, total)}
        await check(client, form, messages, **data.draw(st.fixed_dictionaries({}, optional=limits)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_told", [True, False])
async def test_a_stored_result_is_cut_beside_a_linked_document(
    client: httpx.AsyncClient, conversation: str, monkeypatch: pytest.MonkeyPatch, name: str, *, is_told: bool
) -> None:
    """A stored result with a short text beside a linked document is sent within any budget or not at all, also one that was
    stored before its record told which of its texts is the document's line."""
    if not is_told:
        monkeypatch.setattr(native_parts, "_lines_apart", lambda *_: ())
    await append(client, conversation, *chat("converse", "yes, ", PARTS["converse"][0](name)), format="converse")
    wanted = {"model": MODELS["converse"], "format": "converse", "reserve": 0}
    total = (await window(client, conversation, **wanted))["tokens"]["total"]
    for budget in range(total - 60, total + 40, 5):
        query = {**wanted, "max_tokens": budget}
        answer = await client.get(f"/conversations/{conversation}/window", params=query)
        assert answer.status_code == 422 or answer.json()["tokens"]["total"] <= budget, answer.text
    assert answer.status_code == 200, answer.text
