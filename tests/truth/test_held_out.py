"""Tests predictions of Claude's and Gemini's bills with constants that were fitted without these bills.

A family's constants are fitted to its other bills: as high as the highest of them needs. The constants in ``vendors.py``
are changed by the difference that a left-out project, or a left-out half of the recorded tests, makes to this fit. Ratios
of texts are not fitted: they were measured with vocabularies. Bills in ``SHORT`` are predicted, but not fitted to.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from statistics import median
from typing import NamedTuple

import msgspec
import pytest
from recorded import bills
from recordings import NO_TRUTH, TRUTH
from test_vendor_bills import SHORT

from sash.core.counts.models.models import find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash_tools.bills.bill import Bill
from sash_tools.bills.bill_tables import FAR

pytestmark = pytest.mark.skipif(not (TRUTH / "more_gemini.json").is_file(), reason=NO_TRUTH)

CONSTANTS = {"anthropic": ("definitions", "forced", "response_format", "call"), "gemini": ("definition", "call")}
VENDORS = {"anthropic": "Claude", "gemini": "Gemini"}
FEWEST = 3
"""The fewest bills that a constant is fitted to; with fewer, it is not changed."""
SPLITS = 20
Constants = Mapping[tuple[str, str], float]


class Case(NamedTuple):
    """A bill, its prediction, its family's constants, and how often the prediction contains each constant."""

    id: str
    project: str
    file: str
    family: str
    billed: int
    predicted: int
    constants: Mapping[str, float]
    times: Mapping[str, float]

    def moved(self, fitted: Constants) -> float:
        """Return the change of the prediction, in tokens, with the fitted constants in place of its own."""
        return sum(
            times * (fitted[self.family, name] - self.constants[name])
            for name, times in self.times.items()
            if (self.family, name) in fitted
        )


@cache
def cases(form: str) -> tuple[Case, ...]:
    """Return the recordings whose text shows all that is billed."""
    return tuple(_case(form, bill) for bill in bills(VENDORS[form]) if bill.is_shown)


def _case(form: str, bill: Bill) -> Case:
    model = find_model(bill.row.model)
    source = bill.row.source
    constants = {name: value for name in CONSTANTS[form] if (value := float(getattr(model.rules, name)))}
    predicted = bill.predicted
    times = {}
    for name, value in constants.items():
        without = msgspec.structs.replace(model, rules=msgspec.structs.replace(model.rules, **{name: 0}))
        times[name] = round(
            (predicted - count_provider_request(bill.row.form, bill.request, without).tokens) / value, 1
        )
    return Case(bill.id, source.repo, source.path, bill.family, bill.billed, predicted, constants, times)


def fitted(known: Iterable[Case]) -> Constants:
    """Return constants as high as each family's bills need.

    They are fitted one after the other, each to bills that have no later constant.
    """
    found: dict[tuple[str, str], float] = {}
    families: dict[str, list[Case]] = {}
    for case in known:
        if case.id not in SHORT:
            families.setdefault(case.family, []).append(case)
    for family, own in families.items():
        names = list(own[0].constants)
        for index, name in enumerate(names):
            bearing = [case for case in own if case.times[name] and not any(case.times[n] for n in names[index + 1 :])]
            if len(bearing) >= FEWEST:
                short = ((case.billed - case.predicted - case.moved(found)) / case.times[name] for case in bearing)
                found[family, name] = own[0].constants[name] + max(short)
    return found


def left_out(found: Sequence[Case], part: Callable[[Case], str]) -> Iterator[float]:
    """Yield each case's predicted / billed tokens, with constants fitted without the bills of its own part."""
    whole = fitted(found)
    for name in {part(case) for case in found}:
        others = fitted(case for case in found if part(case) != name)
        for case in found:
            if part(case) == name:
                yield (case.predicted + case.moved(others) - case.moved(whole)) / case.billed


def halves(found: Sequence[Case]) -> Iterator[float]:
    """Yield the same for random halves; the requests of one recorded test stay in one half."""
    for seed in range(SPLITS):
        chance = random.Random(seed)
        first = {file for file in sorted({case.file for case in found}) if chance.random() < 0.5}
        yield from left_out(found, lambda case, first=first: str(case.file in first))  # type: ignore[misc]


WAYS: Mapping[str, Callable[[Sequence[Case]], Iterator[float]]] = {
    "nothing": lambda found: (case.predicted / case.billed for case in found),
    "each project": lambda found: left_out(found, lambda case: case.project),
    f"random halves, {SPLITS} times": halves,
}


@pytest.mark.parametrize("form", list(CONSTANTS))
@pytest.mark.parametrize("way", list(WAYS))
def test_bills_that_nobody_fitted_to(form: str, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of left-out bills, at most 1.4 % are short, the median is 0 to 15 % over, and 95 % are at most 35 % over."""
    ratios = list(WAYS[way](cases(form)))
    short, far_short, near = (
        sum(map(is_so, ratios)) / len(ratios)
        for is_so in (lambda ratio: ratio < 1, lambda ratio: ratio < 0.95, lambda ratio: ratio <= FAR)
    )
    with capsys.disabled():
        print(
            f"\n| {form} | {way} | {len(ratios)} | {short:.1%} | {far_short:.1%} | {median(ratios):.2f} | {near:.1%} |"
        )
    assert short <= 0.014
    assert 1.0 <= median(ratios) <= 1.15
    assert near >= 0.95
