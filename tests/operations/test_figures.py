"""Figures: what adds up, and what can be read off it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operations.window_facts import facts

from service.operations.figures import Fill, Histogram, Ratio, Seconds, Sizes, Tokens, added, flatten, since, unflatten
from service.operations.metrics import Metrics

KINDS = (Seconds, Tokens, Fill, Sizes, Ratio)
seconds = st.floats(0, 20, allow_nan=False)
models = st.sampled_from(["gpt-4o", "gpt-5", "of my own"])


@st.composite
def counted(draw: st.DrawFn) -> Metrics:
    """What a process may have counted."""
    metrics = Metrics(["gpt-4o", "gpt-5"])
    for name, status, took in draw(
        st.lists(st.tuples(st.sampled_from(["getWindow", None]), st.integers(200, 599), seconds), max_size=5)
    ):
        metrics.operation(name).answered(status, took)
    for model, tokens, took in draw(st.lists(st.tuples(models, st.integers(1, 3_000_000), seconds), max_size=5)):
        metrics.window(facts(model, tokens=tokens, budget=tokens + 10), took)
    for model, predicted, billed in draw(
        st.lists(st.tuples(models, st.integers(1, 9000), st.integers(0, 9000)), max_size=5)
    ):
        metrics.record_usage(model, predicted=predicted, billed=billed)
    for took, failed in draw(st.lists(st.tuples(seconds, st.booleans()), max_size=5)):
        metrics.answered("read_window", took, failed=failed)
    return metrics


@given(counted())
def test_flat_figures_are_the_figures(metrics: Metrics):
    """What is flattened comes back, but for the last millionth of a sum."""
    flat = flatten(metrics.figures)
    assert flatten(unflatten(flat)) == flat


@given(counted(), counted())
def test_figures_add_up(a: Metrics, b: Metrics):
    """Two processes' figures together are those of one process that saw both."""
    both = unflatten(added([flatten(a.figures), flatten(b.figures)]))
    for model in both.models:
        parts = [each.figures.models[model] for each in (a, b) if model in each.figures.models]
        assert both.models[model].tokens.count == sum(part.tokens.count for part in parts)
        assert both.models[model].kept_messages == sum(part.kept_messages for part in parts)
        assert both.models[model].prediction.under == sum(part.prediction.under for part in parts)


@given(counted(), counted())
def test_a_difference_makes_up_for_what_came_between(a: Metrics, b: Metrics):
    """What was there before and what came since are what is there now."""
    before = flatten(a.figures)
    now = added([before, flatten(b.figures)])
    assert added([before, since(now, before)]) == now


def test_numbers_of_a_later_version_are_passed_over():
    """A replica that is newer writes paths that this one does not know."""
    assert unflatten({"models|gpt-4o|kept_messages": 3, "models|gpt-4o|invented": 5, "new|thing": 1}).models[
        "gpt-4o"
    ].kept_messages == 3  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_exported_is_a_bound(kind: type[Histogram]):
    """Prometheus' buckets are exact because each ends where one of ours does; and bounds ascend."""
    assert set(kind.exported) <= set(kind.bounds)
    assert list(kind.bounds) == sorted(set(kind.bounds))


def test_a_value_on_a_bound_is_below_it():
    """As Prometheus' ``le`` has it."""
    histogram = Ratio()
    histogram.observe(1.0)
    assert histogram.counts[Ratio.bounds.index(1.0)] == 1


def test_no_quantile_of_nothing():
    """Without values there is none to name."""
    assert Tokens().quantile(0.5) is None


@given(st.lists(st.integers(1, 3_000_000), min_size=1, max_size=60), st.sampled_from([0.5, 0.95]))
def test_a_quantile_of_tokens_is_close(values: list[int], share: float):
    """It lies in the bucket of the true quantile, so within a fifth of it (four bounds to a doubling)."""
    histogram = Tokens()
    for value in values:
        histogram.observe(value)
    true = sorted(values)[math.ceil(share * len(values)) - 1]
    found = histogram.quantile(share)
    assert found is not None
    assert true / 1.25 - 1 <= found <= true * 1.25 + 1


def test_what_is_beyond_the_last_bound_is_said_to_be_at_it():
    """A minute is more than ten seconds; how much more is not known."""
    histogram = Seconds()
    histogram.observe(60)
    assert histogram.quantile(0.5) == 10
