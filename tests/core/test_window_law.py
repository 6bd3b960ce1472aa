"""Windows of any history: comparison with an oracle, and single properties."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from histories import Ask, Talk, calling, cases, groups, needed, said, talk
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples
from window_oracle import Oracle

from sash.core.counts.costs.counting import count_request, reference_tokens
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.selection.window import Window
from sash.problems import WindowDoesNotFit

Case = tuple[Talk, Ask]


def sent(case: Case, window: Window) -> dict[str, Any]:
    request: dict[str, Any] = msgspec.json.decode(case[0].request(window, case[1]))
    return request


def check_against_the_oracle(case: Case) -> None:
    case = case[0], replace(case[1], options=msgspec.structs.replace(case[1].options, tool_result_overflow="error"))
    expected = Oracle(*case).expected()
    if expected is None:
        with pytest.raises(WindowDoesNotFit):
            case[0].window(case[1])
        return
    window = case[0].window(case[1])
    assert (expected.seqs, expected.stop, expected.note) == (window.seqs, window.stop_reason, window.note)
    assert (expected.grounding, expected.summary) == (window.grounding, window.summary is not None)
    assert (expected.total, expected.duplicates) == (window.tokens.total, window.dropped.duplicates)
    assert msgspec.json.encode(expected.request) == case[0].request(window)


@given(cases(fits=False))
def test_oracle(case: Case) -> None:
    """A window equals the oracle's window, or both find that the required messages do not fit."""
    check_against_the_oracle(case)


def test_a_summary_in_place_of_what_is_left_out_for_a_note() -> None:
    """Where a note takes the room of a message that the summary covers, the summary is sent."""
    calls = [said("assistant", None, function_call={"name": "look", "arguments": "{}"}) for _ in range(2)]
    writing = [said("assistant", None, refusal=text) for text in ("", "<|endoftext|> is text")]
    asked = [said("user", text) for text in ("", "", "<|endoftext|> is text")]
    entries = [*asked, calling("a"), writing[0], said("user", ""), calls[0], writing[1], calls[1], said("user", "")]
    found = talk(*entries, summary=("They met.", 1))
    check_against_the_oracle((found, Ask(budget=78, options=WindowQuery(note=True))))


@pytest.mark.nightly
@examples(3)
@given(cases(kinds={"max_turns": 25}, fits=False))
def test_oracle_deeper(case: Case) -> None:
    """A window equals the oracle's window, for more and longer histories."""
    check_against_the_oracle(case)


@given(cases())
def test_never_over_budget(case: Case) -> None:
    """A window's tokens are within its budget."""
    window = case[0].window(case[1])
    assert window.tokens.total <= case[1].budget


@given(cases())
def test_total_is_a_fresh_count_of_the_request(case: Case) -> None:
    """A window's total, computed from records, equals the count of its rendered request."""
    window = case[0].window(case[1])
    assert count_request(case[1].model, **sent(case, window)).tokens == window.tokens.total


@given(cases())
def test_total_is_the_sum_of_its_parts(case: Case) -> None:
    """The parts of a window's tokens sum to the total, and none is negative."""
    tokens = msgspec.structs.asdict(case[0].window(case[1]).tokens)
    assert tokens.pop("total") == sum(tokens.values())
    assert min(tokens.values()) >= 0


@given(cases())
def test_no_orphans(case: Case) -> None:
    """Every result follows its call, and every call has its result unless the result may still come."""
    window = case[0].window(case[1])
    waiting: set[str] = set()
    messages = sent(case, window)["messages"]
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.discard(message["tool_call_id"])
        else:
            assert not waiting
            waiting = {call["id"] for call in message.get("tool_calls") or ()}
    assert not waiting or messages[-1]["role"] in ("assistant", "tool")


@given(cases())
def test_groups_are_whole(case: Case) -> None:
    """A tool group is in the window with all of its messages or with none; a legacy call and its result too."""
    kept = set(case[0].window(case[1]).seqs)
    for group in groups(case[0].messages):
        assert kept.isdisjoint(group) or kept.issuperset(group)


@given(cases())
def test_what_must_be_in_is_in(case: Case) -> None:
    """System and developer messages, the newest question and message, and complete pinned groups are in every window."""
    talk, _ = case
    kept = set(case[0].window(case[1]).seqs)
    oracle = Oracle(*case)
    must = {seq for seq, m in enumerate(talk.messages, 1) if m["role"] in ("system", "developer")}
    must |= {talk.question, len(talk.messages)} - {0}
    for group in oracle.groups:
        if oracle.sendable(group):
            must |= {seq for seq in group if talk.entries[seq - 1].pinned}
    assert must <= kept


@given(cases())
def test_order_is_kept(case: Case) -> None:
    """Messages are sent in the order in which they were appended, each once."""
    assert all(a < b for a, b in pairwise(case[0].window(case[1]).seqs))


@given(cases())
def test_spliced_json_is_reencoded_json(case: Case) -> None:
    """The request that is spliced from stored bytes equals the encoded request, byte for byte."""
    window = case[0].window(case[1])
    oracle = Oracle(*case)
    oracle.grounding = dict(window.grounding)
    decoded = oracle.request(set(window.seqs), summary=window.summary is not None, note=window.note)
    assert msgspec.json.encode(decoded) == case[0].request(window)


@given(cases(overflow=st.just("stop"), start=st.just("any"), dedupe=st.just("none"), limit=st.none(), turns=st.none()))
def test_maximal(case: Case) -> None:
    """If a window stops because of its budget, the next older unit would not fit."""
    talk, ask = case
    window = case[0].window(case[1])
    if window.stop_reason != "budget":
        return
    oracle = Oracle(talk, ask)
    oracle.grounding = dict(window.grounding)
    left = [g for g in oracle.groups if g[0] not in window.seqs and oracle.sendable(g)]
    larger = {*window.seqs, *left[-1]}
    note = 10 ** len(str(len(talk.messages))) - 1 if ask.options.note else 0
    assert oracle.charge(larger, summary=window.summary is not None, note=note) > ask.budget


def sent_characters(window: Window, question: int) -> int:
    chosen = window.grounding.get(question)
    return len(chosen.before + chosen.after) if chosen else 0


def with_more(case: Case, more: int) -> tuple[Window, Window] | None:
    """The windows of a budget and of a larger one; None where the budget is too small."""
    talk, ask = case
    # With another choice, a cut result would grow with the budget.
    ask = replace(ask, options=msgspec.structs.replace(ask.options, tool_result_overflow="error"))
    try:
        small = talk.window(ask)
    except WindowDoesNotFit:
        return None
    return small, talk.window(Ask(ask.name, ask.budget + more, ask.options, ask.limits))


MONOTONE = {"grounding": st.sampled_from(["latest", "none"]), "summary": st.sampled_from(["never", "always"])}


@given(cases(overflow=st.just("stop"), **MONOTONE), st.integers(1, 40))
def test_more_budget_never_keeps_less(case: Case, more: int) -> None:
    """A larger budget sends no less of the question's documents, and keeps all messages if the documents stay the same."""
    if (windows := with_more(case, more)) is None:
        return
    small, large = windows
    before, after = (sent_characters(window, case[0].question) for window in windows)
    assert before <= after
    assert before < after or set(small.seqs) <= set(large.seqs)


@given(cases(overflow=st.just("skip"), start=st.just("any"), **MONOTONE), st.integers(1, 40))
def test_more_budget_never_skips_a_newer_message(case: Case, more: int) -> None:
    """With ``skip``, the newest message on which two budgets differ is kept by the larger budget."""
    if (windows := with_more(case, more)) is None:
        return
    small, large = windows
    before, after = (sent_characters(window, case[0].question) for window in windows)
    differ = set(small.seqs) ^ set(large.seqs)
    assert before <= after
    assert before < after or not differ or max(differ) in large.seqs


@given(cases())
def test_summary_stands_for_what_it_covers(case: Case) -> None:
    """With a summary in the window, the messages that it covers are left out, except for required ones."""
    window = case[0].window(case[1])
    through = window.summary.through_seq if window.summary else 0
    assert {seq for seq in window.seqs if seq <= through} <= Oracle(*case).must


@given(cases(summary=st.sampled_from(["never", "always"])))
def test_summary_as_asked(case: Case) -> None:
    """``always`` adds the summary if there is one, and ``never`` does not."""
    wanted = case[1].options.summary == "always" and case[0].summary is not None
    assert wanted == (case[0].window(case[1]).summary is not None)


@given(cases(limit=st.integers(1, 6)))
def test_limit(case: Case) -> None:
    """Only the last ``limit`` messages and required messages are in the window."""
    limit = case[1].options.limit or 0
    window = case[0].window(case[1])
    assert {seq for seq in window.seqs if seq <= len(case[0].messages) - limit} <= Oracle(*case).must


@given(cases(turns=st.integers(1, 3)))
def test_turns(case: Case) -> None:
    """Only the last ``turns`` user messages, what follows them, and required messages are in the window."""
    turns, roles = case[1].options.turns or 0, [message["role"] for message in case[0].messages]
    users = [seq for seq, role in enumerate(roles, 1) if role == "user"]
    first = users[-turns] if len(users) >= turns else 1
    assert {seq for seq in case[0].window(case[1]).seqs if seq < first} <= Oracle(*case).must


@given(cases(dedupe=st.just("messages")))
def test_dedupe_messages(case: Case) -> None:
    """With ``dedupe=messages``, two messages with the same text are in the window only if one of them is required."""
    oracle = Oracle(*case)
    kept = [seq for seq in case[0].window(case[1]).seqs if seq not in oracle.must]
    said = [text for seq in kept if (text := oracle._said(next(g for g in oracle.groups if seq in g)))]
    assert len(said) == len(set(said))


@given(cases(start=st.just("user")))
def test_start_with_user(case: Case) -> None:
    """With ``start=user``, the first message that is not system or developer is a user message or required."""
    roles = {seq: case[0].messages[seq - 1]["role"] for seq in case[0].window(case[1]).seqs}
    spoken = [seq for seq, role in roles.items() if role not in ("system", "developer")]
    assert not spoken or roles[spoken[0]] == "user" or spoken[0] in Oracle(*case).must


@given(cases(grounding=st.sampled_from(["latest", "none"])))
def test_documents_only_with_the_newest_question(case: Case) -> None:
    """With ``latest`` only the newest question has documents, and with ``none`` no message has any."""
    allowed = {case[0].question} if case[1].options.grounding == "latest" else set()
    assert set(case[0].window(case[1]).grounding) <= allowed


@given(cases(grounding=st.just("all"), dedupe=st.sampled_from(["grounding", "messages"])))
def test_each_document_once(case: Case) -> None:
    """With ``all`` and deduplication, each document is sent once."""
    sent = [each for chosen in case[0].window(case[1]).grounding.values() for each in chosen.documents]
    assert len(sent) == len(set(sent))


@given(cases())
def test_documents_stay_within_their_own_budget(case: Case) -> None:
    """All documents of a window together cost at most ``grounding_max_tokens``."""
    window = case[0].window(case[1])
    assert window.tokens.grounding <= case[1].limits.get("max_tokens", window.tokens.grounding)


@given(cases())
def test_explained(case: Case) -> None:
    """``explain`` has one line for each message: its role, its tokens, whether it is kept. It changes nothing else."""
    talk, ask = case
    explained = msgspec.structs.replace(ask.options, explain=True)
    window = talk.window(Ask(ask.name, ask.budget, explained, ask.limits))
    assert msgspec.structs.replace(window, explain=None) == talk.window(ask)
    lines = window.explain or []
    assert [line.seq for line in lines] == list(range(1, len(talk.messages) + 1))
    assert [line.seq for line in lines if line.kept] == window.seqs
    assert sum(line.tokens for line in lines if line.kept) == window.tokens.messages
    assert all(line.role == message["role"] for line, message in zip(lines, talk.messages, strict=True))


@given(cases())
def test_left_out_is_told(case: Case) -> None:
    """``dropped`` has the number and the tokens of all messages that are left out; a note has the same number."""
    talk, ask = case
    window = case[0].window(case[1])
    assert window.dropped.messages == len(talk.messages) - len(window.seqs)
    assert window.note in (0, window.dropped.messages)
    column = 0 if ask.model.encoding == "o200k_base" else 1
    left = [r for seq, r in enumerate(talk.stored[0], 1) if seq not in window.seqs]
    assert window.dropped.tokens == sum(reference_tokens(r.measure, parallel=r.parallel)[column] for r in left)


@given(cases(summary=st.just("never"), grounding=st.just("none")), st.integers(1, 200))
def test_error_figures_add_up(case: Case, short: int) -> None:
    """If required messages do not fit, the costs sum to ``needed``, which is the budget plus the shortfall."""
    talk, ask = case
    least = needed(talk, ask.name)
    assume(least > 0)
    budget = max(0, least - short)
    with pytest.raises(WindowDoesNotFit) as caught:
        talk.build(Ask(ask.name, budget, ask.options))
    members = caught.value.members
    assert sum(members["costs"].values()) == members["needed"] == least
    assert members["budget"] + members["shortfall"] == members["needed"]
    assert talk.window(Ask(ask.name, least, ask.options)).tokens.total <= least
