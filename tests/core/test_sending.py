"""The sent parts of each message: reasoning, unknown members, and tool results, which may be cut."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, Literal

import msgspec
import pytest
from histories import Ask, Talk, calling, result, said, talk, words
from hypothesis import given
from hypothesis import strategies as st

from sash.core.counts.costs.counting import count_request
from sash.core.counts.models.models import find_model
from sash.core.counts.text import count_text
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.window import Window
from sash.core.providers import binds_reasoning, render_request
from sash.core.providers.messages.mends import Mends
from sash.core.providers.writing.turns import Outgoing
from sash.problems import InvalidEntry, WindowDoesNotFit

NAMES = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "extra_content", "note", "x")
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.text(max_size=30)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)
MEMBERS = st.dictionaries(st.sampled_from(NAMES), JSON, max_size=3)
MODEL = find_model("llama-3.3-70b")


def strings(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, except for names of members."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from strings(each)
        case dict():
            for each in value.values():
                yield from strings(each)


def sent(found: Talk, ask: Ask) -> tuple[Window, dict[str, Any]]:
    """Return a window and its request."""
    window = found.window(ask)
    return window, msgspec.json.decode(found.request(window, ask))


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=40), MEMBERS), max_size=5), MEMBERS)
def test_every_string_that_is_sent_is_counted(
    turns: list[tuple[str, str, dict[str, Any]]], call: dict[str, Any]
) -> None:
    """The total covers all strings of a request, in any member at any depth, and is a fresh count of the request."""
    messages = [{"role": role, "content": content, **members} for role, content, members in turns]
    called = calling("c")
    called["tool_calls"][0] |= {name: value for name, value in call.items() if name in ("note", "x", "extra_content")}
    try:
        found = talk(*messages, called, result("c"))
        found.stored  # noqa: B018 - validates
    except InvalidEntry:
        return
    for reasoning in ("turn", "all", "none"):
        window, request = sent(found, Ask(MODEL.id, options=WindowQuery(reasoning=reasoning)))
        assert sum(count_text(each, "o200k_base") for each in strings(request)) <= window.tokens.total
        assert count_request(MODEL, messages=request["messages"]).tokens == window.tokens.total


THOUGHT = talk(
    said("user", "one"),
    said("assistant", "1", reasoning_content=words(50)),
    said("user", "two"),
    {**calling("a"), "reasoning_content": words(40)},
    result("a"),
    said("assistant", "2", thinking_blocks=[{"type": "thinking", "thinking": words(30), "signature": "abc"}]),
)


@pytest.mark.parametrize(("choice", "expected"), [("turn", {4, 6}), ("all", {2, 4, 6}), ("none", set())])
def test_which_reasoning_is_sent(choice: str, expected: set[int]) -> None:
    """``reasoning`` sends that of the newest turn, all or none; ``dropped`` has the tokens of the rest."""
    window, request = sent(THOUGHT, Ask(MODEL.id, options=WindowQuery(reasoning=choice)))  # type: ignore[arg-type]
    holding = {seq for seq, message in enumerate(request["messages"], 1) if message.keys() - calling("a").keys()}
    assert expected == holding - {seq for seq in holding if "tool_call_id" in request["messages"][seq - 1]}
    assert (window.tokens.reasoning > 0) == bool(expected)
    assert (window.dropped.reasoning_tokens > 0) == (expected != {2, 4, 6})


def test_reasoning_of_a_message_that_is_not_in_the_window_is_told_once() -> None:
    """A line of ``explain`` has the reasoning that its message would be sent with, and beside it only what it would lack."""
    found = talk(
        said("user", "one"),
        said("assistant", "1", thinking_blocks=[{"type": "thinking", "thinking": words(30), "signature": "YWJj"}]),
        said("user", words(200)),
    )
    options = WindowQuery(explain=True, reasoning="all", format="anthropic")
    window, _ = sent(found, Ask("claude-opus-5-5", 390, options=options))
    left_out = [line for line in window.explain or () if not line.kept and line.reasoning]
    assert [line.seq for line in left_out] == [2]
    assert [line.reasoning_left_out for line in left_out] == [0]


def test_a_new_question_ends_the_turn() -> None:
    """After a new question, all earlier reasoning is left out, and ``explain`` has its tokens."""
    found = Talk((*THOUGHT.entries, *talk(said("user", "three")).entries), THOUGHT.settings, None)
    window, request = sent(found, Ask(options=WindowQuery(explain=True)))
    assert window.tokens.reasoning == 0
    assert [line.reasoning_left_out > 0 for line in window.explain or ()] == [
        False,
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    assert not any("reasoning_content" in message or "thinking_blocks" in message for message in request["messages"])


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        ("claude-fable-5-1", True),
        ("anthropic/claude-opus-5.5", True),
        ("claude-haiku-5-5-20261001", True),
        ("claude-opus-5", False),
        ("claude-opus-4-8", False),
        ("claude-sonnet-4-5-20250929", False),
        ("gpt-5", False),
        ("gpt-6.1-sol", False),
        ("gpt-6.2-astra", True),
        ("openai/gpt-6.2-sol-2026-11-17", True),
    ],
)
def test_models_that_bind_a_block_to_what_came_before(model: str, bound: bool) -> None:  # noqa: FBT001
    """The models that bind thinking to its prefix are those that their maker's page lists."""
    assert binds_reasoning(model) == bound


BLOCK = {"type": "thinking", "thinking": words(5), "signature": "abc"}


def test_a_moved_cut_drops_bound_thinking() -> None:
    """A model that binds thinking to its prefix gets thinking blocks only while no message before them is left out."""
    loop = [m for i in range(6) for m in ({**calling(f"c{i}"), "thinking_blocks": [BLOCK]}, result(f"c{i}", words(30)))]
    found = talk(said("user", "?"), *loop)
    whole = Ask("claude-fable-5-1", 10_000, WindowQuery(format="anthropic"))
    cut = Ask("claude-fable-5-1", 400, WindowQuery(format="anthropic"))
    unbound = Ask("claude-opus-4-8", 400, WindowQuery(format="anthropic"))
    assert found.window(whole).tokens.reasoning > 0
    assert found.window(cut).tokens.reasoning == 0 < found.window(cut).dropped.reasoning_tokens
    assert found.window(unbound).tokens.reasoning > 0


def test_a_standing_cut_keeps_bound_thinking_made_since() -> None:
    """With a stable cut, thinking blocks that were made after the cut moved are sent, and older ones are not."""
    loop = [m for i in range(40) for m in ({**calling(f"c{i}"), "thinking_blocks": [BLOCK]}, result(f"c{i}", words(9)))]
    found = talk(said("user", "?"), *loop)
    ask = Ask("claude-fable-5-1", 800, WindowQuery(format="anthropic", stable=True, stable_step=0.5))
    firsts: dict[int, list[int]] = {}
    for length in range(3, 82, 2):
        window = found.upto(length).window(ask)
        sending = [seq for seq in window.seqs if seq % 2 == 0 and seq - 1 not in window.edits]
        assert sending == sorted(sending)[-len(sending) :]
        firsts.setdefault(window.seqs[1], []).append(len(sending))
    assert any(len(counts) > 2 and counts[-1] > 1 for counts in list(firsts.values())[1:])


HUGE = words(20_000)
AGENT = talk(said("user", "read it"), calling("a"), result("a", HUGE))


def test_a_huge_result_is_cut_to_what_fits() -> None:
    """A result larger than the window is sent as its beginning and end, with a line about the missing tokens."""
    window, request = sent(AGENT, Ask(budget=1000))
    text = request["messages"][2]["content"]
    assert text.startswith("day day")
    assert text.endswith("day")
    assert "tokens of this tool result left out" in text
    assert 900 < window.tokens.total <= 1000
    assert count_request(find_model("gpt-4o-mini"), messages=request["messages"]).tokens == window.tokens.total


@pytest.mark.parametrize("name", ["gpt-4o-mini", "gemini-2.5-pro", "claude-sonnet-4-5", "qwen3-max", "llama-4-scout"])
def test_a_result_cut_to_one_line_fits(name: str) -> None:
    """A result that is cut to one line fits the budget, also in vocabularies that count each digit of the line."""
    found = talk(said("user", ""), calling("a"), result("a", words(24)))
    totals = {}
    for budget in range(20, 120):
        with suppress(WindowDoesNotFit):
            totals[budget] = found.window(Ask(name, budget)).tokens.total
    assert totals
    assert [budget for budget, total in totals.items() if total > budget] == []


def test_a_huge_result_of_digits_is_cut_for_a_model_that_counts_each() -> None:
    """A cut result of digits is measured by its remaining digits, so the window uses over 90 % of its budget."""
    found = talk(said("user", "read it"), calling("a"), result("a", "20260112 " * 20_000))
    window = found.window(Ask("gemini-3.8-flash", 1000, WindowQuery(format="gemini")))
    assert 900 < window.tokens.total <= 1000


def test_error_refuses_a_huge_result() -> None:
    """``tool_result_overflow=error`` refuses a result that does not fit."""
    with pytest.raises(WindowDoesNotFit):
        AGENT.window(Ask(budget=1000, options=WindowQuery(tool_result_overflow="error")))


def test_the_loop_goes_on_behind_a_huge_result() -> None:
    """After the next call, the huge result is still in the window, and cut."""
    found = Talk((*AGENT.entries, *talk(calling("b"), result("b", "short")).entries), AGENT.settings, None)
    window, request = sent(found, Ask(budget=1000))
    assert window.seqs == [1, 2, 3, 4, 5]
    assert "left out" in request["messages"][2]["content"]


def test_a_cut_result_stays_what_it_was() -> None:
    """With a stable cut, a huge result is cut the same as newest and as older message, so that the prefix stays."""
    after = Talk((*AGENT.entries, *talk(calling("b"), result("b", "short")).entries), AGENT.settings, None)
    ask = Ask(budget=1000, options=WindowQuery(stable=True))
    first, second = (found.request(found.window(ask), ask) for found in (AGENT, after))
    assert second.startswith(first.removesuffix(b"]}"))


RESULTS = talk(
    *(m for i in range(6) for m in (said("user", f"q{i}"), calling(f"c{i}"), result(f"c{i}", words(60)))),
    said("user", "and now?"),
)


def test_only_the_newest_results_are_kept() -> None:
    """With ``tool_results_kept=2``, results before the last two tool groups become one line each."""
    window, request = sent(RESULTS, Ask(options=WindowQuery(tool_results_kept=2)))
    cut = [m["content"].startswith("[…") for m in request["messages"] if m["role"] == "tool"]
    assert cut == [True] * 4 + [False] * 2
    assert window.stop_reason == "complete"


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=6),
    st.sampled_from([10, 60, 150]),
    st.sampled_from([None, 0, 1, 3]),
    st.integers(150, 900),
    st.booleans(),
)
def test_cut_results_are_counted_exactly(
    sizes: list[int], limit: int, kept: int | None, budget: int, stable: Literal[True, False]
) -> None:
    """With any cut results, the window is within its budget, and its total is a fresh count of the request."""
    found = talk(*(m for i, size in enumerate(sizes) for m in (calling(f"c{i}"), result(f"c{i}", words(size)))))
    options = WindowQuery(tool_result_max_tokens=limit, tool_results_kept=kept, stable=stable, explain=True)
    ask = Ask(budget=budget, options=options)
    window, request = sent(found, ask)
    assert count_request(ask.model, messages=request["messages"]).tokens == window.tokens.total <= budget
    in_request = sum(line.tokens for line in window.explain or () if line.kept)
    assert in_request == window.tokens.messages + window.tokens.reasoning


@given(st.lists(st.integers(0, 200), min_size=3, max_size=14), st.integers(200, 900), st.sampled_from([None, 0, 2]))
def test_a_stable_prefix_stays_while_the_cut_stands(sizes: list[int], budget: int, kept: int | None) -> None:
    """With results cut and cleared, a stable window begins with the previous one while its first two messages stay."""
    found = talk(
        said("user", "go"),
        *(m for i, size in enumerate(sizes) for m in (calling(f"c{i}"), result(f"c{i}", words(size)))),
    )
    ask = Ask(budget=budget, options=WindowQuery(stable=True, tool_result_max_tokens=50, tool_results_kept=kept))
    before: tuple[list[int], bytes] | None = None
    for length in range(3, len(found.messages) + 1, 2):
        past = found.upto(length)
        window = past.window(ask)
        request = past.request(window, ask).removesuffix(b"]}")
        if before is not None and before[0][:2] == window.seqs[:2]:
            assert request.startswith(before[1])
        before = window.seqs, request


def test_another_form_leaves_out_a_member_without_a_place() -> None:
    """A member that a format has no place for is left out and told; null and empty members are not told."""
    messages = [said("user", "hi", fps=2), said("assistant", "yes", annotations=[], refusal=None, audio=None)]
    outgoing = [Outgoing(seq, message) for seq, message in enumerate(messages, 1)]
    plain = [Outgoing(seq, said(each["role"], each["content"])) for seq, each in enumerate(messages, 1)]
    for form in ("anthropic", "gemini", "responses"):
        mends = Mends()
        assert render_request(form, outgoing, mends=mends) == render_request(form, plain)
        assert (mends.of(1), mends.of(2)) == (["foreign_members"], [])


def test_claude_gets_usual_tool_groups_as_it_gets_others() -> None:
    """Calls with the usual members alone are written in a shorter way, and are sent as those with another null member."""
    usual = [said("user", "go")]
    for turn in range(20):
        usual += [calling(f"a{turn}", f"b{turn}"), result(f"b{turn}", words(9)), result(f"a{turn}", "")]
    other = [each | {"refusal": None} if each["role"] == "assistant" else each for each in usual]
    outgoing, others = ([*map(Outgoing, range(1, 99), each)] for each in (usual, other))
    assert render_request("anthropic", outgoing) == render_request("anthropic", others)
    assert functions_entered(lambda: render_request("anthropic", outgoing)) < 11 * len(usual)


def functions_entered(work: Callable[[], object]) -> int:
    """Return the number of Sash's and Python's own functions that this thread enters meanwhile."""
    entered: list[str] = []

    def enter(_: FrameType, event: str, __: object) -> None:
        entered.append(event) if event == "call" else None

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return len(entered)


def test_anthropic_carries_thinking_blocks() -> None:
    """Thinking blocks come first in their assistant turn, unchanged."""
    outgoing = [Outgoing(1, said("user", "hi")), Outgoing(2, said("assistant", "yes", thinking_blocks=[BLOCK]))]
    request = render_request("anthropic", outgoing)
    assert request["messages"][1]["content"] == [BLOCK, {"type": "text", "text": "yes"}]


def test_reasoning_in_few_shots_is_counted() -> None:
    """Few-shots are sent as they are, so their reasoning is counted with them."""
    shots = [said("user", "1+1?"), said("assistant", "2", reasoning_content=words(50))]
    ask = Ask()
    window, request = sent(talk(said("user", "2+2?"), few_shots=shots), ask)
    assert window.tokens.few_shots > 50
    assert count_request(ask.model, messages=request["messages"]).tokens == window.tokens.total


def test_unknown_members_of_definitions_are_counted() -> None:
    """Unknown members of a tool definition are sent, so their strings are counted."""
    function = {"name": "look", "parameters": {"type": "object", "properties": {}}}
    plain = {"type": "function", "function": function}
    told = {"type": "function", "function": {**function, "examples": words(30)}, "note": words(20)}
    counts = [count_request(MODEL, messages=[said("user", "hi")], tools=[tool]).tokens for tool in (plain, told)]
    assert counts[1] - counts[0] >= 50
