"""Stable cuts: the first kept message never moves back, and moves at most once a step."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from histories import (
    MODELS,
    PRICES,
    Ask,
    Talk,
    calling,
    grounded,
    needed,
    pinned,
    result,
    said,
    talk,
    talks,
    tiers,
    words,
)
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.law.records.need_older import NeedOlder
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.stable import Spans, stable_cut
from sash.core.law.selection.window import Window

STEPS = (0.05, 0.1, 0.25, 0.5)


def stable(step: float = 0.25, **more: Any) -> WindowQuery:
    return WindowQuery(stable=True, stable_step=step, **more)


def lived(found: Talk, ask: Ask) -> list[Window]:
    """Return the window after each message of a conversation."""
    return [found.upto(length).window(ask) for length in range(1, len(found.messages) + 1)]


@st.composite
def lives(draw: st.DrawFn, **kinds: Any) -> tuple[Talk, Ask]:
    """Draw a conversation, and a budget that the required messages fit after every message."""
    found = replace(draw(talks(**kinds)), summary=None)
    name, step = draw(st.sampled_from(MODELS)), draw(st.sampled_from(STEPS))
    most = [needed(found.upto(length), name) for length in range(1, len(found.messages) + 1)]
    documents = draw(st.sampled_from(["latest", "none", "all"]))
    more = {name: draw(way) for name, way in PRICES.items()}
    wanted = stable(step, grounding=documents, note=draw(st.booleans()), **more)
    budget = max(most, default=1) + draw(st.integers(0, 400))
    return found, Ask(name, budget, wanted, tier=draw(tiers(budget)))


def check_never_moves_back(life: tuple[Talk, Ask]) -> None:
    firsts = [window.seqs[0] for window in lived(*life)]
    assert all(before <= after for before, after in pairwise(firsts))


@given(lives(max_turns=14))
def test_never_moves_back(life: tuple[Talk, Ask]) -> None:
    """The first kept message never moves back as messages of any kind and size are appended."""
    check_never_moves_back(life)


@pytest.mark.nightly
@examples(3)
@given(lives(max_turns=30))
def test_never_moves_back_deeper(life: tuple[Talk, Ask]) -> None:
    """The first kept message never moves back, in more and longer conversations."""
    check_never_moves_back(life)


def optional(found: Talk, window: Window) -> list[int]:
    """Return the seqs of kept messages that are not required in the window."""
    must = {*found.always, window.seqs[-1], found.question}
    return [seq for seq in window.seqs if seq not in must]


@given(lives(max_turns=14))
def test_nothing_after_the_cut_is_left_out(life: tuple[Talk, Ask]) -> None:
    """After the first kept optional message, only calls without their results are left out."""
    found, ask = life
    for length, window in enumerate(lived(found, ask), 1):
        past = found.upto(length)
        kept = optional(past, window)
        explained = past.window(replace(ask, options=msgspec.structs.replace(ask.options, explain=True))).explain or []
        left = {line.reason for line in explained if kept and line.seq > kept[0] and not line.kept}
        assert left <= {"a call without its results"}


@examples(0.4)
@given(lives(max_turns=10))
def test_a_price_leaves_out_more_and_never_what_must_be_in(life: tuple[Talk, Ask]) -> None:
    """With ``price=auto`` a window is below the tier, unless what must be in is above it; and ``stop_reason`` tells.

    Without a tier it is the window without ``price=auto``.
    """
    found, ask = life
    priced = replace(ask, options=msgspec.structs.replace(ask.options, price="auto"))
    plain = replace(ask, options=msgspec.structs.replace(ask.options, price="none"))
    for length in range(1, len(found.messages) + 1):
        past = found.upto(length)
        dear, cheap = past.window(plain), past.window(priced)
        assert {*cheap.seqs} >= {*past.always, past.question} & {*dear.seqs}
        if ask.tier is None:
            assert cheap == dear
        whole_results = msgspec.structs.replace(ask.options, tool_result_overflow="error")
        if ask.tier is not None and needed(past, ask.name, whole_results) <= ask.tier:
            assert cheap.tokens.total <= ask.tier
        if len(cheap.seqs) < len(dear.seqs):
            assert cheap.stop_reason == "price"


class Span(NamedTuple):
    """One span: the members of ``Spans``."""

    cost: int
    length: int
    documents: int
    question: bool
    passing: int = 0
    continues: bool = False
    while_open: int = 0


def columns(spans: Sequence[Span]) -> Spans:
    """Return the spans as arrays."""
    return Spans(*(np.array([span[place] for span in spans], bool if place in (3, 5) else int) for place in range(7)))


BLOCK = 100
SPANS = st.lists(
    st.builds(
        Span,
        st.integers(0, 60),
        st.integers(1, 60),
        st.sampled_from([0, 0, 10, 80]),
        st.booleans(),
        st.sampled_from([0, 0, 5, 50]),
        st.booleans(),
        st.sampled_from([0, 0, 0, 30]),
    ),
    max_size=30,
)


@given(SPANS, st.integers(0, 150), st.sampled_from([5.0, 12.5, 40.0]))
def test_cut_moves_at_most_once_a_step(spans: list[Span], room: int, step: float) -> None:
    """The cut takes at most about one place for each step of sent tokens and two for each block, and never moves back."""
    lines = [spans[: length + 1] for length in range(len(spans))]
    ends = [sum(span.length for span in line) for line in lines]
    found = [cut_of(line, end, room, step) for line, end in zip(lines, ends, strict=True)]
    cuts = [cut[0] for cut in found]
    placed = {cut for cut, line in zip(cuts, lines, strict=True) if cut < len(line)}
    sent = sum(span.cost for span in spans)
    assert len(placed) <= 2 + math.ceil(sent / step) + 2 * math.ceil(max(ends, default=0) / BLOCK)
    assert all(before <= after for before, after in pairwise(cuts))


@given(SPANS, st.integers(0, 150), st.sampled_from([5.0, 12.5, 40.0]))
def test_cut_knows_since_when_it_stands(spans: list[Span], room: int, step: float) -> None:
    """The span that moved the cut is not after the first span that has this cut."""
    lines = [spans[: length + 1] for length in range(len(spans))]
    found = [cut_of(line, sum(span.length for span in line), room, step) for line in lines]
    for newest, (cut, since) in enumerate(found):
        if since is not None and cut < newest:
            same = [index for index in range(newest + 1) if found[index][0] == cut]
            assert since <= same[0]


def cut_of(line: list[Span], end: int, room: int, step: float) -> tuple[int, int | None]:
    """Return the cut of a whole line of spans."""
    found = stable_cut(columns(line), end=end, room=room, step=step, block=BLOCK, whole=True)
    assert not isinstance(found, NeedOlder)
    return found


@given(SPANS, st.integers(0, 150), st.sampled_from([5.0, 12.5, 40.0]), st.integers(0, 10_000))
def test_cut_is_the_same_from_any_tail(spans: list[Span], room: int, step: float, before: int) -> None:
    """The last spans of a line give the cut of the whole line, or ask for more."""
    end = before + sum(span.length for span in spans)
    spans = [Span(40, before, 0, question=False), *spans] if before else spans
    whole, _ = cut_of(spans, end, room, step)
    for first in range(1, len(spans)):
        asked = next((span for span in reversed(spans) if span.question), None)
        inside = any(span.question for span in spans[first:])
        known = [asked] if asked is not None and not inside else []
        earlier = [Span(0, 0, each.documents, question=True, passing=each.cost + each.passing) for each in known]
        line = columns([*earlier, *spans[first:]])
        tail = stable_cut(line, end=end, room=room, step=step, block=BLOCK, whole=False)
        assert isinstance(tail, NeedOlder) or tail[0] + first - len(earlier) == whole


def signed(message: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the call with a signature of ``size`` characters, as Gemini's OpenAI endpoint sends it."""
    message["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "abcdefgh" * (size // 8)}}
    return message


SIZES = st.integers(1, 40)
STEPS_OF_TURNS = st.one_of(
    st.builds(lambda size: [said("user", words(size))], SIZES),
    st.builds(lambda size, thought: [said("assistant", words(size), reasoning_content=words(thought))], SIZES, SIZES),
    st.builds(
        lambda size, seal, thought: [
            {**signed(calling("c"), 8 * seal), "reasoning_content": words(thought)},
            result("c", words(size)),
        ],
        SIZES,
        SIZES,
        st.integers(1, 80),
    ),
)


@given(
    st.lists(STEPS_OF_TURNS, min_size=3, max_size=16),
    st.sampled_from(["turn", "turn", "all", "none"]),
    st.sampled_from(STEPS),
    st.integers(300, 900),
)
def test_never_moves_back_with_reasoning(
    turns: list[list[dict[str, Any]]], reasoning: Any, step: float, budget: int
) -> None:
    """The first kept message never moves back if messages have thoughts and signatures, and questions follow results."""
    found = talk(*(message for turn in turns for message in turn))
    check_never_moves_back((found, Ask("gemini-3-pro", budget, stable(step, reasoning=reasoning))))


def test_the_cut_leaves_room_for_an_opening_turn() -> None:
    """No message after the cut is left out for the turn before the assistant's first message."""
    sizes = (37, 13, 38, 21, 36, 31)
    messages: list[Any] = [said(("user", "assistant")[place % 2], words(size)) for place, size in enumerate(sizes)]
    messages[2] = grounded(words(38), words(60))
    ask = Ask("claude-sonnet-4-5", 188, stable(format="anthropic"))
    assert [window.seqs[0] for window in lived(talk(*messages), ask)] == [1, 1, 2, 3, 4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemini-2.5-pro", "qwen3-max", "mistral-large-2407", "claude-sonnet-4-5"])
@pytest.mark.parametrize("table", [" 31415 926 5358979" * 40, "3" * 400, "9 talks" * 50])
def test_documents_of_numbers_do_not_move_the_cut_back(name: str, table: str) -> None:
    """Documents of numbers, of which many families' vocabularies have a token a digit, leave room as they cost."""
    found = talk(
        *(
            entry
            for number in range(12)
            for entry in (
                grounded(f"{words(9)} {number}", *([table] if number % 3 else [])),
                said("assistant", words(40)),
            )
        )
    )
    for budget in range(700, 1500, 100):
        check_never_moves_back((found, Ask(name, budget, stable(0.05))))


def test_signatures_are_history() -> None:
    """Signatures, which every window sends, take room for history: the cut stays for some turns and does not slide."""
    call = signed(calling("c", arguments="{}"), 480)
    turn = (said("user", words(20)), call, result("c", "ok"), said("assistant", words(20)))
    found = talk(*(message for _ in range(24) for message in turn))
    ask = Ask("gemini-3-pro", 1200, stable())
    firsts = [found.upto(length).window(ask).seqs[0] for length in range(33, 96, 4)]
    assert firsts[0] == 1
    assert 3 < len(set(firsts)) < 10 < len(firsts)


def chat(turns: int, size: int = 10) -> Talk:
    return talk(*(said(role, words(size)) for _ in range(turns) for role in ("user", "assistant")), system="Be brief.")


@pytest.mark.slow
def test_a_step_of_a_quarter() -> None:
    """A chat of equal messages keeps its first message for a quarter of the budget, then leaves a quarter out."""
    windows = lived(chat(150), Ask(budget=1400, options=stable()))
    firsts = [window.seqs[0] for window in windows]
    moves = [after - before for before, after in pairwise(firsts) if after != before]
    assert moves[:4] == [25, 25, 25, 25]
    assert len(moves) < 10


def test_nothing_goes_while_all_fits() -> None:
    """As long as the whole history fits, it is sent."""
    found = chat(20)
    whole = found.window(Ask())
    window = found.window(Ask(budget=whole.tokens.total, options=stable()))
    assert (window.seqs, window.stop_reason) == (whole.seqs, "complete")


def test_documents_that_come_and_go() -> None:
    """A question with many documents moves the cut once; the next question without any does not move it back."""
    chats = chat(30).messages
    found = talk(*chats, grounded("which?", words(300)), said("assistant", "this"), said("user", "thanks"))
    before, with_documents, _, after = lived(found, Ask(budget=700, options=stable()))[-4:]
    assert before.seqs[0] < with_documents.seqs[0] == after.seqs[0]


@pytest.mark.slow
def test_a_question_that_an_agent_outgrows() -> None:
    """The question stays the first message, while the tool groups after it are left out in steps."""
    rounds = [m for i in range(60) for m in (calling(f"c{i}"), result(f"c{i}", words(20)))]
    windows = lived(talk(said("user", words(50)), *rounds), Ask(budget=600, options=stable()))
    assert {window.seqs[0] for window in windows} == {1}
    seconds = [window.seqs[1] for window in windows if len(window.seqs) > 1]
    assert all(before <= after for before, after in pairwise(seconds))
    assert len(set(seconds)) <= 1 + windows[-1].dropped.tokens / 150 + 1


def test_a_huge_question_of_long_ago() -> None:
    """A large old question does not shrink later windows, and a tail without it gives the same window."""
    found = talk(said("user", words(400)), said("assistant", "ok"), *chat(300).messages)
    ask = Ask(budget=500, options=stable())
    assert found.window(ask).tokens.total > 300
    assert found.build(ask, first_seq=300) == found.window(ask)


def test_pins_stand_before_the_cut() -> None:
    """A pinned message stays the first message, and the cut after it moves on."""
    found = talk(pinned(said("user", "remember")), *chat(60).messages)
    windows = lived(found, Ask(budget=500, options=stable()))
    assert {window.seqs[0] for window in windows} == {1}
    assert windows[-1].seqs[1] > 60


@pytest.mark.slow
def test_a_pinned_group_that_nobody_finishes() -> None:
    """A pinned group leaves the window if another message follows before its results, but the cut does not move back."""
    waiting = [calling("a", "b", "c"), result("a"), pinned(result("b")), said("assistant", "well"), said("user", "so?")]
    found = talk(grounded("which?", words(190)), said("assistant", "it"), *([said("user", "")] * 6), *waiting)
    for budget in range(190, 260):
        firsts = [window.seqs[0] for window in lived(found, Ask(budget=budget, options=stable(0.05)))]
        assert firsts == sorted(firsts)


def assert_never_back(found: Talk, budgets: range) -> None:
    for budget in budgets:
        firsts = [window.seqs[0] for window in lived(found, Ask(budget=budget, options=stable(0.05)))]
        assert firsts == sorted(firsts), budget


@pytest.mark.slow
def test_a_long_pinned_result_is_cut_from_the_beginning() -> None:
    """A pinned result over half the room is cut at once: cut later, it would let history begin earlier again."""
    group = (calling("a"), pinned(result("a", words(70))), pinned(said("user", "yes")))
    later = [said("user", words(9)), *([said("system", words(9))] * 3), calling("b")]
    assert_never_back(talk(said("assistant", "hello"), *group, *later), range(114, 180))


def test_a_group_that_is_cut_when_its_last_result_comes() -> None:
    """What the first result pushed out stays out when the second makes the group larger than the window, and it is cut."""
    group = (calling("a", "b"), result("a", words(70)), result("b", words(20)))
    assert_never_back(talk(said("assistant", "hello"), *([said("system", words(9))] * 2), *group), range(127, 180))


def test_a_budget_of_nothing() -> None:
    """A budget of 0 tokens, where messages cost none, has a stable window."""
    found = talk(grounded("", "ok"), said("user", ""))
    assert found.window(Ask("gemini-2.0-flash", 0, stable(grounding="all"))).tokens.total == 0


@pytest.mark.slow
def test_steps_are_of_the_model_s_tokens() -> None:
    """For an estimated model, the step is a share of the budget in its own tokens: windows stay over 70 % full."""
    windows = lived(chat(150), Ask("claude-sonnet-4-5", 2000, stable()))
    fills = [window.tokens.total / 2000 for window in windows if window.dropped.messages]
    assert min(fills) > 0.7


def test_an_empty_history_has_no_cut() -> None:
    """A stable window of a conversation without messages has no messages."""
    assert talk(system="Be brief.").window(Ask(options=stable())).seqs == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama-3.3-70b", "claude-sonnet-4-5", "gemini-2.5-pro"])
def test_documents_in_another_script_take_as_much_room_before(name: str) -> None:
    """The cut stays when a question with documents in another script than Latin is no longer the newest."""
    opened = [said(role, words(20)) for _ in range(20) for role in ("user", "assistant")]
    asked = grounded("Which?", "Привет, как дела? Сегодня хорошая погода. " * 12)
    found = talk(*opened, asked, *(said(role, "ok") for _ in range(6) for role in ("assistant", "user")))
    for budget in range(900, 2000, 60):
        firsts = [window.seqs[0] for window in lived(found, Ask(name, budget, stable(0.05)))[len(opened) :]]
        assert firsts == sorted(firsts)


@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini"])
def test_explain_does_not_move_the_cut(form: str) -> None:
    """A stable window that explains itself is the same window, also where the whole history only just fits."""
    found, name = chat(9), "claude-sonnet-4-5"
    whole = found.window(Ask(name)).tokens.total
    for budget in range(whole - 5, whole + 20):
        window, explained = (
            found.window(Ask(name, budget, stable(format=form, explain=each))) for each in (False, True)
        )
        assert msgspec.structs.replace(explained, explain=None) == window
