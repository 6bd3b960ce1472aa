"""The predicates of destinations: each one finds what breaks its rule, and nothing in a window of the same history."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from recordings import NO_TRUTH, TRUTH

from sash.core.chat.messages import BareEntry, Entry
from sash.core.counts.models.models import find_model
from sash.core.providers.destinations.destination import FACTS, meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.destinations.refusals import refusals
from sash.core.providers.destinations.rules import RULES
from sash.core.providers.destinations.rules.rule import ASKED, REPLY, Broken, Rule, answered, called
from sash.operations.metrics import CHECKED_EVERY, Metrics
from sash.problems import FormatCannotCarry, InvalidEntry, WindowDoesNotFit
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request
from validators.logs import Object
from validators.test_destinations import DESTINATIONS
from validators.test_histories import assert_counted

PIECES: list[list[Object]] = [
    [ASKED],
    [REPLY],
    [ASKED, called("call_9"), answered("call_9"), REPLY],
    [],
    [{"role": "system", "content": "x"}],
    [ASKED, {**called("call_8"), "reasoning_content": "Hm."}, answered("call_8"), REPLY],
    [ASKED, {**called("call_7"), "content": "Let me look.", "reasoning": "Hm."}, answered("call_7")],
]
"""What stands around the broken piece of a drawn history."""


def asked_for(model: str, messages: list[Any], form: str = "openai", **more: Any) -> WindowRequest:
    """Return the wish for a window of this history."""
    wish = {"model": model, "format": form, "messages": [], "reserve": 0, "uncarried": "drop", **more}
    entries: list[Entry | BareEntry] = [BareEntry(message=each) for each in messages]
    return msgspec.structs.replace(msgspec.convert(wish, WindowRequest), messages=entries)


def rules_broken(form: str, model: str, request: Object) -> set[str]:
    """Return the rules of the model's destination that the request breaks."""
    return {each.rule for each in refusals(request, meet(form, find_model(model).provider, model))}


def breakers(form: str, model: str, rule: Rule) -> list[Broken]:
    """Return the rule's requests that the model's destination refuses by it."""
    given = (each for each in rule.broken if each.form == form)
    return [each for each in given if rule.kind in rules_broken(form, model, each.sent)]


def cases() -> Iterator[tuple[str, str, Kind]]:
    """Yield a destination for each row whose rule a request can show: one for all rows of models of a kind."""
    seen = set()
    for form, model in DESTINATIONS:
        for fact in meet(form, find_model(model).provider, model).why:
            row = (fact.kind if fact.of == "model" else fact, form)
            if row not in seen and breakers(form, model, RULES[fact.kind]):
                seen.add(row)
                yield form, model, fact.kind


CASES = [*cases()]


@st.composite
def histories(draw: st.DrawFn, broken: Broken, kind: Kind, value: str) -> list[Object]:
    """Draw a history with a broken piece somewhere; at the end or the beginning, if it is a rule of that."""
    around = st.lists(st.sampled_from(PIECES), max_size=3).map(
        lambda pieces: [each for piece in pieces for each in piece]
    )
    before = [] if kind == "beginning" else draw(around)
    behind = [] if kind == "ending" or value == "asked" else draw(around)
    return [*before, *broken.chat["messages"], *behind]


def test_each_rule_has_broken_requests_in_each_form_of_its_rows() -> None:
    """A kind of fact has a rule, which some request breaks in every form that its rows name, at some destination."""
    assert RULES.keys() == {each.kind for each in FACTS}
    wanted = {(form, each.kind) for each in FACTS for form in each.forms or ("openai",)}
    drawn = {(form, kind) for form, _, kind in CASES}
    assert {each for each in wanted - drawn if each[0] != "ollama" and each[1] not in ("files", "sounds")} == set()


@examples(0.35)
@given(st.data())
@pytest.mark.parametrize(("form", "model", "kind"), CASES)
def test_a_rule_finds_its_breakers_and_windows_keep_it(form: str, model: str, kind: Kind, data: st.DataObject) -> None:
    """A history that is sent as it is breaks the rule; the window of the same history breaks none, and is counted."""
    broken = data.draw(st.sampled_from(breakers(form, model, RULES[kind])))
    history = data.draw(histories(broken, kind, meet(form, find_model(model).provider, model).values[kind]))
    if broken.sent is broken.chat:
        assert kind in rules_broken(form, model, {**broken.sent, "messages": history})
    reasoning = data.draw(st.sampled_from(["turn", "all", "none"]))
    asked = asked_for(model, history, form, tools=broken.chat.get("tools"), reasoning=reasoning)
    window = json.loads(window_of_request(asked, {})[0].body)
    assert rules_broken(form, model, window["request"]) == set()
    assert_counted(form, model, window)


def recorded() -> Iterator[list[Object]]:
    """Yield the messages of recorded chat requests."""
    for path in sorted(TRUTH.glob("*_chat.json")):
        for bill in json.loads(path.read_text("utf-8")):
            if isinstance(bill, dict) and isinstance(messages := bill.get("request", {}).get("messages"), list):
                yield messages


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.long
def test_recorded_requests_break_no_rule_at_any_destination() -> None:
    """Each recorded chat is sent to a model of each rule, in turn, and breaks none."""
    models = sorted({model for form, model, _ in CASES if form == "openai"})
    for number, messages in enumerate(recorded()):
        model = models[number % len(models)]
        try:
            body = window_of_request(asked_for(model, messages, uncarried="drop", max_tokens=100_000), {})[0].body
        except (FormatCannotCarry, InvalidEntry, WindowDoesNotFit):
            continue
        assert rules_broken("openai", model, json.loads(body)["request"]) == set(), (number, model)


def test_one_window_in_a_hundred_is_checked() -> None:
    """A running service counts broken rules by name, in one window of a hundred, and its log line has the rules alone."""
    made = window_of_request(asked_for("mistral-large-latest", [ASKED]), {})[0]
    broken = msgspec.structs.replace(made, body=json.dumps({"request": {"messages": [ASKED, REPLY]}}).encode())
    metrics, lines = Metrics(), [{} for _ in range(2 * CHECKED_EVERY)]
    for line in lines[:CHECKED_EVERY]:
        metrics.windows.record_window(made, 0.001, line)
    assert not any("refused_by_rules" in line for line in lines)
    for line in lines[CHECKED_EVERY:]:
        metrics.windows.record_window(broken, 0.001, line)
    assert [line["refused_by_rules"] for line in lines if "refused_by_rules" in line] == [["ending"]]
    text = metrics.registry.exposition("")[0].decode()
    assert 'sash_requests_refused_by_rule_total{rule="ending"} 1' in text
    assert 'sash_requests_refused_by_rule_total{rule="system"} 0' in text
