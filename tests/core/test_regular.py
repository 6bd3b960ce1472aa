"""Whatever combination of irregularities a reply has, it becomes the regular reply."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.chat.messages import validate_message, validate_messages
from sash.core.chat.regular import regular, regular_tool
from sash.core.providers.reading.recognition import foreign
from sash.problems import InvalidEntry

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def calls(draw: st.DrawFn, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a regular call, and the same call as a compatible server may write it."""
    identity, name = f"call_{number}" + draw(st.sampled_from(["", "x" * 4000])), draw(st.sampled_from(["f", "g h"]))
    more = draw(st.sampled_from([{}, {"index": 0}]))
    if draw(st.integers(0, 3)) == 0:
        body: dict[str, Any] = {"custom": {"name": name, "input": draw(st.text(max_size=8))}}
        sound = {"id": identity, "type": "custom", **body, **more}
        odd = {"id": identity, **body, **more}
    else:
        arguments = draw(st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
        text = msgspec.json.encode(arguments).decode()
        sound = {"id": identity, "type": "function", "function": {"name": name, "arguments": text}, **more}
        written: list[dict[str, Any]] = [{"arguments": arguments}, {"arguments": text}]
        written += [{"arguments": None}, {}] if not arguments else []
        odd = {"id": identity, "function": {"name": name, **draw(st.sampled_from(written))}, **more}
    kind: dict[str, Any] = draw(st.sampled_from([{}, {"type": None}, {"type": ""}, {"type": sound["type"]}]))
    return sound, {**odd, **kind}


@st.composite
def replies(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a regular reply, and the same one with any of the irregularities."""
    drawn = [draw(calls(number)) for number in range(draw(st.integers(0, 3)))]
    base = {"role": "assistant", **draw(st.sampled_from([{}, {"content": None}, {"content": "Hi."}, {"content": ""}]))}
    base |= draw(st.sampled_from([{}, {"refusal": None}, {"reasoning_content": "Hm."}, {"name": "bot"}]))
    if drawn:
        return {**base, "tool_calls": [sound for sound, _ in drawn]}, {**base, "tool_calls": [odd for _, odd in drawn]}
    return base, {**base, **draw(st.sampled_from([{}, {"tool_calls": []}, {"tool_calls": None}]))}


@given(replies())
def test_any_combination_gives_the_regular_reply(drawn: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """A reply with irregular calls is stored equal to the regular one, which stays as it is."""
    sound, odd = drawn
    before = json.dumps(odd)
    assert validate_message(odd, "", foreign) == sound
    assert validate_message(sound, "", foreign) == sound
    assert json.dumps(odd) == before


@given(st.lists(replies(), min_size=1, max_size=3), st.data())
def test_results_without_ids_are_those_with_them(drawn: list[tuple[dict[str, Any], Any]], data: st.DataObject) -> None:
    """Results that may lack the ids of their calls become those that have them, as long as it is clear which is meant."""
    sound: list[dict[str, Any]] = []
    odd: list[dict[str, Any]] = []
    for number, (reply, its_odd) in enumerate(drawn):
        ids = [f"{number}_{place}" for place in range(len(reply.get("tool_calls", ())))]
        for message, into in ((reply, sound), (its_odd, odd)):
            named = [
                {**call, "id": identity} for call, identity in zip(message.get("tool_calls") or (), ids, strict=True)
            ]
            into.append({**message, "tool_calls": named} if named else message)
        lone = data.draw(st.sampled_from(ids)) if ids else None
        sound += [{"role": "tool", "content": "x", "tool_call_id": identity} for identity in ids]
        odd += [{"role": "tool", "content": "x"} | ({} if each == lone else {"tool_call_id": each}) for each in ids]
    validate_messages(odd, "", foreign)
    assert odd == sound


@given(VALUES)
def test_any_value_is_left_to_validation(value: Any) -> None:
    """Nothing raises but the problem of an invalid message, whatever stands in place of calls or a tool."""
    regular_tool(value)
    for message in ({"tool_calls": value}, {"tool_calls": [value]}, {"tool_calls": [{"id": "c", "function": value}]}):
        regular({"role": "assistant", **message})
        try:
            validate_messages([{"role": "assistant", **message}, {"role": "tool", "content": "x"}], "", foreign)
        except InvalidEntry:
            continue


@pytest.mark.parametrize("role", ["user", "system", "developer", "tool", "function"])
def test_other_messages_stay_the_same_object(role: str) -> None:
    """Only an assistant's message is looked at, and one without calls is not copied."""
    message = {"role": role, "content": "x", "tool_calls": []}
    assert regular(message) is message
    plain = {"role": "assistant", "content": "x", "refusal": None}
    assert regular(plain) is plain


def test_a_call_whose_name_is_null_gets_the_name_of_one_without() -> None:
    """Some programs write null where a cut stream left no name; another shape without a name is for validation to tell."""
    calls = [{"id": "c1", "type": "function", "function": {"name": None, "arguments": "{}"}}]
    made = regular({"role": "assistant", "content": None, "tool_calls": calls})
    assert made["tool_calls"][0]["function"]["name"] == "unnamed_tool"
    without = [{"id": "c1", "type": "function", "function": {"arguments": "{}"}}]
    assert "name" not in regular({"role": "assistant", "tool_calls": without})["tool_calls"][0]["function"]
