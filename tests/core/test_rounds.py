"""A window is made in few rounds, has a message, and a refused one says what is enough: for all parameters and views."""

import json
import math
from typing import Any

import msgspec
import pytest
from histories import TOOL, Talk, calling, compaction, grounded, result, said, words
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from test_perspective import AGENTS, PARTIES, may_see

from sash.core.chat.messages import Entry
from sash.core.counts.models.models import find_model
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings
from sash.core.law.recall import BOUND
from sash.core.law.records.need_older import NeedOlder
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.render import Bodies
from sash.problems import FormatCannotCarry, Internal, WindowDoesNotFit
from sash.windows.answer import Made
from sash.windows.asked import Asked, limits_of, plan_of
from sash.windows.flow import window
from sash.windows.needs import Older, SeenHistory, Texts, WithMedia
from sash.windows.stateless import answer_from

OF_ONE = (*[(AGENTS[0], None)] * 4, (None, None), (AGENTS[1], [AGENTS[1]]))
BESIDE = 9
"""What a window needs beside older messages: documents and bodies of recalled ones, a question, a search, and more."""
TEXTS = st.sampled_from(["ok", "", "Which talks are on today?", words(9), words(60), words(400)])


# ---- a driver that counts


class Driver:
    """Reads a conversation for windows as the store does, from any tail, and counts what they need."""

    def __init__(self, found: Talk, query: WindowQuery, first_seq: int) -> None:
        plan = plan_of(query, found.parts, limits_of(query, found.settings, {}))
        self.found, self.model = found, plan.model
        self.asked = Asked(plan, "talk", recall="lexical", cache_key="key")
        self.first_seq = first_seq
        self.rounds: list[Any] = []
        self.most = math.ceil(math.log2(len(found.entries) + 2)) + 1
        """The most requests for older messages: each is for as many as were read."""

    def seen(self, first_seq: int) -> SeenHistory:
        _, bodies, documents = self.found.stored
        history, query = self.found.history(self.model, first_seq), self.asked.plan.query
        mode = "all" if query.explain or query.view is not None else query.grounding
        wanted = {"none": set(), "latest": {self.found.question}}.get(mode, {*documents})
        read = {*history.seqs} & wanted
        return SeenHistory(history, Bodies(1, bodies, {}), {seq: documents[seq] for seq in documents.keys() & read})

    def made(self) -> dict[str, Any]:
        """The window. Raises AssertionError if it takes more rounds than it may."""
        flow = window(self.asked, self.seen(self.first_seq))
        need = flow.send(None)
        while not isinstance(need, Made):
            self.rounds.append(need)
            older = [each.first_seq for each in self.rounds if isinstance(each, Older)]
            assert len(older) <= self.most, older
            assert len(self.rounds) <= len(older) * 3 + BESIDE, self.rounds
            if isinstance(need, Older):
                assert 1 <= need.first_seq < self.first_seq
                self.first_seq = need.first_seq
                answer = self.seen(need.first_seq)
            elif isinstance(need, Texts | WithMedia):
                answer = Bodies(1, self.found.stored[1], {})
            else:
                whole = msgspec.structs.replace(self.seen(1), grounding=self.found.stored[2])
                answer = answer_from(need, whole, None)
            need = flow.send(answer)
        told: dict[str, Any] = json.loads(need.body)
        return told


# ---- any conversation, and all parameters


class Telling:
    """Draws the entries of a conversation of several agents, some or nearly all of them of one."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.drawn: list[Entry] = []
        self.calls: list[str] = []
        self.pins = draw(st.booleans())
        """Whether messages are pinned; else results come late."""
        self.parties = st.sampled_from(draw(st.sampled_from([PARTIES, OF_ONE])))

    def put(self, message: dict[str, Any] | Entry, party: Any = None, **more: Any) -> None:
        author, audience = party or self.draw(self.parties)
        entry = message if isinstance(message, Entry) else Entry(message=message)
        is_result = entry.message["role"] == "tool"
        pinned = self.pins and not is_result and self.draw(st.integers(0, 7)) == 0
        self.drawn.append(msgspec.structs.replace(entry, author=author, audience=audience, pinned=pinned, **more))

    def question(self) -> None:
        documents = self.draw(st.lists(TEXTS.filter(bool), max_size=2))
        self.put(grounded(self.draw(TEXTS), *documents) if documents else said("user", self.draw(TEXTS)))

    def reply(self) -> None:
        status = self.draw(st.sampled_from([None, None, "in_progress", "interrupted"]))
        self.put(said("assistant", self.draw(TEXTS)), status=status)

    def note(self) -> None:
        self.put(said(self.draw(st.sampled_from(["system", "developer"])), "note"))

    def call(self) -> None:
        """A call with its results; some are for others, and without pins some are missing."""
        ids = [f"c{len(self.drawn)}_{number}" for number in range(self.draw(st.integers(1, 3)))]
        party = self.draw(self.parties)
        self.put(calling(*ids, content=self.draw(st.sampled_from([None, "", "one moment"]))), party)
        for each in ids if self.pins else ids[: self.draw(st.integers(0, 3))]:
            text = self.draw(st.sampled_from(["ok", words(9), words(400)]))
            self.put(result(each, text), party if self.draw(st.integers(0, 3)) else None)
        self.calls += ids

    def late_result(self) -> None:
        if self.calls and not self.pins:
            self.put(result(self.draw(st.sampled_from(self.calls)), self.draw(TEXTS)))

    def legacy_call(self) -> None:
        self.put(said("assistant", None, function_call={"name": "look", "arguments": "{}"}))

    def answer(self) -> None:
        self.put(said("function", self.draw(TEXTS), name="look"))

    def compaction(self) -> None:
        self.put(compaction(self.draw(st.sampled_from(["anthropic", "responses"])), "They met."))

    def stretch(self) -> None:
        """Many messages for the same."""
        role = self.draw(st.sampled_from(["user", "assistant"]))
        self.put(said(role, words(self.draw(st.sampled_from([3, 20])))))
        self.drawn += [self.drawn[-1]] * self.draw(st.integers(20, 90))


KINDS = (
    *[Telling.question] * 2,
    Telling.reply,
    Telling.note,
    *[Telling.call] * 2,
    *[Telling.late_result] * 2,
    Telling.legacy_call,
    Telling.answer,
    Telling.compaction,
    Telling.stretch,
)


@st.composite
def shared(draw: st.DrawFn, *, max_turns: int = 12) -> Talk:
    """Draw a conversation of several agents: calls with late, doubled and no results, results without calls, compactions of
    one agent, documents for some, replies in progress, and long stretches for one agent alone."""
    told = Telling(draw)
    for _ in range(draw(st.integers(1, max_turns))):
        draw(st.sampled_from(KINDS))(told)
    drawn = tuple(told.drawn)
    fixed = ConversationSettings(
        system=draw(st.sampled_from([None, "Be brief."])), tools=draw(st.sampled_from([None, [TOOL]]))
    )
    summary = (draw(st.sampled_from(["They met.", words(40)])), draw(st.integers(1, len(drawn)))) if drawn else None
    return Talk(drawn, fixed, draw(st.sampled_from([None, None, summary])))


WAYS: dict[str, st.SearchStrategy[Any]] = {
    "model": st.sampled_from(["gpt-4o-mini", "gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "llama-3.3-70b"]),
    "reserve": st.just(0),
    "max_tokens": st.one_of(st.integers(1, 120), st.integers(60, 900)),
    "limit": st.sampled_from([None, None, None, 1, 3, 6]),
    "turns": st.sampled_from([None, None, None, 1, 2]),
    "overflow": st.sampled_from(["stop", "stop", "skip"]),
    "grounding": st.sampled_from(["latest", "latest", "all", "none"]),
    "grounding_max_tokens": st.sampled_from([None, None, 20]),
    "grounding_overflow": st.sampled_from(["trim", "whole", "drop", "error"]),
    "dedupe": st.sampled_from(["grounding", "messages", "none"]),
    "stable": st.sampled_from([False, False, True, "auto"]),
    "stable_step": st.sampled_from([0.1, 0.5]),
    "start": st.sampled_from(["any", "any", "user"]),
    "summary": st.sampled_from(["auto", "never", "always"]),
    "recall_max_tokens": st.sampled_from([0, 0, 40]),
    "recall_query": st.sampled_from([None, None, "talks today"]),
    "note": st.booleans(),
    "reasoning": st.sampled_from(["turn", "all", "none"]),
    "tool_result_max_tokens": st.sampled_from([None, None, 20]),
    "tool_results_kept": st.sampled_from([None, None, 0, 1]),
    "tool_result_overflow": st.sampled_from(["trim", "error"]),
    "images_kept": st.sampled_from([None, None, 1]),
    "unanswered": st.sampled_from(["note", "drop"]),
    "uncarried": st.sampled_from(["error", "drop"]),
    "history_tools": st.booleans(),
    "cache": st.sampled_from(["none", "auto"]),
    "price": st.sampled_from(["none", "none", "auto"]),
    "explain": st.booleans(),
    "view": st.sampled_from([None, AGENTS[0], *AGENTS]),
    "format": st.sampled_from(
        ["openai", "openai", "responses", "anthropic", "gemini", "interactions", "converse", "ollama"]
    ),
}
QUERIES = st.fixed_dictionaries(WAYS).map(lambda ways: WindowQuery(**ways))


def is_sendable(found: Talk, query: WindowQuery) -> bool:
    """Whether a message is there that nothing keeps out of the window but its cost: a text, not covered, for this agent."""
    spoken = [seq for seq, message in enumerate(found.messages, 1) if "native" in message]
    covered = (
        max(*spoken, found.summary[1] if found.summary else 0) if spoken else 0
    )  # a later summary stands as it did
    for entry in found.entries[covered:]:
        message, is_done = entry.message, entry.status is None
        is_text = message["role"] not in ("tool", "function") and message["content"] and "tool_calls" not in message
        if is_text and is_done and (query.view is None or may_see(entry, query.view)):
            return True
    return False


def check_a_window(found: Talk, query: WindowQuery, first_seq: int) -> None:
    """The laws of this page."""
    try:
        told = Driver(found, query, first_seq).made()
    except FormatCannotCarry:
        return
    except WindowDoesNotFit as problem:
        if problem.members["limit"] != "tokens":
            return
        enough = msgspec.structs.replace(query, max_tokens=problem.members["needed"])
        told = Driver(found, enough, first_seq).made()
    if is_sendable(found, query):
        assert told["kept"]["messages"] > 0, told["stop_reason"]


def test_what_was_read_is_never_asked_for() -> None:
    """A flow that asks for more where all was read is a fault at once, and a request for more makes less remain."""
    found = Talk(tuple(Entry(message=said("user", "ok")) for _ in range(300)))
    model = find_model("gpt-4o")
    first_seq = 300
    while first_seq > 1:
        seen = SeenHistory(found.history(model, first_seq), Bodies(1, [], {}), {})
        before, first_seq = first_seq, seen.older(NeedOlder()).first_seq
        assert 1 <= first_seq < before
    for need in (NeedOlder(), NeedOlder(messages=9), NeedOlder(place=0)):
        with pytest.raises(Internal):
            SeenHistory(found.history(model), Bodies(1, [], {}), {}).older(need)


@pytest.mark.parametrize("first_seq", [1, 2, 3])
def test_the_newest_message_is_the_newest_that_can_be_sent(first_seq: int) -> None:
    """A result whose call is gone is not sent: the message before it must be in, or the window is refused."""
    found = Talk(
        tuple(
            map(
                _entry,
                [said("assistant", words(50)), said("assistant", words(60)), said("function", "ok", name="look")],
            )
        )
    )
    query = WindowQuery(model="gpt-4o", reserve=0, max_tokens=30)
    with pytest.raises(WindowDoesNotFit) as caught:
        Driver(found, query, first_seq).made()
    enough = msgspec.structs.replace(query, max_tokens=caught.value.members["needed"])
    assert Driver(found, enough, first_seq).made()["kept"] == {"messages": 1, "first_seq": 2, "last_seq": 2}


def _entry(message: dict[str, Any]) -> Entry:
    return Entry(message=message)


def test_a_question_is_looked_for_in_as_many_messages_as_recall_searches() -> None:
    """A view's newest question is in its window if it is one of the newest 20,000 messages, whatever the budget."""
    asked = [
        Entry(message=said("user", "mine"), audience=["billing"]),
        Entry(message=said("user", "for triage"), audience=["triage"]),
    ]
    records, bodies, documents = Talk(tuple(asked)).stored
    for others, kept in ((BOUND - 1, 1), (BOUND, 0)):
        found = Talk(tuple(asked))
        stored = [records[0], *[records[1]] * others], [bodies[0], *[bodies[1]] * others], documents
        vars(found).update(stored=stored, question=others + 1, always=set())
        driver = Driver(found, WindowQuery(model="gpt-4o", view="billing", reserve=0, max_tokens=50), others - 60)
        driver.most = 12
        assert driver.made()["kept"]["messages"] == kept


def test_all_parameters_are_drawn() -> None:
    """Each parameter of a window is drawn here."""
    assert {field.name for field in msgspec.structs.fields(WindowQuery)} == WAYS.keys()


@examples(1)
@given(shared(), QUERIES, st.data())
def test_every_window_is_made_in_few_rounds_and_has_a_message(
    found: Talk, query: WindowQuery, data: st.DataObject
) -> None:
    """From any tail, a window takes few rounds and has a message if one can be sent; ``needed`` is enough."""
    check_a_window(found, query, data.draw(st.integers(1, max(1, len(found.entries)))))


def outcome(found: Talk, query: WindowQuery, first_seq: int) -> Any:
    """The window, or the problem's figures."""
    try:
        told = Driver(found, query, first_seq).made()
    except (WindowDoesNotFit, FormatCannotCarry) as problem:
        return problem.title, problem.members
    # Only messages that were read are explained, and a receipt is a checksum of the answer.
    return {name: value for name, value in told.items() if name not in ("explain", "receipt")}


@examples(1)
@given(shared(), QUERIES, st.data())
def test_a_window_does_not_depend_on_how_much_was_read(found: Talk, query: WindowQuery, data: st.DataObject) -> None:
    """From any tail, a window has the same bytes, and a refused one the same figures, as from the whole conversation."""
    tail = data.draw(st.integers(1, max(1, len(found.entries))))
    assert outcome(found, query, tail) == outcome(found, query, 1)


@pytest.mark.nightly
@examples(20)
@given(shared(max_turns=20), QUERIES, st.data())
def test_every_window_deeper(found: Talk, query: WindowQuery, data: st.DataObject) -> None:
    """The same of more and longer conversations."""
    check_a_window(found, query, data.draw(st.integers(1, max(1, len(found.entries)))))


def test_a_pinned_result_without_a_call_is_not_sent_from_any_tail() -> None:
    """A result in the form before tool calls, which answers nothing, is left out, however little was read behind it."""
    told = [said("user", "a"), said("function", words(40), name="look"), *[said("user", f"q{n}") for n in range(6)]]
    found = Talk(tuple(Entry(message=message, pinned=at == 1) for at, message in enumerate(told)))
    query = WindowQuery(model="gpt-4o", reserve=0, max_tokens=900, limit=2)
    assert [outcome(found, query, tail) for tail in (3, 7)] == [outcome(found, query, 1)] * 2
    assert outcome(found, query, 7)["kept"] == {"messages": 2, "first_seq": 7, "last_seq": 8}


def test_a_view_keeps_what_stands_before_a_functions_result() -> None:
    """A pinned function's result behind a later question costs a view the same in the smallest budget as in a larger one."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    result, asked = {"role": "function", "name": "look", "content": "ok"}, said("user", "ok")
    pinned = [Entry(message=each, pinned=True) for each in (call, result, asked, asked)]
    found = Talk((pinned[0], Entry(message=asked), *pinned[1:]), ConversationSettings())

    def needed(budget: int) -> int:
        with pytest.raises(WindowDoesNotFit) as refused:
            Driver(found, WindowQuery(model="gpt-4o-mini", reserve=0, max_tokens=budget, view="billing"), 1).made()
        return refused.value.members["needed"]

    assert needed(1) == needed(needed(1) - 1)
