"""One request of a long conversation leaves the event loop to others."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parent.parent
MOST_CALLS = 4000
"""Functions that the loop's thread may enter in one stretch: some 2,000 today, where each message once would be 5,000."""


def test_a_long_conversation_keeps_the_event_loop_free() -> None:
    """A window of 5,000 messages enters few functions at a stretch, in an encoding and for the first time in a vocabulary.

    Milliseconds are in the table of the benchmark, because a busy machine lengthens them.
    """
    command = [sys.executable, "-m", "tests.bench.stalls", "--rounds", "1", "--calls", "--json"]
    patient = {**os.environ, "SASH_REQUEST_TIMEOUT_SECONDS": "600"}  # counting functions slows each request down
    done = subprocess.run(
        command, cwd=ROOT, env=patient, stdin=subprocess.DEVNULL, capture_output=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found = {name: max(values) for name, values in json.loads(done.stdout).items()}
    assert len(found) >= 8
    assert {name: value for name, value in found.items() if value > MOST_CALLS} == {}
