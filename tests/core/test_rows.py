"""Rows of numbers: what is stored of a message, and one rule for the cost of one message and of many."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from histories import MODELS, Talk, talks
from hypothesis import given
from hypothesis import strategies as st

from sash.core.counts.costs.counting import message_tokens, reasoning_tokens
from sash.core.counts.costs.message_cost import message_cost, reasoning_cost
from sash.core.counts.measures.measures import Extra, Measure, measure
from sash.core.counts.measures.native_parts import NativeParts
from sash.core.counts.measures.rows import Rows, columns_of, extra_of, stored_row
from sash.core.counts.models.models import find_model
from sash.core.counts.text.numbers import MANY
from sash.core.counts.text.unicode_scripts import RATIOS, Mix, family_tokens
from sash.core.law.records.costs import message_costs
from sash.core.law.records.records import Records
from sash.core.providers import PROVIDERS
from sash.core.providers.reading.native import read_messages

PAIRS = st.tuples(st.integers(0, 2_000), st.integers(0, 2_000))
MIXES = st.builds(
    Mix,
    st.integers(1, 9_000),
    st.integers(0, 90),
    st.lists(st.tuples(st.integers(0, 26), st.integers(0, 1000), st.integers(0, 1000)), max_size=4).map(tuple),
    st.sampled_from([0, 0, 500]),
    st.sampled_from([0, 0, 70]),
)
GIVEN = PAIRS | st.none()
FEW_HAVE = st.just((0, 0)) | PAIRS
BESIDE = st.builds(
    NativeParts,
    st.sampled_from(sorted(PROVIDERS)),
    st.integers(1, 9_000),
    native_reasoning=FEW_HAVE,
    reasoning_sealed=st.sampled_from([0, 0, 700]),
    rest=FEW_HAVE,
    rest_sealed=st.sampled_from([0, 0, 700]),
    estimated=st.sampled_from([0, 0, 90]),
    wrappings=st.integers(0, 2),
    apart=FEW_HAVE,
    told=st.integers(0, 2),
)
EXTRAS = st.builds(
    Extra,
    name=GIVEN,
    calls=st.integers(0, 3),
    call_names=PAIRS,
    call_arguments=PAIRS,
    together=PAIRS,
    legacy_call=st.booleans(),
    has_text=st.booleans(),
    estimated=st.integers(0, 2_000),
    unpriced=PAIRS,
    bare_names=GIVEN,
    call_objects=GIVEN,
    mix=MIXES | st.none(),
    calls_mix=MIXES | st.none(),
    images=st.sampled_from([(), (), ((640, 480, 0),)]),
    unfitted=FEW_HAVE,
    spoken=FEW_HAVE,
    pictured=FEW_HAVE,
    beside=st.none() | BESIDE,
)
MEASURES = st.builds(Measure, st.integers(0, 5), st.integers(0, 900), st.integers(0, 900), st.none() | EXTRAS)


@given(EXTRAS)
def test_a_stored_row_has_all_that_it_was_made_from(extra: Extra) -> None:
    """What a message has beside plain text comes back from its row; images and a fourth script have no row."""
    row = stored_row(extra)
    mixes = [mix for mix in (extra.mix, extra.calls_mix) if mix]
    assert (row is None) == (bool(extra.images) or any(len(mix.shares) > 3 for mix in mixes))
    assert row is None or extra_of(row) == extra


@given(st.lists(MEASURES, min_size=1, max_size=12), st.sampled_from(MODELS), st.sampled_from(sorted(PROVIDERS)))
def test_many_cost_what_each_costs(measures: list[Measure], name: str, form: str) -> None:
    """The columns of many messages have the cost and the reasoning of each message, in every form."""
    model = find_model(name).sent_as(form)
    given = [each for each in measures if each.extra is None or stored_row(each.extra) is not None]
    rows = [stored_row(each.extra) or b"" if each.extra else b"" for each in given]
    roles, *texts = np.array([(each.role, each.o200k, each.cl100k) for each in given], np.int64).reshape(-1, 3).T
    columns = columns_of(Rows.of(rows), roles, (texts[0], texts[1]), mixes=True)
    costs = np.broadcast_to(message_cost(columns, model, MANY), len(given))
    thoughts = np.broadcast_to(reasoning_cost(columns, model, form, MANY), len(given))
    assert costs.tolist() == [message_tokens(each, model) for each in given]
    assert thoughts.tolist() == [reasoning_tokens(each, model, form) for each in given]


@given(talks(), st.sampled_from(MODELS), st.sampled_from(sorted(PROVIDERS)))
def test_a_part_costs_what_it_costs_in_the_whole(found: Talk, name: str, form: str) -> None:
    """The columns of a stretch of messages are a stretch of the columns."""
    model, whole = find_model(name).sent_as(form), Records.of(found.stored[0])
    message_costs(whole, model)
    for end in range(len(whole)):
        part, alone = whole[:end], Records(whole[:end].packed, whole[:end].details)
        assert message_costs(part, model).tolist() == message_costs(alone, model).tolist()


CLAUDES: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "The user wants the weather.", "signature": "c2lnbmF0dXJl"},
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"day": 3}},
        ],
    }
]


def test_a_message_of_claude_in_a_window_of_gemini() -> None:
    """From Claude's message to its tokens for Gemini: measured once, stored as a row, priced by one rule."""
    (turn,) = read_messages("anthropic", CLAUDES, ["#/messages/0"])
    measured = measure(turn.message)
    assert (measured.o200k, measured.extra.calls, measured.extra.call_names[0]) == (4, 1, 1)

    row = stored_row(measured.extra)  # 8 bytes say which numbers follow
    assert extra_of(row) == measured.extra

    model = find_model("gemini-2.5-flash").sent_as("gemini")
    columns = columns_of(
        Rows.of([row]), np.array([measured.role]), (np.array([measured.o200k]), np.array([measured.cl100k])), mixes=True
    )
    (cost,) = message_cost(columns, model, MANY).tolist()

    a, b = RATIOS["gemini"]["latin"]  # of a Latin text's tokens in o200k_base and in cl100k_base
    rules, extra = model.rules, measured.extra
    pairs = (measured.o200k, measured.cl100k), extra.call_names, extra.call_arguments
    text, name, arguments = (np.floor(a * o200k + b * cl100k + 0.3) for o200k, cl100k in pairs)
    assert cost == rules.message + text + rules.names * name + arguments + rules.call == 36
    assert reasoning_cost(columns, model, "gemini", MANY) == 0  # Claude's thoughts are not sent to Gemini


def test_numbers_that_no_row_can_have() -> None:
    """A message with more tokens than four bytes can say has no row, and is stored whole."""
    assert stored_row(Extra(estimated=2**40)) is None


@pytest.mark.parametrize("form", sorted(PROVIDERS))
def test_an_empty_tail_has_no_costs(form: str) -> None:
    """Columns of no message have no cost."""
    assert message_costs(Records(b""), msgspec.structs.replace(find_model("gpt-4o"), format=form)).tolist() == []


def test_marks_of_a_text_are_kept_with_its_mix() -> None:
    """A text of lines that end with a mark has a mix with their number, and costs Gemini a token a line."""
    text = json.dumps([{"name": "x"}] * 20, indent=2)
    ends = sum(line[-1] in '{}[],"' for line in text.splitlines()[:-1])
    measured = measure({"role": "user", "content": text})
    assert measured.extra is not None
    assert measured.extra.mix is not None
    assert measured.extra.mix.marks == ends
    stored = stored_row(measured.extra)
    assert stored is not None
    assert extra_of(stored) == measured.extra
    pair = measured.o200k, measured.cl100k
    gemini, qwen = (family_tokens(*pair, measured.extra.mix, family) for family in ("gemini", "qwen"))
    assert gemini == family_tokens(*pair, None, "gemini") + ends
    assert qwen == family_tokens(*pair, None, "qwen")


@pytest.mark.parametrize("rows", [[b"", b""], [stored_row(Extra(name=(1, 1))) or b"", b""], []])
def test_messages_without_rows_have_no_field(rows: list[bytes]) -> None:
    """None of some messages has a field if none of them has a row, also where no message has one."""
    places = np.arange(len(rows))[1:]
    assert Rows.of(rows).have(places, ["name"]).tolist() == [False] * len(places)


def test_no_message_repeats_another() -> None:
    """An agent may see no message at all."""
    assert not Records.bare([]).repeats()
