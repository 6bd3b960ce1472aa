"""Windows of histories as they really are: results that come late, twice or never, and notes between them."""

import json
from typing import Any

import msgspec
import pytest
from histories import Talk, calling, compaction, result, said, talk
from hypothesis import given
from hypothesis import strategies as st

from sash.core.chat.messages import Entry
from sash.core.counts.models.models import find_model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings
from sash.core.law.history.lines import NO_RESULT
from sash.core.law.history.order import arranged
from sash.core.law.history.view import since
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.reasons import Reason
from sash.core.law.records.units import unit_at
from sash.core.law.render import Bodies
from sash.core.law.selection.choice import BLOCK
from sash.problems import WindowDoesNotFit
from sash.windows.answer import Made
from sash.windows.asked import Asked, limits_of, plan_of
from sash.windows.flow import window
from sash.windows.needs import Older, SeenHistory

_AROUND_A_SYSTEM_TEXT = 4
"""Tokens that gpt-5 bills beside the text."""
FORMS = ("openai", "responses", "anthropic", "gemini")
MODELS = ("gpt-4o-mini", "gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "llama-3.3-70b")


# ---- the window of what was read


def made(found: Talk, query: WindowQuery, first_seq: int = 1) -> Made:
    """Return the window from a tail, reading older messages as a driver does."""
    plan = plan_of(query, found.parts, limits_of(query, found.settings, {}))
    asked = Asked(plan)

    def seen(first: int) -> SeenHistory:
        bodies = Bodies(first, found.stored[1][first - 1 :], dict(enumerate(found.stored[1], 1)))
        return SeenHistory(found.history(plan.model, first), bodies, {})

    flow = window(asked, seen(first_seq))
    need = flow.send(None)
    while not isinstance(need, Made):
        assert isinstance(need, Older), need
        assert need.first_seq < first_seq
        first_seq = need.first_seq
        need = flow.send(seen(first_seq))
    return need


def answer(found: Talk, first_seq: int = 1, **query: Any) -> dict[str, Any]:
    wanted = WindowQuery(**{"model": "gpt-4o-mini", "reserve": 0, "max_tokens": 100_000, **query})
    read: dict[str, Any] = json.loads(made(found, wanted, first_seq).body)
    return read


def sent(found: Talk, **query: Any) -> list[Any]:
    """Return the messages of a chat window, shortened: a result's call and text, a message's calls or text."""
    return list(map(_short, answer(found, **query)["request"]["messages"]))


def _short(message: dict[str, Any]) -> Any:
    if message["role"] == "tool":
        return (message["tool_call_id"], message["content"])
    if calls := message.get("tool_calls"):
        return [call["id"] for call in calls]
    return message["content"]


def legacy() -> dict[str, Any]:
    return {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}


# ---- one behaviour each


INTERRUPTED = talk(
    said("user", "q"), calling("a", "b", "c", content="moment"), result("a"), result("b"), said("user", "stop")
)


def test_an_interrupted_call_has_a_line_as_its_result() -> None:
    """The calls that were made, and their results, stay; an open call has one constant line."""
    window = answer(INTERRUPTED)
    messages = list(map(_short, window["request"]["messages"]))
    assert messages == ["q", ["a", "b", "c"], ("a", "found"), ("b", "found"), ("c", NO_RESULT), "stop"]
    assert window["mended"] == {"messages": 1, "reasons": {"unanswered_call": 1}}


def test_an_interrupted_call_is_dropped_if_asked() -> None:
    """With ``unanswered=drop`` the open call alone goes."""
    assert sent(INTERRUPTED, unanswered="drop") == ["q", ["a", "b"], ("a", "found"), ("b", "found"), "stop"]


def test_a_message_of_dropped_calls_alone_is_left_out() -> None:
    """With ``unanswered=drop`` nothing remains of a message that only called, and the window says so."""
    found = talk(said("user", "q"), calling("a"), said("user", "stop"))
    assert sent(found, unanswered="drop") == ["q", "stop"]
    window = answer(found, unanswered="drop", explain=True)
    assert window["mended"] == {"messages": 1, "reasons": {"unanswered_call": 1}}
    assert window["explain"][1]["mended"] == ["unanswered_call"]


def test_a_dropped_calls_words_stay() -> None:
    """With ``unanswered=drop`` the text beside the calls is sent."""
    found = talk(said("user", "q"), calling("a", content="moment"), said("user", "stop"))
    assert sent(found, unanswered="drop") == ["q", "moment", "stop"]


def test_a_function_message_without_its_call_is_left_out() -> None:
    """It has no id: it answers the message right before it, or nothing."""
    found = talk(said("user", "q"), legacy(), said("user", "stop"), said("function", "late", name="look"))
    assert sent(found) == ["q", None, NO_RESULT, "stop"]


@pytest.mark.parametrize("form", FORMS)
def test_a_function_message_that_comes_to_stand_behind_a_call_is_not_its_result(form: str) -> None:
    """It answered nothing where it was appended, and still does not when a late result before it has moved."""
    between = (legacy(), result("b"), said("function", "late", name="look"))
    window = answer(talk(said("user", "q"), calling("a", "b"), *between, said("user", "r")), format=form, explain=True)
    assert window["explain"][4]["reason"] == Reason.APART.text
    assert window["mended"]["reasons"]["unanswered_call"] == 2


def test_a_compaction_has_room_for_a_call_that_was_left_out() -> None:
    """A late result brings its call back behind a compaction, although the call was left out for size before."""
    before = (calling("a", "b"), said("user", "day " * 200), said("user", "q"))
    found = talk(*before, compaction("anthropic", "They met. "), result("a"), said("user", "r"))
    assert sent(talk(*before), max_tokens=150, stable=True) == ["q"]
    asked = {"max_tokens": 150, "stable": True, "format": "anthropic"}
    assert '"id":"a"' in json.dumps(answer(found, **asked)["request"], separators=(",", ":"))


def test_a_late_result_moves_a_stable_cut_by_the_longest_line_of_a_legacy_call() -> None:
    """What the late result's group pushes out does not come back: both count the line as long as it may be."""
    found = talk(calling("a", content="one moment"), calling("b"), legacy(), said("user", ""), result("a", ""))
    after = talk(*found.messages, said("developer", "note"))
    asked = {"model": "claude-sonnet-4-5", "max_tokens": 193, "stable": True, "format": "anthropic", "explain": True}
    first, second = (answer(each, **asked)["explain"][2]["kept"] for each in (found, after))
    assert first or not second


def test_a_legacy_call_has_a_line_too() -> None:
    """A call in the form before tool calls gets a function message."""
    request = answer(talk(said("user", "q"), legacy(), said("user", "stop")))["request"]
    assert request["messages"][2] == {"role": "function", "name": "look", "content": NO_RESULT}


@pytest.mark.parametrize("between", [said("developer", "note"), said("user", "and?"), said("assistant", "wait")])
def test_a_late_result_stands_behind_its_call(between: dict[str, Any]) -> None:
    """What stood between the call and its result follows the group."""
    window = answer(talk(said("user", "q"), calling("a"), between, result("a")))
    assert list(map(_short, window["request"]["messages"])) == ["q", ["a"], ("a", "found"), between["content"]]
    assert window["mended"] == {"messages": 1, "reasons": {"late_result": 1}}


def test_the_newest_result_of_a_call_counts() -> None:
    """A long-running tool answers "pending" first, and with its result later."""
    found = talk(said("user", "q"), calling("a"), result("a", "pending"), said("user", "and?"), result("a", "done"))
    window = answer(found, explain=True)
    assert list(map(_short, window["request"]["messages"])) == ["q", ["a"], ("a", "done"), "and?"]
    reasons = {line["seq"]: line["reason"] for line in window["explain"]}
    assert reasons[3] == "a result without its call, or with a newer one"
    assert window["kept"] == {"messages": 4, "first_seq": 1, "last_seq": 5}


def test_calls_at_the_end_wait() -> None:
    """The window names the calls whose results are still to come."""
    window = answer(talk(said("user", "q"), calling("a", "b"), result("b")))
    assert window["waiting_for"] == ["a"]
    assert list(map(_short, window["request"]["messages"])) == ["q", ["a", "b"], ("b", "found")]


def test_nothing_waits_in_a_whole_history() -> None:
    """The member is there only if a call waits."""
    assert "waiting_for" not in answer(talk(said("user", "q"), calling("a"), result("a")))


def test_a_late_result_whose_call_is_left_out_is_left_out() -> None:
    """A limit that leaves the call out leaves its late result out, too."""
    found = talk(said("user", "q"), calling("a"), said("user", "b"), result("a"), said("user", "c"), said("user", "d"))
    assert sent(found, limit=3) == ["c", "d"]


def test_a_late_result_as_newest_message_brings_its_group() -> None:
    """However old the call is."""
    found = talk(calling("a"), *(said("user", f"{n}") for n in range(200)), result("a"))
    assert answer(found, first_seq=190, limit=2)["request"]["messages"][0]["tool_calls"]


# ---- any history


KINDS = ("say", "say", "note", "call", "call", "result", "result", "result", "legacy", "answer", "compaction")


@st.composite
def histories(draw: st.DrawFn) -> Talk:
    """Draw a history in which anything happens to calls and their results."""
    messages: list[dict[str, Any]] = []
    calls: list[str] = []
    texts = st.sampled_from(["ok", "", "Which talks are on today?", "오늘 강연은? 🙂", "day " * 40, "day " * 200])
    for turn in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(KINDS))
        if kind == "say":
            messages.append(said(draw(st.sampled_from(["user", "assistant"])), draw(texts)))
        elif kind == "note":
            messages.append(said(draw(st.sampled_from(["system", "developer"])), "note"))
        elif kind == "call":
            ids = [f"c{turn}_{n}" for n in range(draw(st.integers(1, 3)))]
            ids[0] = draw(st.sampled_from([ids[0], ids[0], "again"]))
            messages.append(calling(*ids, content=draw(st.sampled_from([None, "", "one moment"]))))
            calls += ids
        elif kind == "result" and calls:
            messages.append(result(draw(st.sampled_from(calls)), draw(texts)))
        elif kind == "legacy":
            messages.append(legacy())
        elif kind == "answer":
            messages.append(said("function", draw(texts), name="look"))
        elif kind == "compaction":
            messages.append(
                compaction(draw(st.sampled_from(["anthropic", "responses"])), "They met. " * (turn % 4 + 1))
            )
    entries = tuple(Entry(message=message) for message in messages)
    return Talk(entries, ConversationSettings(system=draw(st.sampled_from([None, "Be brief."]))))


@st.composite
def queries(draw: st.DrawFn) -> WindowQuery:
    return WindowQuery(
        model=draw(st.sampled_from(MODELS)),
        reserve=0,
        max_tokens=draw(st.integers(20, 400)),
        format=draw(st.sampled_from(FORMS)),
        unanswered=draw(st.sampled_from(["note", "note", "drop"])),
        limit=draw(st.sampled_from([None, None, None, 1, 3, 6])),
        overflow=draw(st.sampled_from(["stop", "stop", "skip"])),
        stable=draw(st.sampled_from([False, False, True])),
        start=draw(st.sampled_from(["any", "any", "user"])),
        dedupe=draw(st.sampled_from(["grounding", "messages"])),
        note=draw(st.booleans()),
        tool_results_kept=draw(st.sampled_from([None, None, 0, 1])),
        explain=draw(st.booleans()),
    )


@given(histories(), queries())
def test_the_explained_tokens_are_those_of_the_window(found: Talk, query: WindowQuery) -> None:
    """The tokens of kept messages, with the lines behind them, are those of the window."""
    try:
        body = json.loads(made(found, msgspec.structs.replace(query, explain=True)).body)
    except WindowDoesNotFit:
        return
    told = sum(line["tokens"] for line in body["explain"] if line["kept"])
    assert told == body["tokens"]["messages"] + body["tokens"]["reasoning"]


@given(histories(), st.sampled_from(["keep", "drop"]), st.data())
def test_a_seq_bounds_the_rows_of_the_groups_that_begin_with_it_or_later(
    found: Talk, unanswered: str, data: st.DataObject
) -> None:
    """Each message that was read has one row; ``since`` parts the tail by seqs, of moved messages by their groups' first."""
    first_seq = data.draw(st.integers(1, max(1, len(found.entries))))
    history = arranged(found.history(find_model("gpt-4o"), first_seq), drops=unanswered == "drop")
    if history is None:
        return
    seqs, front = [*history.seqs], history.records.front
    assert len(seqs) == len(history.records)
    assert sorted(seqs[front:]) == [*range(history.first_seq, history.length + 1)]
    units = history.records.units
    firsts = [seqs[units.starts[unit_at(units, row)]] for row in range(front, len(seqs))]
    begins = seqs[front:] if history.order is None else firsts
    for seq in range(history.first_seq, history.length + 2):
        assert since(history, seq) == front + sum(begun < seq for begun in begins)
    assert [since(history, seq) for seq in range(1, history.first_seq)] == [*range(history.oldest_bound, front)]


@given(histories(), queries(), st.data())
def test_every_tail_gives_the_same_window(found: Talk, query: WindowQuery, data: st.DataObject) -> None:
    """A window does not depend on how much of the history was read, beside whether it is known to be the first one."""
    length = len(found.entries)
    first_seq = data.draw(st.integers(1, max(1, length)))
    outcomes = []
    for first in (1, first_seq):
        try:
            outcomes.append(made(found, query, first).body.replace(b'"cache":"cold"', b'"cache":"unknown"'))
        except WindowDoesNotFit as problem:
            outcomes.append(json.dumps(problem.members, sort_keys=True).encode())
    if not query.explain:  # a tail explains what was considered
        assert outcomes[0] == outcomes[1]


@given(histories(), st.sampled_from(MODELS), st.integers(60, 300), st.sampled_from(["openai", "anthropic"]))
def test_a_stable_cut_never_moves_back(found: Talk, model: str, budget: int, form: str) -> None:
    """However late results come, a message that was left out for size does not come back.

    Except where the request begins anew: with a compaction, or with a call that it covered and whose result comes.
    """
    gone: set[int] = set()
    covered: set[int] = set()
    for length in range(1, len(found.entries) + 1):
        earlier = talk(*found.messages[:length])
        try:
            window = answer(earlier, model=model, max_tokens=budget, stable=True, format=form, explain=True)
        except WindowDoesNotFit:
            continue
        lines = [line for line in window["explain"] if line["role"] != "tool"]
        fits, left, *stood = (
            {line["seq"] for line in lines if line["reason"] == why.text}
            for why in (Reason.FITS, Reason.BUDGET, Reason.SUMMARY, Reason.STANDS)
        )
        if covered != set.union(*stood):
            gone, covered = set(), set.union(*stood)
        assert gone.isdisjoint(fits), (length, gone)
        gone |= left


@given(histories(), queries(), st.integers(1, 300))
def test_a_larger_budget_never_keeps_fewer_messages(found: Talk, query: WindowQuery, more: int) -> None:
    """Also if a required result is cut in the smaller window."""
    small = msgspec.structs.replace(query, stable=False, overflow="stop", note=False)
    large = msgspec.structs.replace(small, max_tokens=(small.max_tokens or 0) + more)
    try:
        fewer = made(found, small).head
    except WindowDoesNotFit:
        return
    assert made(found, large).head.kept.messages >= fewer.kept.messages


@given(histories(), histories(), queries())
def test_a_compaction_is_as_if_nothing_was_before(before: Talk, behind: Talk, query: WindowQuery) -> None:
    """Its window keeps what the window of the messages behind it alone keeps beside a system text of as many tokens."""
    query = msgspec.structs.replace(query, model="gpt-5", format="responses", note=False, dedupe="grounding")
    item = compaction("responses", "c2Vh" * 9)
    spoken, later = (
        [entry for entry in each.entries if entry.message["role"] not in ("system", "developer")]
        for each in (before, behind)
    )
    later = [entry for entry in later if "native" not in entry.message]
    calls = {call["id"] for entry in spoken for call in entry.message.get("tool_calls") or ()}
    if any(entry.message.get("tool_call_id") in calls for entry in later):
        return  # a result behind it brings its call
    whole = Talk((*spoken, Entry(message=item), *later), behind.settings)
    if query.stable and whole.history(find_model("gpt-5")).tokens > BLOCK * (query.max_tokens or 0):
        return  # steps begin again in the next block
    try:
        one = json.loads(made(whole, query).body)
    except WindowDoesNotFit:
        return
    other = json.loads(made(Talk((*later,), _with_system(behind.settings, one["tokens"]["summary"])), query).body)
    assert one["request"]["input"][0] == item["native"]["messages"][0]
    assert len(one["request"]["input"]) == len(other["request"]["input"]) + 1
    assert other["tokens"]["system"] == one["tokens"]["system"] + one["tokens"]["summary"]
    assert one["tokens"]["total"] == other["tokens"]["total"]
    place, kept = len(spoken) + 1, other["kept"]
    seqs = [seq and seq + place for seq in (kept["first_seq"], kept["last_seq"])]
    assert one["kept"] == {"messages": kept["messages"], "first_seq": seqs[0], "last_seq": seqs[1]}


def _with_system(given: ConversationSettings, tokens: int) -> ConversationSettings:
    """Return the settings with a system text of so many more tokens. A smaller budget would have smaller steps."""
    text = given.system + " day" * tokens if given.system else "day" + " day" * (tokens - _AROUND_A_SYSTEM_TEXT - 1)
    return msgspec.structs.replace(given, system=text)


TWINS = (said("user", "q"), calling("a", "b", "a"))


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ((result("a", "one"), result("b"), result("a", "two")), [("a", "one"), ("b", "found"), ("a_1", "two")]),
        ((result("a", "one"), result("b")), [("a", "one"), ("b", "found"), ("a_1", NO_RESULT)]),
        (
            (*map(result, "aba"), said("system", "note"), result("a", "new")),
            [("a", "found"), ("b", "found"), ("a_1", "new"), "note"],
        ),
    ],
    ids=["each", "one is missing", "one comes again"],
)
def test_calls_that_came_with_one_id_are_answered_in_order(
    results: tuple[dict[str, Any], ...], expected: list[Any]
) -> None:
    """Each is sent with an id of its own, and no result is lost; the one of a third counts for the last of them."""
    found = sent(talk(*TWINS, *results, said("user", "and?")))
    assert found == ["q", ["a", "b", "a_1"], *expected, "and?"]
