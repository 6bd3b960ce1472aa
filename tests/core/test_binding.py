"""Reasoning that is bound to its prefix: a thought is only sent after the messages of the request that produced it."""

from collections.abc import Iterator
from typing import Any

import msgspec
from histories import Ask, Talk, calling, grounded, pinned, result, said, talk, words
from hypothesis import example, given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.messages import Entry
from sash.core.law.records.parameters import WindowQuery
from sash.problems import WindowDoesNotFit

Message = dict[str, Any] | Entry

SIZES = st.one_of(st.integers(1, 60), st.integers(1, 900))
PLAIN, GROUNDED, INSTRUCTED = range(3)
TURN = st.tuples(
    st.integers(1, 120),
    st.sampled_from((PLAIN, GROUNDED, INSTRUCTED)),
    st.lists(st.lists(SIZES, min_size=1, max_size=2), max_size=4),
)


def messages_of(turns: list[tuple[int, int, list[list[int]]]]) -> Iterator[Message]:
    """Yield questions, tool groups with results of the given sizes, and replies; each assistant message has a thought.

    A question has documents, or an instruction after it, or neither.
    """
    seq = 0
    for question, kind, steps in turns:
        text = words(question)
        yield grounded(text, words(60)) if kind == GROUNDED else said("user", text)
        seq += 1
        if kind == INSTRUCTED:
            yield said("system", f"Instruction {seq}.")
            seq += 1
        for step, sizes in enumerate(steps):
            ids = [f"c{seq}_{step}_{index}" for index in range(len(sizes))]
            yield {**calling(*ids), **thought(seq + 1)}
            yield from (result(each, words(size)) for each, size in zip(ids, sizes, strict=True))
            seq += 1 + len(sizes)
        yield said("assistant", words(20), **thought(seq + 1))
        seq += 1


def thought(seq: int) -> dict[str, Any]:
    return {"thinking_blocks": [{"type": "thinking", "thinking": words(12), "signature": str(seq)}]}


def parts_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return messages and thoughts in the order in which Claude gets them.

    System messages are at the top, and a message's thoughts come before its text.
    """
    parts = []
    for message in sorted(request["messages"], key=lambda message: message["role"] != "system"):
        parts += message.get("thinking_blocks", [])
        parts.append({name: value for name, value in message.items() if name != "thinking_blocks"})
    return parts


def unthought(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for part in parts if "signature" not in part]


def last_thought(parts: list[dict[str, Any]]) -> str | None:
    return next((part["signature"] for part in reversed(parts) if "signature" in part), None)


@examples(0.3)
@given(
    turns=st.lists(TURN, min_size=2, max_size=8),
    budget=st.integers(400, 2000),
    reasoning=st.sampled_from(["turn", "all"]),
    stable=st.sampled_from([False, True]),
    limit=st.sampled_from([None, 200]),
)
@example(turns=[(63, GROUNDED, [[12]]), (1, PLAIN, [])], budget=400, reasoning="turn", stable=False, limit=None)
@example(turns=[(1, PLAIN, [[89]]), (1, PLAIN, [])], budget=400, reasoning="all", stable=False, limit=None)
@example(turns=[(9, PLAIN, []), (9, INSTRUCTED, [])], budget=2000, reasoning="all", stable=False, limit=None)
def test_what_is_sent_of_bound_reasoning_stands(
    turns: list[tuple[int, int, list[list[int]]]], budget: int, reasoning: Any, stable: Any, limit: int | None
) -> None:
    """A sent thought follows the same messages as in the request that produced it, and the same last thought or none."""
    found = talk(*messages_of(turns))
    options = WindowQuery(format="anthropic", reasoning=reasoning, stable=stable, tool_result_max_tokens=limit)
    ask = Ask("claude-opus-5-5", budget, options)
    made: dict[str, list[dict[str, Any]]] = {}
    for length in lengths_of(found):
        past = found.upto(length)
        try:
            sent = parts_of(msgspec.json.decode(past.request(past.window(ask), ask)))
        except WindowDoesNotFit:
            return  # the agent cannot go on
        for place, part in enumerate(sent):
            if signature := part.get("signature"):
                before, then = sent[:place], made[signature]
                assert unthought(before) == unthought(then)
                assert last_thought(before) in (None, last_thought(then))
        made[str(length + 1)] = sent


def thoughts_of(found: Talk, budget: int, **options: Any) -> list[str]:
    """Return the signatures of the thoughts in a window."""
    ask = Ask("claude-opus-5-5", budget, WindowQuery(format="anthropic", **options))
    parts = parts_of(msgspec.json.decode(found.request(found.window(ask), ask)))
    return [part["signature"] for part in parts if "signature" in part]


def test_a_reply_in_progress_changes_the_note() -> None:
    """The note before the thoughts is new while a reply is in progress, so no thoughts are sent."""
    turn = [said("user", "Look."), {**calling("c"), **thought(2)}, result("c")]
    draft = Entry(message=said("assistant", "I"), status="in_progress")
    assert thoughts_of(talk(*turn, draft), 2000, stable=True) == ["2"]
    assert thoughts_of(talk(*turn, draft), 2000, stable=True, note=True) == []


def test_a_pinned_result_is_cut_for_the_newest_group() -> None:
    """If the newest group cuts a pinned result, no thoughts are sent: they followed the longer result."""
    newest = [said("user", "Again."), {**calling("b"), **thought(5)}, result("b", words(50))]
    for length, sent in ((200, ["5"]), (700, [])):
        first = [said("user", "Look."), calling("a"), pinned(result("a", words(length)))]
        assert thoughts_of(talk(*first, *newest), 1200) == sent


def lengths_of(found: Talk) -> Iterator[int]:
    """Yield the conversation's length before each assistant message, in messages."""
    roles = [message["role"] for message in found.messages]
    yield from (length for length, role in enumerate(roles) if role == "assistant")
