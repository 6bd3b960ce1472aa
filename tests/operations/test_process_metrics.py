"""Tests which metrics a process counts, and under which labels."""

import sys
from types import FrameType
from typing import Any

from operations.window_facts import NOTHING, made

from sash.operations.metrics import Metrics
from sash.operations.requests import Pseudonyms, Requests
from sash.operations.series import Series

MOST_CALLS = 60
"""Functions that may be entered to count one request."""


def exposed(metrics: Metrics, accept: str = "") -> str:
    metrics.present(waiting=0, idle=0, busy=0, down=0)
    return metrics.registry.exposition(accept)[0].decode()


def answered(metrics: Metrics, status: int, seconds: float) -> None:
    line = {"operation": "getWindow", "method": "GET", "status": status}
    Requests(metrics, Pseudonyms(), None).answered(line, seconds, {"path": "/"}, quiet=False)


def test_a_figure_that_fails_leaves_answer_and_log_line():
    """A refusal that cannot be counted is not an error of its request, whose log line is written."""
    lines: list[dict[str, Any]] = []
    line = {"request_id": "r-1", "operation": "getWindow", "status": 404, "problem": "of no type"}
    Requests(Metrics(), Pseudonyms(), lines.append).answered(line, 0.1, {"path": "/"}, quiet=False)
    assert [each["milliseconds"] for each in lines] == [100]


def series(metrics: Metrics) -> Series:
    return Series(metrics.registry.flat("sash_"))


def test_a_name_that_nobody_published_is_other():
    """A model name that is not published is counted as ``other``, because clients choose names freely."""
    metrics = Metrics()
    metrics.windows.names.know(dict.fromkeys(["gpt-4o"], "openai"))
    metrics.windows.record_window(made("gpt-4o"), 0.001, {})
    metrics.windows.record_window(made("ft:gpt-4o:anna-smith::1"), 0.001, {})
    metrics.windows.does_not_fit("whatever 2")
    assert series(metrics).values("sash_windows_total") == {"gpt-4o", "other"}
    assert series(metrics).sum("sash_window_does_not_fit_total", "other") == 1
    assert "anna" not in exposed(metrics)


def test_names_with_a_bar_are_no_labels():
    """A model name with a bar is counted as ``other``, because the bar separates the labels of a series."""
    metrics = Metrics()
    metrics.windows.names.know(dict.fromkeys(["a|b", "a-b"], "openai"))
    metrics.windows.does_not_fit("a|b")
    metrics.windows.does_not_fit("a-b")
    assert series(metrics).values("sash_window_does_not_fit_total") == {"other", "a-b"}


def test_what_ends_a_window_is_a_closed_set():
    """An unknown stop reason is counted as ``other``, so that it adds no label."""
    metrics = Metrics()
    metrics.windows.names.know(dict.fromkeys(["gpt-4o"], "openai"))
    metrics.windows.record_window(made(stop_reason="full moon"), 0.001, {})
    assert series(metrics).sum("sash_windows_total", "gpt-4o", "other") == 1


def test_predictions():
    """Predictions below, at and above the billed tokens are counted apart, with the tokens of their errors."""
    metrics = Metrics()
    metrics.windows.names.know(dict.fromkeys(["gpt-4o"], "openai"))
    for predicted, billed in ((100, 103), (100, 100), (105, 100), (5, 0)):
        metrics.bills.record_usage("gpt-4o", predicted=predicted, billed=billed)
    found, outcomes = series(metrics), ("under", "exact", "over")
    assert [found.sum("sash_predictions_total", None, outcome) for outcome in outcomes] == [1, 1, 2]
    assert [found.sum("sash_prediction_error_tokens_total", None, outcome) for outcome in outcomes] == [3, 0, 10]
    assert found.sum("sash_billed_tokens_total", "gpt-4o") == 303


def test_an_answer_that_never_came_is_counted():
    """A request whose client disconnected before an answer is counted with status 0."""
    metrics = Metrics()
    answered(metrics, 0, 0.1)
    assert 'sash_requests_total{operation="getWindow",status="0"} 1.0' in exposed(metrics)


def test_prometheus_reads_it():
    """Counters end in _total, histogram buckets are cumulative and end in +Inf, and durations are in seconds."""
    metrics = Metrics()
    metrics.windows.names.know(dict.fromkeys(["gpt-4o"], "openai"))
    answered(metrics, 200, 0.0015)
    metrics.windows.record_window(made(), 0.0007, {})
    text = exposed(metrics)
    assert 'sash_request_duration_seconds_bucket{le="0.001",operation="getWindow"} 0.0' in text
    assert 'sash_request_duration_seconds_bucket{le="0.0015",operation="getWindow"} 1.0' in text
    assert 'sash_request_duration_seconds_bucket{le="0.002",operation="getWindow"} 1.0' in text
    assert 'sash_request_duration_seconds_bucket{le="+Inf",operation="getWindow"} 1.0' in text
    assert 'sash_window_tokens_sum{provider="openai"} 900.0' in text
    assert 'sash_window_kept_messages_total{model="gpt-4o"} 7.0' in text
    assert "# HELP sash_windows_total" in text


def test_openmetrics_where_it_is_asked_for():
    """If the Accept header asks for OpenMetrics, which Prometheus prefers, the exposition ends in # EOF."""
    assert exposed(Metrics(), "application/openmetrics-text;version=1.0.0").endswith("# EOF\n")


def test_a_series_is_given_once():
    """The exposition has one help line for each metric, and no line twice."""
    lines = exposed(Metrics()).splitlines()
    helps = [line for line in lines if line.startswith("# HELP")]
    assert len(helps) == len({line.split()[2] for line in helps})
    assert len(lines) == len(set(lines))


def test_a_process_is_told_by_the_names_that_prometheus_has():
    """Processor time, memory, open files and start time are exposed under Prometheus's usual ``process_…`` names."""
    text = exposed(Metrics())
    for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds"):
        assert float(next(line for line in text.splitlines() if line.startswith(f"process_{name} ")).split()[1]) > 0


def test_counting_costs_little():
    """Counting a window's request enters few functions: the fewest of some, as garbage may be collected in one."""
    metrics, seen, line = Metrics(), made(dropped=NOTHING), {"operation": "getWindow", "method": "GET", "status": 200}
    requests = Requests(metrics, Pseudonyms(), None)
    metrics.windows.names.know(dict.fromkeys(["gpt-4o"], "openai"))

    def request() -> None:
        metrics.sent(1)
        metrics.answered("read_window", 0.001, failed=False)
        metrics.windows.record_window(seen, 0.001, {})
        requests.answered(line, 0.002, {"path": "/"}, quiet=False)

    def entered() -> int:
        def enter(_: FrameType, event: str, __: object) -> None:
            events.append(event) if event in ("call", "c_call") else None

        events: list[str] = []
        sys.setprofile(enter)
        request()
        sys.setprofile(None)
        return len(events)

    request()  # the first makes the series
    assert 0 < min(entered() for _ in range(5)) < MOST_CALLS
