"""Tests predicted against billed tokens of requests recorded from the providers, and prints them by vendor and kind.

The recordings are not part of the project; ``recordings.py`` says where they are looked for.
"""

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
from recorded import FILES, all_bills, bills, rows
from recordings import NO_TRUTH, TRUTH

from sash.core.counts.costs import request_shapes
from sash.core.counts.text import ENCODINGS, count_text, cut_text
from sash_tools.bills.bill_rules import RULES
from sash_tools.bills.bill_shapes import billed_shapes, written_shapes
from sash_tools.bills.bill_tables import sheets, with_sheets
from sash_tools.bills.bill_targets import is_fitted

pytestmark = pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)


def test_every_recording_is_a_bill() -> None:
    """The bills are all recordings, none left out."""
    found = Counter(bill.file for bill in all_bills())
    assert found == Counter({file: len(rows(file)) for file in FILES})


def test_the_page_has_the_tables_of_the_command() -> None:
    """The tables of the README beside this file are those that ``sash truth`` writes into it now."""
    page = (Path(__file__).parent / "README.md").read_text()
    written, count = with_sheets(page, sheets(all_bills(), 0))
    assert (written, count) == (page, 9)


def test_the_file_of_shapes_is_that_of_the_bills() -> None:
    """The file on which exact rests is the one that ``sash truth --shapes`` writes now."""
    file = (files(request_shapes.__package__) / "billed_shapes.json").read_bytes()
    assert file == written_shapes(all_bills(), file)


def test_exact_holds_on_the_half_that_was_not_read() -> None:
    """By the shapes of either half of the bills, 90 % of the other's claims stay, at most one short, 97 % equal."""
    claims = [bill for bill in all_bills() if bill.shape is not None]
    for half in (True, False):
        stood = request_shapes.standing(billed_shapes(bill for bill in claims if is_fitted(bill) is half))
        others = [bill for bill in claims if is_fitted(bill) is not half]
        called = [bill.error for bill in others if bill.shape in stood]
        assert len(called) >= 0.9 * len(others)
        assert sum(error < 0 for error in called) <= 1
        assert called.count(0) >= 0.97 * len(called)


def test_amazon_nova_is_near_its_bills() -> None:
    """Of requests to Amazon Nova, at most 11 % are short, and the median is at most a quarter over."""
    ratios = [bill.ratio for bill in all_bills() if "nova-" in bill.row.model]
    assert sum(ratio < 1 for ratio in ratios) <= 0.11 * len(ratios)
    assert 1.0 <= median(ratios) <= 1.25


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("text", 0.99),
        ("tool definitions", 0.93),
        ("tool history", 0.92),
        ("images", 0.95),
        ("response format", 0.97),
    ],
)
def test_share_of_exact_predictions(kind: str, least: float) -> None:
    """Of each kind of OpenAI's requests, at least this share is predicted to the token."""
    errors = [bill.error for bill in bills("OpenAI") if bill.kind == kind]
    assert errors.count(0) / len(errors) >= least


async def test_a_recorded_request_is_counted_as_it_was_sent(client: httpx.AsyncClient) -> None:
    """POST /count takes every recorded chat request with all of its members, and predicts what the core predicts."""
    for bill in bills("OpenAI"):
        answer = await client.post("/count", json={**bill.request, "model": bill.row.model})
        assert answer.status_code == 200, (bill.id, answer.text)
        assert (answer.json()["tokens"], answer.json()["exact"]) == (bill.predicted, bill.is_exact), bill.id


SHORT = {
    "chat-llm-1041": "a PDF behind a link is larger than 2,000 tokens",
    "chat-lingua-1044": "the texts before and behind a mark for the prompt cache were billed apart",
    "chat-lingua-1045": "the texts before and behind a mark for the prompt cache were billed apart",
    "t3-chat-instructor-ai-instructor-rb-0589": "a description in Markdown",
    "t3-chat-instructor-ai-instructor-rb-0591": "a description in Markdown",
    "responses-chatlas-1172": "the same request was billed 35 twice, as predicted, and 36 once",
}
"""Requests of OpenAI's that were billed more than predicted, and do not show why."""


def test_no_openai_request_is_predicted_short() -> None:
    """OpenAI's chat requests that were billed more than predicted, which may fail, are known by name."""
    assert {bill.id for bill in bills("OpenAI") if bill.error < 0} <= SHORT.keys()


@pytest.mark.parametrize("vendor", ["OpenAI", "OpenAI Responses", "Other makers"])
def test_what_is_called_exact_is_exact(vendor: str) -> None:
    """Of the requests whose answer says that it is exact, none is short, and 97 % are predicted to the token."""
    exact = [bill for bill in bills(vendor) if bill.is_exact]
    assert {bill.id for bill in exact if bill.error < 0} <= SHORT.keys()
    assert sum(bill.error == 0 for bill in exact) >= 0.97 * len(exact)


def test_other_makers_are_seldom_short() -> None:
    """Of requests to other makers' models, 2 % were billed more than predicted, and the median is at most 15 % over."""
    ratios = [bill.ratio for bill in bills("Other makers")]
    assert sum(ratio < 1 for ratio in ratios) <= 0.02 * len(ratios)
    assert 1.0 <= median(ratios) <= 1.15


@pytest.mark.parametrize(
    ("kind", "least"), [("text", 0.94), ("tool definitions", 0.88), ("tool history", 0.85), ("response format", 0.87)]
)
def test_share_of_exact_responses(kind: str, least: float) -> None:
    """Of each kind of Responses requests, at least this share is predicted to the token."""
    errors = [bill.error for bill in bills("OpenAI Responses") if bill.kind == kind]
    assert errors.count(0) / len(errors) >= least


def test_encrypted_reasoning_is_an_estimate_above_the_bill() -> None:
    """Reasoning behind the newest question is an estimate: at least its bill, and mostly at most 40 % above."""
    for bill in bills("OpenAI Responses"):
        if bill.kind == "reasoning":
            assert not bill.is_exact
            assert bill.billed <= bill.predicted <= 1.5 * bill.billed, bill.id


def test_a_wide_miss_says_that_it_is_an_estimate() -> None:
    """A prediction that is more than 20 tokens over is marked as an estimate, except for four known tool requests."""
    wide = {bill.id for bill in bills("OpenAI") if bill.error > 20 and bill.is_exact}
    assert wide <= {"crewAI-0477", "dd-trace-py-0003", "dd-trace-py-0012", "dd-trace-py-0027"}


ESTIMATES = {"images of unknown size: the largest", "files and audio: an estimate by their size"}


def test_every_rule_bears_on_a_bill() -> None:
    """Each rule applies to recorded bills, and more than 30 % of them are predicted to the token."""
    for name, bears_on in RULES["OpenAI"].items():
        errors = [bill.error for bill in bills("OpenAI") if bill.is_exact and bears_on(bill)]
        assert errors.count(0) > 0.3 * len(errors) or name in ESTIMATES, name


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_strings_have_the_recorded_counts(encoding: Any) -> None:
    """Recorded strings have the recorded number of tokens."""
    rows = json.loads((TRUTH / f"jtokkit_{encoding}.json").read_bytes())
    assert [row["tokens"] for row in rows] == [count_text(row["text"], encoding) for row in rows]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_strings_cut_to_ten_tokens_keep_ten_tokens(encoding: Any) -> None:
    """A string cut to ten tokens is its beginning, has at most ten tokens, and at most two fewer than recorded."""
    for row in json.loads((TRUTH / f"jtokkit_{encoding}.json").read_bytes()):
        cut = cut_text(row["text"], encoding, 10)
        assert row["text"].startswith(cut)
        assert len(row["truncated_to_10"]) - 2 <= count_text(cut, encoding) <= 10
