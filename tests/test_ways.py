"""The way of a request is short, and stays so: functions and modules of Sash that it enters."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MOST_FUNCTIONS = {"window": 92, "append": 153}
MOST_MODULES = {"window": 30, "append": 36}


@pytest.fixture(scope="module")
def ways() -> dict[str, dict[str, int]]:
    """What a window, and an append with its window, enter, counted in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.ways", "--json"]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("way", ["window", "append"])
def test_a_request_enters_no_more_functions_than_it_did(ways: dict[str, dict[str, int]], way: str) -> None:
    """Whoever lengthens the way of a window, or of an append with its window, says so here."""
    assert 0 < ways[way]["functions"] <= MOST_FUNCTIONS[way]


@pytest.mark.parametrize("way", ["window", "append"])
def test_a_request_enters_no_more_modules_than_it_did(ways: dict[str, dict[str, int]], way: str) -> None:
    """The same for modules, each of which a reader opens."""
    assert 0 < ways[way]["modules"] <= MOST_MODULES[way]
