"""A request enters at most a fixed number of Sash's functions and modules."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_FUNCTIONS = {"window": 58, "append": 93}
MOST_MODULES = {"window": 18, "append": 26}
MOST_CALLS = {
    "plain": 81,
    "anthropic": 191,
    "gemini": 185,
    "responses": 129,
    "tools": 264,
    "stable": 137,
    "claude": 269,
    "claude, tools": 723,
    "results": 504,
    "explain": 85,
    "dedupe": 84,
    "recall": 730,
    "skip": 353,
    "sent": 187,
}


@pytest.fixture(scope="module")
def calls() -> dict[str, int]:
    """Return how many calls of Sash's functions each kind of window makes, in a separate process."""
    command = [sys.executable, "-m", "tests.bench.calls", "--json"]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", MOST_CALLS)
def test_a_kind_of_window_makes_no_more_calls_than_it_did(calls: dict[str, int], kind: str) -> None:
    """A window of a kind, out of 1,000 messages, makes at most this many calls; a change may raise the limit."""
    assert 0 < calls[kind] <= MOST_CALLS[kind]


@pytest.fixture(scope="module")
def ways() -> dict[str, dict[str, int]]:
    """Return how many functions and modules a window, and an append with its window, enter in a separate process."""
    command = [sys.executable, "-m", "tests.bench.ways", "--json"]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", ["window", "append"])
def test_a_request_enters_no_more_functions_than_it_did(ways: dict[str, dict[str, int]], way: str) -> None:
    """A window, or an append with its window, enters at most this many functions; a change may raise the limit."""
    assert 0 < ways[way]["functions"] <= MOST_FUNCTIONS[way]


@pytest.mark.parametrize("way", ["window", "append"])
def test_a_request_enters_no_more_modules_than_it_did(ways: dict[str, dict[str, int]], way: str) -> None:
    """A window, or an append with its window, enters at most this many modules, each of which a reader has to open."""
    assert 0 < ways[way]["modules"] <= MOST_MODULES[way]
