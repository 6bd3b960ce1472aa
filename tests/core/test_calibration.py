"""Reports of billed tokens: the errors of predictions, and the margin that covers all reports."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.core.counts.costs.counting import count_request
from sash.core.counts.models.models import find_model
from sash.core.counts.requests.calibration import (
    MOST_CONSTANT,
    NO_REPORTS,
    BilledSize,
    Correction,
    ModelReports,
    bare_tokens,
    correction_of,
    is_plausible,
)
from sash.store.data.usage import corrected_by

PAIRS = st.tuples(st.integers(1, 100_000), st.integers(1, 100_000))


def reports_of(pairs: list[tuple[int, int]], margin: float = 1.0) -> ModelReports:
    errors = [predicted - billed for billed, predicted in pairs]
    ratios = tuple(round(billed * margin / predicted, 4) for billed, predicted in pairs)
    return ModelReports(len(pairs), sum(errors), max(errors, key=abs), ratios[-100:])


def sized(sizes: list[tuple[int, int]]) -> ModelReports:
    """Return reports of (bare, billed) tokens, which tell their sizes."""
    known = tuple(BilledSize(*each) for each in sizes)[-100:]
    ratios = tuple(min(10.0, round(each.billed / each.bare, 4)) for each in known)
    return ModelReports(len(sizes), 0, 0, ratios, ratios, known)


def corrected_margin(known: ModelReports, margin: float) -> float:
    return correction_of(known, margin).margin


def test_without_reports_nothing_is_known_or_corrected() -> None:
    """Without reports there is no error, and the margin stays."""
    assert (NO_REPORTS.reports, NO_REPORTS.mean_error, NO_REPORTS.worst_error) == (0, 0.0, 0)
    assert corrected_margin(NO_REPORTS, 1.5) == 1.5


def test_errors_are_predicted_less_billed() -> None:
    """Mean and worst error are in tokens and keep their sign."""
    calibration = reports_of([(100, 103), (100, 91)])
    assert (calibration.reports, calibration.mean_error, calibration.worst_error) == (2, -3.0, -9)


def test_one_report_above_the_margin_raises_it() -> None:
    """A request billed at twice its prediction raises the margin to a little more than twice its value."""
    assert corrected_margin(reports_of([(2_000, 1_000)], margin=1.5), 1.5) == pytest.approx(3.06)


@pytest.mark.parametrize(("reports", "margin"), [(1, 1.4724), (5, 1.362), (9, 1.2516), (10, 1.224), (50, 1.224)])
def test_reports_below_the_margin_lower_it_little_by_little(reports: int, margin: float) -> None:
    """Each of the first ten reports below the margin lowers it by a tenth of its distance to the billed ratio."""
    assert corrected_margin(reports_of([(800, 1_000)] * reports, margin=1.5), 1.5) == pytest.approx(margin)


def test_a_late_report_does_not_raise_the_margin_again() -> None:
    """A late report that agrees with earlier ones gives their ratio, whether or not its prediction had the correction."""
    known = ModelReports(1, -300, -300, (1.3,))
    both = [Correction(1.15), Correction(1.326)]
    assert bare_tokens(1_300, 1_150, both, known) == pytest.approx(1_000)
    assert bare_tokens(1_300, 1_326, both, known) == pytest.approx(1_000)
    assert bare_tokens(1_300, 1_650, [Correction(1.0), Correction(1.326, 324)], known) == pytest.approx(1_000)


def test_a_report_that_does_not_agree_is_taken_as_low_as_it_may_be() -> None:
    """A report above the known ratios counts with its lowest possible ratio; with a single margin its ratio is exact."""
    known = ModelReports(1, -300, -300, (1.3,))
    both = [Correction(1.0), Correction(1.2)]
    assert bare_tokens(2_000, 1_000, both, known) == pytest.approx(1_000)
    assert bare_tokens(1_000, 1_000, [Correction(1.2)], known) == pytest.approx(833.33)
    assert bare_tokens(1_000, 1_000, both, NO_REPORTS) == pytest.approx(1_000)
    assert bare_tokens(1_000, 1_100, [Correction(1.0, 100)], NO_REPORTS) == pytest.approx(1_000)


@given(st.lists(PAIRS, min_size=1, max_size=130))
def test_the_correction_covers_the_last_hundred_reports(pairs: list[tuple[int, int]]) -> None:
    """Counted with the corrected margin, none of the last 100 requests is predicted below its bill."""
    margin = corrected_margin(reports_of(pairs), 1.0)
    assert all(predicted * margin >= billed * 0.999 for billed, predicted in pairs[-100:] if billed > 100)


def test_an_exact_model_drifts_when_ten_reports_are_off() -> None:
    """Ten reports that are off by two per cent are a drift; nine are not, and neither are fifty exact ones."""
    assert reports_of([(1_020, 1_000)] * 10).is_drifting
    assert not reports_of([(1_020, 1_000)] * 9).is_drifting
    assert not reports_of([(1_000, 1_000)] * 50).is_drifting


def test_the_outcome_is_that_of_predictions_as_they_were_told() -> None:
    """Median and 95th percentile are billed / predicted; a prediction above its bill is not short."""
    told = (1.0, 0.9, 1.2, 0.95, *[1.0] * 16)
    outcome = ModelReports(20, 0, 0, told, told).outcome
    assert outcome is not None
    assert (outcome.count, outcome.median_ratio, outcome.p95_ratio, outcome.short_share) == (20, 1.0, 1.0, 0.05)
    assert NO_REPORTS.outcome is None


@pytest.mark.parametrize(("short", "reports", "often"), [(1, 20, False), (2, 20, True), (9, 9, False), (10, 10, True)])
def test_an_estimate_drifts_when_bills_are_often_above_it(short: int, reports: int, *, often: bool) -> None:
    """Over one in twenty of ten bills or more above their prediction is a drift of an estimate."""
    told = (*[1.1] * short, *[0.9] * (reports - short))
    assert ModelReports(reports, 0, 0, told, told).is_often_short is often


@pytest.mark.parametrize("billed", [0, 1, 300])
def test_bills_that_are_too_low_to_be_true_do_not_open_the_window(billed: int) -> None:
    """Reports without cached tokens never lower the margin below 0.5, because plain text would then exceed the budget."""
    assert corrected_margin(reports_of([(billed, 1_000)] * 100, margin=1.5), 1.5) == 0.5


@given(st.lists(PAIRS, min_size=1, max_size=130), st.floats(1.0, 1.5), st.integers(0, 700))
def test_constant_and_margin_cover_the_last_hundred_reports(
    pairs: list[tuple[int, int]], margin: float, priming: int
) -> None:
    """Of the last 100 requests, whose sizes are known, none is predicted below its bill, and none below 0."""
    found = correction_of(sized(pairs), margin, priming)
    assert all(found.constant + found.margin * bare >= billed * 0.999 - 1 for bare, billed in pairs[-100:])
    assert found.constant >= -priming
    assert 0.5 <= found.margin <= 10.2


@pytest.mark.parametrize(("constant", "ratio"), [(1_500, 1.0), (1_500, 1.2), (60, 1.0), (4_000, 1.5)])
def test_two_bills_of_different_length_tell_a_hosts_prompt(constant: int, ratio: float) -> None:
    """A prompt before every request and a ratio are both known from the second bill on, also where the first was tiny."""
    found = correction_of(sized([(bare, int(constant + ratio * bare)) for bare in (100, 400)]), 1.0)
    for bare in (20, 200, 5_000, 100_000):
        predicted = found.constant + found.margin * bare
        assert constant + ratio * bare - 10 <= predicted <= 1.03 * (constant + ratio * bare) + 5


def test_bills_of_one_length_tell_a_ratio_alone() -> None:
    """Bills of nearly the same length differ by their words, which is no constant: longer requests would be short."""
    assert correction_of(sized([(100, 150), (103, 150)]), 1.0) == Correction(1.53)


def test_no_ratio_explains_a_bill_of_over_ten_times() -> None:
    """What ten times the prediction does not explain is a constant, so the largest prompt of a host is met at once."""
    assert correction_of(sized([(10, 2_000)]), 1.0) == Correction(10.2, 1_898)


def test_a_host_without_the_familys_prompt_is_told_little_by_little() -> None:
    """A negative constant takes away priming by a tenth with each of ten bills, and never more than there is."""
    bills = [(550, 58), (1_500, 1_008)]
    assert correction_of(sized(bills), 1.0, 492).constant == -98
    assert -492 <= correction_of(sized(bills * 5), 1.0, 492).constant <= -480


@given(st.lists(PAIRS, min_size=1, max_size=30))
def test_bills_of_older_versions_tell_a_ratio_alone(pairs: list[tuple[int, int]]) -> None:
    """Where one report does not tell its size, the margin is as before, and there is no constant."""
    assert correction_of(reports_of(pairs), 1.0).constant == 0


@pytest.mark.parametrize(
    ("billed", "predicted", "margin", "plausible"),
    [
        (0, 1, 1.0, True),
        (10_000 + MOST_CONSTANT, 1_000, 1.0, True),
        (10_001 + MOST_CONSTANT, 1_000, 1.0, False),
        (1_000, 1_000, 10.2, True),
        (1_000, 1_000, 10.3, False),
        (80_000, 80_000, 1.0, True),
        (80_001, 80_000, 1.0, False),
        (80_000, 80_001, 1.0, False),
    ],
)
def test_what_can_be_a_report(billed: int, predicted: int, margin: float, *, plausible: bool) -> None:
    """A report is plausible up to ten times its bare prediction and a host's prompt, and up to ten windows (of 8,000)."""
    assert is_plausible(billed, predicted, Correction(margin), 8_000) is plausible


TALKS = st.lists(
    st.lists(st.sampled_from(["Hi", "ok", "Is there a boat?", "rain " * 40]), min_size=1, max_size=60),
    min_size=1,
    max_size=12,
)
ESTIMATED = [
    "claude-sonnet-4-5",
    "gemini-2.5-flash",
    "deepseek-chat",
    "amazon.nova-lite-v1:0",
    "grok-4",
    "gpt-oss-120b",
]


@given(st.sampled_from(ESTIMATED), TALKS, st.sampled_from([0, 10, 200, 1_500]), st.floats(0.6, 3.0), st.randoms())
def test_no_reported_request_is_counted_below_its_bill_again(
    name: str, talks: list[list[str]], constant: int, ratio: float, chance: Random
) -> None:
    """After each report, each request that was billed is counted at its bill or above, also one of many short messages."""
    model, correction, sizes = find_model(name), Correction(find_model(name).margin), []
    known, billed_for = NO_REPORTS, []
    for texts in talks:
        messages = [{"role": "user", "content": text} for text in texts]
        billed = round(constant + ratio * chance.uniform(0.9, 1.1) * count_request(model, messages=messages).tokens)
        predicted = count_request(corrected_by(model, correction), messages=messages).tokens
        bare = bare_tokens(billed, predicted, [correction], known, len(messages) + 1)
        sizes.append((bare, billed))
        known = sized(sizes)
        correction = correction_of(known, model.margin, model.priming)
        billed_for.append((messages, billed))
        learnt = corrected_by(model, correction)
        assert all(count_request(learnt, messages=each).tokens >= bill for each, bill in billed_for)
