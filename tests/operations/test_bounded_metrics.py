"""Tests that ``/metrics`` has at most 6,000 series, whatever is asked."""

from pathlib import Path

import pytest
from operations.window_facts import made
from prometheus_client.parser import text_string_to_metric_families

from sash.app import ROUTES
from sash.core.counts.models.models import Model, list_models
from sash.operations.diagnoses import MISSES
from sash.operations.metrics import Metrics
from sash.operations.model_names import AT_ONCE, LABELS, OTHER, USES, ModelNames
from sash.operations.registry import FOLDER_VARIABLE
from sash.operations.requests import Pseudonyms, Requests
from sash.problems import problem_types
from sash.store.redis.lua import SCRIPTS

MOST_SERIES = 6_000
STATUSES = (200, 304, 400, 404, 409, 422, 503)
STOPS = ("complete", "budget", "limit", "summary", "bytes", "images", "price", "horizon")
NAMES = {f"m-{number}": "maker" for number in range(400)}


def exposed(metrics: Metrics) -> list[tuple[str, dict[str, str], float]]:
    """Return all series: name, labels and value."""
    metrics.present(waiting=0, idle=0, busy=0, down=0)
    text = metrics.registry.exposition("")[0].decode()
    return [sample[:3] for family in text_string_to_metric_families(text) for sample in family.samples]


def ask_everything(metrics: Metrics, model: Model) -> None:
    """Count each thing that is counted by model."""
    windows, bills = metrics.windows, metrics.bills
    for stop_reason in STOPS:
        windows.record_window(made(model.id, stop_reason=stop_reason), 0.001, {})
    metrics.left_out.count_savings(made(model.id).head, windows.names.label(model.id), model, 10)
    for predicted in (90, 100, 110):
        bills.record_usage(model.id, predicted=predicted, billed=100)
    bills.record_cache(model, billed=100, read=50, written=10)
    for miss in MISSES:
        bills.record_diagnosis(model.id, {"prefix": 1, "turn": 2}, miss)


def test_a_client_that_asks_for_every_model_adds_few_series():
    """With every model, operation, script and problem, the series are bounded, and no window is left out of the sums."""
    metrics, models = Metrics(), list_models()
    metrics.windows.names.know({model.id: model.provider for model in models})
    requests = Requests(metrics, Pseudonyms(), None)
    for route in ROUTES:
        for status in STATUSES:
            requests.answered(
                {"operation": route.operation_id, "method": "GET", "status": status}, 0.1, {"path": "/"}, quiet=False
            )
    for kind in problem_types():
        metrics.refuse(kind.slug)
    for name in SCRIPTS:
        metrics.answered(name, 0.001, failed=True)
    for _ in range(2):
        for model in models:
            ask_everything(metrics, model)
    series = exposed(metrics)
    assert len(series) <= MOST_SERIES
    windows = [(labels, value) for name, labels, value in series if name == "sash_windows_total"]
    assert len({labels["model"] for labels, _ in windows}) <= LABELS + 1
    tokens = [(labels, value) for name, labels, value in series if name == "sash_window_tokens_count"]
    assert sum(value for _, value in windows) == sum(value for _, value in tokens) == 2 * len(models) * len(STOPS)


def test_a_model_in_use_gets_a_label_behind_one_that_asks_for_all():
    """When a client has asked once for every model, a model that is used often has a label nevertheless."""
    names = ModelNames(None)
    names.know(NAMES)
    for name in NAMES:
        names.label(name)
    assert {names.label("m-399") for _ in range(USES)} == {OTHER, "m-399"}
    assert sum(names.label(name) != OTHER for name in NAMES) == AT_ONCE + 1


def test_workers_share_the_labels(tmp_path: Path):
    """Workers that begin with different models give twenty labels together."""
    workers = [ModelNames(str(tmp_path)) for _ in range(3)]
    for number, worker in enumerate(workers):
        worker.know(NAMES)
        for name in list(NAMES)[number::3] * USES:
            worker.label(name)
    labels = {worker.label(name) for worker in workers for name in NAMES} - {OTHER}
    assert len(labels) == LABELS


def test_buckets_of_a_providers_models_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A histogram is exposed by provider, with cumulative buckets, also from several workers' files."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    metrics = Metrics()
    metrics.windows.names.know({"a": "maker", "b": "maker", "c": "another"})
    for model, tokens in (("a", 3), ("b", 3_000), ("c", 3), ("unknown", 1)):
        metrics.windows.record_window(made(model, tokens=tokens, budget=4_000), 0.001, {})
    found = {
        (labels["provider"], labels["le"]): value
        for name, labels, value in exposed(metrics)
        if name == "sash_window_tokens_bucket"
    }
    assert [found["maker", le] for le in ("2.0", "4.0", "2048.0", "4096.0", "+Inf")] == [0, 1, 1, 2, 2]
    assert (found["another", "+Inf"], found[OTHER, "1.0"]) == (1, 1)
