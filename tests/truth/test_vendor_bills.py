"""Tests predicted against billed tokens of recorded requests to Claude and Gemini.

The recordings are not part of the project; ``recordings.py`` says where they are looked for.
"""

from statistics import median

import pytest
from recorded import bills
from recordings import NO_TRUTH, TRUTH

from sash_tools.bills.bill_tables import FAR

pytestmark = pytest.mark.skipif(not (TRUTH / "more_gemini.json").is_file(), reason=NO_TRUTH)


@pytest.mark.parametrize("vendor", ["Claude", "Gemini"])
def test_predictions_are_near_the_bill(vendor: str) -> None:
    """If requests show all that is billed, at most 1 % are short, the median is 0 to 9 % and 95 % are at most 35 % over."""
    ratios = [bill.ratio for bill in bills(vendor) if bill.is_shown]
    assert 1.0 <= median(ratios) <= 1.09
    assert sum(ratio <= FAR for ratio in ratios) >= 0.95 * len(ratios)
    assert sum(ratio < 1.0 for ratio in ratios) <= 0.01 * len(ratios)


_REPEATED = "a thousand times the same word: billed two tokens each"
_SEALED = "thoughts behind a signature of one piece were billed; behind 58 others they were not"
SHORT = {
    "crewAI-0058": "fifteen tools cost 27 tokens each more than the same model bills for any other",
    "anthropic-braintrust-sdk-javascript-0310": "three system texts, each of which costs 1",
    "dd-trace-py-0005": _REPEATED,
    "dd-trace-py-0006": _REPEATED,
    "dd-trace-py-0007": _REPEATED,
    "fantasy-0017": "unexplained: 140 tokens more than the same tools a moment later",
    "fantasy-0031": _SEALED,
    "openinference-0021": "a newer model answered under the name of 2.0: it thought, and signed its reply",
    "pydantic-ai-0094": "lazydog: a word that a vocabulary has in more pieces",
    "pydantic-ai-0120": "a compaction of what came before, which is not shown",
    "ruby_llm-0043": _SEALED,
    "t3-gemini-appfolio-ruby_llm-0184": _SEALED,
}
"""Requests that were billed more than predicted, with the reason."""


def test_every_short_prediction_is_known_by_name() -> None:
    """The requests that were billed more than predicted, which may fail, are exactly those in ``SHORT``."""
    short = {bill.id for bill in (*bills("Claude"), *bills("Gemini")) if bill.error < 0 and bill.is_shown}
    assert short == set(SHORT)
