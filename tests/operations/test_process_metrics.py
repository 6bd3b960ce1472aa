"""What a process counts, and under which labels."""

import timeit

from operations.window_facts import facts

from service.operations.exposition import Gauges, expose
from service.operations.metrics import Metrics

GAUGES = Gauges(1, 0, 0, 0)


def exposed(metrics: Metrics, accept: str = "") -> str:
    return expose(metrics.figures, GAUGES, accept)[0].decode()


def test_a_name_that_nobody_published_is_other():
    """A client may name a model as it likes; a label it becomes not."""
    metrics = Metrics(["gpt-4o"])
    metrics.window(facts("gpt-4o"), 0.001)
    metrics.window(facts("ft:gpt-4o:anna-smith::1"), 0.001)
    metrics.does_not_fit("whatever 2")
    assert set(metrics.figures.models) == {"gpt-4o", "other"}
    assert "anna" not in exposed(metrics)


def test_names_with_a_bar_are_no_labels():
    """The bar parts paths; a deployment's own model may be called anything."""
    metrics = Metrics()
    metrics.know(["a|b", "a-b"])
    metrics.does_not_fit("a|b")
    metrics.does_not_fit("a-b")
    assert set(metrics.figures.models) == {"other", "a-b"}


def test_what_ends_a_window_is_a_closed_set():
    """A new reason is counted, and makes no new label."""
    metrics = Metrics(["gpt-4o"])
    metrics.window(facts(stop_reason="full moon"), 0.001)
    assert metrics.figures.models["gpt-4o"].stops == {"other": 1}


def test_predictions():
    """Below, at and above what was billed are told apart, and by how much."""
    metrics = Metrics(["gpt-4o"])
    for predicted, billed in ((100, 103), (100, 100), (105, 100), (5, 0)):
        metrics.record_usage("gpt-4o", predicted=predicted, billed=billed)
    prediction = metrics.figures.models["gpt-4o"].prediction
    assert (prediction.under, prediction.exact, prediction.over) == (1, 1, 2)
    assert (prediction.under_tokens, prediction.over_tokens, prediction.billed_tokens) == (3, 10, 303)


def test_an_answer_that_never_came_is_counted():
    """The client went away before there was a status."""
    metrics = Metrics()
    metrics.operation("getWindow").answered(0, 0.1)
    assert 'sash_requests_total{operation="getWindow",status="0xx"} 1.0' in exposed(metrics)


def test_prometheus_reads_it():
    """Counters end in _total, histograms are cumulative and end in +Inf, units are seconds and bytes."""
    metrics = Metrics(["gpt-4o"])
    metrics.operation("getWindow").answered(200, 0.0015)
    metrics.window(facts(), 0.0007)
    text = exposed(metrics)
    assert 'sash_request_duration_seconds_bucket{le="0.001",operation="getWindow"} 0.0' in text
    assert 'sash_request_duration_seconds_bucket{le="0.002",operation="getWindow"} 1.0' in text
    assert 'sash_request_duration_seconds_bucket{le="+Inf",operation="getWindow"} 1.0' in text
    assert 'sash_window_tokens_sum{model="gpt-4o"} 900.0' in text
    assert 'sash_window_kept_messages_total{model="gpt-4o"} 7.0' in text
    assert "# HELP sash_windows_total" in text


def test_openmetrics_where_it_is_asked_for():
    """Prometheus prefers it, and it ends in # EOF."""
    assert exposed(Metrics(), "application/openmetrics-text;version=1.0.0").endswith("# EOF\n")


def test_a_series_is_given_once():
    """No name has two help lines, no line comes twice."""
    lines = exposed(Metrics()).splitlines()
    helps = [line for line in lines if line.startswith("# HELP")]
    assert len(helps) == len({line.split()[2] for line in helps})
    assert len(lines) == len(set(lines))


def test_what_was_followed_is_told():
    """Traces hear of the parts of a request by name and time."""
    metrics, told = Metrics(["gpt-4o"]), []
    metrics.did = lambda name, seconds: told.append((name, seconds))
    metrics.answered("read_window", 0.25, failed=False)
    metrics.window(facts(), 0.5)
    metrics.append(1, seconds=0.125, tokenise_seconds=0.0)
    assert told == [("store read_window", 0.25), ("build window", 0.5), ("append", 0.125)]


def test_counting_costs_little():
    """All that a window's request tells takes microseconds; the bound leaves room for a busy machine."""
    metrics, seen = Metrics(["gpt-4o"]), facts()

    def request() -> None:
        metrics.sent(1)
        metrics.answered("read_window", 0.001, failed=False)
        metrics.window(seen, 0.001)
        metrics.operation("getWindow").answered(200, 0.002)

    assert min(timeit.repeat(request, number=1000, repeat=5)) / 1000 < 50e-6
