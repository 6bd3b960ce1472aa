"""Tests the sums of several processes' metrics, and the quantiles computed from them."""

import math
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st
from operations.window_facts import made

from sash.operations.bill_metrics import RATIO
from sash.operations.metrics import FILL, TOKENS, Metrics
from sash.operations.registry import SECONDS
from sash.operations.requests import Pseudonyms, Requests
from sash.operations.series import Series, added, quantile

seconds = st.floats(0, 20, allow_nan=False)
models = st.sampled_from(["gpt-4o", "gpt-5", "of my own"])


@st.composite
def counted(draw: st.DrawFn) -> Metrics:
    """Draw the metrics of a process with random requests, windows and usage."""
    metrics = Metrics()
    requests = Requests(metrics, Pseudonyms(), None)
    metrics.windows.names.know(dict.fromkeys(["gpt-4o", "gpt-5"], "openai"))
    for name, status, took in draw(
        st.lists(st.tuples(st.sampled_from(["getWindow", None]), st.integers(200, 599), seconds), max_size=5)
    ):
        requests.answered({"operation": name, "method": "GET", "status": status}, took, {"path": "/"}, quiet=False)
    for model, tokens, took in draw(st.lists(st.tuples(models, st.integers(1, 3_000_000), seconds), max_size=5)):
        metrics.windows.record_window(made(model, tokens=tokens, budget=tokens + 10), took, {})
    for model, predicted, billed in draw(
        st.lists(st.tuples(models, st.integers(1, 9000), st.integers(0, 9000)), max_size=5)
    ):
        metrics.bills.record_usage(model, predicted=predicted, billed=billed)
    return metrics


@given(counted(), counted())
def test_figures_add_up(a: Metrics, b: Metrics):
    """The sum of two processes' figures has the sums of their counters and buckets."""
    parts = [Series(each.registry.flat("sash_")) for each in (a, b)]
    both = Series(added(each.registry.flat("sash_") for each in (a, b)))
    for model in (None, "gpt-4o", "other"):
        for name in ("sash_windows_total", "sash_window_kept_messages_total", "sash_billed_tokens_total"):
            assert both.sum(name, model) == sum(part.sum(name, model) for part in parts)
        buckets = [part.buckets("sash_window_tokens", TOKENS, model) for part in (*parts, both)]
        assert [one + other for one, other in zip(*buckets[:2], strict=True)] == buckets[2]
        assert sum(buckets[2]) == both.sum("sash_windows_total", model)


@pytest.mark.parametrize("bounds", [SECONDS, TOKENS, FILL, RATIO])
def test_bounds_ascend(bounds: tuple[float, ...]):
    """The bounds of the buckets ascend, without duplicates."""
    assert list(bounds) == sorted(set(bounds))


@pytest.mark.parametrize("milliseconds", [0.5, 1, 2, 5])
def test_durations_of_a_window_are_told_apart(milliseconds: float):
    """From 0.5 to 5 ms, the usual durations of windows, a bucket is at most half as wide as its upper bound."""
    place = bisect_left(SECONDS, milliseconds / 1000)
    assert (SECONDS[place] - SECONDS[place - 1]) / SECONDS[place] <= 0.5


def test_a_value_on_a_bound_is_below_it():
    """A value equal to a bound is in the bucket of that bound, as in Prometheus."""
    metrics = Metrics()
    metrics.windows.names.know(dict.fromkeys(["gpt-4o"], "openai"))
    metrics.bills.record_usage("gpt-4o", predicted=10, billed=10)
    assert Series(metrics.registry.flat("sash_")).buckets("sash_prediction_ratio", RATIO)[RATIO.index(1.0)] == 1


def test_no_quantile_of_nothing():
    """A histogram without values has no quantile."""
    assert quantile(TOKENS, [0] * len(TOKENS), 0.5) is None


@given(st.lists(st.integers(1, 3_000_000), min_size=1, max_size=60), st.sampled_from([0.5, 0.95]))
def test_a_quantile_of_tokens_is_close(values: list[int], share: float):
    """An estimated quantile is within a factor of 1.25, plus one token, of the true one (four bounds to a doubling)."""
    buckets = [0] * (len(TOKENS) + 1)
    for value in values:
        buckets[bisect_left(TOKENS, value)] += 1
    true = sorted(values)[math.ceil(share * len(values)) - 1]
    found = quantile(TOKENS, buckets, share)
    assert found is not None
    assert true / 1.25 - 1 <= found <= true * 1.25 + 1


def test_a_quantile_beyond_the_last_bound_is_the_last_bound():
    """A quantile above the last bound is reported as the last bound, because nothing more is known."""
    assert quantile(SECONDS, [0] * len(SECONDS) + [1], 0.5) == 10
