"""What one of several agents sees, for any history: nothing for others, no more and no less than it may see."""

import copy
import json
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from histories import MODELS, PRICES, Talk, entries, tiers, words
from hypothesis import assume, given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.messages import Entry
from sash.core.counts.models.models import find_model
from sash.core.counts.models.price_tiers import PriceTier
from sash.core.law.fixed_parts.conversation_settings import fixed_parts
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.render import Bodies
from sash.problems import WindowDoesNotFit
from sash.windows.answer import Made
from sash.windows.asked import Asked, limits_of, plan_of
from sash.windows.flow import window
from sash.windows.needs import Older, SeenHistory
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request

AGENTS = ("billing", "triage", "Refund Agent")
PARTIES = (
    *[(None, None)] * 3,
    *[("billing", None), ("triage", None), ("triage", None)],
    *[("triage", ["triage"]), ("triage", ["Refund Agent", "billing"]), (None, ["billing"]), (None, ["triage"])],
)
"""An author and an audience each; the first ones are everybody's."""


@st.composite
def shared(draw: st.DrawFn, *, max_turns: int = 10) -> tuple[Entry, ...]:
    """Draw the entries of a conversation of several agents. A result is mostly of its call's author."""
    found = draw(entries(max_turns=max_turns))
    named, last = [], (None, None)
    for entry in found:
        author, audience = draw(st.sampled_from(PARTIES))
        if entry.message["role"] in ("tool", "function") and draw(st.integers(0, 9)):
            author, audience = last
        if entry.message["role"] == "assistant":
            last = author, audience
        named.append(msgspec.structs.replace(entry, author=author, audience=audience))
    return tuple(named)


def may_see(entry: Entry, view: str) -> bool:
    return not entry.audience or view in entry.audience or view == entry.author


def calls_of(message: dict[str, Any]) -> list[str]:
    made = [call["id"] for call in message.get("tool_calls") or ()]
    return made or (["function"] if message.get("function_call") else [])


class Oracle:
    """What an agent sees, by plain reading."""

    def __init__(self, given: tuple[Entry, ...], view: str) -> None:
        self.given = given
        self.view = view
        self.group_of: dict[int, int] = {}
        makers: dict[str, int] = {}
        for index, entry in enumerate(given):
            message = entry.message
            if message["role"] == "assistant" and calls_of(message):
                self.group_of[index] = index
                makers |= dict.fromkeys(calls_of(message), index)
            elif message["role"] == "tool":
                self.group_of[index] = makers[message["tool_call_id"]]
            elif message["role"] == "function" and index and given[index - 1].message.get("function_call"):
                self.group_of[index] = index - 1
        self.gone = {
            head
            for index, head in self.group_of.items()
            if not may_see(given[index], view) or self.is_others(head) or not may_see(given[head], view)
        }

    def is_others(self, index: int) -> bool:
        return self.given[index].author not in (None, self.view)

    def speaks(self, index: int) -> bool:
        message = self.given[index].message
        said = message.get("content") or message.get("refusal")
        is_plain = index not in self.group_of or (self.group_of[index] == index and index in self.gone)
        return message["role"] == "assistant" and bool(said) and may_see(self.given[index], self.view) and is_plain

    def is_followed(self, index: int) -> bool:
        for later in range(index + 1, len(self.given)):
            if self.given[later].message["role"] == "user" and may_see(self.given[later], self.view):
                return False
            if self.given[later].author == self.given[index].author and self.speaks(later):
                return True
        return False

    def is_pinned(self, index: int) -> bool:
        group = [each for each, head in self.group_of.items() if head == self.group_of.get(index)]
        return any(self.given[each].pinned for each in group or [index])

    def message(self, index: int) -> dict[str, Any] | None:
        """The message as the agent sees it; None if it does not."""
        entry = self.given[index]
        if not may_see(entry, self.view):
            return None
        if self.group_of.get(index) not in self.gone:
            return entry.message
        is_head = self.group_of[index] == index
        if not (is_head and self.speaks(index)) or (
            self.is_others(index) and not self.is_pinned(index) and self.is_followed(index)
        ):
            return None
        return {"role": "assistant", "content": entry.message.get("content") or entry.message["refusal"]}

    def entries(self) -> list[Entry]:
        found = []
        for index, entry in enumerate(self.given):
            if message := self.message(index):
                is_text = self.group_of.get(index) in self.gone
                is_pinned = self.is_pinned(index) if is_text else entry.pinned
                found.append(
                    msgspec.structs.replace(entry, message=message, pinned=is_pinned, author=None, audience=None)
                )
        return found


def made(given: list[Entry] | tuple[Entry, ...], **asked: Any) -> Any:
    """The window of these entries, or the members of a problem."""
    wanted = WindowRequest(messages=copy.deepcopy([*given]), **{"reserve": 0, **asked})
    try:
        body = window_of_request(wanted, {})[0].body
        return json.loads(_renumbered(body))
    except WindowDoesNotFit as problem:
        return problem.members


def _renumbered(body: bytes) -> bytes:
    """The answer with the ids that Sash made for calls numbered as they come: in place of none, or of one that is taken."""
    numbers: dict[bytes, int] = {}

    def renumbered(found: re.Match[bytes]) -> bytes:
        return b"%s_n%d" % (found[1], numbers.setdefault(found[0], len(numbers)))

    return re.sub(rb"(function|gemini|call_\d+)_\d+", renumbered, body)


WAYS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "format": st.sampled_from(["openai", "openai", "responses", "anthropic", "gemini"]),
        "overflow": st.sampled_from(["stop", "stop", "skip"]),
        "limit": st.sampled_from([None, None, 1, 3, 5]),
        "turns": st.sampled_from([None, None, 1, 2]),
        "grounding": st.sampled_from(["latest", "latest", "all", "none"]),
        "dedupe": st.sampled_from(["grounding", "messages", "none"]),
        "start": st.sampled_from(["any", "user"]),
        "unanswered": st.sampled_from(["note", "drop"]),
        "reasoning": st.sampled_from(["turn", "all", "none"]),
        "explain": st.booleans(),
    }
)


def check_it_is_the_window_of_what_is_seen(given: tuple[Entry, ...], view: str, budget: int, ways: Any) -> None:
    found = made(given, view=view, max_tokens=budget, **ways)
    expected = made(Oracle(given, view).entries(), max_tokens=budget, **ways)
    if "request" not in found:
        assert found == expected
        return
    assume(found["stop_reason"] != "horizon")
    for name in ("request", "tokens", "grounding", "exact", "waiting_for", "stop_reason"):
        assert found.get(name) == expected.get(name), name
    assert found["kept"]["messages"] == expected["kept"]["messages"]
    told = [[line[name] for name in ("role", "tokens", "kept", "reason")] for line in found.get("explain", [])]
    assert told == [
        [line[name] for name in ("role", "tokens", "kept", "reason")] for line in expected.get("explain", [])
    ]


@given(shared(), st.sampled_from(AGENTS), st.integers(100, 900), WAYS)
def test_it_is_the_window_of_what_is_seen(given: tuple[Entry, ...], view: str, budget: int, ways: Any) -> None:
    """A view's window is that of a conversation that has only what the agent sees, in every form and with every option."""
    check_it_is_the_window_of_what_is_seen(given, view, budget, ways)


@pytest.mark.nightly
@examples(3)
@given(shared(max_turns=25), st.sampled_from(AGENTS), st.integers(100, 2000), WAYS)
def test_it_is_the_window_of_what_is_seen_deeper(given: tuple[Entry, ...], view: str, budget: int, ways: Any) -> None:
    """The same of more and longer conversations."""
    check_it_is_the_window_of_what_is_seen(given, view, budget, ways)


@dataclass
class Read:
    """A window of any tail of a conversation, as a driver reads it."""

    found: Talk
    query: WindowQuery
    tier: int | None = None
    """The tokens above which the model has another price."""

    def outcome(self, first_seq: int = 1) -> Any:
        """The window, Older, or the members of a problem."""
        limits = limits_of(self.query, self.found.settings, {})
        if self.tier is not None:
            model = msgspec.structs.replace(limits.model, price_tiers=(PriceTier(self.tier),))
            limits = msgspec.structs.replace(limits, model=model)
        model = limits.model
        asked = Asked(plan_of(self.query, fixed_parts(self.found.settings), limits))
        history = self.found.history(model, first_seq)
        _, bodies, documents = self.found.stored
        known = {seq: each for seq, each in documents.items() if seq in history.seqs}
        seen = SeenHistory(history, Bodies(1, bodies, {}), known)
        try:
            need = window(asked, seen).send(None)
        except WindowDoesNotFit as problem:
            return problem.members
        assert isinstance(need, Made | Older)
        if isinstance(need, Older):
            return need
        told = json.loads(need.body)
        # Whether the cache is cold follows from the time before a reply, which a read tells apart.
        told.pop("cost", None)
        return told


STABLE = st.fixed_dictionaries(
    {
        **PRICES,
        "stable": st.booleans(),
        "stable_step": st.sampled_from([0.1, 0.25, 0.5]),
        "limit": st.sampled_from([None, None, 2, 5]),
        "note": st.booleans(),
        "grounding": st.sampled_from(["latest", "all", "none"]),
        "overflow": st.sampled_from(["stop", "skip"]),
        "dedupe": st.sampled_from(["grounding", "messages"]),
    }
)


@st.composite
def reads(draw: st.DrawFn, **kinds: Any) -> Read:
    """Draw a view's window of a conversation, and mostly a price tier."""
    found = draw(shared(**kinds).map(Talk))
    budget = draw(st.integers(30, 500))
    view, model, ways = draw(st.sampled_from(AGENTS)), draw(st.sampled_from(MODELS)), draw(STABLE)
    return Read(found, WindowQuery(model=model, view=view, max_tokens=budget, reserve=0, **ways), draw(tiers(budget)))


@examples(0.4)
@given(reads(max_turns=12))
def test_every_tail(read: Read) -> None:
    """A tail asks for older messages, or gives the same window or problem as the whole history, horizon and figures too."""
    check_every_tail(read)


@pytest.mark.nightly
@examples(3)
@given(reads(max_turns=25))
def test_every_tail_deeper(read: Read) -> None:
    """The same of more and longer conversations."""
    check_every_tail(read)


def check_every_tail(read: Read) -> None:
    whole = read.outcome()
    for first_seq in range(2, len(read.found.entries) + 1):
        tail = read.outcome(first_seq)
        if isinstance(tail, Older):
            assert 1 <= tail.first_seq < first_seq
        else:
            assert tail == whole


def lived(read: Read) -> list[Any]:
    """The window or problem after each message."""
    lengths = range(1, len(read.found.entries) + 1)
    return [replace(read, found=read.found.upto(length)).outcome() for length in lengths]


def asking(read: Read, **ways: Any) -> Read:
    return replace(read, query=msgspec.structs.replace(read.query, **ways))


@st.composite
def lives(draw: st.DrawFn) -> Read:
    """Draw a view's stable windows, in a budget that has room for all that must be in, after each message."""
    found = draw(shared(max_turns=14).map(Talk))
    query = WindowQuery(
        view=draw(st.sampled_from(AGENTS)),
        model=draw(st.sampled_from(MODELS)),
        stable=True,
        stable_step=draw(st.sampled_from([0.1, 0.25, 0.5])),
        reserve=0,
        grounding="none",
        tool_result_overflow="error",
        **{name: draw(way) for name, way in PRICES.items()},
    )
    needed = [told.get("needed", 1) for told in lived(Read(found, msgspec.structs.replace(query, max_tokens=1)))]
    budget = max(needed, default=1) + draw(st.integers(0, 400))
    return Read(found, msgspec.structs.replace(query, max_tokens=budget), draw(tiers(budget)))


@examples(0.4)
@given(lives())
def test_a_stable_cut_never_moves_back(read: Read) -> None:
    """The first message of a view's stable window never moves back as messages for anybody are appended."""
    firsts = [told["kept"]["first_seq"] for told in lived(read) if "request" in told]
    assert all(before <= after for before, after in pairwise(first for first in firsts if first is not None))


@examples(0.4)
@given(lives())
def test_a_price_leaves_out_more_of_a_view_and_never_what_must_be_in(read: Read) -> None:
    """With ``price=auto`` a view has no more than without, and all that must be in; its ``stop_reason`` tells."""
    cheap, dear = (asking(read, price=price, explain=True) for price in ("auto", "none"))
    for priced, plain in zip(lived(cheap), lived(dear), strict=True):
        if "request" not in plain:
            assert priced == plain
            continue
        kept, more = (
            {line["seq"]: line["reason"] for line in told["explain"] if line["kept"]} for told in (priced, plain)
        )
        assert {seq for seq, reason in more.items() if reason.startswith("always")} <= kept.keys()
        if read.tier is None:
            assert kept.keys() <= more.keys()
        if len(kept) < len(more):
            assert priced["stop_reason"] in ("price", "horizon")


@given(shared(), st.sampled_from(AGENTS), st.integers(100, 900), WAYS)
def test_nothing_for_others_is_in_it(given: tuple[Entry, ...], view: str, budget: int, ways: Any) -> None:
    """No text that is for others is anywhere in a view's window or its problems, whatever the parameters."""
    marked = []
    for entry in given:
        message, content = entry.message, entry.message.get("content")
        if isinstance(content, str) and not may_see(entry, view):
            message = {**message, "content": f"SECRET {content}"}
        marked.append(msgspec.structs.replace(entry, message=message))
    found = made(marked, view=view, max_tokens=budget, note=True, **{**ways, "explain": True})
    assert "SECRET" not in json.dumps(found)


@given(shared(), st.sampled_from(AGENTS), st.integers(100, 900), WAYS)
def test_what_it_leaves_out_are_messages(given: tuple[Entry, ...], view: str, budget: int, ways: Any) -> None:
    """``dropped`` has the tokens of the messages that are not in a view's window, and none of those that are there as their
    text alone."""
    found = made(given, view=view, max_tokens=budget, **{**ways, "explain": True})
    assume("request" in found)
    kept = {line["seq"] for line in found["explain"] if line["kept"]}
    column = find_model(ways["model"]).column
    left = [record for seq, record in enumerate(Talk(given).stored[0], 1) if seq not in kept]
    assert found["dropped"]["tokens"] == sum(record.reference_tokens[column] for record in left)


def test_a_view_looks_back_two_blocks() -> None:
    """An agent that sees little of a long conversation gets what it sees of the last blocks, and is told why no more."""
    mine = [Entry(message={"role": "user", "content": "first"}, audience=["billing"])]
    others = [Entry(message={"role": "user", "content": words(20)}, audience=["triage"]) for _ in range(400)]
    last = [Entry(message={"role": "user", "content": "last"})]
    asked = {"model": "gpt-4o-mini", "max_tokens": 100}
    found = made([*mine, *others, *mine, *last], view="billing", **asked)
    assert [each["content"] for each in found["request"]["messages"]] == ["first", "last"]
    assert found["stop_reason"] == "horizon"
    assert found["dropped"]["messages"] == 401


@pytest.mark.parametrize("ways", [{"limit": 2}, {"turns": 2}])
def test_a_view_of_all_that_an_agent_may_see_is_complete(ways: dict[str, int]) -> None:
    """Where all that is beyond the limit is required, or for others, no tail says that the limit left something out."""
    told = [Entry(message={"role": "system", "content": "Be brief."})]
    others = [Entry(message={"role": "user", "content": "for triage"}, audience=["triage"])] * 3
    asked = [Entry(message={"role": "user", "content": text}) for text in ("one", "two")]
    read = Read(Talk((*told, *others, *asked)), WindowQuery(model="gpt-4o-mini", view="billing", reserve=0, **ways))
    assert read.outcome()["stop_reason"] == "complete"
    check_every_tail(read)


def test_a_view_has_what_was_recalled_from_before_its_horizon() -> None:
    """A message that is recalled from further back than a view looks is in the request, and no other in its place."""
    fact = [
        Entry(message={"role": "user", "content": "zebra code is 4"}),
        Entry(message={"role": "assistant", "content": "ok"}),
    ]
    others = [Entry(message={"role": "user", "content": words(20)}, audience=["triage"]) for _ in range(400)]
    last = [Entry(message={"role": "user", "content": text}) for text in ("first", "zebra code?")]
    found = made([*fact, *others, *last], view="billing", model="gpt-4o-mini", max_tokens=100, recall_max_tokens=40)
    assert found["recalled"]["seqs"] == [1, 2]
    assert [each["content"] for each in found["request"]["messages"]] == [
        "zebra code is 4",
        "ok",
        "first",
        "zebra code?",
    ]
