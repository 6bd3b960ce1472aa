"""The page's program with receipts runs as it is shown."""

import subprocess
import sys
from pathlib import Path

import httpx
from conftest import Served
from readme_blocks import SERVER, block


def test_the_program_reads_what_the_model_saw(served: Served, tmp_path: Path) -> None:
    """It reads the window of a reply again, and what the window now has more."""
    httpx.delete(f"{served.url}/conversations/talks-9")
    program = block("python", "service/sash/api/README.md", "## Receipts").replace(SERVER, served.url)
    (tmp_path / "seen.py").write_text(program)

    done = subprocess.run([sys.executable, str(tmp_path / "seen.py")], capture_output=True, text=True, check=True)

    saw, reply, question, cache = done.stdout.splitlines()
    assert saw == "the model saw 1 message, as it was then: True"
    assert (reply.split()[:3], question.split()[:3]) == (["added", "2", "assistant"], ["added", "3", "user"])
    assert cache.startswith("the cache holds ")
    httpx.delete(f"{served.url}/conversations/talks-9").raise_for_status()
