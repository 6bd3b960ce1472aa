"""A request takes no tenth more of the processor than a day before."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parent.parent


def test_a_request_takes_no_tenth_more_than_a_day_before() -> None:
    """Neither a window nor an append with its window does, beside other programs, too; else the stages are printed."""
    command = [sys.executable, "-m", "tests.bench.least"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if not done.stdout.startswith("| processor time"):
        pytest.skip(done.stderr.strip())
