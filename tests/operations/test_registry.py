"""Tests that several workers of one machine expose their metrics together."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import ROOT

from sash.operations.metrics import Metrics
from sash.operations.registry import FOLDER_VARIABLE, ended

IDLE = {"waiting": 0, "idle": 0, "busy": 0, "down": 0}
OTHER_WORKER = f"""
from sash.operations.metrics import Metrics
metrics = Metrics()
metrics.append(3, seconds=0.1, tokenise_seconds=0.1)
metrics.present(**{IDLE | {"waiting": 5}})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that this process shares with other workers."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def another_worker() -> int:
    """Run a worker that counts three messages and ends without cleanup; return its process id."""
    process = subprocess.Popen([sys.executable, "-c", OTHER_WORKER], cwd=ROOT)
    assert process.wait(30) == 0
    return process.pid


def exposed(metrics: Metrics, waiting: int = 0) -> list[str]:
    metrics.present(**IDLE | {"waiting": waiting})
    return metrics.registry.exposition("")[0].decode().splitlines()


@pytest.mark.usefixtures("folder")
def test_workers_add_up():
    """One worker's exposition has the sums of all workers' counters and gauges."""
    another_worker()
    metrics = Metrics()
    metrics.append(1, seconds=0.1, tokenise_seconds=0.1)
    lines = exposed(metrics, waiting=2)
    assert "sash_appended_messages_total 4.0" in lines
    assert "sash_store_commands_waiting 7.0" in lines
    assert "sash_workers 2.0" in lines


@pytest.mark.usefixtures("folder")
def test_what_an_ended_worker_counted_stays():
    """The counters of an ended worker stay in the sums; its gauges do not, because the worker no longer exists."""
    ended(another_worker())
    lines = exposed(Metrics(), waiting=2)
    assert "sash_appended_messages_total 3.0" in lines
    assert "sash_store_commands_waiting 2.0" in lines
    assert "sash_workers 1.0" in lines


def test_a_worker_shares_before_it_answers(folder: Path):
    """A worker writes its counters before each exposition, so that no counter decreases, but not at each increment."""
    metrics = Metrics()
    metrics.append(1, seconds=0.1, tokenise_seconds=0.1)
    file = folder / f"counter_{os.getpid()}.db"
    before = file.read_bytes()
    metrics.append(1, seconds=0.1, tokenise_seconds=0.1)
    assert file.read_bytes() == before
    exposed(metrics)
    assert file.read_bytes() != before


def test_a_lone_worker_needs_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without a common folder, a worker exposes its own metrics, can be marked as ended, and writes no file."""
    monkeypatch.chdir(tmp_path)
    metrics = Metrics()
    metrics.append(1, seconds=0.1, tokenise_seconds=0.1)
    assert "sash_appended_messages_total 1.0" in exposed(metrics)
    ended(os.getpid())
    assert not list(tmp_path.iterdir())


def test_a_thread_that_reads_loses_no_value():
    """Values that are observed while a thread reads the figures are counted, each once."""
    metrics, values = Metrics(), 20_000

    def observe() -> None:
        for number in range(values):
            metrics.append_seconds.observe(number % 12 + 0.5)

    thread = threading.Thread(target=observe)
    thread.start()
    while thread.is_alive():
        metrics.registry.flat("sash_append")
    assert sum(metrics.registry.flat("sash_append_duration").values()) == values
