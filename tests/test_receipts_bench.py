"""The command that asks for many windows again finds no other bytes, and no reason that does not hold."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_window_is_the_same_or_truly_gone() -> None:
    """150 windows, over all that may happen to a deployment."""
    command = [sys.executable, "-m", "tests.bench.receipts", "--windows", "150", "--rounds", "2"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| another rule |" in done.stdout
