"""Reading a tail is enough for a window: any tail that is long enough gives the window of the whole history."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from histories import PRICES, Ask, Talk, calling, cases, grounded, pinned, result, said, talk, words
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.window import Window
from sash.problems import WindowDoesNotFit
from sash.windows.needs import Older

Case = tuple[Talk, Ask]
CUTS = {"stable": st.booleans(), "stable_step": st.sampled_from([0.05, 0.1, 0.25, 0.5]), **PRICES}


def outcome(found: Talk, ask: Ask, first_seq: int = 1) -> Any:
    """Return the result of a tail: a window, Older, or the members of a problem."""
    try:
        return found.build(ask, first_seq)
    except WindowDoesNotFit as problem:
        return problem.members


def check_every_tail(case: Case) -> None:
    found, ask = case
    whole = outcome(found, ask)
    for first_seq in range(2, len(found.messages) + 1):
        tail = outcome(found, ask, first_seq)
        if isinstance(tail, Older):
            assert 1 <= tail.first_seq < first_seq
        else:
            assert tail == whole


@given(cases(**CUTS))
def test_every_tail(case: Case) -> None:
    """A tail asks for older messages, or gives the same window or problem as the whole history."""
    check_every_tail(case)


@pytest.mark.nightly
@examples(3)
@given(cases(kinds={"max_turns": 25}, **CUTS))
def test_every_tail_deeper(case: Case) -> None:
    """In more and longer histories, a tail asks for older messages, or gives the result of the whole history."""
    check_every_tail(case)


@given(cases(kinds={"max_turns": 6}, **CUTS))
def test_explained_from_a_tail(case: Case) -> None:
    """Every explain line from a tail is also a line from the whole history."""
    found, ask = case
    ask = replace(ask, options=msgspec.structs.replace(ask.options, explain=True))
    whole = outcome(found, ask)
    for first_seq in range(2, len(found.messages) + 1):
        tail = outcome(found, ask, first_seq)
        if isinstance(tail, Window):
            assert [line for line in tail.explain or () if line not in whole.explain] == []


@given(cases(**CUTS))
def test_asking_again_ends(case: Case) -> None:
    """Reading older messages as often as a tail asks for them ends with the result of the whole history."""
    found, ask = case
    first_seq = max(1, len(found.messages))
    given_back = outcome(found, ask, first_seq)
    while isinstance(given_back, Older):
        assert given_back.first_seq < first_seq
        first_seq = given_back.first_seq
        given_back = outcome(found, ask, first_seq)
    assert given_back == outcome(found, ask)


LONG = talk(*(said(role, words(10)) for _ in range(200) for role in ("user", "assistant")))


@pytest.mark.parametrize(
    "options",
    [
        WindowQuery(),
        WindowQuery(overflow="skip"),
        WindowQuery(start="user"),
        WindowQuery(note=True),
    ],
)
def test_a_short_tail_is_enough(options: WindowQuery) -> None:
    """The last 64 messages are enough for a window of 40 messages with each of the options, unless messages are skipped."""
    ask = Ask(budget=14 * 40, options=options)
    tail = LONG.build(ask, first_seq=len(LONG.messages) - 63)
    assert isinstance(tail, Older) == (options.overflow == "skip" and LONG.window(ask).tokens.total < 14 * 40 - 1)


def test_a_stable_cut_reads_its_block() -> None:
    """The messages of the last five budgets are enough for a stable window."""
    ask = Ask(budget=14 * 40, options=WindowQuery(stable=True))
    assert LONG.build(ask, first_seq=len(LONG.messages) - 5 * 40) == LONG.window(ask)


def test_a_limit_is_decided_by_its_tail() -> None:
    """The last ten messages are enough for a window with ``limit=10``."""
    assert LONG.build(Ask(options=WindowQuery(limit=10)), first_seq=391) == LONG.window(
        Ask(options=WindowQuery(limit=10))
    )


def test_asking_for_more_grows() -> None:
    """A tail of 101 messages asks for all 400 at once for a large budget, so that a long history needs few reads."""
    asked = LONG.build(Ask(budget=10**6), first_seq=300)
    assert isinstance(asked, Older)
    assert asked.first_seq == 1


def test_a_tail_that_cuts_the_newest_group() -> None:
    """A tail that begins with results asks for older messages, because it lacks their call."""
    found = talk(said("user", "?"), calling("a", "b"), result("a"), result("b"))
    assert isinstance(found.build(Ask(), first_seq=3), Older)


def test_a_tail_that_cuts_a_legacy_pair() -> None:
    """A tail that begins with a function's result asks for older messages, because the call may be before it."""
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": words(60)}}
    found = talk(said("user", "?"), legacy, said("function", "1", name="look"), said("user", "and?"))
    ask = Ask(budget=20)
    assert isinstance(found.build(ask, first_seq=3), Older)
    assert found.window(ask).seqs == [4]


def test_a_tail_that_may_cut_a_legacy_pair_at_the_limit() -> None:
    """A tail that begins with a function's result at the limit asks for older messages, to know whether it has a call."""
    found = talk(
        said("user", "?"), said("assistant", "x"), said("function", words(60), name="look"), said("user", "and?")
    )
    ask = Ask(budget=20, options=WindowQuery(limit=2))
    assert isinstance(found.build(ask, first_seq=3), Older)
    assert found.window(ask).stop_reason == "budget"


def test_a_tail_that_cuts_a_pinned_group() -> None:
    """A tail that begins with a pinned result asks for older messages, because it lacks the call."""
    found = talk(said("user", "?"), calling("a"), pinned(result("a")), said("user", "and?"))
    assert isinstance(found.build(Ask(), first_seq=3), Older)


def test_a_pinned_group_before_the_tail() -> None:
    """A pinned group before the tail is whole in the window, at the same cost as from the whole history."""
    found = talk(
        said("user", "?"), pinned(calling("a", "b")), result("a", "하나"), result("b"), *([said("user", "x")] * 9)
    )
    ask = Ask(budget=100, options=WindowQuery(limit=2))
    tail = found.build(ask, first_seq=10)
    assert tail == found.window(ask)
    assert isinstance(tail, Window)
    assert tail.seqs == [2, 3, 4, 12, 13]


def test_a_pinned_group_that_nobody_finished() -> None:
    """A pinned group that lacks a result is read whole, because a line must stand in place of the result."""
    found = talk(pinned(calling("a", "b")), result("a"), *([said("user", "x")] * 9))
    ask = Ask(options=WindowQuery(limit=2))
    assert found.build(ask, first_seq=9) == Older(1)


def test_a_question_before_the_tail() -> None:
    """In a long tool loop, the question and its documents are sent although the tail begins after the question."""
    rounds = [m for i in range(40) for m in (calling(f"c{i}"), result(f"c{i}", words(20)))]
    found = talk(grounded("which?", "the one"), *rounds)
    ask = Ask(budget=300)
    tail = found.build(ask, first_seq=50)
    assert tail == found.window(ask)
    assert isinstance(tail, Window)
    assert (tail.seqs[0], list(tail.grounding)) == (1, [1])


@pytest.mark.parametrize("budget", range(400, 800, 20))
def test_a_pinned_question_is_cut_alike_from_every_tail(budget: int) -> None:
    """A stable cut is the same from a tail and from the whole history if the newest question is pinned."""
    rounds = [m for i in range(40) for m in (calling(f"c{i}"), result(f"c{i}", words(20)))]
    found = talk(*([said("user", words(30))] * 9), grounded("which?", words(90), is_pinned=True), *rounds)
    ask = Ask(budget=budget, options=WindowQuery(stable=True, stable_step=0.05))
    tail = outcome(found, ask, 25)
    assert isinstance(tail, Older) or tail == found.window(ask)
    assert outcome(found, ask, tail.first_seq if isinstance(tail, Older) else 25) == found.window(ask)


def test_a_pinned_question_is_called_pinned() -> None:
    """A problem has the same costs from a tail as from the whole history; a pinned question's are of pinned messages."""
    found = talk(pinned(said("user", "which?")), *([said("assistant", "x")] * 5))
    assert outcome(found, Ask(budget=1), 3) == outcome(found, Ask(budget=1))
    assert set(outcome(found, Ask(budget=1), 3)["costs"]) == {"priming", "pinned messages", "newest"}


def test_two_bounds_at_the_beginning_of_a_tail() -> None:
    """If a summary and a limit both end just before the tail, the tail asks for older messages to find the reason."""
    found = talk(*([said("user", "x")] * 5), said("assistant", "y"), summary=("They met.", 5))
    ask = Ask(options=WindowQuery(limit=2, summary="always"))
    assert found.window(ask).stop_reason == "limit"
    assert isinstance(found.build(ask, first_seq=6), Older)


def test_two_bounds_within_a_group_that_a_tail_cuts() -> None:
    """A group that begins before the limit and ends within the summary stops at the limit, also from a tail."""
    found = talk(calling("a"), result("a"), said("user", "x"), said("assistant", "y"), summary=("They met.", 2))
    ask = Ask(options=WindowQuery(limit=3, summary="always"))
    assert found.window(ask).stop_reason == "limit"
    assert found.build(ask, first_seq=2) == found.window(ask)


def test_everything_before_the_tail_is_always_in() -> None:
    """If all messages before the limit are required, the window is complete, also from a tail."""
    found = talk(said("system", "a"), pinned(said("user", "b")), *([said("user", "x")] * 5))
    ask = Ask(options=WindowQuery(limit=5))
    tail = found.build(ask, first_seq=3)
    assert isinstance(tail, Window)
    assert (tail, tail.stop_reason) == (found.window(ask), "complete")


def test_documents_of_what_is_pinned_before_the_tail() -> None:
    """With ``all``, a pinned message has its documents, and a tail that begins after it asks for older messages."""
    found = talk(grounded("a", "first", is_pinned=True), said("assistant", "b"), said("user", "?"))
    ask = Ask(options=WindowQuery(grounding="all"))
    assert list(found.window(ask).grounding) == [1]
    assert isinstance(found.build(ask, first_seq=2), Older)


def test_a_duplicate_of_what_is_pinned_before_the_tail() -> None:
    """A message that repeats a pinned message is left out, also if the pinned message is before the tail."""
    found = talk(
        pinned(said("user", "remember")), *([said("assistant", "x")] * 9), said("user", "remember"), said("user", "?")
    )
    ask = Ask(options=WindowQuery(dedupe="messages", limit=5))
    tail = found.build(ask, first_seq=8)
    assert isinstance(tail, Window)
    assert (tail, tail.seqs) == (found.window(ask), [1, 10, 12])


@pytest.mark.parametrize("options", [WindowQuery(stable=True), WindowQuery(stable=True, tool_result_max_tokens=30)])
@pytest.mark.parametrize("finished", [False, True])
def test_an_unfinished_pinned_group_keeps_as_much_room_wherever_the_tail_begins(
    options: WindowQuery,
    finished: bool,  # noqa: FBT001
) -> None:
    """The room that stays reserved for an unfinished pinned group is that of its cut results, also before the tail."""
    group = [calling("a", "b"), result("a", words(900)), *([result("b", words(200))] if finished else [])]
    turns = [said(role, words(10)) for _ in range(60) for role in ("user", "assistant")]
    found = talk(said("user", "Look."), *map(pinned, group), *turns)
    check_every_tail((found, Ask(budget=400, options=options)))
