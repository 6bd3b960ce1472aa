"""Predicted against billed for Claude and Gemini, over requests as they were sent.

The recordings are not part of the project; ``recordings.py`` says where they are looked for.
"""

from statistics import median

import pytest
from recordings import NO_TRUTH, TRUTH
from rich.console import Console
from rich.table import Table
from vendor_bills import FILES, SHOWN, cases, grouped, rows

pytestmark = pytest.mark.skipif(not (TRUTH / "more_gemini.json").is_file(), reason=NO_TRUTH)

NEAR, FAR = 0.05, 1.35


def test_vendors_table(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of the README beside this file is printed, and covers every recording."""
    table = Table("vendor", "kind", "cases", "within 5 %", "short", "worst", "median", "within 1.35")
    for vendor, kind, ratios in grouped():
        near = sum(abs(ratio - 1) <= NEAR for ratio in ratios)
        figures = (len(ratios), near, sum(ratio < 1 for ratio in ratios))
        share = sum(ratio <= FAR for ratio in ratios) / len(ratios)
        table.add_row(vendor, kind, *map(str, figures), f"{ratios[0]:.2f}", f"{median(ratios):.2f}", f"{share:.0%}")
    with capsys.disabled():
        Console(width=110).print("", table)
    assert len(cases()) == sum(len(rows(form)) for form in FILES)


@pytest.mark.parametrize("vendor", ["Claude", "Gemini"])
def test_predictions_are_near_the_bill(vendor: str) -> None:
    """Where a request shows all that is billed, half of them are within 15 % above, and most within 35 %."""
    ratios = [each.ratio for each in cases() if each.vendor == vendor and each.kind in SHOWN]
    assert 1.0 <= median(ratios) <= 1.15
    assert sum(ratio <= FAR for ratio in ratios) >= 0.95 * len(ratios)


_REPEATED = "a thousand times the same word: billed two tokens each"
_RARE = "one rare word, in a line of seven tokens"
_SEALED = "Vertex billed the thoughts behind a signature of one piece; it billed them for no other"
SHORT = {
    "activeagent-0005": "a line of eleven tokens, billed 2.1 each",
    "dd-trace-py-0005": _REPEATED,
    "dd-trace-py-0006": _REPEATED,
    "dd-trace-py-0007": _REPEATED,
    "fantasy-0017": "unexplained: 140 tokens more than the same tools a moment later",
    "fantasy-0031": _SEALED,
    "lmnr-python-0004": _RARE,
    "mirascope-0044": "thoughts sent back as words, full of formulas",
    "mirascope-0053": "a text of 267 tokens, billed 1.19 each",
    "openinference-0006": "1,400 tokens of random letters",
    "openinference-0021": "a prompt of agents' names in snake case",
    "openllmetry-0001": _RARE,
    "pydantic-ai-0120": "a compaction of what came before, which is not shown",
    "ruby_llm-0043": _SEALED,
}
"""Requests that were billed more than predicted, and why."""


def test_every_short_prediction_is_known_by_name() -> None:
    """A request that costs more than predicted may fail: each that did is in the README, with its reason."""
    short = {each.id for each in cases() if each.ratio < 1 and each.kind in SHOWN}
    assert short == set(SHORT)
