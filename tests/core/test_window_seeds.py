"""Behaviours that the service takes over from earlier projects, which the docstrings name."""

import pytest
from histories import TOOL, Ask, added_tokens, calling, grounded, needed, result, said, talk, words

from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.window import Window
from sash.problems import WindowDoesNotFit
from sash.windows.needs import Older

CHAT = [said(role, words(size)) for size in (40, 10, 60, 10) for role in ("user", "assistant")]


def test_newest_to_oldest_until_one_does_not_fit() -> None:
    """openai-messages-token-helper, Jetchat: the first message that does not fit ends the walk, even if older ones fit."""
    found = talk(
        said("user", "hi"), said("assistant", words(90)), said("user", "ok"), said("user", "?"), system="Be brief."
    )
    window = found.window(Ask(budget=60))
    assert (window.seqs, window.stop_reason, window.dropped.messages) == ([3, 4], "budget", 2)


def test_going_on_past_what_does_not_fit() -> None:
    """An idea in a comment of Jetchat: ``skip`` leaves out a message that is too large, and goes on with older ones."""
    found = talk(
        said("user", "hi"), said("assistant", words(90)), said("user", "ok"), said("user", "?"), system="Be brief."
    )
    assert found.window(Ask(budget=60, options=WindowQuery(overflow="skip"))).seqs == [1, 3, 4]


def test_a_budget_that_is_met_exactly() -> None:
    """A window of exactly the budget fits (Jetchat compared with ``<`` and lost a message)."""
    found = talk(*CHAT)
    whole = found.window(Ask())
    assert found.window(Ask(budget=whole.tokens.total)).seqs == whole.seqs
    assert found.window(Ask(budget=whole.tokens.total - 1)).seqs == whole.seqs[1:]


def test_system_and_few_shots_always() -> None:
    """openai-messages-token-helper: the system prompt and the few-shots are always sent."""
    shots = [said("user", "ping"), said("assistant", "pong")]
    found = talk(*CHAT, said("user", "?"), system="You are a bot.", few_shots=shots)
    window = found.window(Ask(budget=needed(found, "gpt-4o-mini")))
    assert window.seqs == [9]
    assert found.request(window).startswith(b'{"messages":[{"role":"system","content":"You are a bot."},{"role":"user"')
    assert window.tokens.few_shots == 10


def test_a_system_message_in_the_history_always() -> None:
    """Jetchat: a system message is kept in its place, although it is the oldest message."""
    found = talk(said("system", "You are a bot."), *CHAT, said("user", "?"))
    assert found.window(Ask(budget=needed(found, "gpt-4o-mini"))).seqs == [1, 10]


def test_reapplied_after_tool_results() -> None:
    """Jetchat: after a tool result, the same budget is applied again, and older messages are left out."""
    asked = talk(*CHAT, said("user", "weather?"), system="Be brief.", tools=[TOOL])
    told = talk(*asked.messages, calling("c"), result("c", words(60)), system="Be brief.", tools=[TOOL])
    before, after = (found.window(Ask(budget=220)) for found in (asked, told))
    assert before.seqs[0] < after.seqs[0]
    assert after.seqs[-3:] == [9, 10, 11]
    assert after.tokens.total <= 220


def test_documents_only_with_the_current_question() -> None:
    """Jetchat's second part: earlier questions' documents are not sent, because answers contain what mattered from them."""
    found = talk(grounded("gradle?", words(500)), said("assistant", "at 12:10"), grounded("where?", words(60)))
    window = found.window(Ask(budget=200))
    assert (window.seqs, list(window.grounding)) == ([1, 2, 3], [3])
    assert (window.dropped.grounding_messages, window.dropped.messages) == (1, 0)
    assert b"Sources" not in found.request(window).split(b"where?")[0]


def test_documents_through_the_tool_round() -> None:
    """A question keeps its documents during its tool calls, because its answer is not written yet."""
    found = talk(grounded("which?", "the one"), calling("c"), result("c"))
    assert list(found.window(Ask()).grounding) == [1]


def test_documents_too_large_never_cost_the_question() -> None:
    """Documents that are too large are trimmed, and the question stays; a bug of Jetchat lost the newest message."""
    found = talk(*CHAT, grounded("what sessions are about Android?", *(words(400) + f" {i}" for i in range(9))))
    window = found.window(Ask(budget=500))
    chosen = window.grounding[9]
    assert 9 in window.seqs
    assert (len(chosen.places), chosen.cut) == (2, True)
    assert 495 <= window.tokens.total <= 500


def test_documents_within_their_own_budget_in_order() -> None:
    """docs-assistant: 1,536 tokens for documents, taken whole, most relevant first, until one does not fit."""
    documents = [f"{i} " + words(600) for i in range(4)]
    found = talk(*CHAT, grounded("how?", *documents))
    window = found.window(Ask(budget=4096 - 1024, limits={"max_tokens": 1536}))
    template = found.parts.template
    assert len(window.grounding[9].places) == 2
    assert added_tokens(template, "how?", documents[:2], "o200k_base") <= 1536
    assert added_tokens(template, "how?", documents[:3], "o200k_base") > 1536
    assert window.seqs == list(range(1, 10))


def test_a_large_document_first_leaves_none() -> None:
    """docs-assistant: if the first document exceeds the documents' budget, less relevant ones are not sent either."""
    found = talk(grounded("how?", words(200), "short"))
    assert found.window(Ask(limits={"max_tokens": 100})).grounding == {}


def test_only_the_question_is_left_and_does_not_fit() -> None:
    """A question that does not fit is a problem with each part's cost; openai-messages-token-helper sent it silently."""
    found = talk(*CHAT, said("user", words(100)), system="You are a bot.", tools=[TOOL])
    with pytest.raises(WindowDoesNotFit) as caught:
        found.window(Ask(budget=80))
    members = caught.value.members
    assert members["costs"] == {"priming": 3, "system": 9, "tools": members["costs"]["tools"], "question": 104}
    assert members["needed"] == sum(members["costs"].values())
    assert members["shortfall"] == members["needed"] - 80
    assert str(members["shortfall"]) in caught.value.detail
    assert "day" not in caught.value.detail


def test_no_messages() -> None:
    """openai-messages-token-helper: without messages the fixed parts are the window."""
    window = talk(system="You are a bot.").window(Ask("gpt-35-turbo"))
    assert (window.seqs, window.stop_reason, window.tokens.total) == ([], "complete", 3 + 4 + 5)


def test_the_same_text_twice_is_two_messages() -> None:
    """Messages with equal text are all sent, unless ``dedupe=messages`` is given."""
    found = talk(said("user", "yes"), said("assistant", "sure?"), said("user", "yes"))
    assert found.window(Ask()).seqs == [1, 2, 3]
    window = found.window(Ask(options=WindowQuery(dedupe="messages")))
    assert (window.seqs, window.dropped.duplicates) == ([2, 3], 1)


def test_a_repeat_does_not_end_a_window() -> None:
    """With ``dedupe=messages``, a message that repeats a kept one is passed, and older ones are kept in its place."""
    texts = ["hi", *(f"{number} {words(20)}" for number in (8, 3, 4, 5, 6, 7, 8))]
    found = talk(*(said(role, text) for role, text in zip(("user", "assistant") * 4, texts, strict=True)))
    budget = found.window(Ask()).tokens.total - 10
    assert found.window(Ask(budget=budget)).seqs == [3, 4, 5, 6, 7, 8]
    window = found.window(Ask(budget=budget, options=WindowQuery(dedupe="messages")))
    assert (window.seqs, window.dropped.duplicates) == ([1, 3, 4, 5, 6, 7, 8], 1)


def test_refusals_are_not_the_same() -> None:
    """Writing without content are not duplicates of each other, because their text is in another member."""
    writing = [{"role": "assistant", "content": None, "refusal": text} for text in ("no", "never")]
    found = talk(said("user", "a"), writing[0], said("user", "b"), writing[1], said("user", "c"))
    assert found.window(Ask(options=WindowQuery(dedupe="messages"))).seqs == [1, 2, 3, 4, 5]


def test_a_tool_call_says_nothing_again() -> None:
    """A message is not a duplicate of the same text beside a tool call."""
    found = talk(
        said("user", "a"), said("assistant", "wait"), calling("c", content="wait"), result("c"), said("user", "b")
    )
    assert found.window(Ask(options=WindowQuery(dedupe="messages"))).seqs == [1, 2, 3, 4, 5]


def test_an_old_tool_call_that_nobody_answered() -> None:
    """A call that another message followed before its result is left out, because providers answer 400 to it."""
    found = talk(said("user", "a"), calling("c"), said("user", "never mind"))
    window = found.window(Ask(options=WindowQuery(explain=True)))
    assert (window.seqs, window.stop_reason) == ([1, 3], "complete")
    assert [line.reason for line in window.explain or []][1] == "a call without its results"


def test_few_shots_with_parallel_calls_are_counted_as_billed() -> None:
    """Results of parallel calls in few-shots are counted as one list, as they are billed."""
    shots = [
        said("user", "?"),
        calling("a", "b"),
        result("a", "날씨는 맑음"),
        result("b", "바람"),
        said("assistant", "so"),
    ]
    as_history, as_shots = talk(*shots), talk(few_shots=shots)
    assert as_shots.window(Ask()).tokens.few_shots == as_history.window(Ask()).tokens.messages


def test_the_note_is_the_message_that_definitions_join() -> None:
    """If the note is the first system message, tool definitions are counted as joining it."""
    found = talk(*CHAT, said("user", "?"), tools=[TOOL])
    window = found.window(Ask(budget=150, options=WindowQuery(note=True)))
    alone = found.window(Ask(budget=150))
    assert window.note > 0
    assert window.tokens.tools < alone.tokens.tools


def test_a_note_that_does_not_fit() -> None:
    """A note that does not fit beside the required messages is left out."""
    found = talk(said("user", "hi"), said("user", "?"))
    least = needed(found, "gpt-4o-mini")
    window = found.window(Ask(budget=least + 2, options=WindowQuery(note=True)))
    assert (window.seqs, window.note) == ([2], 0)


def test_skip_looks_back_over_all_that_fits() -> None:
    """``skip`` keeps 12,000 messages that fit: its limit of 10,000 counts from the first message that is too large."""
    small = talk(said("user", "ok"))
    record = small.stored[0][0]
    found = talk(*[said("user", "ok")] * 2, system="s")
    vars(found)["stored"] = ([record] * 12_000, [small.stored[1][0]] * 12_000, {})
    vars(found)["question"] = 12_000
    window = found.build(Ask(budget=10**6, options=WindowQuery(overflow="skip")))
    assert isinstance(window, Window)
    assert (len(window.seqs), window.stop_reason) == (12_000, "complete")


def test_skip_gives_up_in_the_end() -> None:
    """``skip`` considers 256 messages before the first that is too large, so that its cost does not grow with history."""
    small, large = talk(said("user", "ok")), talk(said("user", words(60_000)))
    found = talk()
    vars(found)["stored"] = ([small.stored[0][0]] * 12_000, [], {})
    found.stored[0][11_000] = large.stored[0][0]
    vars(found)["question"] = 12_000
    ask = Ask(budget=62_000, options=WindowQuery(overflow="skip"))
    window = found.build(ask)
    assert isinstance(window, Window)
    assert (window.seqs[0], len(window.seqs), window.stop_reason) == (10_745, 1_255, "budget")
    assert found.build(ask, first_seq=10_745) == window
    assert isinstance(found.build(ask, first_seq=10_746), Older)


def test_a_name_of_what_must_be_in() -> None:
    """Without a user message, the costs have no question, and have system messages under their own name."""
    found = talk(said("system", "a"), said("assistant", "b"))
    with pytest.raises(WindowDoesNotFit) as caught:
        found.window(Ask(budget=1))
    assert set(caught.value.members["costs"]) == {"priming", "system messages", "newest"}
